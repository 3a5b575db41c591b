"""Joins the organs: which source, store, attribution and judgement a service is made of.

The only file that knows them all. Imports sit inside the functions, so that a verb pays for what it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from service.health.condition import Heartbeat, MaintenanceTask

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.model import GpuUuid, NodeName
    from collector.reading import Tick
    from collector.scrape_loop import Loop, Timing
    from collector.sources.nodes.receiver import NodeReceiver
    from collector.store.database import Store
    from service.config.model import Config
    from service.control.launched_processes import LaunchedProcesses
    from service.sources.backfill import Backfill
    from service.sources.making import Sources

Stage = Callable[[Callable[[], bool], Callable[[str], None]], None]
"""Fills in some of the past, given a way to learn that it should stop and one to tell how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A service's working parts, joined and not yet moving; ``remarks`` are to be told at the start.

    ``prepare`` comes before the first tick, ``complete`` beside the first ones, most chores after both. A
    recording has no ``beat``: it is played by ``complete``, and rests when it is over.
    """

    loop: "Loop"
    launched: "LaunchedProcesses"
    """Told of launchers that the kernel named; the source of leases says what is theirs."""
    beat: Heartbeat | None
    chores: tuple[MaintenanceTask, ...]
    prepare: Stage
    complete: Stage
    metrics: Callable[[], bytes]
    remarks: tuple[str, ...] = ()
    simulated: bool = False
    nodes: "NodeReceiver | None" = None
    """Takes in what other machines push, where the configuration names that source."""
    inventories: frozenset[str] = frozenset()
    """The names of the sources that are asked more seldom than at every tick."""


def clock_of(config: "Config") -> "Clock":
    """The calendar that a service lives by: the machine's, or in a rehearsal a faster one."""
    from collector.clock import HurriedClock, SystemClock

    hurry = config.rehearsal
    if hurry.speed == 1:
        return SystemClock()
    return HurriedClock(SystemClock(), speed=hurry.speed, since_ms=hurry.since_ms)


def assemble(config: "Config", store: "Store", clock: "Clock") -> Body:
    """A service's parts, joined; nothing moves yet. Raises ``Trouble`` for a source that cannot be."""
    from collector.store.managed import known_runs
    from collector.store.node_names import known_clusters
    from collector.store.withheld import given_out
    from service.control.launched_processes import LaunchedProcesses
    from service.server.maintenance import make_chores
    from service.sources.making import make_sources, refuse_no_gpus, refuse_other_origin

    refuse_no_gpus(config, store.origin)
    launched = LaunchedProcesses()
    with store.reader() as reader:
        runs = known_runs(reader, "slurm", clock.now_ms())
    nodes = _receiver(config, store, clock)
    sources = make_sources(
        config,
        leases=store.leases,
        launched=launched.of,
        guests=launched.sent_in,
        runs=runs,
        nodes=nodes,
    )
    refuse_other_origin(store, sources)
    prices = config.prices
    store.set_prices({model: (price, prices.currency) for model, price in prices.per_gpu_hour.items()})
    if sources.recording is not None:
        return _replayed(config, store, clock, sources, launched)
    with store.reader() as reader:
        known, clusters = given_out(reader, clock.now_ms()), known_clusters(reader)
    sink = store.write_tick if nodes is None else _telling(store, nodes)
    loop = _loop(config, sources, sink, clock, given_out=known, clusters=clusters)
    past, now_ms = _past(config, store, sources), clock.now_ms()
    return Body(
        loop=loop,
        launched=launched,
        beat=Heartbeat(every_s=config.collect.tick_s, work=lambda: loop.tick_once().at_ms),
        chores=make_chores(config, store, clock),
        prepare=nothing if past is None else lambda stopped, tell: past.run_recent(now_ms, stopped, tell),
        complete=nothing if past is None else lambda stopped, tell: past.run_older(now_ms, stopped, tell),
        metrics=lambda: _metrics(loop, store),
        remarks=(
            *sources.remarks,
            *store.remarks,
            *_gap_remarks(config, store, sources, now_ms),
            *_rehearsal_remarks(config),
            *_project_remarks(config),
        ),
        simulated=sources.are_simulated,
        nodes=nodes,
        inventories=frozenset(source.name for source in sources.inventories),
    )


def _receiver(config: "Config", store: "Store", clock: "Clock") -> "NodeReceiver | None":
    """What takes in the ticks of other machines, where the configuration names that source."""
    from service.sources.specs import NodesSpec, parse_specs

    if NodesSpec() not in parse_specs(config.collect.sources):
        return None
    from socket import gethostname

    from collector.sources.nodes.headship import Headship
    from collector.sources.nodes.receiver import NodeReceiver
    from collector.store.head_terms import begin_term, supersede
    from collector.store.nodes import read_node_marks, read_node_owners
    from service.control.lease_key import lease_key

    with store.reader() as reader:
        marks, owners = read_node_marks(reader), read_node_owners(reader)
    key = lease_key(store.folder)
    term, words, superseded = begin_term(store, key, clock.now_ms(), machine=gethostname())
    headship = Headship(
        key, term, words, marks, superseded=superseded, keep=lambda because: supersede(store, because)
    )
    return NodeReceiver(marks, owners, most_gpus=config.collect.gpus_per_address, headship=headship)


