"""Who deserves how many GPUs: guaranteed quotas over a tree of projects, then the surplus. Pure.

At each level of the tree, from the top, what the parent deserves is divided among its children:

    1. guaranteed   min(quota, demand, limit) each; if that exceeds what there is (GPUs broke), in proportion
    2. surplus      the highest priority first; within one priority by weight, again and again, until all
                    have their demand or limit, or nothing is left (water-filling: exact, one sort)
    3. whole GPUs   rounded down, and what is left over one by one to the largest remainder (``whole_gpus``)

Fairness remembers. A child's weight in step 2 is what KAI-Scheduler makes of it (its time-based fair share):
with ``w`` its part of the bucket's weights, ``u`` its remembered use as a part of the cluster's capacity, and
``k`` = ``usage_weight``:

    w' = max(0, w + k * (w - u))

Where the site lends to jobs (``Lending.JOBS``), a child's weight counts once for each of its jobs beyond what
it is guaranteed: its jobs times the part of its demand that no quota covers.

``u`` is a decayed mean over ``window_s`` with half-life ``half_life_s``, normalized to capacity (Kueue,
KAI). It charges what was allocated; ``idle_surcharge`` adds that part of the held-idle hours again.
That surcharge is off by default; ``charging`` says beforehand whom it would move, by the use that decisions
remember now.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.planner.limits import Lending, Limits
from advisor.planner.quota import Tree, allocated, asking, capacity_gpus, demand, tree_of, upward
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.whole_gpus import Part, takes_parts, waits_since, whole_shares
from advisor.state.model import ClusterState, Project, ProjectName, Usage

LEAST_WEIGHT = 1e-6
"""Who used far more than its part still gets what nobody else wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What every project of the tree deserves now, in GPUs, inner ones included.

    ``exact_gpus`` are the shares of those that were rounded to whole GPUs, as they were before.
    """

    tree: Tree
    capacity_gpus: float
    fair_gpus: Mapping[ProjectName, float]
    demand_gpus: Mapping[ProjectName, float]
    exact_gpus: Mapping[ProjectName, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """What a project held at an instant, in GPUs, beside the capacity of the cluster then."""

    at_ms: int
    allocated_gpus: float
    held_idle_gpus: float
    capacity_gpus: float


def fair_shares(state: ClusterState, limits: Limits) -> Shares:
    """The fair share of every project; of projects that nobody configured as well (no quota, weight 1)."""
    demands = demand(state)
    tree = tree_of(state.projects, also=demands)
    capacity = capacity_gpus(state)
    charged = upward(tree, {name: _charge(state.usage.get(name), limits) for name in tree.projects})
    claims = _Claims(
        tree=tree,
        wanted=_capped(tree, demands),
        jobs=upward(tree, asking(state)),
        charged=charged,
        limits=limits,
    )
    _divide(claims, tree.roots, capacity, _Rounding(state, tree))
    return Shares(
        tree=tree,
        capacity_gpus=capacity,
        fair_gpus=claims.fair,
        demand_gpus=claims.wanted,
        exact_gpus=claims.exact,
    )


def remembered(samples: Iterable[UsageSample], now_ms: int, limits: Limits) -> Usage:
    """The decayed mean of a project's use; samples should be evenly spaced (policy: each 5 min).

    A time with no sample counts neither for nor against anybody. No sample at all is a use of 0.
    """
    weight = allocated = idle = 0.0
    for sample in samples:
        age_s = (now_ms - sample.at_ms) / 1000
        if not 0 <= age_s <= limits.window_s or sample.capacity_gpus <= 0:
            continue
        decay = 0.5 ** (age_s / limits.half_life_s)
        weight += decay
        allocated += decay * sample.allocated_gpus / sample.capacity_gpus
        idle += decay * sample.held_idle_gpus / sample.capacity_gpus
    if weight == 0:
        return Usage()
    return Usage(allocated_ratio=allocated / weight, held_idle_ratio=idle / weight)


def water_fill(amount: float, room: Sequence[float], weights: Sequence[float]) -> list[float]:
    """``amount`` divided by ``weights``, nobody above its ``room``; what one cannot take others get."""
    parts = [0.0] * len(room)
    # Who is full first goes first: what such a one leaves is then divided among all the others.
    by_level = sorted(range(len(room)), key=lambda at: room[at] / weights[at])
    weight = sum(weights)
    for at in by_level:
        parts[at] = min(room[at], amount * weights[at] / weight) if weight > 0 else min(room[at], amount)
        amount = max(0.0, amount - parts[at])
        weight -= weights[at]
    return parts


def lent_parts(
    projects: Mapping[ProjectName, Project], usage: Mapping[ProjectName, Usage], limits: Limits
) -> dict[ProjectName, float]:
    """What part of the GPUs that no quota claims each project would have, 0 to 1, did all ask for more.

    Among siblings of one priority the parts add up to that of their parent. By projects, not by jobs.
    """
    tree = tree_of(projects, also=usage)
    charged = upward(tree, {name: _charge(usage.get(name), limits) for name in tree.projects})
    by_project = replace(limits, lending=Lending.PROJECTS)
    claims = _Claims(tree=tree, wanted={}, jobs={}, charged=charged, limits=by_project)
    parts: dict[ProjectName, float] = {}
    families = [(tree.roots, 1.0)]
    while families:
        siblings, total = families.pop()
        for bucket in _by_priority(claims, siblings):
            weights = _weights(claims, bucket, [1.0] * len(bucket))
            parts.update(
                (name, total * weight / sum(weights)) for name, weight in zip(bucket, weights, strict=True)
            )
        families += [(tree.children[name], parts[name]) for name in siblings]
    return parts


@dataclass(slots=True, kw_only=True)
class _Claims:
    """What a division rests on, and ``fair``, which it fills from the top of the tree downwards."""

    tree: Tree
    wanted: Mapping[ProjectName, float]
    jobs: Mapping[ProjectName, float]
    charged: Mapping[ProjectName, float]
    limits: Limits
    fair: dict[ProjectName, float] = field(default_factory=dict)
    exact: dict[ProjectName, float] = field(default_factory=dict)


class _Rounding:
    """What rounding to whole GPUs rests on, by subtree of the tree; looked up only where one is needed."""

    def __init__(self, state: ClusterState, tree: Tree) -> None:
        self._state, self._tree = state, tree
        self._allocated: dict[ProjectName, float] | None = None
        self._waits: dict[ProjectName, float] = {}
        self._in_parts: set[ProjectName] = set()

    def part(self, name: ProjectName, claims: "_Claims", least: float) -> Part:
        """A project's share as it is to be rounded; ``least`` is guaranteed."""
        if self._allocated is None:
            self._look()
        assert self._allocated is not None, "it was just looked up"
        return Part(
            name=name,
            gpus=claims.fair[name],
            least=least,
            most=claims.wanted[name],
            is_whole=name not in self._in_parts,
            priority=self._tree.projects[name].priority,
            allocated_gpus=self._allocated[name],
            waits_since_ms=self._waits.get(name, float("inf")),
        )

    def _look(self) -> None:
        state, paths = self._state, self._tree.paths
        self._allocated = upward(self._tree, allocated(state))
        for leaf, since_ms in waits_since(state.jobs.values()).items():
            for name in paths[leaf]:
                self._waits[name] = min(self._waits.get(name, float("inf")), since_ms)
        self._in_parts = {name for leaf in takes_parts(state.jobs.values(), state) for name in paths[leaf]}


