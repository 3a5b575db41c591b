"""Plays a recording in the recording's own time: whole days at once, or through the loop at a chosen speed.

The chores of a replaying service live in recorded time too: findings are those of the recording's end, and
retention counts from there.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.scrape_loop import Loop, Timing
    from collector.sources.replay.recording import Recording
    from collector.sources.replay.source import ReplayClock
    from collector.store.database import Store
    from service.config.model import Config

log = logging.getLogger(__name__)

DAY_MS = 86_400_000
SLICE_S = 0.5
"""How long a stopped service may go on sleeping, in real seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """A recording with its clock and its pace; ``base`` is real time. No ``speed``: as fast as it goes."""

    recording: "Recording"
    base: "Clock"
    clock: "ReplayClock"
    timing: "Timing"
    speed: float | None

    @classmethod
    def of(cls, recording: "Recording", base: "Clock", config: "Config") -> "Replaying":
        """Ticks as wide as the recording's own steps, but no narrower than the configured tick."""
        from collector.scrape_loop import Timing
        from collector.sources.replay.source import ReplayClock

        tick_ms = max(usual_step_ms(recording), round(config.collect.tick_s * 1000))
        return cls(
            recording=recording,
            base=base,
            clock=ReplayClock(base, recording.from_ms),
            timing=Timing(tick_ms=tick_ms),
            speed=config.collect.replay_speed or None,
        )

    def run(
        self, loop: "Loop", store: "Store", stopped: Callable[[], bool], tell: Callable[[str], None]
    ) -> None:
        """Play until the recording is over or ``stopped``; blocks."""
        if self.speed is None:
            self._store_whole_days(store, stopped, tell)
        else:
            self._tick_through(loop, self.speed, stopped, tell)

    def _tick_through(
        self, loop: "Loop", speed: float, stopped: Callable[[], bool], tell: Callable[[str], None]
    ) -> None:
        """Every tick of the recording, and one past its end, with which the last minute is rolled up.

        Recorded time moves tick by tick: a machine that can't keep the speed is slower, and skips nothing.
        """
        step_s = self.timing.tick_ms / 1000
        at_ms, last_ms = 0, self.recording.to_ms + self.timing.tick_ms
        due_ms = float(self.base.monotonic_ms())
        while at_ms <= last_ms:
            due_ms = max(due_ms + step_s * 1000 / speed, self.base.monotonic_ms())
            while (remaining_s := (due_ms - self.base.monotonic_ms()) / 1000) > 0:
                if stopped():
                    return
                self.base.sleep(min(remaining_s, SLICE_S))
            if stopped():
                return
            self.clock.sleep(step_s)
            at_ms = loop.tick_once().at_ms
            tell(self._stage(at_ms))

    def _store_whole_days(
        self, store: "Store", stopped: Callable[[], bool], tell: Callable[[str], None]
    ) -> None:
        from collector.model import Unavailable
        from collector.reading import Tick
        from collector.sources.replay.recording import histories

        at_ms, added = self.recording.from_ms, 0
        for history in histories(self.recording):
            tell(self._stage(at_ms))
            if stopped():
                return
            added += store.write_history(history)
            at_ms += DAY_MS
        if not added:
            log.warning(
                "replaying %s: the store had each of its rows already, from it or from another recording of "
                "the same GPUs; if it is another machine's, say which (docs/replay.md)",
                self.recording.path,
            )
        else:  # those who had ended in it are judged as an import's are
            store.note_import(
                f"recording://{self.recording.path}", self.recording.from_ms, self.recording.to_ms, added
            )
        end_ms = self.recording.to_ms + 2 * self.timing.tick_ms
        over = Unavailable(
            source=self.recording.source,
            at_ms=end_ms,
            reason=f"{self.recording.path} has ended",
            is_over=True,
        )
        store.write_tick(Tick(at_ms=end_ms, width_ms=self.timing.tick_ms, outcomes=(over,)))
        self.clock.sleep((self.recording.to_ms - self.recording.from_ms) / 1000)

    def _stage(self, at_ms: int) -> str:
        length_ms = max(self.recording.to_ms - self.recording.from_ms, 1)
        return f"replaying: {text.percent(min((at_ms - self.recording.from_ms) / length_ms, 1))}"


def usual_step_ms(recording: "Recording") -> int:
    """The commonest width of the recording's samples."""
    import pyarrow.compute as pc

    return int(pc.mode(recording.samples["width_ms"])[0]["mode"].as_py())