def _telling(store: "Store", nodes: "NodeReceiver") -> "Callable[[Tick], None]":
    """The store as a sink, that tells the receiver once a tick is durable."""

    def sink(tick: "Tick") -> None:
        store.write_tick(tick)
        nodes.stored(tick)

    return sink


def _gap_remarks(config: "Config", store: "Store", sources: "Sources", now_ms: int) -> tuple[str, ...]:
    """What a start says of the time in which nobody measured; the first tick stores the same as gaps."""
    read = {source.name for source in (*sources.live, *sources.inventories)}
    gaps = store.gap_since_last_tick(now_ms, round(config.collect.tick_s * 1000))
    return tuple(
        f"Nothing was measured by {gap.source} since {_clock(gap.from_ms)}: {gap.reason}. "
        "That time is unknown in the ledger, and a row in the gaps."
        for gap in gaps
        if gap.source in read
    )


def _rehearsal_remarks(config: "Config") -> tuple[str, ...]:
    if config.rehearsal.speed == 1:
        return ()
    return (
        f"A rehearsal: the calendar runs {config.rehearsal.speed:g} times as fast as the machine's clock.",
    )


def _project_remarks(config: "Config") -> tuple[str, ...]:
    from service.control.membership import remarks, rules_of

    return remarks(rules_of(config))


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _replayed(
    config: "Config", store: "Store", clock: "Clock", sources: "Sources", launched: "LaunchedProcesses"
) -> Body:
    from service.server.maintenance import make_chores
    from service.sources.replaying import Replaying

    assert sources.recording is not None, "only a recording is replayed"
    replaying = Replaying.of(sources.recording, clock, config)
    loop = _loop(config, sources, store.write_tick, replaying.clock, pace=replaying.timing)
    return Body(
        loop=loop,
        launched=launched,
        beat=None,
        chores=make_chores(config, store, replaying.clock),
        prepare=nothing,
        complete=lambda stopped, tell: replaying.run(loop, store, stopped, tell),
        metrics=lambda: _metrics(loop, store),
        remarks=sources.remarks,
        simulated=sources.are_simulated,
    )


def _loop(
    config: "Config",
    sources: "Sources",
    sink: "Callable[[Tick], None]",
    clock: "Clock",
    *,
    pace: "Timing | None" = None,
    given_out: "Mapping[str, Sequence[NodeName]] | None" = None,
    clusters: "Mapping[GpuUuid, str] | None" = None,
) -> "Loop":
    from collector.scrape_loop import Loop, LoopDependencies
    from service.sources.making import make_attribute

    ports = LoopDependencies(
        sources=sources.live,
        inventories=sources.inventories,
        given_out=given_out or {},
        clusters=clusters or {},
        attribute=make_attribute(config),
        sink=sink,
    )
    return Loop(ports, clock=clock, timing=pace or timing(config))


def nothing(stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
    """No past to fill in."""


def read_once(config: "Config") -> "tuple[Tick, tuple[str, ...]]":
    """One tick of the sources, kept nowhere, and what a person should be told. Raises ``Trouble``."""
    from collector.clock import SystemClock
    from service.sources.making import make_sources
    from service.sources.replaying import Replaying

    sources = make_sources(config)
    clock: Clock = SystemClock()
    if sources.recording is not None:
        replaying = Replaying.of(sources.recording, clock, config)
        clock = replaying.clock
        # GPUs have their first rows one after the other: a step and a half holds one of each
        clock.sleep(1.5 * replaying.timing.tick_ms / 1000)
    loop = _loop(config, sources, lambda tick: None, clock)
    try:
        return loop.tick_once(), sources.remarks
    finally:
        loop.close()


def timing(config: "Config") -> "Timing":
    """The loop's pace; a source gets no longer than four fifths of a tick as the machine's clock has it."""
    from collector.scrape_loop import Timing

    tick_ms, speed = round(config.collect.tick_s * 1000), config.rehearsal.speed
    return Timing(
        tick_ms=tick_ms,
        source_timeout_ms=min(round(config.collect.source_timeout_s * 1000), round(tick_ms * 0.8 / speed)),
        inventory_every_ms=round(config.collect.inventory_every_s * 1000),
    )


def _metrics(loop: "Loop", store: "Store") -> bytes:
    from collector.metrics_endpoint import exposition
    from service.version import own_version

    snapshot = loop.snapshot
    named = replace(snapshot, gpus=store.names.told(snapshot.gpus))
    return exposition(named, version=own_version())


def _past(config: "Config", store: "Store", sources: "Sources") -> "Backfill | None":
    """The past of a simulated cluster, where one is to be filled in."""
    if sources.simulated is None or config.simulated.backfill_days == 0:
        return None
    from service.sources.backfill import Backfill
    from service.sources.making import make_cluster

    past = Backfill(
        cluster=make_cluster(config),
        store=store,
        mark=store.path.with_name("backfill-unfinished"),
        days=config.simulated.backfill_days,
    )
    return past if past.is_due() else None
