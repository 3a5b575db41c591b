"""Plays worlds through each source into a store of its own: the same lives, seen through other eyes.

=============  ==========================================================================================
nvml           the driver's answers, process lists and /proc, as one machine's own Fallow reads them
dcgm-counts    dcgm-exporter's text for what is busy, NVML for the processes
dcgm           dcgm-exporter's text alone: nobody counts processes
lowest         dcgm-exporter's text with GPU utilization and nothing else, not even memory
peer           the first one's /metrics, read by another Fallow: no processes, but their count
replay         the first one's store, exported and read back
=============  ==========================================================================================

Who was given what is told by Slurm, pods and leases in all of them.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.habit_player import exporter, inventory
from bench.habit_player.driver import Driver
from bench.habit_player.recorder import Recorder
from bench.habit_player.world import World
from collector.attribution import Attribution
from collector.dcgm import endpoint
from collector.dcgm.endpoint import Endpoint, News
from collector.gpu_identity import names_of, reconciled
from collector.metrics_endpoint import exposition
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.sources import peer
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import histories
from collector.store.database import Store

SLOW_MS = 30_000
"""The tick of every source but NVML: dcgm-exporter's own interval."""
FAST_MS = 10_000
"""NVML's tick, Fallow's default."""


class Played(NamedTuple):
    """A machine's tick: the readings of its sources, and the inventory's."""

    world: World
    at_ms: int
    readings: tuple[Reading, ...]


def names(world: World, source: str) -> Mapping[int, str]:
    """The UUIDs of a world's GPUs as this source knows them."""
    if source in ("dcgm", "lowest"):
        return exporter.names(world)
    return {gpu: world.uuid(gpu) for gpu in range(world.habit.hardware.count)}


def play(source: str, worlds: Sequence[World], store: Store, folder: Path, *, fast: bool = True) -> int:
    """Live the worlds as this source sees them, into the store; the source's tick in ms.

    ``replay`` needs ``folder`` to hold an export of NVML's store (``export_for_replay``). ``fast`` is for
    NVML alone: ticks of 10 s instead of 30 s.
    """
    tick_ms = FAST_MS if source == "nvml" and fast else SLOW_MS
    if source == "replay":
        for history in histories(open_recording(folder)):
            store.write_history(history)
        return tick_ms
    recorder = Recorder(source, tick_ms)
    with tempfile.TemporaryDirectory() as proc:
        if source == "peer":
            _through_peer(worlds, recorder, Path(proc))
        else:
            for world in worlds:
                _through_own(source, world, recorder, Path(proc), tick_ms)
    recorder.write(store)
    return tick_ms


def export_for_replay(store: Store, folder: Path, worlds: Sequence[World], kind: str = "parquet") -> None:
    """What the source ``replay`` reads: an export of NVML's store."""
    first, last = min(world.from_ms for world in worlds), max(world.to_ms for world in worlds)
    store.export(folder, kind, first, last + 1)  # type: ignore[arg-type]


def _through_own(source: str, world: World, recorder: Recorder, proc: Path, tick_ms: int) -> None:
    made: Mapping[str, Callable[[], Iterator[Played]]] = {
        "nvml": lambda: _nvml(world, proc, tick_ms),
        "dcgm-counts": lambda: _counted(world, proc),
        "dcgm": lambda: _dcgm(world, lowest=False),
        "lowest": lambda: _dcgm(world, lowest=True),
    }
    for tick in made[source]():
        recorder.take(world.node, tick.readings, tick.at_ms)
    recorder.leave(world.node, world.to_ms)


def _nvml(world: World, proc: Path, tick_ms: int) -> Iterator[Played]:
    driver = Driver(world, proc / world.node, tick_ms)
    given = _Given(world, world_names(world))
    for reading in driver.readings():
        yield Played(world, reading.at_ms, (reading, given.at(reading.at_ms)))
    driver.close()


def _counted(world: World, proc: Path) -> Iterator[Played]:
    """The exporter's measures under NVML's names, beside NVML's processes."""
    driver = Driver(world, proc / world.node, SLOW_MS, blind=True)
    given = _Given(world, world_names(world))
    scraped = _Scraped(world, lowest=False)
    for bare in driver.readings():
        read = scraped.at(bare.at_ms)
        both = reconciled((bare, read), names_of(bare.mig_places)) if read is not None else (bare,)
        mine = tuple(each for each in both if isinstance(each, Reading))
        yield Played(world, bare.at_ms, (*mine, given.at(bare.at_ms)))
    driver.close()


