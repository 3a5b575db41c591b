"""What each class of action would have given back over a site's own recorded history, and how sure that is.

Pure. The recorded idle times, jobs and their use are gone through again under the same ladder, the same
size rules and the same pairing that advise live; nothing is invented about people, so what a person would
have done otherwise is not in it. How far off its expectations are is not assumed but *earned*, each class by
what came of its own:

* idle times: for each that reached the rung of telling, what would have been expected then, from what had
  been recorded by then, beside how long it lasted (``backtest``);
* sizes: what would have been advised from the first half of the window, beside what the second half of the
  same kinds of job allows (``backtest_sizes``);
* pairs: what was expected of those that were put together, beside what they reached (``backtest_pairs``).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from advisor.advice import Advice
from advisor.limits import Limits
from advisor.model import ClusterState, Gpu, Job, Phase, Placement, Telemetry, Use
from advisor.observed import IdleStretch, Observed, PastJob, Price
from advisor.placement import may_share
from advisor.policies import right_size
from advisor.policies.foresight import Quiet, foresee
from advisor.policies.pack import PAIRING, crowding, profile_of, too_busy
from advisor.policies.pairing import Experience, choose_pairs
from advisor.register.pair_watch import Pair, experience_of
from advisor.rules import AdviceRules
from collector.model import GpuUuid, JobKind, NodeName

MS_PER_S, HOUR_MS = 1000, 3_600_000
LATER_S = 21_600
"""A job of the later half that was measured for so long says whether a size would have done."""
SLACK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One idle time of the past: what was to be expected when its owner was told, and what came, in s."""

    expected_s: float
    came_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """How far off expectations were on this history; ``None`` where there was too little to tell.

    ``median_error`` is of single expectations, ``total_error`` of their sum (positive: too much expected).
    """

    cases: int
    median_error: float | None
    total_error: float | None


