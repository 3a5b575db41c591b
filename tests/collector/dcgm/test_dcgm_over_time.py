"""One exporter scraped again and again: no value twice, no second uncovered, no XID or holder lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from collector.dcgm.endpoint import BELIEVED_MS, Endpoint, heard
from collector.dcgm.scrape import ScrapedSource
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.model import (
    OutOfService,
    Unavailable,
)
from collector.reading import Reading
from tests.collector.dcgm.dcgm_writer import CLASSIC, Board, Facts, exposition
from tests.collector.dcgm.loopback import Answer, serving, text

S = 1000
START = 1_790_000_000_000
BOARD = Board(uuid="GPU-a", facts=Facts(gpu_utilization_ratio=0.5, power_mw=100_000, xid=0))


@dataclass(slots=True)
class Exporter:
    """What the exporter shows now; ``None`` is down."""

    boards: list[Board] | None = field(default_factory=lambda: [BOARD])

    def answer(self, *_: object) -> Answer:
        return Answer(status=503) if self.boards is None else text(exposition(self.boards, CLASSIC))


@contextmanager
def running() -> Iterator[tuple[Exporter, ScrapedSource]]:
    exporter = Exporter()
    with serving(exporter.answer) as url:
        source = dcgm_source(DcgmSettings(urls=(url,)))
        try:
            yield exporter, source
        finally:
            source.close()


def tick(source: ScrapedSource, after_s: float) -> Reading:
    reading = source.read(START + round(after_s * S))
    assert isinstance(reading, Reading), reading
    return reading


def shows(power_mw: int) -> list[Board]:
    return [replace(BOARD, facts=replace(BOARD.facts, power_mw=power_mw))]


def test_scrape_within_the_exporters_interval_invents_nothing() -> None:
    with running() as (exporter, source):
        assert [s.width_ms for s in tick(source, 0).samples] == [30 * S]
        for after in (10, 20):
            again = tick(source, after)
            assert again.samples == () and [gpu.uuid for gpu in again.gpus] == ["GPU-a"]
        exporter.boards = shows(101_000)
        (fresh,) = tick(source, 30).samples
        assert (fresh.at_ms, fresh.width_ms, fresh.power_mw) == (START + 30 * S, 30 * S, 101_000)


def test_widths_tile_the_time_when_ticks_and_refreshes_drift() -> None:
    endpoint = Endpoint(url="http://n/metrics", fallback_node="n", interval_ms=30 * S)
    samples = []
    for second in range(0, 3000, 10):
        refresh = second * 100 // 3101
        content = exposition(shows(100_000 + refresh), CLASSIC).encode()
        endpoint, news = heard(endpoint, content, START + second * S)
        samples += list(news.samples)
    assert len({s.power_mw for s in samples}) == 97 <= len(samples) < 110
    starts = [s.at_ms - s.width_ms for s in samples]
    assert starts[1:] == [s.at_ms for s in samples[:-1]]


def test_exporter_is_measured_on_when_the_clock_was_set_back() -> None:
    with running() as (exporter, source):
        assert tick(source, 0).samples
        for after, new in ((-3600, 1), (-3590, 0), (-3570, 1)):
            samples = tick(source, after).samples
            assert [s.at_ms for s in samples] == [START + after * S] * new
            assert all(s.width_ms == 30 * S for s in samples)
        exporter.boards = shows(101_000)
        assert tick(source, -7200).samples[0].power_mw == 101_000


def test_gpu_whose_values_stay_the_same_is_still_measured() -> None:
    with running() as (_, source):
        found = [s for after in range(0, 130, 10) for s in tick(source, after).samples]
    assert [s.at_ms - START for s in found] == [0, 30 * S, 60 * S, 90 * S, 120 * S]
    assert {s.width_ms for s in found} == {30 * S}


def test_a_clock_that_was_set_back_ends_no_measuring() -> None:
    with running() as (_, source):
        tick(source, 3600)
        found = [s for after in range(0, 70, 10) for s in tick(source, after).samples]
    assert [(s.at_ms - START, s.width_ms) for s in found] == [(0, 30 * S), (30 * S, 30 * S), (60 * S, 30 * S)]


def test_after_a_hole_only_one_interval_is_covered() -> None:
    with running() as (exporter, source):
        tick(source, 0)
        exporter.boards = shows(120_000)
        (late,) = tick(source, 600).samples
    assert late.width_ms == 30 * S


def test_xid_is_an_event_when_it_changes_and_only_then() -> None:
    with running() as (exporter, source):
        old = replace(BOARD, facts=replace(BOARD.facts, xid=31))
        exporter.boards = [old]
        assert tick(source, 0).events == ()
        assert tick(source, 30).events == ()
        exporter.boards = [replace(BOARD, facts=replace(BOARD.facts, xid=79))]
        (event,) = tick(source, 60).events
        assert (event.uuid, event.kind) == ("GPU-a", "xid") and event.detail.startswith("79: ")
        assert event.at_ms == START + 60 * S
        assert tick(source, 90).events == ()
        exporter.boards = [BOARD]
        assert tick(source, 120).events == ()


def test_down_exporter_is_a_gap_from_the_last_attempt_on_its_node() -> None:
    with running() as (exporter, source):
        tick(source, 0)
        exporter.boards = None
        for after in (10, 20):
            outcome = source.read(START + after * S)
            assert isinstance(outcome, Unavailable) and "HTTP 503" in outcome.reason
        exporter.boards = [BOARD]
        assert tick(source, 30).gaps == ()


def test_gpu_let_go_is_free_even_when_the_labels_vanish() -> None:
    with running() as (exporter, source):
        exporter.boards = [replace(BOARD, holders={"pod": "p", "namespace": "ns"})]
        held = tick(source, 0).allocations
        assert held is not None and len(held) == 1
        exporter.boards = [replace(BOARD, facts=Facts(gpu_utilization_ratio=0.0, memory_used_bytes=4 << 20))]
        assert tick(source, 10).allocations == ()
        assert tick(source, 20).allocations == ()


@pytest.mark.parametrize(
    "left",
    [
        Facts(gpu_utilization_ratio=0.0, memory_used_bytes=30 << 30),
        Facts(gpu_utilization_ratio=0.5, memory_used_bytes=0),
    ],
    ids=["memory", "work"],
)
def test_labels_that_vanish_from_gpus_in_use_free_none_of_them(left: Facts) -> None:
    """The kubelet's socket was away: the page is that of an exporter without pods."""
    with running() as (exporter, source):
        idle = replace(BOARD, uuid="GPU-b", index=1, facts=Facts(gpu_utilization_ratio=0.0))
        exporter.boards = [replace(BOARD, facts=left, holders={"pod": "p", "namespace": "ns"}), idle]
        held = tick(source, 0).allocations
        exporter.boards = [replace(BOARD, facts=left), idle]
        assert tick(source, 10).allocations == held, "it is believed for a while"
        late = tick(source, 11 + BELIEVED_MS // S)
        assert late.allocations is None
        assert {each.uuid: each.state for each in late.withheld} == {
            "GPU-a": OutOfService.UNASKED,
            "GPU-b": OutOfService.UNASKED,
        }
        assert all("kubelet" in each.reason for each in late.withheld)
        exporter.boards = [replace(BOARD, facts=left, holders={"pod": "q", "namespace": "ns"}), idle]
        again = tick(source, 20 + BELIEVED_MS // S)
        assert again.withheld == () and again.allocations is not None and len(again.allocations) == 1


def test_holder_is_believed_for_a_while_when_the_exporter_falls_silent() -> None:
    with running() as (exporter, source):
        exporter.boards = [replace(BOARD, holders={"pod": "p", "namespace": "ns"})]
        held = tick(source, 0).allocations
        exporter.boards = None
        silent = tick(source, 10)
        assert silent.allocations == held and silent.samples == ()
        (gap,) = silent.gaps
        assert (gap.from_ms, gap.to_ms, gap.node) == (START, START + 10 * S, "node-1")
        late = source.read(START + 10 * S + BELIEVED_MS)
        assert isinstance(late, Unavailable)


def test_pod_that_moves_changes_the_holder_without_a_new_value() -> None:
    with running() as (exporter, source):
        for name in ("a", "b"):
            exporter.boards = [replace(BOARD, holders={"pod": name, "namespace": "ns"})]
            reading = tick(source, 0 if name == "a" else 10)
            assert reading.allocations is not None
            assert [a.holder.job for a in reading.allocations] == [f"pod:ns/{name}"]
        assert reading.samples == ()


def stamped(uuid: str, at_ms: int) -> str:
    return f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{uuid}",Hostname="n1"}} 63 {at_ms}\n'


YEAR_MS = 365 * 86_400 * S


@pytest.mark.parametrize(
    ("off_ms", "words"), [(-YEAR_MS, "behind"), (YEAR_MS, "ahead"), (-10 * 60 * S, "behind")]
)
def test_value_with_a_time_far_from_now_is_a_gap_and_not_measured_now(off_ms: int, words: str) -> None:
    with serving(lambda *_: text(stamped("GPU-a", START + off_ms))) as url:
        source = dcgm_source(DcgmSettings(urls=(url,)))
        outcome = source.read(START)
        source.close()
    assert isinstance(outcome, Unavailable) and words in outcome.reason


@pytest.mark.parametrize("time", [START - 60 * S, (START - 60 * S) // S])
def test_value_with_a_time_near_now_is_measured(time: int) -> None:
    endpoint = Endpoint(url="http://n/metrics", fallback_node="n", interval_ms=30 * S)
    _, news = heard(endpoint, stamped("GPU-a", time).encode(), START)
    assert [s.uuid for s in news.samples] == ["GPU-a"] and news.gaps == ()


def test_one_stale_gpu_costs_only_itself() -> None:
    endpoint = Endpoint(url="http://n/metrics", fallback_node="n", interval_ms=30 * S)
    page = stamped("GPU-a", START) + stamped("GPU-old", START - YEAR_MS)
    _, news = heard(endpoint, page.encode(), START)
    assert [s.uuid for s in news.samples] == ["GPU-a"]
    (gap,) = news.gaps
    assert (gap.uuid, gap.node, gap.from_ms, gap.to_ms) == ("GPU-old", "n1", START - 30 * S, START)


def test_one_address_before_several_exporters_is_said_and_loses_no_holder() -> None:
    first = replace(BOARD, holders={"pod": "a", "namespace": "ns"})
    second = replace(BOARD, uuid="GPU-b", node="node-2", holders={"pod": "b", "namespace": "ns"})
    with running() as (exporter, source):
        for turn in range(4):
            exporter.boards = [(first, second)[turn % 2]]
            reading = tick(source, turn * 10)
            assert reading.allocations is not None
            assert {a.holder.name for a in reading.allocations} == ({"a", "b"} if turn else {"a"})
            if turn:
                (gap,) = reading.gaps
                assert gap.uuid == ("GPU-b", "GPU-a")[turn % 2]
                assert "load balancer" in gap.reason and "address of each exporter itself" in gap.reason


def test_gpu_that_leaves_an_exporter_that_others_stay_on_is_no_load_balancer() -> None:
    other = replace(BOARD, uuid="GPU-b", index=1)
    with running() as (exporter, source):
        exporter.boards = [BOARD, other]
        tick(source, 0)
        exporter.boards = [BOARD]
        assert tick(source, 30).gaps == ()
