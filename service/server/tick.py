"""The tick, with its health told: that it came, which sources it could read, and whether it was kept."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from collector.store.errors import StoreError
from service.health.components import MISSED, SAMPLER, SOURCE_PREFIX, STORE, HealthBoard
from service.health.condition import Heartbeat

if TYPE_CHECKING:
    from collector.snapshot import Snapshot

LEAST_BOUND_S = 10.0
"""However often it ticks: a busy machine, or a slow commit, is late by so much now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPace:
    """How often is ticked, and how often the ``seldom`` ones of the sources are asked; seconds of the
    machine's clock."""

    tick_s: float
    seldom_s: float
    seldom: frozenset[str] = frozenset()

    def bound_s(self, source: str) -> float:
        """How old the last success of a source may be."""
        every_s = max(self.tick_s, self.seldom_s) if source in self.seldom else self.tick_s
        return max(MISSED * every_s, LEAST_BOUND_S)


def watched(
    beat: Heartbeat, snapshot: "Callable[[], Snapshot]", health: HealthBoard, pace: SamplingPace
) -> Heartbeat:
    """The same beat, of which ``health`` is told; from now on the first tick is due."""
    bound_s = max(MISSED * pace.tick_s, LEAST_BOUND_S)
    for name in (SAMPLER, STORE):
        health.expect(name, bound_s=bound_s, first_s=bound_s)

    def work() -> int:
        before = snapshot().ticks
        try:
            at_ms = beat.work()
        except StoreError as error:
            health.failed(STORE, str(error))
            raise
        except Exception as error:
            health.failed(SAMPLER, f"the last tick failed: {error}")
            raise
        else:
            health.succeeded(STORE)
            return at_ms
        finally:
            snapshot_now = snapshot()
            if snapshot_now.ticks != before:
                health.succeeded(SAMPLER)
                _tell_sources(snapshot_now, health, pace)

    return replace(beat, work=work)


def _tell_sources(snapshot: "Snapshot", health: HealthBoard, pace: SamplingPace) -> None:
    """The word of each source that was asked at the newest tick."""
    for source in snapshot.sources:
        if source.at_ms != snapshot.at_ms:
            continue
        name = f"{SOURCE_PREFIX}{source.name}"
        health.expect(name, bound_s=pace.bound_s(source.name), patient=True)
        health.went(name, None if source.is_up else source.reason or "it could not be read")
