"""From the workers' logs to pauses. Pure but for reading the files.

A step is cut in two: computing (samples, forward and backward passes) and closing (sum, update, and whatever
a change of the world costs). The pause of a survivor is the time from the end of computing the last step of
the old world to the end of the first step of the new one, less what these parts take when nothing happens.
Everything counts: switching, handing the state over, first use of new connections, fresh memory.

Where the state is handed over amid a step, newcomers compute nothing in it: the survivors take one more step
at the old pace. It is compared with a usual step of the old world, and whatever it takes longer, computing
beside the hand-over included, counts as pause too. Each survivor is compared with its own usual times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

QUIET_STEPS = 4
"""Steps after a change by which the usual times are measured."""
USUAL_STEPS = 6
"""Steps before a change, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """One committed step of one worker, seconds of the monotonic clock; ``micro_batches`` are its own."""

    number: int
    world_size: int
    micro_batches: int
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
    ``None`` where nothing was handed over. ``slowed_s`` is the part of the pause in which survivors were
    computing, more slowly than usual.
    """

    pause_s: float
    slowed_s: float
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
    first_s = min(stamp.began_s for stamp in firsts)
    idle = {stamp.number for stamp in firsts if not stamp.micro_batches}
    number = min(stamp.number for stamp in firsts if stamp.number not in idle)
    if restarts:
        delays = [_restarted(stamps, firsts, number, old, first_s)]
    else:
        delays = _delays(logs, number, old, new, asked_s)
    ends_s = [s.done_s for s in firsts if s.number == number]
    moves = [m for _, found in logs.values() for m in found if asked_s < m.began_s < max(ends_s)]
    spans = [m.ended_s for m in moves], [m.began_s for m in moves if m.sent_bytes]
    return Change(
        pause_s=max(pause_s for pause_s, _ in delays),
        slowed_s=max(slowed_s for _, slowed_s in delays),
        decision_to_first_step_s=first_s - asked_s,
        moved_bytes=sum(m.sent_bytes for m in moves),
        moving_s=max(spans[0]) - min(spans[1]) if moves else None,
    )


def _restarted(
    stamps: Sequence[Stamp], firsts: Sequence[Stamp], number: int, old: int, first_s: float
) -> tuple[float, float]:
    """The pause where no worker survives: from the last step of any to the first one's end."""
    before = [s for s in stamps if s.world_size == old and first_s - 30 < s.began_s < first_s]
    after = [s for s in firsts if number < s.number <= number + QUIET_STEPS]
    usual_s = _closing(before[:-1] or before) + _computing(after) + _closing(after)
    gap_s = max(s.done_s for s in firsts if s.number == number) - max(s.computed_s for s in before)
    return gap_s - usual_s, 0.0


def _delays(logs: Logs, number: int, old: int, new: int, asked_s: float) -> list[tuple[float, float]]:
    """Per survivor, by how much longer than usual it took to the end of the first full step ``number`` of the
    new world, from when it had computed its last step of the old one; and the part of it in computing.
    """
    found = []
    for steps, _ in logs.values():
        before = [s for s in steps if s.world_size == old and s.number < number][-USUAL_STEPS - 1 :]
        between = [s for s in steps if s.world_size == new and asked_s < s.began_s and s.number < number]
        after = [s for s in steps if s.world_size == new and s.number >= number][: QUIET_STEPS + 1]
        if not before or len(after) <= QUIET_STEPS or after[0].number != number or after[0].began_s < asked_s:
            continue
        usual, quiet = before[:-1] or before, after[1:]
        gap_s = after[0].done_s - before[-1].computed_s
        usual_s = _closing(usual) + _computing(quiet) + _closing(quiet)
        usual_s += len(between) * (_computing(usual) + _closing(quiet))
        slowed_s = sum(s.computed_s - s.began_s for s in between) - len(between) * _computing(usual)
        found.append((gap_s - usual_s, slowed_s))
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
            case [number, world, micro_batches, began, computed, done]:
                steps.append(
                    Stamp(
                        number=int(number),
                        world_size=int(world),
                        micro_batches=int(micro_batches),
                        began_s=float(began),
                        computed_s=float(computed),
                        done_s=float(done),
                    )
                )
            case _:
                continue  # the last line of a worker that was killed
    return steps, moves
