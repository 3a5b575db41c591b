"""Times, names of GPUs and flags of processes as pages write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from collector.sources.nvml import process_list
from service import wording

G = wording.GAP


def test_moments_are_shown_in_the_zone_asked_for() -> None:
    at = datetime.fromisoformat("2026-07-01T09:30")
    assert wording.moment(at) == "1 Jul 09:30"
    assert wording.moment(at, ZoneInfo("Asia/Kolkata")) == "1 Jul 15:00"


def test_a_gpu_without_an_index_is_named_by_its_uuid() -> None:
    assert wording.short_gpu("n1", "3", "GPU-abc") == f"n1 · GPU{G}3"
    assert wording.short_gpu("n1", "0/1g.10gb#7", "MIG-abc") == f"n1 · GPU{G}0/1g.10gb#7"
    assert wording.short_gpu("n1", None, "MIG-01234567-89ab-cdef-0123-456789abcdef") == "n1 · MIG-01234567"


def test_what_is_held_now_says_as_of_when_it_is_no_more_of_now() -> None:
    row = {"as_of": datetime(2026, 7, 1, 9, tzinfo=UTC), "gpus": 8.0, "held_gpus": 5.0, "idle_held_gpus": 1.0}
    assert wording.held_now(row, datetime(2026, 7, 1, 9, 1, tzinfo=UTC)) == (
        "5 of 8 GPUs are held now, 1 of them does nothing"
    )
    assert wording.held_now({**row, "rarely_used_gpus": 2.0}, datetime(2026, 7, 1, 9, 1, tzinfo=UTC)) == (
        "5 of 8 GPUs are held now, 1 of them does nothing, 2 rarely used"
    )
    assert wording.held_now({**row, "withheld_gpus": 2}, datetime(2026, 7, 1, 12, tzinfo=UTC)) == (
        "3 h ago 5 of 8 GPUs were held, 1 of them did nothing; 2 were withheld; now is unknown"
    )


@pytest.mark.parametrize(
    "at", ["2026-02-30 12:00", "2026-13-01 00:00", "0001-01-01 00:00", "0000-00-00 99:99"]
)
def test_a_job_named_after_a_time_that_never_was_keeps_its_name(at) -> None:
    said = f"ana (job eval {at} UTC) has held GPU 3 of n."
    assert wording.localized(said, ZoneInfo("America/New_York")) == said


def test_stored_sentences_are_told_in_the_screen_s_zone() -> None:
    stored = "ana has held GPU 3 of n since 2026-11-20 20:05 UTC, and rests."
    assert (
        wording.localized(stored, ZoneInfo("Asia/Kolkata"))
        == "ana has held GPU 3 of n since 21 Nov 01:35, and rests."
    )
    assert wording.localized(stored, UTC) == "ana has held GPU 3 of n since 20 Nov 20:05, and rests."


def test_what_was_odd_about_processes_is_said_in_words() -> None:
    (mps,) = wording.doubts(process_list.USES_BY_SERVER)
    assert "multi-process service" in mps
    both = wording.doubts(f"ring-partial,{process_list.USES_OF_STRANGERS},{process_list.SCALED}")
    assert len(both) == 2 and "in a container" in both[0], "readers need no word for the ring"
    assert wording.doubts(None) == wording.doubts(float("nan")) == ()


def test_a_hold_without_an_end_lasts_until_its_gpus_were_measured_last() -> None:
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    seen = [None, now.replace(tzinfo=None), datetime(2026, 11, 26, 11, 59, tzinfo=UTC)]
    assert [wording.so_far(at, now, wording.moment) for at in seen] == ["now"] * 3
    old = datetime(2026, 11, 26, 11, 58, 59, tzinfo=UTC)
    said = "26 Nov 11:58 or later: none of its GPUs was measured after that"
    assert wording.so_far(old, now, wording.moment) == said
