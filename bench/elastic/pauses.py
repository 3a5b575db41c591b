"""From the workers' logs to pauses. Pure but for reading the files.

A step is cut in two: computing (samples, forward and backward passes) and closing (sum, update, and whatever
a change of the world costs). The pause of a survivor is the time from the end of computing the last step of
the old world to the end of the first step of the new one, less what these parts take when nothing happens.
Everything counts: switching, handing the state over, first use of new connections, fresh memory.

Four workers on two cores are up to a second apart when they have computed, whether the world changes or not,
and a survivor's pause has that in it. ``from_last_s`` leaves it out: from when the last worker has computed.
"""

import itertools
from collections.abc import Mapping, Sequence
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
    ``None`` where nothing was handed over. ``from_last_s`` is the pause counted from when the last worker has
    computed to the end of the step, less closing in the old world and a whole step of the new one.
    """

    pause_s: float
    from_last_s: float
    decision_to_first_step_s: float
    moved_bytes: int
    moving_s: float | None


Logs = dict[str, tuple[list[Stamp], list[Move]]]


def read(folder: Path) -> Logs:
    """Each worker's steps and moves."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.steps"))}


def change(logs: Logs, asked_s: float, old: int, new: int, restarts: bool = False) -> Change:
    """What the change from ``old`` to ``new`` workers, asked for at ``asked_s``, cost.

    With ``restarts``, survivors are new processes: the last step of any worker counts as their own.
    Raises ValueError when the logs don't show it.
    """
    stamps = [stamp for steps, _ in logs.values() for stamp in steps]
    firsts = [stamp for stamp in stamps if stamp.world_size == new and stamp.began_s > asked_s]
    if not firsts:
        raise ValueError(f"no step of {new} workers is seen after {asked_s:.3f}")
    number = min(stamp.number for stamp in firsts)
    first_s = min(stamp.began_s for stamp in firsts if stamp.number == number)
    usual_old = [s for s in stamps if s.world_size == old and first_s - 30 < s.began_s < first_s]
    usual_new = [s for s in firsts if number < s.number <= number + QUIET_STEPS]
    usual_s = _closing(usual_old[:-1] or usual_old) + _computing(usual_new) + _closing(usual_new)
    ends_s = [s.done_s for s in firsts if s.number == number]
    if restarts:
        gap_s = max(ends_s) - max(s.computed_s for s in usual_old)
    else:
        gaps_s = _gaps(logs, number, old, new, asked_s)
        if not gaps_s:
            raise ValueError(f"no worker went from {old} to {new} at once: joiners came one after another?")
        gap_s = max(gaps_s)
    moves = [m for _, found in logs.values() for m in found if asked_s < m.began_s < max(ends_s)]
    spans = [m.ended_s for m in moves], [m.began_s for m in moves if m.sent_bytes]
    return Change(
        pause_s=gap_s - usual_s,
        from_last_s=_from_last_s(_by_step(usual_old), _by_step(firsts)),
        decision_to_first_step_s=first_s - asked_s,
        moved_bytes=sum(m.sent_bytes for m in moves),
        moving_s=max(spans[0]) - min(spans[1]) if moves else None,
    )


def _gaps(logs: Logs, number: int, old: int, new: int, asked_s: float) -> list[float]:
    """Per survivor, from the end of computing its last old step to the end of its first new one."""
    gaps = []
    for steps, _ in logs.values():
        for before, after in itertools.pairwise(steps):
            switched = (after.number, after.world_size, before.world_size) == (number, new, old)
            if switched and after.began_s > asked_s:
                gaps.append(after.done_s - before.computed_s)
    return gaps


def _from_last_s(before: Mapping[int, Sequence[Stamp]], after: Mapping[int, Sequence[Stamp]]) -> float:
    """By steps of the old world and of the new one."""
    computed_s = {number: max(stamp.computed_s for stamp in step) for number, step in before.items()}
    *usual, last = sorted(before)
    closing_s = median(max(s.done_s for s in before[at]) - computed_s[at] for at in usual or [last])
    ends_s = [max(s.done_s for s in after[at]) for at in sorted(after)[: QUIET_STEPS + 1]]
    step_s = median(later - sooner for sooner, later in itertools.pairwise(ends_s))
    return ends_s[0] - computed_s[last] - closing_s - step_s


def _by_step(stamps: Sequence[Stamp]) -> dict[int, list[Stamp]]:
    found: dict[int, list[Stamp]] = {}
    for stamp in stamps:
        found.setdefault(stamp.number, []).append(stamp)
    return found


def _computing(stamps: Sequence[Stamp]) -> float:
    return median(stamp.computed_s - stamp.began_s for stamp in stamps)


def _closing(stamps: Sequence[Stamp]) -> float:
    return median(stamp.done_s - stamp.computed_s for stamp in stamps)


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
