"""One Fallow collects from another, over real HTTP: what comes out is what went in."""

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import given, settings

from collector.dcgm.fetch import Limits
from collector.dcgm.scrape import ScrapedSource
from collector.metrics_endpoint import exposition
from collector.model import (
    SIMULATED_SOURCE,
    Allocation,
    Event,
    GpuUuid,
    Holder,
    JobId,
    OutOfService,
    Unavailable,
    Withheld,
)
from collector.reading import Reading, Tick
from collector.snapshot import EventCount, Snapshot, SourceHealth, after
from collector.sources.peer import PeerSettings, peer_source, token_for
from tests.collector.dcgm.loopback import Answer, serving, text
from tests.collector.exposition.snapshots import NOW_MS, snapshots


class Shown:
    """What the serving Fallow shows at this moment."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.down = False

    def answer(self, *_: object) -> Answer:
        return Answer(status=500) if self.down else text(exposition(self.snapshot).decode())


def source(url: str, **environment: str) -> ScrapedSource:
    return peer_source(PeerSettings(urls=(url,), limits=Limits(timeout_s=2), environment=environment))


def read(peer: ScrapedSource, now_ms: int = NOW_MS) -> Reading:
    reading = peer.read(now_ms)
    assert isinstance(reading, Reading), reading
    return reading


def canonical(allocations: tuple[Allocation, ...] | None) -> object:
    return None if allocations is None else sorted(allocations, key=repr)


@pytest.mark.slow
def test_a_peer_yields_the_samples_gpus_and_allocations_of_the_other() -> None:
    shown = Shown()

    @settings(max_examples=60, deadline=None)
    @given(snapshot=snapshots())
    def round_trip(snapshot: Snapshot) -> None:
        shown.snapshot = snapshot
        fresh = source(url)
        try:
            reading = read(fresh)
        finally:
            fresh.close()
        assert reading.gpus == snapshot.gpus
        assert [replace(s, flags=tuple(sorted(s.flags))) for s in reading.samples] == [
            replace(s, flags=tuple(sorted(s.flags))) for s in snapshot.samples
        ]
        assert canonical(reading.allocations) == canonical(snapshot.allocations)
        assert reading.processes is None and reading.gaps == ()

    with serving(shown.answer) as url:
        round_trip()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(snapshot=snapshots())
def test_a_chain_of_three_says_at_its_end_what_was_said_at_its_beginning(snapshot: Snapshot) -> None:
    told = exposition(snapshot)
    with serving(lambda *_: text(told.decode())) as url:
        peer = source(url)
        reading = read(peer)
        peer.close()
    tick = Tick(at_ms=NOW_MS, width_ms=10_000, outcomes=(reading,), allocations=reading.allocations)
    again = exposition(after(Snapshot(), tick, duration_ms=1))
    assert _of_gpus(again) == _of_gpus(told)


def _of_gpus(told: bytes) -> list[bytes]:
    return sorted(line for line in told.split(b"\n") if line.startswith((b"fallow_gpu", b"fallow_alloc")))


def _one(at_ms: int) -> Snapshot:
    from tests.collector.exposition.test_exposition_text import A, gpu, sample

    return Snapshot(at_ms=at_ms, gpus=(gpu(A),), samples=(sample(A, at_ms, power_mw=at_ms % 1000),))


def test_what_was_seen_before_is_not_told_again() -> None:
    shown = Shown()
    with serving(shown.answer) as url:
        peer = source(url)
        for at_ms, new in ((NOW_MS, 1), (NOW_MS, 0), (NOW_MS + 10_000, 1), (NOW_MS + 10_000, 0)):
            shown.snapshot = _one(at_ms)
            assert len(read(peer, NOW_MS + 20_000).samples) == new
        peer.close()


def test_peer_whose_clock_was_set_back_is_measured_all_the_same() -> None:
    shown = Shown()
    with serving(shown.answer) as url:
        peer = source(url)
        for at_ms in (NOW_MS, NOW_MS - 3_600_000, NOW_MS - 3_590_000):
            shown.snapshot = _one(at_ms)
            assert [sample.at_ms for sample in read(peer).samples] == [at_ms]
        peer.close()


def test_clocks_that_differ_do_not_move_a_sample() -> None:
    shown = Shown()
    shown.snapshot = _one(NOW_MS - 3_600_000)
    with serving(shown.answer) as url:
        peer = source(url)
        (found,) = read(peer).samples
        peer.close()
    assert found.at_ms == NOW_MS - 3_600_000


def test_peer_whose_clock_is_ahead_measures_nothing_in_the_future() -> None:
    shown = Shown()
    with serving(shown.answer) as url:
        peer = source(url)
        for tick in (0, 10_000):
            shown.snapshot = _one(NOW_MS + tick + 90_000)
            (found,) = read(peer, NOW_MS + tick).samples
            assert (found.at_ms, found.flags) == (NOW_MS + tick, ("peer-clock-ahead",))
        peer.close()


def test_events_travel_once_with_their_time_and_detail() -> None:
    shown = Shown()
    uuid = GpuUuid("GPU-a")
    old, new = (
        Event(uuid=uuid, at_ms=NOW_MS - age, kind="xid", detail=detail)
        for age, detail in ((3_600_000, "31"), (5_000, "79"))
    )
    with serving(shown.answer) as url:
        for first, told in ((old, ()), (new, (new,))):
            peer = source(url)
            shown.snapshot = replace(_one(NOW_MS), events=(EventCount(last=first, count=1),))
            assert read(peer).events == told
            assert read(peer).events == ()
            later = replace(new, at_ms=NOW_MS + 5_000)
            shown.snapshot = replace(_one(NOW_MS), events=(EventCount(last=later, count=2),))
            assert read(peer, NOW_MS + 10_000).events == (later,)
            peer.close()


def test_peer_whose_own_source_is_blind_is_a_gap_here_too() -> None:
    shown = Shown()
    shown.snapshot = replace(
        _one(NOW_MS), sources=(SourceHealth(name="nvml", is_up=False, duration_ms=1, gpus=0),)
    )
    with serving(shown.answer) as url:
        peer = source(url)
        (gap,) = read(peer).gaps
        peer.close()
    assert "cannot read its source nvml" in gap.reason


def test_what_is_withheld_travels_with_its_reason() -> None:
    shown = Shown()
    drained = Withheld(uuid=GpuUuid("GPU-a"), state=OutOfService.DRAINED, reason='bad "DIMM" by root')
    shown.snapshot = replace(_one(NOW_MS), allocations=(), withheld=(drained,))
    with serving(shown.answer) as url:
        peer = source(url)
        assert read(peer).withheld == (drained,)
        peer.close()


def test_peer_that_asks_nobody_any_more_frees_no_gpu() -> None:
    """It began anew and has not looked yet, or its own inventory is away."""
    shown = Shown()
    held = Allocation(uuid=GpuUuid("GPU-a"), holder=Holder(job=JobId("slurm:1")))
    shown.snapshot = replace(_one(NOW_MS), allocations=(held,))
    with serving(shown.answer) as url:
        peer = source(url)
        assert read(peer).allocations == (held,)
        shown.snapshot = _one(NOW_MS + 10_000)
        assert read(peer, NOW_MS + 10_000).allocations == (held,)
        late = read(peer, NOW_MS + 700_000)
        peer.close()
    assert late.allocations is None
    assert [(each.uuid, each.state) for each in late.withheld] == [("GPU-a", OutOfService.UNASKED)]


def test_dead_peer_keeps_its_holders_for_a_while_and_says_why() -> None:
    shown = Shown()
    held = Allocation(uuid=GpuUuid("GPU-a"), holder=Holder(job=JobId("slurm:1")))
    shown.snapshot = replace(_one(NOW_MS), allocations=(held,))
    with serving(shown.answer) as url:
        peer = source(url)
        assert read(peer).allocations == (held,)
        shown.down = True
        silent = read(peer, NOW_MS + 10_000)
        assert silent.allocations == (held,) and "HTTP 500" in silent.gaps[0].reason
        outcome = peer.read(NOW_MS + 3_600_000)
        assert isinstance(outcome, Unavailable)
        peer.close()


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("power_watts", "NaN"),
        ("memory_used_bytes", "+Inf"),
        ("utilization_ratio", "NaN"),
        ("sample_width_seconds", "1e9"),
        ("sample_width_seconds", "0"),
        ("sample_timestamp_seconds", "NaN"),
        ("sample_timestamp_seconds", "0"),
        ("last_event_timestamp_seconds", "NaN"),
    ],
)
def test_peer_that_says_no_number_costs_no_other_peer_its_samples(name: str, wire: str) -> None:
    labels = '{uuid="GPU-b",kind="xid"}'
    told = {
        "info": 1,
        "sample_timestamp_seconds": NOW_MS / 1000,
        "sample_width_seconds": 10,
        "power_watts": 100,
    }
    odd = text("".join(f"fallow_gpu_{key}{labels} {value}\n" for key, value in (told | {name: wire}).items()))
    good = text(exposition(_one(NOW_MS)).decode())
    with serving(lambda path, _: odd if path.startswith("/odd") else good) as url:
        peer = peer_source(PeerSettings(urls=(f"{url}/odd", url), limits=Limits(timeout_s=2), environment={}))
        samples = {sample.uuid: sample for sample in read(peer).samples}
        peer.close()
    assert _one(NOW_MS).samples[0].uuid in samples
    untimed = name.startswith("sample_")
    assert (GpuUuid("GPU-b") in samples) is not untimed
    for sample in samples.values():
        assert sample.utilization_ratio is None or isfinite(sample.utilization_ratio)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("node_load1 1\n", "no Fallow's metrics"),
        ("", "no metrics in it"),
        ("fallow_gpu_info{ 1", "unreadable"),
    ],
)
def test_another_exporter_behind_the_url_is_named(body: str, sentence: str) -> None:
    with serving(lambda *_: text(body)) as url:
        peer = source(url)
        outcome = peer.read(NOW_MS)
        peer.close()
    assert isinstance(outcome, Unavailable) and sentence in outcome.reason


def test_token_comes_from_the_environment_or_a_file_read_anew(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append(headers.get("Authorization"))
        return text(exposition(_one(NOW_MS)).decode())

    tokens = tmp_path / "tokens"
    with serving(answer) as url:
        for environment in ({}, {"FALLOW_PEER_TOKEN": "one"}, {"FALLOW_PEER_TOKEN_FILE": str(tokens)}):
            tokens.write_text(f"# peers\n{url} two\nhttp://elsewhere three\n")
            peer = source(url, **environment)
            read(peer)
            if "FALLOW_PEER_TOKEN_FILE" in environment:
                tokens.write_text("four\n")
                read(peer)
            peer.close()
    assert seen == [None, "Bearer one", "Bearer two", "Bearer four"]


def test_refused_token_says_what_to_give() -> None:
    with serving(lambda *_: Answer(status=401)) as url:
        peer = source(url, FALLOW_PEER_TOKEN="wrong")
        outcome = peer.read(NOW_MS)
        peer.close()
    assert isinstance(outcome, Unavailable)
    assert "HTTP 401" in outcome.reason and "give a token" in outcome.reason and "wrong" not in outcome.reason


def test_longest_url_names_the_token() -> None:
    told = "http://a x\nhttp://a:9475/b y\nz\n"
    assert token_for("http://a:9475/b/metrics", told) == "y"
    assert token_for("http://a:9475/metrics", told) == "x"
    assert token_for("http://c/metrics", told) == "z"
    assert token_for("http://c/metrics", "http://a x") is None


@pytest.mark.parametrize("older", [False, True], ids=["says so", "from before it said so"])
def test_peer_that_shows_a_simulated_cluster_is_left_out_and_named(older: bool) -> None:
    shown = replace(
        _one(NOW_MS),
        sources=(SourceHealth(name=SIMULATED_SOURCE, is_up=True, duration_ms=1, gpus=1),),
    )
    lines = exposition(shown).decode().splitlines(keepends=True)
    told = "".join(line for line in lines if not (older and "fallow_simulated" in line))
    with serving(lambda *_: text(told)) as url:
        peer = source(url)
        outcome = peer.read(NOW_MS)
        peer.close()
    said = outcome.reason if isinstance(outcome, Unavailable) else outcome.gaps[0].reason
    assert "shows a simulated cluster" in said
    assert isinstance(outcome, Unavailable) or (outcome.gpus, outcome.samples) == ((), ())


def test_a_simulated_cluster_says_on_its_metrics_that_it_is_one() -> None:
    simulated = SourceHealth(name=SIMULATED_SOURCE, is_up=True, duration_ms=1, gpus=1)
    assert b"\nfallow_simulated 1\n" in exposition(replace(_one(NOW_MS), sources=(simulated,)))
    assert b"\nfallow_simulated 0\n" in exposition(_one(NOW_MS))


def lying(rows: str) -> bytes:
    labels = 'uuid="GPU-x",node="p",index="0",model="H100"'
    said = {
        "info": 1,
        "sample_timestamp_seconds": NOW_MS / 1000,
        "sample_width_seconds": 1,
        "busy_ratio": 0.5,
    }
    own = "".join(f"fallow_gpu_{name}{{{labels}}} {value!r}\n" for name, value in said.items())
    return f"{own}fallow_allocations_known 1\n{rows}".encode()


@pytest.mark.parametrize("at_s", ["1e300", "1e15", "-1e15", "0", f"{NOW_MS / 1000 + 90_000!r}"])
def test_an_event_at_a_time_that_no_calendar_holds_costs_that_event_alone(at_s: str) -> None:
    known = 'fallow_gpu_last_event_timestamp_seconds{uuid="GPU-x",kind="xid",detail="79"}'
    other = known.replace('"xid"', '"ecc"')
    page = lying(f"{known} {at_s}\n{other} {NOW_MS / 1000}\n").decode()
    with serving(lambda *_: text(page)) as url:
        reading = read(source(url))
    assert [(event.kind, event.at_ms) for event in reading.events] == [("ecc", NOW_MS)]
    assert len(reading.samples) == 1


@pytest.mark.parametrize(
    ("said", "kept"), [("1e300", [1.0]), ("2", [1.0]), ("0.5", [0.5]), ("-5", []), ("0", [])]
)
def test_nobody_is_given_more_than_a_whole_gpu(said: str, kept: list[float]) -> None:
    page = lying(f'fallow_gpu_allocation_ratio{{uuid="GPU-x",job="j",user="ann"}} {said}\n')
    part = f'fallow_gpu_share_of_device_ratio{{uuid="GPU-x"}} {said}\n'
    with serving(lambda *_: text(page.decode() + part)) as url:
        reading = read(source(url))
    assert [each.share for each in reading.allocations or ()] == kept
    assert reading.gpus[0].share_of_device == {"0.5": 0.5, "0": 0.0}.get(said, 1.0)