def _charge(usage: Usage | None, limits: Limits) -> float:
    if usage is None:
        return 0.0
    return usage.allocated_ratio + limits.idle_surcharge * usage.held_idle_ratio


def _capped(tree: Tree, leaves: Mapping[ProjectName, float]) -> dict[ProjectName, float]:
    """Demand under limits: a subtree cannot want more than its own limit and its children's allow."""
    demand: dict[ProjectName, float] = {}
    for name in sorted(tree.projects, key=lambda each: -len(tree.paths[each])):
        total = leaves.get(name, 0.0) + sum(demand[child] for child in tree.children[name])
        limit = tree.projects[name].limit_gpus
        demand[name] = total if limit is None else min(total, limit)
    return demand


def _divide(claims: _Claims, siblings: Sequence[ProjectName], amount: float, rounding: _Rounding) -> None:
    tree, fair = claims.tree, claims.fair
    guaranteed = [min(tree.quotas[name], claims.wanted[name]) for name in siblings]
    total, least = sum(guaranteed), guaranteed
    if total > amount:
        # Quotas that sum up to more than there is are cut alike; rounding may then go below.
        guaranteed = [part * amount / total for part in guaranteed]
        least = [0.0] * len(siblings)
    fair.update(zip(siblings, guaranteed, strict=True))
    _surplus(claims, siblings, max(0.0, amount - sum(guaranteed)))
    _round(claims, siblings, least, rounding)
    for name in siblings:
        if tree.children[name]:
            _divide(claims, tree.children[name], fair[name], rounding)


