"""A source that cannot be read leaves one line when that begins, and one when it is over."""

import logging

import pytest

from collector.dcgm.fetch import Limits
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.model import (
    Gap,
    NodeName,
    Unavailable,
)
from collector.reading import Reading
from collector.source_log import LINES_A_TICK, MOST_KNOWN, SourceLog
from tests.collector.dcgm.loopback import serving, text

NOW_MS = 1_800_000_000_000


def deaf(source: str = "nvml", reason: str = "no answer within 8 s") -> Unavailable:
    return Unavailable(source=source, at_ms=NOW_MS, reason=reason)


def partly(*nodes: str, source: str = "dcgm") -> Reading:
    gaps = tuple(
        Gap(source=source, from_ms=0, to_ms=1, reason=f"{node}:9400 refused", node=NodeName(node))
        for node in nodes
    )
    return Reading(source=source, at_ms=NOW_MS, gaps=gaps)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    found = [(record.event, record.fields) for record in caplog.records]  # type: ignore[attr-defined]
    caplog.clear()
    return found


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> SourceLog:
    caplog.set_level(logging.INFO, logger="collector.source_log")
    return SourceLog()


def test_one_line_when_it_begins_and_one_when_it_is_over(
    log: SourceLog, caplog: pytest.LogCaptureFixture
) -> None:
    for again in range(5):
        log.note([deaf(reason=f"no answer; next try in {again} s")])
    assert lines(caplog) == [
        ("source-unreadable", {"source": "nvml", "reason": "no answer; next try in 0 s"})
    ]
    log.note([])
    assert lines(caplog) == []
    log.note([Reading(source="nvml", at_ms=NOW_MS)])
    log.note([Reading(source="nvml", at_ms=NOW_MS)])
    assert lines(caplog) == [("source-readable", {"source": "nvml"})]


def test_a_recording_that_has_ended_is_no_fault(log: SourceLog, caplog: pytest.LogCaptureFixture) -> None:
    log.note([Unavailable(source="replay", at_ms=NOW_MS, reason="it has ended", is_over=True)])
    assert lines(caplog) == []


def test_each_part_of_a_source_has_its_own_line(log: SourceLog, caplog: pytest.LogCaptureFixture) -> None:
    log.note([partly("gpu-a")])
    log.note([partly("gpu-a", "gpu-b")])
    log.note([partly("gpu-b")])
    assert [(event, fields["part"]) for event, fields in lines(caplog)] == [
        ("source-unreadable", "gpu-a"),
        ("source-unreadable", "gpu-b"),
        ("source-readable", "gpu-a"),
    ]


def test_a_thousand_at_once_are_a_page_of_lines_and_a_number(
    log: SourceLog, caplog: pytest.LogCaptureFixture
) -> None:
    many = partly(*(f"n{n}" for n in range(1000)))
    log.note([many])
    log.note([many])
    found = lines(caplog)
    assert len(found) == LINES_A_TICK + 1
    assert found[-1] == ("source-unreadable", {"more": 1000 - LINES_A_TICK})


def test_what_is_remembered_and_written_has_bounds(log: SourceLog, caplog: pytest.LogCaptureFixture) -> None:
    log.note([partly(*(f"n{n}" for n in range(2 * MOST_KNOWN)))])
    lines(caplog)
    log.note([partly()])
    assert lines(caplog)[-1] == ("source-readable", {"more": MOST_KNOWN - LINES_A_TICK})
    log.note([deaf(reason="x" * 100_000)])
    assert len(str(lines(caplog)[0][1]["reason"])) == 500


def test_an_exporter_that_sends_garbage_is_named_once_with_what_it_sent(
    log: SourceLog, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(lambda *_: text("<html>not metrics</html>\n")) as url:
        source = dcgm_source(DcgmSettings(urls=(url,), interval_ms=10_000, limits=Limits(timeout_s=2)))
        for tick in range(3):
            log.note([source.read(NOW_MS + tick * 10_000)])
        source.close()
    ((event, fields),) = lines(caplog)
    assert (event, fields["source"]) == ("source-unreadable", "dcgm")
    assert "answered, but" in str(fields["reason"])
