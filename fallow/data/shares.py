"""Which worker gets how much of a step, from how long each took lately. Pure, and the same in every worker.

Each worker's seconds ride in the sum of the gradients, so all see the same figures at the same step boundary
and decide alike, without a further exchange. The figures live as long as the group: a new one begins with
even shares. Shares change only when that makes the step noticeably shorter, because ragged shares cost a
little themselves and every change throws away what was read ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from fallow.data.costs import OTHER_SPEED, Cost, History, fitted, limited

WINDOW_STEPS = 10
"""Steps that are looked at before shares may change; the median of them counts, so one hiccup does not."""
WORTH_IT = 1.03
"""How many times longer the step must be with the shares as they are than with those that fit. What is asked
of shares is to be within 3% of the best; less than that is noise."""
UNKNOWN_FIXED_PART = 0.75
"""If nothing is gained as far as is known, what is not known may stand in the way: who has had one share only
may have a fixed time that hides how little another sample costs. So it is looked at with this as well."""
FIRST_TRIAL, LAST_TRIAL = 8, 1024
"""Windows after which a rank without samples is tried with one, twice as many after each trial that changed
nothing: who was slow for a minute works again soon, who stays slow costs one step in thousands."""


class NoSplit(ValueError):
    """Limits that no split keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What was measured in one group, and what its shares go by.

    A rank gets at least ``least`` and at most ``most`` of a step's samples. ``settled`` are the costs in
    force, ``None`` for even shares; by them ranks get ``counts`` of a whole global batch, and ``window``
    holds the seconds of the newest steps that were shared so. ``rested`` windows have ended since ranks
    without samples were tried, which is done after ``trial``, with the shares ``tried``.
    """

    world_size: int
    least: int = 0
    most: int | None = None
    settled: tuple[Cost, ...] | None = None
    counts: tuple[int, ...] = ()
    window: tuple[tuple[float, ...], ...] = ()
    histories: tuple[History, ...] = ()
    is_trial: bool = False
    tried: tuple[int, ...] = ()
    rested: int = 0
    trial: int = FIRST_TRIAL

    @property
    def costs(self) -> tuple[Cost, ...] | None:
        """What the next step is to be shared by."""
        return _all_at_work(self.settled) if self.is_trial and self.settled else self.settled

    def after(self, counts: Sequence[int], seconds: Sequence[float]) -> "Speeds":
        """The speeds once a step has ended in which rank ``r`` took ``seconds[r]`` for ``counts[r]``.

        Left out: a step where a rank with samples measured nothing, a 0; the smaller last step of an epoch;
        the one that was under way when shares changed.
        """
        now = replace(self, is_trial=False)
        has_all = all(took > 0 for took, count in zip(seconds, counts, strict=True) if count)
        if not has_all or sum(counts) < sum(self.counts):
            return now
        if sum(counts) > sum(self.counts):
            now = replace(now, counts=tuple(counts), window=())
        elif tuple(counts) == self.tried:
            return now._after_trial(seconds)
        elif tuple(counts) != self.counts:
            return now
        window = (*now.window, tuple(seconds))
        if len(window) < WINDOW_STEPS:
            return replace(now, window=window)
        typical = [median(of_rank) for of_rank in zip(*window, strict=True)]
        before = now.histories or (History(),) * self.world_size
        histories = tuple(
            history.after(count, took) if count else history
            for history, count, took in zip(before, counts, typical, strict=True)
        )
        if not all(history.timings for history in histories):  # fewer samples than ranks
            return replace(now, window=())
        return replace(now, window=(), histories=histories)._settle()

    def _settle(self) -> "Speeds":
        """At the end of a window: other shares, or these; and now and then a trial of who has none."""
        for fixed_part in (None, UNKNOWN_FIXED_PART):
            costs = limited(fitted(self.histories, fixed_part), self.least, self.most)
            best = split(sum(self.counts), costs)
            if step_seconds(self.counts, costs) >= WORTH_IT * step_seconds(best, costs):
                return replace(self, settled=costs, counts=best, tried=(), rested=0, trial=FIRST_TRIAL)
        if 0 not in self.counts or self.settled is None:
            return self
        if self.rested + 1 < self.trial:
            return replace(self, rested=self.rested + 1)
        tried = split(sum(self.counts), _all_at_work(self.settled))
        return replace(self, is_trial=True, tried=tried, rested=0, trial=min(2 * self.trial, LAST_TRIAL))

    def _after_trial(self, seconds: Sequence[float]) -> "Speeds":
        """Where one that had no samples was faster than known, that is forgotten."""
        known = zip(self.histories, fitted(self.histories), self.counts, self.tried, seconds, strict=True)
        histories = tuple(
            History().after(count, took)
            if not usual and took < cost.seconds(count) / OTHER_SPEED
            else history
            for history, cost, usual, count, took in known
        )
        return self if histories == self.histories else replace(self, histories=histories)._settle()


def even(world_size: int, *, least: int = 0, most: int | None = None) -> Speeds:
    """Nothing measured yet: everybody gets the same."""
    return Speeds(world_size=world_size, least=least, most=most)


def step_seconds(counts: Sequence[int], costs: Sequence[Cost]) -> float:
    """How long the slowest rank takes with these shares."""
    return max(cost.seconds(count) for cost, count in zip(costs, counts, strict=True))


def split(total: int, costs: Sequence[Cost]) -> tuple[int, ...]:
    """How many of ``total`` samples each rank gets so that the slowest takes the least time.

    Raises NoSplit where the ranks' limits do not allow it. Exact: what fits into a time grows with it, so
    the least time in which all samples fit is found by halving, to the last bit of a float.
    """
    least = sum(cost.least for cost in costs)
    most = sum(total if cost.most is None else cost.most for cost in costs)
    if not least <= total <= most:
        raise NoSplit(f"{len(costs)} workers take {least} to {most} samples of a step, which has {total}")
    low, high = 0.0, 2 * max(cost.seconds(total) for cost in costs)  # twice: time for all, however it rounds
    while (middle := (low + high) / 2) not in (low, high):
        if sum(_fitting(cost, total, middle) for cost in costs) >= total:
            high = middle
        else:
            low = middle
    counts = [_fitting(cost, total, high) for cost in costs]
    while sum(counts) > total:  # samples that end at the same time: all but as many as are needed
        spare = [rank for rank, cost in enumerate(costs) if counts[rank] > cost.least]
        counts[max(spare, key=lambda rank: (costs[rank].seconds(counts[rank]), rank))] -= 1
    return tuple(counts)


def _all_at_work(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    return tuple(replace(cost, least=max(1, cost.least)) for cost in costs)


def _fitting(cost: Cost, total: int, seconds: float) -> int:
    """How many of ``total`` samples a rank computes in that time, within its limits."""
    most = total if cost.most is None else min(cost.most, total)
    fits = int(min(max((seconds - cost.fixed_s) / cost.unit_s, 0.0), most))
    return max(fits, cost.least)
