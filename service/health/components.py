"""How each component of the service fares: when it last succeeded, how old that may be, what failed.

A service that runs is not a service that measures: a driver call may never return, a disk may be full, a
receiver's server may be away. So each component says of itself that it succeeded or failed, and one that says
nothing for longer than its bound is late. ``/healthz``, screens and the fallback alerts read the same answer.

    starting ──succeeds──► ok ──fails, or is silent beyond its bound──► failing, late ──succeeds──► ok
        └──its first success does not come in time──► late

Times are the machine's steady clock's, so that a calendar which is set back or hurries ages nothing.
"""

import threading
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.clock import Clock

SAMPLER, STORE, CYCLE, ALERTS, DELIVERY = "sampler", "store", "cycle", "alerts", "delivery"
SOURCE_PREFIX = "source:"
MISSED = 3
"""A component that is due every so often is late when it missed so many turns in a row."""


class ComponentState(StrEnum):
    """How a component fares; the last two are no good."""

    STARTING = "starting"
    OK = "ok"
    FAILING = "failing"
    LATE = "late"

    @property
    def is_bad(self) -> bool:
        """Whether somebody should look."""
        return self in (ComponentState.FAILING, ComponentState.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component now. ``age_s`` is since its last success, ``None`` before the first; ``bound_s`` is how
    old that may be. ``reason`` says what failed, or that nothing was heard."""

    name: str
    state: ComponentState
    age_s: float | None
    bound_s: float
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """What is wrong with it, in words; for a bad one."""
        return f"{self.name}: {self.reason or 'it is late'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    bound_ms: int
    patient: bool
    since_ms: int
    first_ms: int
    succeeded_ms: int | None = None
    reason: str | None = None


class HealthBoard:
    """Every component's newest word. Safe from any thread; never blocks for longer than a moment."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._records: dict[str, _Record] = {}

    def expect(self, name: str, *, bound_s: float, first_s: float = 0.0, patient: bool = False) -> None:
        """From now on ``name`` is to succeed within every ``bound_s``, the first time ``first_s`` later.

        ``patient``: a failure counts only once its last success is older than the bound. Of a component that
        is expected already only the bound and the patience change.
        """
        bound_ms, now_ms = round(bound_s * 1000), self._clock.monotonic_ms()
        with self._guard:
            record = self._records.get(name)
            if record is not None:
                self._records[name] = replace(record, bound_ms=bound_ms, patient=patient)
                return
            first_ms = bound_ms + round(first_s * 1000)
            self._records[name] = _Record(
                bound_ms=bound_ms, patient=patient, since_ms=now_ms, first_ms=first_ms
            )

    def succeeded(self, name: str) -> None:
        """It has just succeeded."""
        with self._guard:
            record = self._records.get(name)
            if record is not None:
                now_ms = self._clock.monotonic_ms()
                self._records[name] = replace(record, succeeded_ms=now_ms, reason=None)

    def failed(self, name: str, reason: str) -> None:
        """It has just failed."""
        with self._guard:
            record = self._records.get(name)
            if record is not None:
                self._records[name] = replace(record, reason=reason)

    def went(self, name: str, trouble: str | None) -> None:
        """How its last try ended: ``None`` is a success."""
        if trouble is None:
            self.succeeded(name)
        else:
            self.failed(name, trouble)

    def components(self) -> tuple[Component, ...]:
        """All of them as they are now, in the order in which they were first expected."""
        now_ms = self._clock.monotonic_ms()
        with self._guard:
            records = dict(self._records)
        return tuple(_judged(name, record, now_ms) for name, record in records.items())


def _judged(name: str, record: _Record, now_ms: int) -> Component:
    """How a component fares, by what it said and when. Pure."""
    last_ms, bound_s = record.succeeded_ms, record.bound_ms / 1000
    if last_ms is None:
        silent_ms, limit_ms = now_ms - record.since_ms, record.first_ms
    else:
        silent_ms, limit_ms = now_ms - last_ms, record.bound_ms
    age_s = None if last_ms is None else silent_ms / 1000
    over = silent_ms > limit_ms
    if record.reason is not None and (over or not record.patient):
        state, reason = ComponentState.FAILING, record.reason
    elif over:
        sentence = "nothing yet" if age_s is None else f"nothing for {age_s:.0f} s"
        state, reason = ComponentState.LATE, f"{sentence}; it is due within {bound_s:.0f} s"
    elif last_ms is None:
        return Component(name=name, state=ComponentState.STARTING, age_s=None, bound_s=bound_s)
    else:
        return Component(name=name, state=ComponentState.OK, age_s=age_s, bound_s=bound_s)
    return Component(name=name, state=state, age_s=age_s, bound_s=bound_s, reason=reason)
