"""When each phase is lived, who holds what when, and what is right to say at an instant. Pure and seeded."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench.habit_player.model import SOURCES, Habit, HolderPlan, Label, Phase, Repeat

DAY_MS = 86_400_000
MOST_PHASES = 100_000
"""A bound against phases of no length that are lived for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One time that a phase is lived, ms from the habit's begin."""

    phase: Phase
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One job: a holder's hold on its GPUs; ``number`` counts the jobs of that holder."""

    plan: HolderPlan
    number: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a verdict is about: a GPU of the habit, and of several holders on it the one that is meant."""

    gpu: int
    holder: str | None = None


def occurrences(habit: Habit) -> tuple[Occurrence, ...]:
    """The phases as they are lived, end to end over the whole life; the last one lasts to its end."""
    draw = random.Random(habit.seed)
    lived: list[Occurrence] = []
    at_ms = 0
    for name in _played(habit.steps):
        phase = habit.phases[name]
        end_ms = min(habit.lasts_ms, at_ms + _length_ms(habit, phase, at_ms, draw))
        lived.append(Occurrence(phase=phase, from_ms=at_ms, to_ms=end_ms))
        at_ms = end_ms
        if at_ms >= habit.lasts_ms or len(lived) >= MOST_PHASES:
            break
    if at_ms < habit.lasts_ms:
        last = lived[-1]
        lived[-1] = Occurrence(phase=last.phase, from_ms=last.from_ms, to_ms=habit.lasts_ms)
    return tuple(lived)


def holdings(habit: Habit, lived: tuple[Occurrence, ...]) -> tuple[Holding, ...]:
    """The jobs of every holder: one for each stretch of its phases, a new one at each phase of ``again``."""
    found: list[Holding] = []
    for plan in habit.holders:
        begin_ms: int | None = None
        number = 0
        for each in lived:
            is_held = each.phase.there and (plan.phases is None or each.phase.name in plan.phases)
            if begin_ms is not None and (not is_held or each.phase.name in plan.again):
                found.append(Holding(plan=plan, number=number, from_ms=begin_ms, to_ms=each.from_ms))
                number += 1
                begin_ms = None
            if is_held and begin_ms is None:
                begin_ms = each.from_ms
        if begin_ms is not None:
            found.append(Holding(plan=plan, number=number, from_ms=begin_ms, to_ms=habit.lasts_ms))
    return tuple(found)


def subjects(habit: Habit) -> tuple[Subject, ...]:
    """What is judged: each GPU, and each of several holders on it apart."""
    found = []
    for gpu in range(habit.hardware.count):
        own = [plan.name for plan in habit.holders if gpu in plan.gpus]
        shared = len(own) > 1 and any(label.holder for label in habit.labels)
        found += [Subject(gpu=gpu, holder=name) for name in own] if shared else [Subject(gpu=gpu)]
    return tuple(found)


def label_at(
    habit: Habit, lived: tuple[Occurrence, ...], source: str, subject: Subject, at_ms: int
) -> Label | None:
    """What is right to say of a subject, seen through a source; ``None`` where no label covers it."""
    for label in reversed(habit.labels):
        if source not in label.only or subject.gpu not in label.gpus:
            continue
        if label.holder not in (None, subject.holder):
            continue
        if _covers(label, lived, at_ms):
            return label
    return None


def job_label_at(habit: Habit, lived: tuple[Occurrence, ...], source: str, at_ms: int) -> Label | None:
    """What is right to say of the habit's job as a whole; ``None``: nothing is asked."""
    found = (label for label in reversed(habit.job_labels) if source in label.only)
    return next((label for label in found if _covers(label, lived, at_ms)), None)


def uncovered(habit: Habit, step_ms: int = 60_000) -> Iterator[str]:
    """Where no label covers the timeline of a subject on a source, as sentences; nothing when all is well."""
    lived = occurrences(habit)
    for source in SOURCES:
        for subject in subjects(habit):
            for at_ms in range(0, habit.lasts_ms, step_ms):
                if label_at(habit, lived, source, subject, at_ms) is None:
                    who = f" for {subject.holder}" if subject.holder else ""
                    place = f"GPU {subject.gpu}{who} on {source}"
                    yield f"{habit.name}: no label at {at_ms // 60_000} min of {place}"
                    break


def _covers(label: Label, lived: tuple[Occurrence, ...], at_ms: int) -> bool:
    if label.phase is None:
        return label.from_ms <= at_ms and (label.to_ms is None or at_ms < label.to_ms)
    here = next((each for each in lived if each.from_ms <= at_ms < each.to_ms), None)
    if here is None or here.phase.name != label.phase:
        return False
    since_ms = at_ms - here.from_ms
    return label.from_ms <= since_ms and (label.to_ms is None or since_ms < label.to_ms)


def _played(steps: tuple[str | Repeat, ...]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, str):
            yield step
            continue
        lived = 0
        while step.times is None or lived < step.times:
            yield from _played(step.steps)
            lived += 1


def _length_ms(habit: Habit, phase: Phase, at_ms: int, draw: random.Random) -> int:
    if phase.until_ms is not None:
        return (phase.until_ms - habit.begins_ms - at_ms) % DAY_MS or DAY_MS
    assert phase.lasts_ms is not None
    low, high = phase.lasts_ms
    return low if low == high else draw.randint(low // 1000, high // 1000) * 1000
