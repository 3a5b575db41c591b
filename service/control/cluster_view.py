"""What the acting loop sees: the machine as it was last measured, joined with the register as it is now.

The measured half is read again when a tick has come, at most; the register's half every time. With nothing
measured yet there is no GPU to give away, and nobody is judged.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from advisor.jobs.model import JobRecord
    from advisor.live.snapshot import Live
    from advisor.planner.observed import Observed
    from advisor.state.model import ClusterState, Job
    from collector.clock import Clock
    from collector.model import GpuUuid, JobId, NodeName
    from collector.store.database import Store
    from service.config.model import Config

STALE_TICKS = 3
STALE_LEAST_S = 10.0
"""A GPU that was not measured for so many ticks, and for so long, is nobody's to give away."""
REREAD_MS = 60_000
"""What was judged (once a minute) is read again even where no tick comes."""

BY_THE_MINUTE = frozenset({"idle_stretches", "project_use", "run_lengths"})
"""Questions about weeks up to the last whole minute: the same question is answered once."""

Remember = Callable[["ClusterState"], "ClusterState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """One reading of the measured half: for which tick, when by the steady clock, and each GPU's newest."""

    tick_ms: int | None
    read_ms: int
    live: "Live"
    newest_ms: "Mapping[GpuUuid, int]"
    taken: "frozenset[GpuUuid]"


_Jobs = dict["JobId", tuple["JobRecord", "Job"]]


class _Drawing:
    """The jobs of waiting entries in one look, those of the look before where the entry is the same: of
    thousands, few change. Who does not wait any more is forgotten."""

    def __init__(self, before: _Jobs) -> None:
        self._before = before
        self.known: _Jobs = {}

    def __call__(self, entry: "JobRecord") -> "Job":
        from advisor.jobs.with_snapshot import waiting_job

        previous = self._before.get(entry.id)
        if previous is None or previous[0] is not entry:
            previous = entry, waiting_job(entry)
        self.known[entry.id] = previous
        return previous[1]


class Observing:
    """``advisor.cycle.Observe`` of a running service; safe from any thread."""

    def __init__(
        self,
        store: "Store",
        config: "Config",
        clock: "Clock",
        register: "Register",
        *,
        last_tick: Callable[[], int | None],
        by_launcher: "Callable[[JobId], bool]",
        here: "Callable[[ClusterState], frozenset[NodeName]]",
        remember: Remember = lambda state: state,
    ) -> None:
        self._store, self._config, self._clock, self._register = store, config, clock, register
        self._last_tick, self._here, self._remember = last_tick, here, remember
        self._by_launcher = by_launcher
        self._measured: _Measured | None = None
        self._drawn: _Jobs = {}
        self._answered: dict[str, tuple[dict[str, object], list[dict[str, Any]]]] = {}
        self._reading = threading.Lock()

    @property
    def observed(self) -> "Observed":
        """What was measured of the jobs, as of the last look."""
        if self._measured is None:
            return _nothing_observed(self._clock.now_ms())
        return self._measured.live.observed

    @property
    def taken(self) -> "frozenset[GpuUuid]":
        """The GPUs that were in use, or had a process on them, when they were last measured."""
        return frozenset() if self._measured is None else self._measured.taken

    def look(self) -> "ClusterState":
        """The state as it is now. Blocks while it asks. Raises ``ClientError`` if the store cannot answer."""
        from advisor.jobs.with_snapshot import Look, joined

        with self._reading:
            measured = self._newest()
        now_ms = self._clock.now_ms()
        state = measured.live.state
        look = Look(
            now_ms=now_ms,
            newest_ms=measured.newest_ms,
            stale_ms=_stale_ms(self._config),
            here=self._here(state),
            by_launcher=self._by_launcher,
            absent=self._register.absent(self._config.acting.silent_s),
            doubtful=self._register.doubtful(measured.newest_ms, measured.taken) | _nameless(state),
        )
        drawing = _Drawing(self._drawn)
        state_now = joined(state, self._register.entries().values(), look, drawing)
        self._drawn = drawing.known
        return self._remember(state_now)

    def _newest(self) -> _Measured:
        tick_ms, steady_ms = self._last_tick(), self._clock.monotonic_ms()
        newest = self._measured
        if newest is None or newest.tick_ms != tick_ms or steady_ms - newest.read_ms > REREAD_MS:
            rows: list[dict[str, Any]] = []
            live = self._read(rows)
            newest = _Measured(
                tick_ms=tick_ms,
                read_ms=steady_ms,
                live=live,
                newest_ms={row["uuid"]: row["newest_ms"] for row in rows if row["newest_ms"] is not None},
                taken=frozenset(row["uuid"] for row in rows if row["is_taken"]),
            )
            self._measured = newest
        return newest

    def _read(self, gpus: list[dict[str, Any]]) -> "Live":
        """The measured half; ``gpus`` gets the rows of the GPUs, which say when each was measured."""
        from advisor.live.snapshot import Live, read_live
        from advisor.live.stored_analysis import Judged, moment_ms, recorded_analysis
        from advisor.state.model import ClusterState
        from service.schemas.values import plain_rows
        from service.store.answer import answer
        from service.usecases.advice import judged_good_for_ms, site_of

        with closing(self._store.reader()) as connection:

            def ask(name: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
                question, cached = dict(parameters), self._answered.get(name)
                if cached is not None and cached[0] == question:
                    return cached[1]
                rows = plain_rows(answer(connection, name, question))
                if name == "decide_gpus":
                    gpus.extend(rows)
                if name in BY_THE_MINUTE:
                    self._answered[name] = question, rows
                return rows

            site = site_of(self._config)
            last = ask("span", {})[0]["last_ts"]
            if last is None:
                now_ms = self._clock.now_ms()
                empty = ClusterState(as_of_ms=now_ms, projects=site.projects)
                return Live(state=empty, observed=_nothing_observed(now_ms))
            at_ms = moment_ms(last)
            minute = datetime.fromtimestamp(at_ms / 1000, UTC).replace(second=0, microsecond=0)
            # What is open is so whenever it began; the hours of the window, which few need, are kept few.
            span = {"from_ts": minute - timedelta(minutes=1), "to_ts": minute + timedelta(minutes=2)}
            judged = Judged.of(ask("judgement", {}), judged_good_for_ms(self._config))
            findings, unjudged = ask("findings", {"open": True, **span}), ask("unjudged", {})
            analysis = recorded_analysis(findings, unjudged, at_ms, judged=judged)
            return read_live(ask, analysis, site, self._config.advice)


def _stale_ms(config: "Config") -> int:
    """In time of the calendar, which may hurry: a busy machine is late by its own clock."""
    ticks_s, least_s = STALE_TICKS * config.collect.tick_s, STALE_LEAST_S * config.rehearsal.speed
    return round(max(ticks_s, least_s) * 1000)


def _nameless(state: "ClusterState") -> frozenset["GpuUuid"]:
    """GPUs without a UUID: ``CUDA_VISIBLE_DEVICES`` can't name them to a job."""
    from collector.gpu_place import is_named_by_place

    return frozenset(uuid for uuid, gpu in state.gpus.items() if is_named_by_place(uuid, gpu.node))


def _nothing_observed(now_ms: int) -> "Observed":
    from advisor.live.stored_analysis import Judged, recorded_analysis
    from advisor.planner.observed import Observed

    return Observed(analysis=recorded_analysis((), (), now_ms, judged=Judged(at_ms=None, good_for_ms=0)))