def _round(
    claims: _Claims, siblings: Sequence[ProjectName], least: Sequence[float], rounding: _Rounding
) -> None:
    """Make whole GPUs of the shares of those who don't get all that they want."""
    fair = claims.fair
    short = [
        (name, sure)
        for name, sure in zip(siblings, least, strict=True)
        if fair[name] < claims.wanted[name] - SHARE_SLACK
    ]
    if all(abs(fair[name] - round(fair[name])) <= SHARE_SLACK for name, _ in short):
        return
    parts = [rounding.part(name, claims, sure) for name, sure in short]
    for part, gpus in zip(parts, whole_shares(parts), strict=True):
        if abs(gpus - part.gpus) > SHARE_SLACK:
            claims.exact[part.name], fair[part.name] = part.gpus, gpus


def _surplus(claims: _Claims, siblings: Sequence[ProjectName], rest: float) -> None:
    for bucket in _by_priority(claims, siblings):
        room = [max(0.0, claims.wanted[name] - claims.fair[name]) for name in bucket]
        parts = water_fill(rest, room, _weights(claims, bucket, room))
        for name, part in zip(bucket, parts, strict=True):
            claims.fair[name] += part
        rest = max(0.0, rest - sum(parts))


def _by_priority(claims: _Claims, siblings: Sequence[ProjectName]) -> list[list[ProjectName]]:
    """The siblings of each priority, the highest first."""
    buckets: defaultdict[int, list[ProjectName]] = defaultdict(list)
    for name in siblings:
        buckets[claims.tree.projects[name].priority].append(name)
    return [buckets[priority] for priority in sorted(buckets, reverse=True)]


def _weights(claims: _Claims, bucket: Sequence[ProjectName], room: Sequence[float]) -> list[float]:
    own = [claims.tree.projects[name].weight for name in bucket]
    if claims.limits.lending is Lending.JOBS:
        beyond = [_beyond(claims, *each) for each in zip(bucket, room, strict=True)]
        own = [weight * jobs for weight, jobs in zip(own, beyond, strict=True)]
    total = sum(own)
    if total <= 0:
        # Nobody has a weight, or nobody wants more than is guaranteed: alike, so that nothing is divided by
        # zero.
        return [1.0] * len(bucket)
    k = claims.limits.usage_weight
    parts = [(weight / total, claims.charged[name]) for weight, name in zip(own, bucket, strict=True)]
    return [max(LEAST_WEIGHT, part + k * (part - used)) for part, used in parts]


def _beyond(claims: _Claims, name: ProjectName, room: float) -> float:
    """How many of a project's jobs its guarantee leaves over; ``room`` is what they want, in GPUs."""
    demand = claims.wanted[name]
    return claims.jobs[name] * room / demand if demand > 0 else 0.0


# Charges a held-idle hour once more: what `charging` compares with the charge of today.
SURCHARGE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """A project's remembered use, and its part of what no quota claims when all ask for more.

    Ratios of the cluster's capacity, and of what is lent to projects of its priority: as decided now
    (``part``), and were held-idle hours charged once more (``part_charged``).
    """

    project: ProjectName
    allocated_ratio: float
    held_idle_ratio: float
    part: float
    part_charged: float


def charging(
    projects: Mapping[ProjectName, Project], usage: Mapping[ProjectName, Usage], limits: Limits
) -> tuple[Charged, ...]:
    """Every project that decisions know, the one whose part would shrink most first."""
    now = lent_parts(projects, usage, limits)
    more = replace(limits, idle_surcharge=limits.idle_surcharge + SURCHARGE)
    then = lent_parts(projects, usage, more)
    result = [
        Charged(
            project=name,
            allocated_ratio=usage[name].allocated_ratio if name in usage else 0.0,
            held_idle_ratio=usage[name].held_idle_ratio if name in usage else 0.0,
            part=part,
            part_charged=then[name],
        )
        for name, part in now.items()
    ]
    return tuple(sorted(result, key=lambda each: (each.part_charged - each.part, each.project)))
