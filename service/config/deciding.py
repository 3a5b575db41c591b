"""What can be configured of deciding and acting: quotas, consent, protection, modes, and the loop's times."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from advisor.planner.limits import Lending, Limits, Mode, Order
from analytics.vocabulary.actions import ACTIONS, ActionClass
from service.config.fields import Misplaced, bounded, names, others, told

GROUP_SIGN = "@"
"""Before the name of a group among members; no account's name begins with it (useradd(8))."""
EVERYBODY = "*"

BOUNDS = Limits()
"""What decisions keep to where a site says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """What a project is guaranteed.

    One table a project of the tree, and only the projects that need one: a project without a table has no
    quota and weight 1. `[projects]` says who works for which. What the numbers mean stands in
    [projects and quotas](quotas.md).
    """

    gpus: float = bounded(
        0.0, 0, 1e6, "guaranteed GPUs; 0 on a project that has others below it: the sum of theirs"
    )
    limit: float = bounded(0.0, 0, 1e6, "never more than this; 0: no limit")
    weight: float = bounded(1.0, 0, 1e6, "its part of what is left over")
    priority: int = bounded(0, -1000, 1000, "the highest takes what is left over first")
    parent: str = told("", "the project above it, which needs a table of its own")
    members: tuple[str, ...] = told(
        (),
        'who may use it and the projects below it that list nobody: users, `"@group"`s of this machine, or '
        '`"*"`; `[projects]` and `[project_groups]` add to it ([who may use a '
        "project](quotas.md#who-may-use-a-project))",
    )

    def __post_init__(self) -> None:
        for each in self.members:
            if not each.removeprefix(GROUP_SIGN).strip():
                raise ValueError(f'members names {each!r}; write a user, "@" and a group, or "*"')
        if 0 < self.limit < self.gpus:
            raise ValueError(f"a limit of {self.limit:g} GPUs is below the quota of {self.gpus:g}")


class MembershipRule(StrEnum):
    """Who may use a project: its members, or whoever names it."""

    MEMBERS = "members"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """Who may use a project.

    A job runs on the guarantee of the project that it names, and is charged to it; so only members name it.
    [Who they are](quotas.md#who-may-use-a-project).
    """

    rule: str = told(
        MembershipRule.MEMBERS.value,
        '`"members"`, or `"open"`: every account uses every project, for sites where all trust each other',
    )

    def __post_init__(self) -> None:
        _check_choice("rule", self.rule, MembershipRule)


def check_tree(quotas: Mapping[str, QuotaConfig]) -> None:
    """Whether the projects form a tree. Raises ``Misplaced``."""
    for name, quota in quotas.items():
        if quota.parent and quota.parent not in quotas:
            near = difflib.get_close_matches(quota.parent, quotas, n=1)
            meant = f"; did you mean {near[0]}?" if near else f": write [quotas.{quota.parent}] too"
            sentence = f"quotas.{name}.parent names {quota.parent}, which has no table of its own{meant}"
            raise Misplaced(sentence, "quotas", name, "parent")
    for name in quotas:
        path = [name]
        while (above := quotas[path[-1]].parent) and above not in path:
            path.append(above)
        if above:
            ring = " -> ".join([*path, above])
            raise Misplaced(f"projects {ring} are their own ancestors", "quotas", name, "parent")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentConfig:
    """Who allows what with running jobs.

    Lists of users or projects; `"*"` is everybody. Nobody is in them by default, so Fallow only ever tells.
    """

    share: tuple[str, ...] = told((), "whose jobs may lie beside other people's on one GPU")
    preemptible: tuple[str, ...] = told((), "whose jobs may be paused, moved or put back in the queue")
    checkpointable: tuple[str, ...] = told(
        (), "whose jobs can be checkpointed, by themselves or from outside"
    )
    partitions: tuple[str, ...] = told(
        (),
        "partitions of Slurm whose batch jobs save themselves when they are told to end, and may be put back "
        "into the queue and held ([Slurm](slurm-pause.md#who-allows-it))",
    )
    qos: tuple[str, ...] = told((), "the same by QOS of Slurm")
    owners: bool = told(
        True, "owners may allow things with own jobs by `fallow consent`; an owner's no counts always"
    )
    opt_out: Mapping[str, tuple[str, ...]] = names(
        "a user or project = a list of classes of action (the names of `[modes]`, with hyphens) that are not "
        "even advised"
    )

    def __post_init__(self) -> None:
        values = [each.value for each in ActionClass]
        for name, classes in self.opt_out.items():
            for each in classes:
                if each not in values:
                    raise ValueError(f"opt_out of {name} names {each!r}; the classes are {', '.join(values)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectConfig:
    """What is never touched.

    Whatever modes and consent say, nothing is done to these, they are not even told, and advice on them
    says so. A protected GPU is never given away, and whoever holds it is protected with it; a protected job
    still starts.
    """

    users: tuple[str, ...] = told((), "people: all their jobs")
    jobs: tuple[str, ...] = told(
        (),
        'patterns of job ids and names, for example `"slurm:*"` or `"demo-*"`; a name is what its owner '
        "calls the job, so whoever calls one `demo-1` has it protected",
    )
    gpus: tuple[str, ...] = told((), "GPUs by UUID or `node:index`")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalJobsConfig:
    """Jobs that Fallow did not launch.

    What can be done to them, once their owner or an operator consented, and what cannot, stands in
    [foreign](foreign.md).
    """

    terminals: bool = told(True, "write messages to the owner's terminals, where they accept messages")
    checkpoint: bool = told(False, "pause with CUDA's process checkpoint, where its preconditions hold")
    drivers: tuple[int, ...] = bounded(
        (570, 575, 580),
        570,
        9999,
        "major versions of the NVIDIA driver under which it does so: those that are told to bring jobs back. "
        "Add one once it was tried on your machines ([how](cuda-pause.md#another-driver-version))",
    )
    lock_timeout_s: float = bounded(
        10.0, 1, 120, "how long its lock waits for the process before the pause is given up"
    )
    kubernetes: bool = told(
        False,
        "suspend Kubernetes' Jobs whose own annotation allows it, and let them go on "
        "([what it takes](kubernetes.md#pause-jobs))",
    )
    attended_s: int = bounded(
        900, 60, 86_400, "a terminal without input for so long has nobody sitting at it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectModesConfig:
    """The same for one project.

    A project may have modes of its own, for its jobs and those of the projects below it, with any of these
    keys. The nearest word holds: the project's own, else that of the project above it, else the site's.

    ```toml
    [modes]
    reclaim = "advise"
    [modes.vision]
    reclaim = "ask"        # for vision and the projects below it
    [modes.vision-demo]
    reclaim = "off"        # but not for this one of them
    ```
    """

    schedule: str = ""
    fair_share: str = ""
    reclaim: str = ""
    cap_memory: str = ""
    pack: str = ""
    resize: str = ""
    consolidate: str = ""
    right_size: str = ""
    terminate: str = ""
    background: str = ""

    def __post_init__(self) -> None:
        _check_modes({item.name: getattr(self, item.name) for item in fields(self)}, unsaid=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesConfig:
    """How far each class of action goes by itself.

    `"off"`, `"advise"` (say it), `"ask"` (do it once a person approved the plan), `"auto"`.
    """

    schedule: str = told(
        "auto",
        f"{ACTIONS[ActionClass.SCHEDULE].says} ([why](decisions/0012-submitting-is-consent.md))",
    )
    fair_share: str = told("advise", ACTIONS[ActionClass.FAIR_SHARE].says)
    reclaim: str = told("advise", ACTIONS[ActionClass.RECLAIM].says)
    cap_memory: str = told("advise", ACTIONS[ActionClass.CAP_MEMORY].says)
    pack: str = told("advise", ACTIONS[ActionClass.PACK].says)
    resize: str = told("advise", ACTIONS[ActionClass.RESIZE].says)
    consolidate: str = told("advise", ACTIONS[ActionClass.CONSOLIDATE].says)
    right_size: str = told("advise", ACTIONS[ActionClass.RIGHT_SIZE].says)
    terminate: str = told("off", ACTIONS[ActionClass.TERMINATE].says)
    background: str = told("advise", ACTIONS[ActionClass.BACKGROUND].says)
    by_project: Mapping[str, ProjectModesConfig] = others()

    def __post_init__(self) -> None:
        _check_modes({each.name: getattr(self, each.name) for each in fields(self) if each.type is str})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingConfig:
    """The bounds of every decision.

    In seconds of the calendar; [how Fallow decides](decide.md) says what each is for and where its default
    comes from. To have nobody disturbed at all, use `[modes]`.
    """

    order: str = told(
        BOUNDS.order.value,
        'who comes first among jobs of one project and one priority: `"arrival"`, `"shortest"` (by what jobs '
        'report), `"youngest"`, `"goodput"`; the last two let jobs of one project take each other\'s place',
    )
    lending: str = told(
        BOUNDS.lending.value,
        'by whom GPUs are divided that no quota claims: `"projects"`, by weight, or `"jobs"`, by weight '
        "times a project's jobs beyond its quota ([why](decisions/0027-lending-to-jobs.md))",
    )
    min_runtime_s: float = bounded(
        BOUNDS.min_runtime_s, 0, 604_800, "a job runs undisturbed for so long after a start"
    )
    cooldown_s: float = bounded(BOUNDS.cooldown_s, 0, 604_800, "and for so long after it was disturbed")
    actions_per_hour: int = bounded(
        BOUNDS.actions_per_hour or 1,  # a number by default; None, for no bound, is for simulations
        1,
        1_000_000,
        "jobs disturbed in any hour in the whole cluster",
    )
    usage_weight: float = bounded(
        BOUNDS.usage_weight,
        0,
        100,
        "how much a project's use of the last days counts against it when it borrows",
    )
    idle_surcharge: float = bounded(
        BOUNDS.idle_surcharge,
        0,
        100,
        "how many times more a held-idle hour is charged in that; `fallow whatif` shows 1",
    )
    heads: int = bounded(BOUNDS.heads, 1, 1000, "jobs of each queue that are promised a start")
    aging_s: float = bounded(
        BOUNDS.aging_s,
        3600,
        31_536_000,
        "the first job of a queue that has waited so long, and longest of all, has free GPUs held back",
    )
    resize_speedup: float = bounded(
        BOUNDS.resize_speedup, 1, 100, "a resize must make a job so many times as fast, cost included"
    )
    amplification: float = bounded(
        BOUNDS.amplification,
        1,
        100,
        "and take at most so many times the GPU time of the job's smallest world",
    )
    resize_costs_left: float = bounded(
        BOUNDS.resize_costs_left, 0, 10_000, "with so many times its cost still to run"
    )
    resize_pause_s: float = bounded(BOUNDS.resize_pause_s, 0, 86_400, "between two resizes of one job")

    def __post_init__(self) -> None:
        _check_choice("order", self.order, Order)
        _check_choice("lending", self.lending, Lending)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingConfig:
    """How the service looks after submitted jobs.

    In seconds of the machine's clock; [how Fallow acts](act.md) says what each is for.
    """

    every_s: float = bounded(5.0, 0.1, 300, "how often it looks without any reason")
    silent_s: float = bounded(20.0, 1, 3600, "a launcher that was silent for so long gets nothing new")
    launcher_grace_s: float = bounded(
        120.0, 5, 86_400, "silent for so long, and not seen to live: it is lost"
    )
    answer_s: float = bounded(
        10.0, 1, 600, "how long a launcher may take to answer, on top of its job's grace"
    )
    reshape_s: float = bounded(120.0, 1, 3600, "how long workers of another number may take to join")
    manager_rest_s: float = bounded(
        60.0,
        0,
        3600,
        "after Slurm's controller was started, nothing is done to its jobs for so long: it may have "
        "forgotten the newest ones and give their numbers to others",
    )


def _check_modes(modes: Mapping[str, str], *, unsaid: bool = False) -> None:
    for name, mode in modes.items():
        if not (unsaid and mode == ""):
            _check_choice(f"the mode of {name}", mode, Mode)


def _check_choice(name: str, value: str, choices: type[StrEnum]) -> None:
    values = [each.value for each in choices]
    if value not in values:
        raise ValueError(f"{name} is one of {', '.join(values)}, not {value!r}")
