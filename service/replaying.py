"""Plays a recording through the loop in the recording's own time, as fast as it goes or at a chosen speed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.loop import Loop, Timing
    from collector.replay.source import ReplayClock
    from service.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """A recording's clock, its pace, and where it ends."""

    clock: "ReplayClock"
    timing: "Timing"
    from_ms: int
    to_ms: int

    @classmethod
    def of(cls, recording: Any, base: "Clock", config: "Config") -> "Replaying":
        """Ticks as wide as the recording's own steps, but no narrower than the configured tick."""
        from collector.loop import Timing
        from collector.replay.source import ReplayClock

        tick_ms = max(usual_step_ms(recording), round(config.collect.tick_s * 1000))
        speed = config.collect.replay_speed or None
        return cls(
            clock=ReplayClock(base, recording.from_ms, speed),
            timing=Timing(tick_ms=tick_ms),
            from_ms=recording.from_ms,
            to_ms=recording.to_ms,
        )

    def run(self, loop: "Loop", stopped: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Tick until the recording is over or ``stopped``; blocks."""
        step_s = self.timing.tick_ms / 1000
        whole_ms = max(self.to_ms - self.from_ms, 1)
        while not stopped():
            self.clock.sleep(step_s)
            at_ms = loop.tick_once().at_ms
            tell(f"replaying: {min((at_ms - self.from_ms) / whole_ms, 1):.0%}")
            if at_ms >= self.to_ms:
                return


def usual_step_ms(recording: Any) -> int:
    """The commonest width of the recording's samples."""
    import pyarrow.compute as pc

    return int(pc.mode(recording.samples["width_ms"])[0]["mode"].as_py())