def _dcgm(world: World, *, lowest: bool) -> Iterator[Played]:
    given = _Given(world, exporter.names(world))
    scraped = _Scraped(world, lowest=lowest)
    for at_ms in range(world.from_ms + SLOW_MS, world.to_ms + 1, SLOW_MS):
        read = scraped.at(at_ms)
        if read is not None:
            yield Played(world, at_ms, (read, given.at(at_ms)))


def world_names(world: World) -> dict[int, str]:
    """The UUIDs of a world's GPUs as the driver names them."""
    return {gpu: world.uuid(gpu) for gpu in range(world.habit.hardware.count)}


class _Given:
    """The inventory's reading, the same object for as long as nothing changes."""

    def __init__(self, world: World, uuids: dict[int, str]) -> None:
        self._world = world
        self._uuids = uuids
        self._last: Reading | None = None
        self._held: object = None

    def at(self, at_ms: int) -> Reading:
        held = inventory.holding_at(self._world, at_ms)
        if self._last is None or held != self._held:
            self._held = held
            self._last = inventory.given(self._world, held, self._uuids, at_ms)
        return self._last


class _Scraped:
    """One exporter, scraped and read as the source ``dcgm`` does."""

    def __init__(self, world: World, *, lowest: bool) -> None:
        self._world = world
        self._lowest = lowest
        self._endpoint = Endpoint(
            url=f"http://{world.node}:9400/metrics", fallback_node=world.node, interval_ms=SLOW_MS
        )

    def at(self, at_ms: int) -> Reading | None:
        """What a scrape at an instant brings; ``None`` where the exporter is away for good or for now."""
        held = inventory.holding_at(self._world, at_ms)
        page = exporter.page(self._world, at_ms, held, lowest=self._lowest)
        if page is None:
            reason = "no answer"
            self._endpoint, news = endpoint.missed(self._endpoint, "dcgm", reason, at_ms)
        else:
            self._endpoint, news = endpoint.heard(self._endpoint, page, at_ms)
        return _reading("dcgm", news, at_ms)


def _through_peer(worlds: Sequence[World], recorder: Recorder, proc: Path) -> None:
    """One Fallow reads all machines by NVML, another reads its /metrics; the second one's words are kept."""
    ticks = sorted(_merged(worlds, proc), key=lambda tick: tick.at_ms)
    inner = Recorder("inner", SLOW_MS)
    snapshot = Snapshot()
    far = Endpoint(url="http://peer:9401/metrics", fallback_node="peer", interval_ms=SLOW_MS)
    found: dict[str, Attribution] = {}
    at = 0
    while at < len(ticks):
        now_ms, end = ticks[at].at_ms, at
        while end < len(ticks) and ticks[end].at_ms == now_ms:
            known = inner.take(ticks[end].world.node, ticks[end].readings, now_ms)
            if known is not None:
                found[ticks[end].world.node] = known
            end += 1
        here = {tick.world.node for tick in ticks[at:end]}
        found = {node: each for node, each in found.items() if node in here}
        tick = Tick(
            at_ms=now_ms,
            width_ms=SLOW_MS,
            outcomes=tuple(tick.readings[0] for tick in ticks[at:end]),
            allocations=tuple(a for each in found.values() for a in each.allocations),
            owners=tuple(owner for each in found.values() for owner in each.owners.items()),
        )
        snapshot = after(snapshot, tick, duration_ms=1.0)
        far, news = peer.heard(far, exposition(snapshot, version="0"), now_ms, "peer")
        recorder.take("peer", (_reading("peer", news, now_ms),), now_ms)
        at = end


def _merged(worlds: Sequence[World], proc: Path) -> Iterator[Played]:
    for world in worlds:
        yield from _nvml(world, proc, SLOW_MS)


def _reading(source: str, news: News, at_ms: int) -> Reading:
    return Reading(
        source=source,
        at_ms=at_ms,
        gpus=news.gpus,
        samples=news.samples,
        allocations=news.allocations,
        events=news.events,
        gaps=tuple(replace(gap, source=source) for gap in news.gaps),
    )
