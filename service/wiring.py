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
    from collector.model import Allocation, Reading
    from collector.store.database import Store
    from service.config import Config
    from service.daemon_state import Beat, Chore, Condition
    from service.wiring_sources import Sources


class StoreRefused(Trouble):
    """The store cannot be opened; the message says what was found and what to do."""


Prepare = Callable[[Callable[[], bool], Callable[[str], None]], None]
"""Fills in the past, given a way to learn that it should stop and one to tell how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A service's working parts, joined and not yet moving; ``remarks`` are to be told at the start."""

    loop: "Loop"
    beat: "Beat"
    chores: "tuple[Chore, ...]"
    prepare: Prepare
    metrics: "Callable[[Condition], bytes]"
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
    from service.daemon_state import Beat
    from service.wiring_sources import make_sources

    sources = make_sources(config)
    ports = Ports(sources=sources.live, attribute=stated_allocations, sink=store.write_tick)
    loop = Loop(ports, clock=clock, timing=timing(config))
    return Body(
        loop=loop,
        beat=Beat(every_s=config.collect.tick_s, work=lambda: loop.tick_once().at_ms),
        chores=(),
        prepare=_prepare(config, store, sources, clock),
        metrics=lambda _: b"",
        remarks=sources.remarks,
    )


def timing(config: "Config") -> "Timing":
    """The loop's pace; a source gets no longer than four fifths of a tick."""
    from collector.loop import Timing

    tick_ms = round(config.collect.tick_s * 1000)
    return Timing(
        tick_ms=tick_ms,
        source_timeout_ms=min(round(config.collect.source_timeout_s * 1000), tick_ms * 4 // 5),
        inventory_every_ms=round(config.collect.inventory_every_s * 1000),
    )


def stated_allocations(readings: "tuple[Reading, ...]", now_ms: int) -> "tuple[Allocation, ...] | None":
    """The allocations that sources state themselves; ``None`` when none of them looked."""
    stated = [reading.allocations for reading in readings if reading.allocations is not None]
    return tuple(each for some in stated for each in some) if stated else None


def _prepare(config: "Config", store: "Store", sources: "Sources", clock: "Clock") -> Prepare:
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
