"""What the running service does and how it fares: beat, chores, and the condition that ``/healthz`` tells."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from service.health.components import Component, HealthBoard

STALE_TICKS = 3
Status = Literal["ok", "degraded", "starting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A moment of the service's life; ``trouble`` is why the last tick failed, ``chore_troubles`` why the
    last run of a chore did.

    ``resting``: no tick is due. ``remark`` is what there is to say of a service that is well.
    """

    started_ms: int
    tick_ms: int
    starting: str | None = None
    remark: str | None = None
    resting: bool = False
    last_tick_ms: int | None = None
    trouble: str | None = None
    chore_troubles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTask:
    """Something done every so often beside the ticks.

    ``apart`` when it may take so long that others would wait; then ``interrupt`` cuts it short at the end.
    ``early`` when it need not wait for the older past, and begins after the first tick.
    """

    name: str
    every_s: float
    first_after_s: float
    work: Callable[[], None]
    apart: bool = False
    early: bool = False
    interrupt: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The tick: ``work`` returns the milliseconds of the tick it made."""

    every_s: float
    work: Callable[[], int]


class ServiceHealth:
    """The newest condition, written by the loop and read by the door; safe from any thread.

    ``health`` has the word of each component, the chores among them.
    """

    def __init__(self, condition: Condition, health: HealthBoard) -> None:
        self._condition = condition
        self._guard = threading.Lock()
        self.health = health

    @property
    def condition(self) -> Condition:
        """The condition as it is now."""
        return self._condition

    def note(self, **changes: object) -> None:
        """Change some of it."""
        with self._guard:
            self._condition = replace(self._condition, **changes)  # type: ignore[arg-type]

    def chore_went(self, name: str, trouble: str | None) -> None:
        """Note how the last run of a chore ended."""
        self.health.went(name, trouble)
        with self._guard:
            others = {key: why for key, why in self._condition.chore_troubles.items() if key != name}
            troubles = others if trouble is None else {**others, name: trouble}
            self._condition = replace(self._condition, chore_troubles=troubles)


def verdict(
    condition: Condition, now_ms: int, components: Sequence[Component] = ()
) -> tuple[Status, str | None]:
    """``starting``, ``ok`` or ``degraded``, and why in words, bad components by their names; pure."""
    status, reason = _by_condition(condition, now_ms)
    if status == "starting":
        return status, reason
    reason_shown = reason if status == "degraded" else None
    bad = [each.sentence for each in components if each.state.is_bad and not _is_named_in(each, reason_shown)]
    if not bad:
        return status, reason
    return "degraded", "; ".join([*([] if reason_shown is None else [reason_shown]), *bad])


def _is_named_in(component: Component, reason: str | None) -> bool:
    return reason is not None and component.reason is not None and component.reason in reason


def _by_condition(condition: Condition, now_ms: int) -> tuple[Status, str | None]:
    if condition.starting is not None:
        return "starting", condition.starting
    if condition.trouble is not None:
        return "degraded", condition.trouble
    since_ms = now_ms - (condition.last_tick_ms or condition.started_ms)
    if not condition.resting and since_ms > STALE_TICKS * condition.tick_ms:
        return (
            "degraded",
            f"no tick for {since_ms / 1000:.0f} s, one is due every {condition.tick_ms / 1000:g} s",
        )
    if condition.chore_troubles:
        return "degraded", "; ".join(condition.chore_troubles.values())
    return "ok", condition.remark
