"""Joins the organs: which source, store, attribution and judgement a service is made of.

The only file that knows them all. Imports sit inside the functions, so that a verb pays for what it uses.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from service.client_place import announced, store_file
from service.trouble import Trouble

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.loop import Loop, Timing
    from collector.model import Tick
    from collector.store.database import Store
    from service.config import Config
    from service.daemon_state import Beat, Chore
    from service.wiring_sources import Sources


class StoreRefused(Trouble):
    """The store cannot be opened; the message says what was found and what to do."""


Prepare = Callable[[Callable[[], bool], Callable[[str], None]], None]
"""Fills in the past, given a way to learn that it should stop and one to tell how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A service's working parts, joined and not yet moving; ``remarks`` are to be told at the start.

    A recording has no ``beat``: it is played by ``prepare``, and rests when it is over.
    """

    loop: "Loop"
    beat: "Beat | None"
    chores: "tuple[Chore, ...]"
    prepare: Prepare
    metrics: Callable[[], bytes]
    remarks: tuple[str, ...] = ()


def open_to_read(data: Path) -> "Store":
    """The store's file, read-only. Raises ``StoreRefused``."""
    from collector.store.database import open_read_only
    from collector.store.errors import StoreError, StoreLocked

    try:
        return open_read_only(store_file(data))
    except StoreLocked as locked:
        raise StoreRefused(_locked(data)) from locked
    except StoreError as error:
        raise StoreRefused(str(error)) from error


@contextmanager
def own_store(data: Path, config: "Config") -> "Iterator[Store]":
    """The store's file, owned until the end of the block. Raises ``StoreRefused``."""
    from collector.store.database import Limits, open_store
    from collector.store.errors import StoreError, StoreLocked

    limits = Limits(memory=f"{config.store.memory_mib}MiB", threads=config.store.threads)
    try:
        store = open_store(store_file(data), limits)
    except StoreLocked as locked:
        raise StoreRefused(_locked(data)) from locked
    except StoreError as error:
        raise StoreRefused(str(error)) from error
    with store:
        yield store


def assemble(config: "Config", store: "Store", clock: "Clock") -> Body:
    """A service's parts, joined; nothing moves yet. Raises ``Trouble`` for a source that cannot be."""
    from collector.loop import Loop, Ports
    from service.chores import make_chores
    from service.daemon_state import Beat
    from service.replaying import Replaying
    from service.wiring_sources import make_attribute, make_sources

    sources = make_sources(config, leases=store.leases)
    store.set_prices(
        {model: (price, config.prices.currency) for model, price in config.prices.per_gpu_hour.items()}
    )
    replaying = Replaying.of(sources.recording, clock, config) if sources.recording is not None else None
    ports = Ports(
        sources=sources.live,
        inventories=sources.inventories,
        attribute=make_attribute(config),
        sink=store.write_tick,
    )
    loop = Loop(
        ports,
        clock=clock if replaying is None else replaying.clock,
        timing=timing(config) if replaying is None else replaying.timing,
    )
    return Body(
        loop=loop,
        beat=None
        if replaying is not None
        else Beat(every_s=config.collect.tick_s, work=lambda: loop.tick_once().at_ms),
        chores=make_chores(config, store, clock),
        prepare=_prepare_simulated(config, store, sources, clock)
        if replaying is None
        else lambda stopped, tell: replaying.run(loop, stopped, tell),
        metrics=lambda: _metrics(loop),
        remarks=sources.remarks,
    )


def read_once(config: "Config") -> "tuple[Tick, tuple[str, ...]]":
    """One tick of the sources, kept nowhere, and what a person should be told. Raises ``Trouble``."""
    from collector.clock import SystemClock
    from collector.loop import Loop, Ports
    from service.replaying import Replaying
    from service.wiring_sources import make_attribute, make_sources

    sources = make_sources(config)
    ports = Ports(
        sources=sources.live,
        inventories=sources.inventories,
        attribute=make_attribute(config),
        sink=lambda tick: None,
    )
    clock: Clock = SystemClock()
    if sources.recording is not None:
        clock = Replaying.of(sources.recording, clock, config).clock
        clock.sleep(config.collect.tick_s)
    loop = Loop(ports, clock=clock, timing=timing(config))
    try:
        return loop.tick_once(), sources.remarks
    finally:
        loop.close()


def timing(config: "Config") -> "Timing":
    """The loop's pace; a source gets no longer than four fifths of a tick."""
    from collector.loop import Timing

    tick_ms = round(config.collect.tick_s * 1000)
    return Timing(
        tick_ms=tick_ms,
        source_timeout_ms=min(round(config.collect.source_timeout_s * 1000), tick_ms * 4 // 5),
        inventory_every_ms=round(config.collect.inventory_every_s * 1000),
    )


def write_export(
    store: "Store", out: Path, kind: str, from_ms: int, to_ms: int
) -> tuple[tuple[Path, int], ...]:
    """The span's files in ``out``, made if missing, and their rows. Raises ``StoreRefused``, OSError."""
    from collector.store.errors import StoreError

    try:
        written = store.export(out, "csv" if kind == "csv" else "parquet", from_ms, to_ms)
    except StoreError as error:
        raise StoreRefused(str(error)) from error
    return tuple(zip(written.files, written.rows, strict=True))


def _metrics(loop: "Loop") -> bytes:
    from importlib.metadata import version

    from collector.exposition import exposition

    return exposition(loop.snapshot, version=version("fallow-gpu"))


def _prepare_simulated(config: "Config", store: "Store", sources: "Sources", clock: "Clock") -> Prepare:
    def prepare(stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        if sources.simulated is None or config.simulated.backfill_days == 0:
            return
        from service.backfill import Backfill

        past = Backfill(
            cluster=sources.simulated,
            store=store,
            mark=store.path.with_name("backfill-unfinished"),
            days=config.simulated.backfill_days,
        )
        if past.is_due():
            past.run(clock.now_ms(), stopped, tell)

    return prepare


def _locked(data: Path) -> str:
    said = announced(data)
    if said is None:
        return (
            f"the store in {data} is in use by another process; stop it, or choose another folder with --data"
        )
    return (
        f"a service for {data} runs already (process {said.pid}, {said.url}); use it, stop it, "
        "or choose another folder with --data"
    )