UNTOLD = Earned(cases=0, median_error=None, total_error=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What sizes and pairs are held against: the jobs of both halves of the window, and the pairs of it."""

    earlier: Sequence[PastJob] = ()
    later: Sequence[PastJob] = ()
    pairs: Sequence[Pair] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one class of action would have given back in the window.

    ``low`` and ``high`` bound ``gpu_hours`` by the error that its expectations ``earned``, ``None`` where
    nothing did. ``disturbed`` is how often somebody would have come back to a job that was paused.
    """

    action: str
    how: str
    gpu_hours: float
    low: float | None
    high: float | None
    money: float | None
    jobs: int
    times: int
    disturbed: int
    earned: Earned = UNTOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """All classes, and the bar that this history's idle times earned."""

    given: tuple[Given, ...]
    earned: Earned


def what_if(
    stretches: Sequence[IdleStretch],
    jobs: Sequence[PastJob],
    prices: Mapping[str, Price],
    rules: AdviceRules,
    allowed: Callable[[Job], bool] = lambda job: True,
    *,
    tried: Tried | None = None,
) -> WhatIf:
    """The replay. ``allowed`` says whose jobs may be touched: everybody's, unless consent is to be kept."""
    tried = tried or Tried()
    earned = error_of(backtest(stretches, rules))
    sized = error_of(backtest_sizes(tried.earlier, tried.later, prices, rules))
    paired = error_of(backtest_pairs(tried.pairs))
    by_id = {past.job.id: past for past in jobs}
    told = [each for each in stretches if each.length_s >= tell_s(each.kind, rules)]
    may = [
        each
        for each in stretches
        if each.kind is not JobKind.INFERENCE and each.job in by_id and allowed(by_id[each.job].job)
    ]
    paused = [each for each in may if each.length_s >= pause_s(each.kind, rules)]
    price = _mean_price(jobs, prices)
    let_go = _held("tell", "every owner lets go when told", told, lambda kind: tell_s(kind, rules))
    resumed = _held(
        "pause",
        "paused by the ladder, resumed on return",
        paused,
        lambda kind: pause_s(kind, rules),
        rules.resume_s,
    )
    rows = (
        (let_go, earned),
        (resumed, earned),
        (_sized(jobs, prices, rules), sized),
        (_packed(jobs, rules, experience_of(tried.pairs)), paired),
    )
    return WhatIf(given=tuple(_bounded(_priced(row, price), bar) for row, bar in rows), earned=earned)


def backtest(stretches: Sequence[IdleStretch], rules: AdviceRules) -> tuple[Foreseen, ...]:
    """For every idle time that its owner would have been told of: what would have been expected, what came.

    Only what had ended by then, and what lasted still, is known to the expectation. Idle times that are cut
    short by the end of the records before the horizon say nothing and are left out.
    """
    found = []
    for each in stretches:
        told_s = tell_s(each.kind, rules)
        left_s = each.length_s - told_s
        if left_s <= 0 or (each.open and left_s < rules.horizon_s):
            continue
        at_ms = each.from_ms + round(told_s * MS_PER_S)
        quiet = Quiet(idle_s=told_s, now_ms=at_ms, user=each.user, kind=each.kind)
        seen = foresee(quiet, rules.horizon_s, _known_at(stretches, at_ms, each))
        if seen is not None:
            found.append(Foreseen(expected_s=seen.expected_s, came_s=min(left_s, rules.horizon_s)))
    return tuple(found)


def backtest_sizes(
    earlier: Sequence[PastJob], later: Sequence[PastJob], prices: Mapping[str, Price], rules: AdviceRules
) -> tuple[Foreseen, ...]:
    """For each later job of a kind that was advised a smaller size: what was expected, and what it allows.

    A size that would have been advised from the later time as well would have done; one that would not is
    counted as no gain at all, although it may have done without its margins. GPU-seconds.
    """
    saved: dict[tuple[str, int], float] = {}
    for advice in _sizes(earlier, prices, rules):
        past = next(past for past in earlier if past.job.id == advice.job)
        if past.use.held_gpu_hours > 0:
            saved[_kind(past)] = advice.gain_gpu_hours / past.use.held_gpu_hours
    least = replace(rules, fit_window_s=min(rules.fit_window_s, LATER_S))
    again = {advice.job: advice.gain_gpu_hours for advice in _sizes(later, prices, least)}
    found = []
    for past in later:
        part, held_s = saved.get(_kind(past)), past.use.held_gpu_hours * 3600
        if part is None or past.use.measured_s < least.fit_window_s * rules.coverage_ratio:
            continue
        allows = again.get(past.job.id, 0.0) * 3600
        came_s = part * held_s if allows >= part * held_s - SLACK_S else 0.0
        found.append(Foreseen(expected_s=part * held_s, came_s=came_s))
    return tuple(found)


def backtest_pairs(pairs: Iterable[Pair]) -> tuple[Foreseen, ...]:
    """For each pair that was tried: what gain was expected, and what it reached; parted ones gave nothing.

    GPU-seconds for each hour beside each other.
    """
    return tuple(
        Foreseen(
            expected_s=pair.expected_gain * 3600,
            came_s=0.0 if pair.undone else max(0.0, sum(pair.speeds) - 1) * 3600,
        )
        for pair in pairs
        if pair.speeds is not None
    )


def error_of(cases: Sequence[Foreseen]) -> Earned:
    """The bar that these cases earn."""
    if not cases:
        return Earned(cases=0, median_error=None, total_error=None)
    came = sum(case.came_s for case in cases)
    return Earned(
        cases=len(cases),
        median_error=median(abs(case.expected_s - case.came_s) / max(60.0, case.came_s) for case in cases),
        total_error=None if came <= 0 else sum(case.expected_s for case in cases) / came - 1,
    )


def tell_s(kind: JobKind, rules: AdviceRules) -> float:
    """When the owner of an idle job is told."""
    return rules.tell_interactive_s if kind is JobKind.INTERACTIVE else rules.tell_batch_s


def pause_s(kind: JobKind, rules: AdviceRules) -> float:
    """When an idle job is paused: by the clock, and not before the grace after its owner was told."""
    clock = rules.pause_interactive_s if kind is JobKind.INTERACTIVE else rules.pause_batch_s
    return max(clock, tell_s(kind, rules) + rules.grace_s)


def _known_at(stretches: Iterable[IdleStretch], at_ms: int, left_out: IdleStretch) -> list[IdleStretch]:
    known = []
    for each in stretches:
        if each is left_out or each.from_ms >= at_ms:
            continue
        lasts = each.to_ms > at_ms
        known.append(replace(each, to_ms=min(each.to_ms, at_ms), open=lasts or each.open))
    return known


def _held(
    action: str,
    how: str,
    stretches: Sequence[IdleStretch],
    after_s: Callable[[JobKind], float],
    cost_s: float = 0.0,
) -> Given:
    hours = sum(
        max(0.0, each.length_s - after_s(each.kind) - cost_s) / 3600 * each.gpus for each in stretches
    )
    return Given(
        action=action,
        how=how,
        gpu_hours=hours,
        low=None,
        high=None,
        money=None,
        jobs=len({each.job for each in stretches}),
        times=len(stretches),
        disturbed=sum(not each.open for each in stretches) if cost_s else 0,
    )


def _sized(jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: AdviceRules) -> Given:
    """Every job of the window measured long enough, asked for the size that would have done."""
    advised = _sizes(jobs, prices, rules)
    return Given(
        action="right-size",
        how="asked for what would have done",
        gpu_hours=sum(each.gain_gpu_hours for each in advised),
        low=None,
        high=None,
        money=None,
        jobs=len(advised),
        times=len(advised),
        disturbed=0,
    )


def _sizes(jobs: Sequence[PastJob], prices: Mapping[str, Price], rules: AdviceRules) -> list[Advice]:
    """Smaller sizes for these jobs, as they would be advised."""
    state, observed = _as_state(jobs, prices)
    answers = right_size.advise(state, observed, Limits(), rules)
    return [each for each in answers if isinstance(each, Advice)]


def _kind(past: PastJob) -> tuple[str, int]:
    """Jobs that the next one is like: the same owner, name and number of GPUs."""
    return profile_of(past.job), past.gpus


def _packed(jobs: Sequence[PastJob], rules: AdviceRules, known: Mapping[str, Experience]) -> Given:
    """At every time, the best pairing of those who may share, by what was learnt of pairs so far."""
    light = [past for past in jobs if past.gpus == 1 and too_busy(past.use, rules) is None]
    edges = sorted({at for past in light for at in (past.from_ms, past.to_ms)})
    hours = 0.0
    pairs: set[tuple[str, str]] = set()
    who: set[str] = set()
    for begin, end in pairwise(edges):
        there = [past for past in light if past.from_ms <= begin and past.to_ms >= end]
        for gain, couple in _pairs(there, rules, known):
            hours += max(0.0, gain) * (end - begin) / HOUR_MS
            pairs.add(couple)
            who.update(couple)
    return Given(
        action="pack",
        how="light jobs of one user, or of two who opted in, on one GPU",
        gpu_hours=hours,
        low=None,
        high=None,
        money=None,
        jobs=len(who),
        times=len(pairs),
        disturbed=len(pairs),
    )


def _pairs(
    there: Sequence[PastJob], rules: AdviceRules, known: Mapping[str, Experience]
) -> Iterable[tuple[float, tuple[str, str]]]:
    by_model: dict[str | None, list[PastJob]] = defaultdict(list)
    for past in there:
        by_model[past.model].append(past)
    for model, group in by_model.items():
        if model is None or len(group) < 2:
            continue

        def may(first: int, second: int, group: list[PastJob] = group) -> bool:
            one, two = group[first], group[second]
            fits = crowding(_gpu(one), one.use, two.use, rules) is None
            return fits and may_share(one.job, two.job)

        names = [profile_of(past.job) for past in group]
        for pair in choose_pairs(names, known.get(model) or Experience(gpu_model=model), PAIRING, may):
            couple = sorted((group[pair.foreground].job.id, group[pair.guest].job.id))
            yield pair.gain, (couple[0], couple[1])


def _as_state(jobs: Sequence[PastJob], prices: Mapping[str, Price]) -> tuple[ClusterState, Observed]:
    """Every job of the window as if it ran now, each on GPUs of its own, which are all like its first."""
    owned = {past.job.id: tuple(_uuid(past, at) for at in range(past.gpus)) for past in jobs}
    alike = {past.job.id: _gpu(past) for past in jobs}
    state = ClusterState(
        as_of_ms=max((past.to_ms for past in jobs), default=0) + HOUR_MS,
        gpus={uuid: alike[job] for job, uuids in owned.items() for uuid in uuids},
        jobs={past.job.id: replace(past.job, phase=Phase.RUNNING, use=Use.ACTIVE) for past in jobs},
        placements={past.job.id: Placement(gpus=owned[past.job.id], share=past.job.share) for past in jobs},
        projects={},
    )
    return state, Observed(uses={past.job.id: past.use for past in jobs}, prices=prices)


def _uuid(past: PastJob, at: int) -> GpuUuid:
    return GpuUuid(f"{past.job.id}#{at}")


def _gpu(past: PastJob) -> Gpu:
    return Gpu(
        uuid=_uuid(past, 0),
        node=NodeName("past"),
        model=past.model,
        memory_bytes=past.memory_total_bytes,
        telemetry=Telemetry.GOOD,
    )


def _mean_price(jobs: Sequence[PastJob], prices: Mapping[str, Price]) -> float | None:
    """The price of a GPU-hour, weighed by what the jobs held; ``None`` when any of it has none."""
    hours = {past.job.id: past.use.held_gpu_hours for past in jobs}
    total = sum(hours.values())
    if total <= 0 or any(past.model not in prices for past in jobs if hours[past.job.id] > 0):
        return None
    return sum(prices[past.model or ""].per_gpu_hour * hours[past.job.id] for past in jobs) / total


def _priced(row: Given, price: float | None) -> Given:
    return row if price is None else replace(row, money=row.gpu_hours * price)


def _bounded(row: Given, earned: Earned) -> Given:
    """The row with what its kind of expectation has earned; as it is, where nothing came of any."""
    if earned.total_error is None:
        return replace(row, earned=earned)
    error = abs(earned.total_error)
    low, high = row.gpu_hours * (1 - min(1.0, error)), row.gpu_hours * (1 + error)
    return replace(row, low=low, high=high, earned=earned)
