"""From what each look finds to cases that open, worsen and close: hysteresis and quiet time. Pure.

What is not known is neither bad nor calm: it begins both clocks anew and changes no case. A word goes out
when a case is worse than anything said of its key within the quiet time, and when a case of which something
was said is over; so the words on one key within a quiet time are at most twice as many as there are levels.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from analytics.model import Evidence
from service.alerts.model import (
    EVENTS,
    UNTOLD,
    WORTH_A_WORD,
    Change,
    Condition,
    Evaluation,
    Incident,
    Patience,
    Turn,
    kinds_of,
    untold_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What looks have seen so far that is no change yet; lost at a restart, which begins the clocks anew.

    ``worse`` has since when a key has held at a level above its case's (0 without one), by key and level;
    ``calm`` since when an open case has been calm.
    """

    worse: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    calm: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Docket:
    """The open cases by key, the closed ones of each key that a word was said of lately, the next number."""

    open: Mapping[str, Incident] = field(default_factory=dict)
    past: Mapping[str, Incident] = field(default_factory=dict)
    next_number: int = 1


def follow(
    docket: Docket, watch: Watch, evaluation: Evaluation, patience: Patience
) -> tuple[Watch, tuple[Change, ...]]:
    """What one look changes, and what to remember until the next."""
    worse = {
        key: _levels(watch.worse.get(key, ()), condition.level, _level(docket, key), evaluation.at_ms)
        for key, condition in sorted(evaluation.holds.items())
    }
    calm = {key: watch.calm.get(key, evaluation.at_ms) for key in docket.open if _is_calm(key, evaluation)}
    changes = (
        *_opened(docket, worse, evaluation, patience),
        *_worsened(docket, worse, evaluation, patience),
        *_closed(docket, calm, evaluation, patience),
    )
    return Watch(worse={key: levels for key, levels in worse.items() if levels}, calm=calm), changes


def opened_at_once(docket: Docket, condition: Condition, at_ms: int) -> Incident | None:
    """The case of a condition that somebody else has judged already; ``None`` where one is open."""
    if condition.key in docket.open:
        return None
    return Incident(number=docket.next_number, condition=condition, opened_ms=at_ms)


def after(docket: Docket, changes: tuple[Change, ...], at_ms: int, patience: Patience) -> Docket:
    """The docket with the changes in it; closed cases are forgotten when their quiet time is over."""
    opened, number = dict(docket.open), docket.next_number
    past = dict(docket.past)
    for case in (change.case for change in changes):
        number = max(number, case.number + 1)
        if case.closed_ms is None:
            opened[case.key] = case
            continue
        opened.pop(case.key, None)
        if case.told_ms is not None:
            past[case.key] = case
    cases = {key: case for key, case in past.items() if at_ms - (case.told_ms or 0) < patience.quiet_ms}
    return Docket(open=opened, past=cases, next_number=number)


def unheard(
    docket: Docket, evaluation: Evaluation, numbers: Collection[int], changes: tuple[Change, ...]
) -> tuple[Change, ...]:
    """The word again of those ``numbers`` that hold still: who is configured now was not when it went out."""
    turned = {change.case.number for change in changes}
    return tuple(
        Change(case=case, turn=Turn.OPENED, word=True)
        for case in docket.open.values()
        if case.number in numbers and case.number not in turned and case.key in evaluation.holds
    )


def _level(docket: Docket, key: str) -> int:
    case = docket.open.get(key)
    return 0 if case is None else case.condition.level


def _levels(
    times: tuple[tuple[int, int], ...], level: int, from_level: int, at_ms: int
) -> tuple[tuple[int, int], ...]:
    """Since when it has held at this level or a higher one, for each level seen above the case's."""
    since_of_level = {each: since for each, since in times if from_level < each <= level}
    if level > from_level and level not in since_of_level:
        # What held at a higher level held at this one too: its time counts from then.
        since_of_level[level] = min((since for each, since in times if each > level), default=at_ms)
    return tuple(sorted(since_of_level.items()))


