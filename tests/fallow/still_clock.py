"""A clock that is moved by hand, and a page of idle gaps that goes by it."""

from pathlib import Path

from fallow.idle_gaps import page as pages


class Clock:
    """A steady clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def now_s(self) -> float:
        return self.s

    def now_ns(self) -> int:
        return round(self.s * 1e9)

    def sleep(self, seconds: float) -> None:
        self.s += seconds


def page_at(folder: Path, clock: Clock) -> pages.Page:
    """One that lets a background job in, of a foreground of a second a step."""
    made = pages.create(folder / "page", clock.now_ns)
    made.allow(is_allowed=True)
    made.end_step(alone_s=1.0, recent_s=1.02, share=1.0)
    return made
