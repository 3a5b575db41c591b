"""Every number that bounds a decision, with its default and where that comes from.

Pure values. ``Limits`` bounds what is done: the rules are in ``advisor.planner.guard`` and in
``advisor.policies``, and where each number comes from stands in ``docs/decide.md`` (KAI-Scheduler, Kueue,
AdaptDL, DeepPool, Run:ai). An advice turns on ``PlannerConfig``, which the configuration's ``[advice]``
overrides field by field, within the bounds in each field's metadata: the more destructive an action, the
longer its clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from advisor.state.model import ActionClass, Project, ProjectName
from analytics.thresholds import SHARED_RESERVE_BYTES, bounded
from analytics.vocabulary.findings import FULL_RATIO


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
    queue are promised a start; whose first job has waited ``aging_s``, and longest, has free GPUs held back.
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
    aging_s: float = 86_400.0

    def mode(self, action: ActionClass) -> Mode:
        """The mode of a class of action; ADVISE where nothing was said, OFF for terminating."""
        return self.modes.get(action, Mode.OFF if action is ActionClass.TERMINATE else Mode.ADVISE)

    def mode_for(
        self, action: ActionClass, project: ProjectName, projects: Mapping[ProjectName, Project]
    ) -> Mode:
        """The mode of a class of action for a project's jobs: its own, else its nearest ancestor's, else the
        site's."""
        visited: set[ProjectName] = set()
        name: ProjectName | None = project
        while name is not None and name not in visited:
            mode = self.project_modes.get(name, {}).get(action)
            if mode is not None:
                return mode
            visited.add(name)
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
        return bool(self.modes_of(action) - {Mode.OFF})

    def modes_of(self, action: ActionClass) -> frozenset[Mode]:
        """All modes in which a class of action stands, for the site or for a project."""
        own = (modes[action] for modes in self.project_modes.values() if action in modes)
        return frozenset((self.mode(action), *own))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerConfig:
    """When something is advised.

    The more destructive an action, the longer its clock; [advice](advice.md) says how they are used.
    """

    # The defaults are the project's policy. Each rung of the ladder costs more than the one before it. A
    # job is never requeued soon after its start because a rule once cancelled one that was downloading 110
    # GB (codalab #3979); a hog is confirmed only from inside; with more memory traffic than
    # `fit_controller` a MIG slice slows a job down (MISO, on A100).

    show_s: int = bounded(300, 60, 86_400, "an idle holder is shown from here on")
    tell_interactive_s: int = bounded(
        1800, 300, 604_800, "idle so long: tell the owner of an interactive job"
    )
    tell_batch_s: int = bounded(3600, 300, 604_800, "the same for a batch job")
    release_interactive_s: int = bounded(
        1800, 300, 604_800, "idle so long: have the job give cached memory back (interactive)"
    )
    release_batch_s: int = bounded(3600, 300, 604_800, "the same for a batch job")
    pause_interactive_s: int = bounded(3600, 900, 604_800, "idle so long: checkpoint or pause (interactive)")
    pause_batch_s: int = bounded(7200, 900, 604_800, "the same for a batch job")
    grace_s: int = bounded(900, 300, 86_400, "between telling the owner and pausing")
    requeue_interactive_s: int = bounded(
        14_400, 3600, 604_800, "idle so long, and only with a fresh checkpoint: requeue (interactive)"
    )
    requeue_batch_s: int = bounded(18_000, 3600, 604_800, "the same for a batch job")
    requeue_start_s: int = bounded(7200, 1800, 604_800, "no job is requeued this soon after its start")
    checkpoint_age_s: int = bounded(
        1800, 60, 86_400, "an older checkpoint is not fresh, unless the job has been idle since it"
    )
    terminate_s: int = bounded(
        86_400, 14_400, 2_592_000, "idle so long: end it, only where `modes.terminate` is `ask` or `auto`"
    )
    terminate_warnings: int = bounded(2, 2, 10, "and after so many warnings")
    keeps: int = bounded(
        3, 0, 20, "how often an owner can keep an idle job for 4, 8 or 24 h; then only an administrator"
    )
    startup_s: int = bounded(1800, 600, 86_400, "nothing is said of a job this soon after its start")
    coverage_ratio: float = bounded(0.95, 0.8, 1.0, "with less of the time measured, nothing is advised")
    horizon_s: int = bounded(
        14_400, 3600, 604_800, "over how long a gain is reckoned; short enough to be foreseen"
    )
    resume_s: int = bounded(
        60, 0, 3600, "what bringing a paused job back costs it, where it never measured that"
    )
    hog_excess_bytes: int = bounded(
        4 << 30, 1 << 30, 1 << 40, "memory held beyond the peak needed: at least so much is a confirmed hog"
    )
    hog_excess: float = bounded(0.25, 0.05, 1.0, "and at least this part of the GPU")
    memory_margin: float = bounded(0.2, 0.0, 1.0, "a cap leaves so much over the peak")
    context_bytes: int = bounded(1 << 29, 0, 8 << 30, "and so much for the CUDA context")
    shared_reserve_bytes: int = bounded(SHARED_RESERVE_BYTES, 0, 64 << 30, "left free on a shared GPU")
    pack_p95: float = bounded(0.5, 0.05, 0.9, "95th percentile of SM active of each of a pair, at most")
    pack_p95_sum: float = bounded(0.9, 0.1, 1.0, "and of both together")
    pack_window_s: int = bounded(3600, 1800, 604_800, "measured over so long")
    fit_window_s: int = bounded(
        86_400, 21_600, 2_592_000, "how long a job must have been measured before a smaller size is advised"
    )
    fit_p95: float = bounded(
        0.8, 0.2, 1.0, "how much of a smaller size's compute its busiest minutes may fill"
    )
    fit_memory: float = bounded(FULL_RATIO, 0.2, 0.95, "and its peak of the memory")
    fit_controller: float = bounded(0.1, 0.0, 1.0, "with more memory traffic no smaller size is advised")
    move_s: int = bounded(60, 0, 3600, "what a move costs, where no resize was measured")
    move_pays: float = bounded(2.0, 1.0, 100.0, "moves must bring so many times what they cost")

    def __post_init__(self) -> None:
        for item in fields(self):
            value, low, high = getattr(self, item.name), item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ValueError(f"advice {item.name} must lie in [{low}, {high}]; got {value}")