def _ripe(levels: tuple[tuple[int, int], ...], at_ms: int, patience: Patience) -> int | None:
    """The highest level that has held for long enough; ``None`` while none has."""
    ripe = [level for level, since in levels if at_ms - since >= patience.opens_after_ms]
    return max(ripe, default=None)


def _opened(
    docket: Docket,
    worse: Mapping[str, tuple[tuple[int, int], ...]],
    evaluation: Evaluation,
    patience: Patience,
) -> Iterator[Change]:
    number = docket.next_number
    for key, levels in worse.items():
        level = _ripe(levels, evaluation.at_ms, patience)
        if key in docket.open or level is None:
            continue
        condition = replace(evaluation.holds[key], level=level)
        case = Incident(number=number, condition=condition, opened_ms=evaluation.at_ms)
        number += 1
        yield _worded(case, Turn.OPENED, docket.past.get(key), evaluation.at_ms, patience)


def _worsened(
    docket: Docket,
    worse: Mapping[str, tuple[tuple[int, int], ...]],
    evaluation: Evaluation,
    patience: Patience,
) -> Iterator[Change]:
    for key, levels in worse.items():
        case = docket.open.get(key)
        if case is None:
            continue
        ripe = _ripe(levels, evaluation.at_ms, patience)
        level = max(case.condition.level, ripe or 0)
        fresh = replace(case, condition=replace(evaluation.holds[key], level=level))
        change = _worded(fresh, Turn.WORSE, docket.past.get(key), evaluation.at_ms, patience)
        if not change.word:
            change = _with_kinds(case, change, evaluation.at_ms, patience)
        if ripe is not None or change.word or change.turn is Turn.UPDATED:
            yield change


def _closed(
    docket: Docket, calm: Mapping[str, int], evaluation: Evaluation, patience: Patience
) -> Iterator[Change]:
    for key, since_ms in calm.items():
        if evaluation.at_ms - since_ms < patience.closes_after_ms:
            continue
        case = replace(
            docket.open[key], closed_ms=evaluation.at_ms, because=evaluation.calm.get(key, "it is over")
        )
        # That an event is over is no news.
        lasts = case.condition.kind not in EVENTS
        yield Change(case=case, turn=Turn.CLOSED, word=lasts and case.told_ms is not None)


def _worded(case: Incident, turn: Turn, past: Incident | None, at_ms: int, patience: Patience) -> Change:
    """The change with its word, where one may go out; the case then remembers it."""
    level = case.condition.level
    # A case that comes back within the quiet time goes on where the former one's words ended.
    case_before = case if case.told_ms is not None or past is None else past
    fresh = case_before.told_ms is None or at_ms - case_before.told_ms >= patience.quiet_ms
    announced = case.told_level if fresh else case_before.told_level
    is_worth = level >= WORTH_A_WORD and level > announced
    return Change(
        case=replace(case, told_level=level, told_ms=at_ms) if is_worth else case, turn=turn, word=is_worth
    )


def _with_kinds(case: Incident, change: Change, at_ms: int, patience: Patience) -> Change:
    """The change of a case to which kinds came or from which some went: told once the quiet time is over."""
    kinds_before, now = set(kinds_of(case.condition)), kinds_of(change.case.condition)
    untold = [kind for kind in now if kind in untold_of(case.condition) or kind not in kinds_before]
    condition = change.case.condition
    if case.told_ms is not None and untold:
        if at_ms - case.told_ms >= patience.quiet_ms and condition.level >= WORTH_A_WORD:
            return Change(case=replace(change.case, told_ms=at_ms), turn=Turn.UPDATED, word=True)
        evidence = Evidence(name=UNTOLD, value=", ".join(untold))
        condition = replace(condition, evidence=(*condition.evidence, evidence))
    if kinds_before == set(now) and untold == list(untold_of(case.condition)):
        return replace(change, case=replace(change.case, condition=condition))
    return Change(case=replace(change.case, condition=condition), turn=Turn.UPDATED, word=False)


def _is_calm(key: str, evaluation: Evaluation) -> bool:
    return not (key in evaluation.holds or key in evaluation.unknown or evaluation.unknown_all)
