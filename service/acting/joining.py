"""Joins the organs of acting: register, engines, books, loop and desk, started and stopped in order."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.engines.dispatch import Dispatch
from advisor.engines.local import LocalEngine, Patience
from advisor.engines.mps import find_mps
from advisor.register.foreign import ForeignBook
from advisor.register.model import Entry
from advisor.register.register import UnknownJob, open_register
from collector.model import JobId, NodeName
from collector.snapshot import Snapshot
from service.acting.applying import Applying
from service.acting.books import Books, open_books
from service.acting.desk import Desk, Organs
from service.acting.eyes import Eyes
from service.acting.foreign_orders import ForeignOrders
from service.acting.foreigners import Foreigners, Sight
from service.acting.granting import Granting
from service.acting.keeping import Keeping
from service.acting.loop import ActingLoop, Looks, Pace, Parts
from service.acting.memory_watching import MemoryWatching
from service.acting.observing import Observing
from service.acting.orders import Orders
from service.acting.plans import PaperParts, Papers
from service.advising import ask_policies, limits_of, site_of

if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from advisor.limits import Limits
    from advisor.model import ClusterState
    from advisor.register.register import Register
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.model import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What acting stands on. ``everywhere``: jobs may be put on every node, as in a simulated cluster.

    ``last_tick`` is the newest tick in the store, UTC ms; ``trouble`` is told why the last cycle failed.
    """

    config: "Config"
    store: "Store"
    clock: "Clock"
    folder: Path
    last_tick: Callable[[], int | None]
    trouble: Callable[[str | None], None]
    everywhere: bool = False
    snapshot: Callable[[], Snapshot] = Snapshot
    """What the collector saw at its newest tick."""


class Acting:
    """The acting half of a service: ``desk`` answers at once, cycles run between ``start`` and ``stop``."""

    def __init__(self, desk: Desk, loop: ActingLoop, applying: Applying, engine: LocalEngine) -> None:
        self.desk, self.loop = desk, loop
        self._applying, self._engine = applying, engine

    def start(self) -> None:
        """Begin to act; returns at once."""
        self._applying.start()
        self.loop.start()

    def stop(self) -> None:
        """End: waits end at once, what was begun is settled at the next start. Blocks for a moment."""
        with ExitStack() as ends:
            for each in (self._applying.stop, self.loop.stop, self._engine.interrupt):
                ends.callback(each)


def join_acting(ground: Ground) -> Acting:
    """The organs, joined and at rest; what a crash left open is settled first. Blocks. Raises StoreError."""
    config, store, clock = ground.config, ground.store, ground.clock
    register = open_register(store, clock)
    foreign, sight = ForeignBook(store, clock), Sight(snapshot=ground.snapshot, simulated=ground.everywhere)
    foreigners = Foreigners(foreign, config, clock, site_of(config).protect, sight)
    books = open_books(store, clock, ground.folder, partial(_entry, register), foreigners.engine.settle)
    books.settle()
    granting, acting = Granting(register, find_mps), config.acting
    patience = Patience(answer_s=acting.answer_s, reshape_s=acting.reshape_s)
    local = LocalEngine(register, clock, granting.agree, patience)
    engine, limits = Dispatch(local, foreigners.engine, foreign.told), limits_of(config)
    watching = MemoryWatching(register, engine, books.journal, clock, limits, snapshot=ground.snapshot)
    observing = Observing(
        store,
        config,
        clock,
        register,
        last_tick=ground.last_tick,
        here=lambda state: _here(state, ground.everywhere),
        remember=lambda state: granting.seen(watching.remember(books.remember(foreigners.complete(state)))),
    )
    eyes = Eyes(lambda: observing.taken)
    parts = Parts(
        register=register,
        observe=observing.look,
        policies=(lambda state: ask_policies(state, observing.observed, limits, config.advice),),
        engine=engine,
        journal=books.journal,
        clock=clock,
        limits=limits,
        looks=Looks(launcher=eyes.launcher, workers=eyes.workers),
        halted=books.switch.halt,
        before=books.settle,
        after=_after(books, limits, watching),
        trouble=ground.trouble,
    )
    pace = Pace(every_s=acting.every_s, silent_s=acting.silent_s, launcher_grace_s=acting.launcher_grace_s)
    loop = ActingLoop(parts, pace)
    orders = Orders(local, books.journal, clock)
    applying = Applying(engine, books.journal, clock)
    papers = Papers(
        PaperParts(books=books, limits=limits, observe=observing.look, applying=applying, register=register)
    )
    organs = Organs(
        register=register,
        store=store,
        clock=clock,
        journal=books.journal,
        orders=orders,
        loop=loop,
        observe=observing.look,
        papers=papers,
        foreign=ForeignOrders(observing.look, applying),
        keeping=Keeping(foreign, books.journal, observing.look, clock, config.advice),
        agree=granting.agree,
        attended_s=config.foreign.attended_s / config.rehearsal.speed,
        inner_projects=frozenset(quota.parent for quota in config.quotas.values() if quota.parent),
    )
    return Acting(Desk(organs), loop, applying, local)


def _after(books: Books, limits: "Limits", watching: MemoryWatching) -> "Callable[[Cycle], None]":
    """What follows every cycle: it is filed, and whoever holds more memory than its share is seen to."""

    def follow(cycle: "Cycle") -> None:
        books.file(cycle, limits)
        watching.after(cycle)

    return follow


def _entry(register: "Register", job: JobId) -> Entry | None:
    try:
        return register.entry(job)
    except UnknownJob:
        return None


def _here(state: "ClusterState", everywhere: bool) -> frozenset[NodeName]:
    return frozenset(state.nodes) if everywhere else frozenset({NodeName(socket.gethostname())})
