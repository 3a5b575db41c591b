"""What charging held-idle hours once more would change in who may borrow. Pure.

Fairness charges what was allocated; ``Limits.idle_surcharge`` charges the part of it that lay idle again. Off
by default: this says beforehand whom it would move, by the use that decisions remember now.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.limits import Limits
from advisor.model import Project, ProjectName, Usage
from advisor.policies.fair_share import lent_parts

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
