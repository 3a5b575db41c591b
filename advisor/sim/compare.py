"""Several policies on one workload in one world, by name, with the bounds that no schedule can beat."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from advisor.planner.limits import Lending, Limits, Order
from advisor.sim.cluster import BadCluster, Cluster
from advisor.sim.run import Run, fitting, simulate
from advisor.sim.schedulers import Fallow, Fifo, Foretold, Las, Scheduler, Srtf, Static
from advisor.sim.score import GRACE_S, Score, alone_bound_s, fluid_bound_s, score
from advisor.sim.workload import BadRow, Workload
from advisor.sim.world import Physics

Progress = Callable[[str, int, int], None]

LIMITS = Limits(
    order=Order.SHORTEST, min_runtime_s=0.0, cooldown_s=0.0, actions_per_hour=None, resize_pause_s=0.0
)
"""What a simulation gives Fallow by default: guarantees are kept at once, and nobody is spared a resize."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How to make a scheduler, and whether it resizes jobs; else each gets exactly what it asked for."""

    about: str
    make: Callable[[Limits], Scheduler]
    elastic: bool = False


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "static": Policy(
            about="each project in its own GPUs, first come first served", make=lambda _: Static()
        ),
        "fifo": Policy(about="one pool, first come first served", make=lambda _: Fifo()),
        "srtf": Policy(about="one pool, shortest remaining time first, by an oracle", make=lambda _: Srtf()),
        "las": Policy(about="Tiresias: two queues by attained GPU time", make=lambda _: Las()),
        "fallow": Policy(
            about="quotas, queues, reclaim and growth, as it runs live", make=Fallow, elastic=True
        ),
        "goodput": Policy(
            about="the same, and elastic jobs of a project trade GPUs by what they get done on them",
            make=lambda limits: Fallow(replace(limits, order=Order.GOODPUT)),
            elastic=True,
        ),
        "youngest": Policy(
            about="the same as fallow, and old jobs of a project give way to its young ones",
            make=lambda limits: Fallow(replace(limits, order=Order.YOUNGEST)),
            elastic=True,
        ),
        "by-job": Policy(
            about="the same as fallow, and what is lent beyond quotas goes by jobs, not by projects",
            make=lambda limits: Fallow(replace(limits, lending=Lending.JOBS)),
            elastic=True,
        ),
        "foretold": Policy(
            about="the same as fallow, the shortest job of a project first, by an oracle; none is resized",
            make=Foretold,
        ),
    }
)


class UnknownPolicy(ValueError):
    """No policy has that name, or one is named twice or none at all; the message says which there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The runs and scores by policy, in the order asked for, and what was left out of the workload."""

    workload: Workload
    runs: Mapping[str, Run]
    scores: Mapping[str, Score]
    alone_bound_s: float
    fluid_bound_s: float
    too_large: tuple[BadRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that a comparison runs under."""

    cluster: Cluster
    physics: Physics = field(default_factory=Physics)
    limits: Limits = LIMITS
    tick_s: float = 10.0
    grace_s: float = GRACE_S


def compare(
    workload: Workload, names: Sequence[str], setting: Setting, on_progress: Progress | None = None
) -> Comparison:
    """Run each policy. With quotas the static partition is run too: fairness is measured against it.

    All run the same jobs: one that is too large for any of them is left out for all.
    Raises UnknownPolicy, BadCluster (the static partition without quotas), SimulationError.
    """
    _check_names(names)
    cluster = setting.cluster
    if "static" in names and not cluster.quotas:
        raise BadCluster("the static partition needs to know each project's GPUs: give quotas")
    schedulers = dict.fromkeys((*(("static",) if cluster.quotas else ()), *names))
    jobs, too_large = fitting(workload, cluster, shrunk=all(POLICIES[name].elastic for name in schedulers))
    if not jobs.jobs:
        raise BadCluster(f"no job fits: {too_large[0].reason}; give more nodes")
    runs: dict[str, Run] = {}
    for name in schedulers:
        progress = None if on_progress is None else _named(on_progress, name)
        policy = POLICIES[name]
        runs[name] = simulate(
            cluster,
            jobs,
            policy.make(setting.limits),
            replace(setting.physics, elastic=policy.elastic),
            tick_s=setting.tick_s,
            on_progress=progress,
        )
    own = runs.get("static")
    return Comparison(
        workload=jobs,
        runs={name: runs[name] for name in names},
        scores={name: score(name, runs[name], own, grace_s=setting.grace_s) for name in names},
        alone_bound_s=alone_bound_s(jobs, cluster.gpus, cluster.gpus_per_node),
        fluid_bound_s=fluid_bound_s(jobs, cluster.gpus, cluster.gpus_per_node),
        too_large=too_large,
    )


def _check_names(names: Sequence[str]) -> None:
    names_text = f"there are {', '.join(POLICIES)}"
    if not names:
        raise UnknownPolicy(f"no policy is named; {names_text}")
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        raise UnknownPolicy(f"no policy is called {unknown[0]!r}; {names_text}")
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise UnknownPolicy(f"the policy {twice[0]!r} is named twice; {names_text}")


def _named(on_progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, jobs: on_progress(name, done, jobs)
