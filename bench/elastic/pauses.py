"""From the workers' logs to pauses. Pure but for reading the files.

A step is cut in two: computing (samples, forward and backward passes), until the last worker has computed,
and closing (sum, update, and whatever a change of the world costs), until the last is done. The pause is the
time from when the last worker has computed the old world's last step to when the last is done with the first
step of the new one, less what these parts take when nothing happens: closing in the old world, and a step of
the new one from end to end. Everything counts: switching, handing the state over, first use of new
connections, fresh memory. How much earlier the others had computed doesn't: on two cores four workers are
up to a second apart, whether the world changes or not.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

QUIET_STEPS = 4
"""Steps after a change by which the usual times are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """One committed step of one worker, seconds of the monotonic clock."""

    number: int
    world_size: int
    began_s: float
    computed_s: float
    done_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One end of a hand-over; ``sent_bytes`` is 0 at the receiving end."""

    sent_bytes: int
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a change of the world cost. ``moving_s`` spans the hand-overs of ``moved_bytes`` in all;
    ``None`` where nothing was handed over.
    """

    pause_s: float
    decision_to_first_step_s: float
    moved_bytes: int
    moving_s: float | None


Logs = dict[str, tuple[list[Stamp], list[Move]]]


def read(folder: Path) -> Logs:
    """Each worker's steps and moves."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.steps"))}


def change(logs: Logs, asked_s: float, old: int, new: int) -> Change:
    """What the change from ``old`` to ``new`` workers, asked for at ``asked_s``, cost.

    Raises ValueError when the logs don't show it.
    """
    stamps = [stamp for steps, _ in logs.values() for stamp in steps]
    firsts = _by_step(stamp for stamp in stamps if stamp.world_size == new and stamp.began_s > asked_s)
    if not firsts:
        raise ValueError(f"no step of {new} workers is seen after {asked_s:.3f}")
    number = min(firsts)
    first_s = min(stamp.began_s for stamp in firsts[number])
    before = _by_step(s for s in stamps if s.world_size == old and first_s - 30 < s.began_s < first_s)
    *usual, last = sorted(before)
    closing_s = median(_done_s(before[at]) - _computed_s(before[at]) for at in usual or [last])
    ends_s = [_done_s(firsts[at]) for at in range(number, number + QUIET_STEPS + 1) if at in firsts]
    step_s = median(later - sooner for sooner, later in itertools.pairwise(ends_s))
    moves = [m for _, found in logs.values() for m in found if asked_s < m.began_s < ends_s[0]]
    spans = [m.ended_s for m in moves], [m.began_s for m in moves if m.sent_bytes]
    return Change(
        pause_s=ends_s[0] - _computed_s(before[last]) - closing_s - step_s,
        decision_to_first_step_s=first_s - asked_s,
        moved_bytes=sum(m.sent_bytes for m in moves),
        moving_s=max(spans[0]) - min(spans[1]) if moves else None,
    )


def _by_step(stamps: Iterable[Stamp]) -> dict[int, list[Stamp]]:
    found: dict[int, list[Stamp]] = {}
    for stamp in stamps:
        found.setdefault(stamp.number, []).append(stamp)
    return found


def _computed_s(step: Sequence[Stamp]) -> float:
    return max(stamp.computed_s for stamp in step)


def _done_s(step: Sequence[Stamp]) -> float:
    return max(stamp.done_s for stamp in step)


def _read(path: Path) -> tuple[list[Stamp], list[Move]]:
    steps, moves = [], []
    for line in path.read_text().splitlines():
        match line.split():
            case [("sent" | "received"), nbytes, began, ended]:
                moves.append(Move(sent_bytes=int(nbytes), began_s=float(began), ended_s=float(ended)))
            case [number, world, began, computed, done]:
                steps.append(
                    Stamp(
                        number=int(number),
                        world_size=int(world),
                        began_s=float(began),
                        computed_s=float(computed),
                        done_s=float(done),
                    )
                )
            case _:
                continue  # the last line of a worker that was killed
    return steps, moves
