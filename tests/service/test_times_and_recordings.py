"""Where an interval ends is shown as its exclusive end; and a recording that has ended is said to have."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from analytics import text
from service import wording
from service.cli import words
from service.cli.status import Picture, summary
from service.reports.values import day
from service.schemas.service import Health
from service.server.components import RESTING

LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("2026-11-26T00:59:59.999", "01:00"),  # the end of a hold that is told to end with the last sample
        ("2026-11-26T01:00:00", "01:00"),
        ("2026-11-26T01:00:59.499", "01:00"),
        ("2026-11-26T00:59:59", "00:59"),
    ],
)
def test_an_end_reads_as_its_exclusive_end_wherever_it_stands(stored: str, shown: str) -> None:
    at = datetime.fromisoformat(stored).replace(tzinfo=UTC)
    berlin = f"{int(shown[:2]) + 1:02}{shown[2:]}"
    assert text.clock(round(at.timestamp() * 1000)) == f"2026-11-26 {shown} UTC"
    assert wording.moment(at) == f"26 Nov {shown}"
    assert wording.moment(at, ZoneInfo("Europe/Berlin")) == f"26 Nov {berlin}"
    assert day(at, UTC) == f"26 Nov 2026 {shown}"
    assert words.clock_time(stored) == words.clock_time(f"2026-11-26T{shown}")


def test_the_end_of_the_calendar_is_a_time_too() -> None:
    assert text.whole(LAST) == LAST


def test_a_recording_that_has_ended_is_not_told_as_silence() -> None:
    now: dict[str, object] = dict.fromkeys(("idle_held_gpus", "free_gpus", "unknown_gpus"), 0.0)
    now |= {"gpus": 1.0, "as_of": "2026-11-20T10:00:10", "power_w": None, "held_gpus": 0.0, "used_gpus": 0.0}
    ended = Picture(
        cluster=now,  # type: ignore[arg-type]
        gpus=[],
        open_findings=0,
        late=None,
        sight="here",
        at=datetime(2026, 11, 27, tzinfo=UTC),
        remark=Health(status="ok", reason=RESTING).remark,
    )
    said = "\n".join(line.plain for line in summary(ended))
    assert "The recording has ended" in said and "Nothing was measured" not in said
    silent = "\n".join(line.plain for line in summary(replace(ended, remark=None)))
    assert "Nothing was measured" in silent


def test_only_a_service_that_is_well_has_a_remark() -> None:
    assert Health(status="degraded", reason="no tick for 60 s").remark is None
