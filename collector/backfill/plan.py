"""Which stretches of time an import has yet to read. Pure; ranges are half-open ``(from_ms, to_ms)``."""

from collections.abc import Iterable, Iterator

Range = tuple[int, int]


def remaining(window: Range, done: Iterable[Range]) -> tuple[Range, ...]:
    """The parts of the window that no done range covers, in order."""
    left, at = [], window[0]
    for start, end in sorted(done):
        if start >= window[1]:
            break
        if start > at:
            left.append((at, start))
        at = max(at, end)
    return (*left, (at, window[1])) if at < window[1] else tuple(left)


def cut(ranges: Iterable[Range], longest_ms: int) -> Iterator[Range]:
    """The ranges in order, cut into pieces of at most ``longest_ms``."""
    for start, end in ranges:
        for at in range(start, end, longest_ms):
            yield at, min(at + longest_ms, end)


def total_ms(ranges: Iterable[Range]) -> int:
    """How much time the ranges hold."""
    return sum(end - start for start, end in ranges)
