"""A job that does nothing since a GPU of it was lost is told so, and not told to end."""

from typing import Any

import pytest

from analytics.findings import judge, judge_jobs
from analytics.findings.lost import with_losses
from analytics.model import Finding, FindingKind, GpuPast
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import words_of_kind
from collector.model import GpuUuid
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, minutes_before_noon, past, then, whole_bins

T = Thresholds()
QUIET_MIN = 90
XID = "48: double-bit ECC error"


def idle_gpu(place: int, **changes: Any) -> GpuPast:
    """A GPU of the job that worked until ninety minutes ago."""
    quiet = whole_bins(QUIET_MIN)
    held = claim(8.0, idle_gpu_hours=None, busy_until_ms=minutes_before_noon(QUIET_MIN))
    values = {"bins": bins(utilization=then((240 - quiet, 0.7), (quiet, 0.0)))} | changes
    return past(held, uuid=GpuUuid(f"GPU-{place}"), gpu_index=place, **values)


def silent_gpu(place: int, minutes: float, **changes: Any) -> GpuPast:
    """A GPU of the job that has not been seen for so long, while its neighbours are."""
    return idle_gpu(place, newest_ms=minutes_before_noon(minutes), siblings_fresh=True, **changes)


def said(*pasts: GpuPast) -> list[Finding]:
    verdicts = [judge(each, NOON_MS, T, TICK_MS) for each in pasts]
    by_gpu = [finding for verdict in verdicts for finding in verdict.findings]
    return list(with_losses(pasts, verdicts, (*judge_jobs(pasts, verdicts, T), *by_gpu)))


def of_kind(found: list[Finding], kind: FindingKind) -> Finding:
    (one,) = [each for each in found if each.kind is kind]
    return one


def remedy(found: Finding) -> str:
    words = words_of_kind(found.kind)
    assert words is not None
    return words.remedy_for("batch", {each.name: each.value for each in found.evidence})


def test_the_lost_gpu_and_its_error_are_named_to_who_waits_for_it() -> None:
    lost = silent_gpu(1, QUIET_MIN, xid=XID, xid_ms=minutes_before_noon(QUIET_MIN + 1))
    found = said(idle_gpu(0), lost)
    told = of_kind(found, FindingKind.HELD_IDLE)
    assert told.sentence.endswith(
        "GPU 1 of node1 failed under it (XID 48: double-bit ECC error): it may wait for that."
    )
    assert remedy(told) == (
        "the fault is the machine's: GPU 1 of node1 failed (XID 48: double-bit ECC error); start the job "
        "again from its newest checkpoint, on other GPUs"
    )
    assert of_kind(found, FindingKind.FALLING_GPU).sentence.endswith(
        "Its driver told XID 48: double-bit ECC error."
    )


def test_memory_errors_without_an_xid_are_its_error_too() -> None:
    told = of_kind(said(idle_gpu(0), silent_gpu(1, QUIET_MIN, ecc_errors=5)), FindingKind.HELD_IDLE)
    assert "(5 uncorrected memory errors)" in told.sentence


def test_of_a_gpu_that_is_silent_for_no_known_reason_it_is_said_since_when() -> None:
    told = of_kind(said(idle_gpu(0), silent_gpu(1, QUIET_MIN)), FindingKind.HELD_IDLE)
    assert told.sentence.endswith(
        "GPU 1 of node1 has not been seen since 2026-10-28 10:30 UTC: if it failed, the job may wait for it."
    )
    assert remedy(told).startswith("look whether GPU 1 of node1 failed")


def test_an_error_under_which_a_gpu_still_answers_counts_as_well() -> None:
    failed = idle_gpu(1, xid="94: contained ECC error", xid_ms=minutes_before_noon(QUIET_MIN))
    other, own = [each for each in said(idle_gpu(0), failed) if each.kind is FindingKind.HELD_IDLE]
    assert (
        "GPU 1 of node1 failed under it (XID 94: contained ECC error, told at 2026-10-28 10:30 UTC)"
        in other.sentence
    )
    assert (
        "That GPU failed (XID 94: contained ECC error, told at 2026-10-28 10:30 UTC): its work may have died"
        in own.sentence
    )


@pytest.mark.parametrize(
    ("lost_for", "is_told"),
    [
        (QUIET_MIN + 59, True),  # it worked until a library's time ran out
        (QUIET_MIN + 65, False),  # it worked on without that GPU for over an hour
        (QUIET_MIN - 9, True),  # its work ended with the error, before the driver lost the GPU
        (QUIET_MIN - 15, False),  # it had ended before
    ],
)
def test_only_who_stopped_at_about_that_time_may_wait_for_it(lost_for: float, *, is_told: bool) -> None:
    told = of_kind(
        said(idle_gpu(0), silent_gpu(1, lost_for, lost_ms=minutes_before_noon(lost_for))),
        FindingKind.HELD_IDLE,
    )
    assert ("failed under it" in told.sentence) is is_told
    assert remedy(told).startswith("the fault is the machine's") is is_told


def test_what_another_job_lost_is_no_excuse() -> None:
    held = claim(8.0, holder=claim(8.0).holder.__class__(job="slurm:9", user="bo"))  # type: ignore[arg-type]
    other = past(
        held,
        uuid=GpuUuid("GPU-1"),
        gpu_index=1,
        newest_ms=minutes_before_noon(QUIET_MIN),
        siblings_fresh=True,
    )
    assert "failed" not in of_kind(said(idle_gpu(0), other), FindingKind.HELD_IDLE).sentence


def test_an_error_of_an_earlier_job_is_not_this_ones() -> None:
    told = said(idle_gpu(0, xid=XID, xid_ms=minutes_before_noon(9 * 60)))
    assert "failed" not in of_kind(told, FindingKind.HELD_IDLE).sentence


def test_that_a_part_is_used_is_no_advice_to_ask_for_less_after_a_loss() -> None:
    works = idle_gpu(2, bins=bins(utilization=0.7))
    lost = silent_gpu(1, QUIET_MIN, xid=XID, xid_ms=minutes_before_noon(QUIET_MIN))
    part = of_kind(said(idle_gpu(0), lost, works), FindingKind.USES_PART)
    assert "GPU 1 of node1 failed under it" in part.sentence
    assert "start the job again" in remedy(part)
