"""Every number that bounds a decision, with its default and where that comes from.

Pure values; the rules that use them are in ``advisor.guard`` and ``advisor.policies``. Where each number
comes from stands in ``docs/decide.md``: KAI-Scheduler, Kueue, AdaptDL, DeepPool, Run:ai.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from advisor.model import ActionClass, Project, ProjectName


class Mode(StrEnum):
    """How far a class of action may go by itself: nothing, say it, do it once approved, do it."""

    OFF = "off"
    ADVISE = "advise"
    ASK = "ask"
    AUTO = "auto"

    @property
    def rank(self) -> int:
        """How far it goes, from 0."""
        return _RANKS[self]


_RANKS = {mode: at for at, mode in enumerate(Mode)}


class Order(StrEnum):
    """Who comes first among jobs of one project and one priority.

    ARRIVAL: who was submitted first. SHORTEST: who has the least GPU time left by its own report, those that
    report nothing after them by arrival. YOUNGEST: who has had little GPU time so far, by arrival; old jobs
    give way to young ones of their own project. GOODPUT: as SHORTEST, and elastic jobs of one project trade
    GPUs so that each brings on most where most counts.
    """

    ARRIVAL = "arrival"
    SHORTEST = "shortest"
    YOUNGEST = "youngest"
    GOODPUT = "goodput"

    @property
    def trades(self) -> bool:
        """Whether jobs of one project may take each other's place without a higher priority."""
        return self in (Order.YOUNGEST, Order.GOODPUT)


class Lending(StrEnum):
    """By whom the GPUs that no quota claims are divided: what is lent beyond quotas.

    PROJECTS: each counts by its weight. JOBS: each by its weight times how many of its jobs lie beyond its
    quota, so that small jobs in great number wait less, on average, and large ones of few longer.
    """

    PROJECTS = "projects"
    JOBS = "jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one decision; times in seconds.

    ``modes`` are the site's; ``project_modes`` a project's own, which hold for the projects below it as well.
    ``least`` is the mode from which on a class of action takes part in deciding.

    ``min_runtime_s`` a job runs undisturbed after a start, ``cooldown_s`` after it was disturbed. In any hour
    at most ``actions_per_hour`` jobs are disturbed in the whole cluster (a gang's reclaim that begins under
    the bound is finished); ``None`` is no bound. ``lending`` divides what no quota claims; ``half_life_s``
    and ``usage_weight`` say how fairness remembers, ``idle_surcharge`` what a held-idle hour is charged on
    top. A resize must promise a speed-up of ``resize_speedup`` after its cost, stay under ``amplification``
    times the GPU time of the job's smallest world, and have ``resize_costs_left`` times its cost still to
    run; ``resize_s`` is the cost of a job that never measured its own. ``heads`` is how many jobs of each
    queue are promised a start.
    """

    modes: Mapping[ActionClass, Mode] = field(default_factory=dict)
    project_modes: Mapping[ProjectName, Mapping[ActionClass, Mode]] = field(default_factory=dict)
    least: Mode = Mode.ADVISE
    order: Order = Order.ARRIVAL
    lending: Lending = Lending.PROJECTS
    min_runtime_s: float = 600.0
    cooldown_s: float = 1800.0
    actions_per_hour: int | None = 5
    window_s: float = 7 * 86_400.0
    half_life_s: float = 168 * 3600.0
    usage_weight: float = 1.0
    idle_surcharge: float = 0.0
    resize_speedup: float = 1.1
    amplification: float = 2.0
    resize_costs_left: float = 10.0
    resize_s: float = 1.0
    resize_pause_s: float = 60.0
    heads: int = 1

    def mode(self, action: ActionClass) -> Mode:
        """The mode of a class of action; ADVISE where nothing was said, OFF for terminating."""
        return self.modes.get(action, Mode.OFF if action is ActionClass.TERMINATE else Mode.ADVISE)

    def mode_for(
        self, action: ActionClass, project: ProjectName, projects: Mapping[ProjectName, Project]
    ) -> Mode:
        """The mode of a class of action for a project's jobs: its own, else its nearest ancestor's, else the
        site's."""
        seen: set[ProjectName] = set()
        name: ProjectName | None = project
        while name is not None and name not in seen:
            said = self.project_modes.get(name, {}).get(action)
            if said is not None:
                return said
            seen.add(name)
            name = projects[name].parent if name in projects else None
        return self.mode(action)

    def is_off(
        self, action: ActionClass, project: ProjectName, projects: Mapping[ProjectName, Project]
    ) -> bool:
        """Whether a class of action takes no part for jobs of a project."""
        return self.mode_for(action, project, projects).rank < self.least.rank

    def within(self, project: ProjectName, projects: Mapping[ProjectName, Project]) -> "Limits":
        """The same bounds with the modes that hold for jobs of a project."""
        if not self.project_modes:
            return self
        modes = {action: self.mode_for(action, project, projects) for action in ActionClass}
        return replace(self, modes=modes, project_modes={})

    def ever(self, action: ActionClass) -> bool:
        """Whether a class of action takes part in deciding at all: it is not OFF for everybody."""
        return bool(self.said(action) - {Mode.OFF})

    def said(self, action: ActionClass) -> frozenset[Mode]:
        """All modes in which a class of action stands, for the site or for a project."""
        own = (modes[action] for modes in self.project_modes.values() if action in modes)
        return frozenset((self.mode(action), *own))
