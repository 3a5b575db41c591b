"""Every class of action over a recorded window, each with the bar that its own expectations earned. Pure.

The recorded idle times, jobs and their use are gone through again under the same ladder, the same size rules,
the same pairing and the same planner that advise live; nothing is invented about people, so what a person
would have done otherwise is not in it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from advisor.jobs.slowdown_watchdog import experience_of
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import PastJob, Price
from advisor.state.model import Job
from advisor.whatif.elastic_growth import backtest_growth, grown
from advisor.whatif.estimate import Earned, Given, bounded, error_of, priced
from advisor.whatif.history import Moments, Past
from advisor.whatif.idle_times import backtest, let_go, paused
from advisor.whatif.shared_gpus import backtest_pairs, packed
from advisor.whatif.smaller_jobs import backtest_memory, backtest_sizes, capped, sized
from advisor.whatif.starts import waits
from analytics.vocabulary.actions import ActionClass
from collector.model import JobKind

DEFAULTS = Limits()


TOLD_BY_SUBMITTED = (
    ActionClass.CAP_MEMORY,
    ActionClass.SCHEDULE,
    ActionClass.CONSOLIDATE,
    ActionClass.RESIZE,
)
"""Classes that only jobs which were submitted here tell of: they said what they wanted and needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """All classes, and the bar that this history's idle times earned."""

    given: tuple[Given, ...]
    earned: Earned

    @property
    def bare(self) -> tuple[str, ...]:
        """Of what only submitted jobs tell, the classes of which nothing would have come."""
        return tuple(
            each.action for each in self.given if each.action in TOLD_BY_SUBMITTED and not each.times
        )

    @property
    def shown(self) -> tuple[Given, ...]:
        """The others: the rows for people to read."""
        return tuple(each for each in self.given if each.action not in self.bare)


def everybody(_: Job) -> bool:
    """Whose jobs may be touched: everybody's."""
    return True


def consented(job: Job) -> bool:
    """Whether its owner lets it be paused and can have it go on: whose jobs may be touched today."""
    return job.preemptible and job.checkpointable


def what_if(
    past: Past,
    rules: PlannerConfig,
    limits: Limits = DEFAULTS,
    allowed: Callable[[Job], bool] = everybody,
) -> WhatIf:
    """The replay. ``allowed`` says whose jobs may be touched, had everybody been asked."""
    by_id = {each.job.id: each for each in past.jobs}
    may = [
        each
        for each in past.stretches
        if each.kind is not JobKind.INFERENCE and each.job in by_id and allowed(by_id[each.job].job)
    ]
    halves = (past.earlier, past.later, past.prices, rules)
    moments = Moments(past, allowed)
    waited = waits(moments, rules, limits)
    profiles = [each.job.profile for each in past.submitted.values() if each.job.profile is not None]
    foreseen = backtest([each for each in past.stretches if not each.first], rules)
    rows = (
        (let_go(past.stretches, rules), foreseen),
        (paused(may, rules), foreseen),
        (sized(past.jobs, past.prices, rules), backtest_sizes(*halves)),
        (capped(past.jobs, past.prices, rules), backtest_memory(*halves)),
        (packed(past.jobs, rules, experience_of(past.pairs)), backtest_pairs(past.pairs)),
        (waited.started, ()),
        (waited.moved, waited.cases),
        (grown(moments, limits), backtest_growth(profiles)),
    )
    price = _mean_price(past.jobs, past.prices)
    return WhatIf(
        given=tuple(bounded(priced(row, price), error_of(cases)) for row, cases in rows),
        earned=error_of(foreseen),
    )


def _mean_price(jobs: Sequence[PastJob], prices: Mapping[str, Price]) -> float | None:
    """The price of a GPU-hour, weighed by what the jobs held; ``None`` when any of it has none."""
    hours = {past.job.id: past.use.held_gpu_hours for past in jobs}
    total = sum(hours.values())
    if total <= 0 or any(past.model not in prices for past in jobs if hours[past.job.id] > 0):
        return None
    return sum(prices[past.model or ""].per_gpu_hour * hours[past.job.id] for past in jobs) / total
