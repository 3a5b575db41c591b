"""What can be configured, with its default, its unit and its bounds: frozen values, no reading of files.

One TOML file, one tree: every table is a dataclass here, every key a field. Precedence is
default < file < flag. Environment variables carry secrets and paths only, never a setting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from advisor.limits import Mode
from advisor.model import ActionClass
from advisor.rules import AdviceRules
from analytics.thresholds import Thresholds
from service.config.telling import DeliveryConfig, ReportConfig
from service.trouble import Trouble


def bounded(default: Any, low: float | None = None, high: float | None = None) -> Any:
    """A field whose value, checked at the door, lies in ``[low, high]``; an open end is ``None``."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectConfig:
    """What is read, and how often. No ``sources``: the NVIDIA driver where there is one, else simulated.

    ``process_every_ticks``: the driver's process lists are dear, so they are read more seldom.
    ``dcgm_interval_s`` is the exporter's own interval, the width of its samples. A ``replay_speed`` of 0
    is as fast as it goes.
    """

    sources: tuple[str, ...] = ()
    tick_s: float = bounded(10.0, 1, 300)
    process_every_ticks: int = bounded(3, 1, 60)
    source_timeout_s: float = bounded(8.0, 0.5, 300)
    inventory_every_s: float = bounded(30.0, 1, 3600)
    process_details: bool = True
    slurm: bool = True
    dcgm_interval_s: float = bounded(30.0, 1, 600)
    scrape_timeout_s: float = bounded(5.0, 0.5, 60)
    replay_speed: float = bounded(0.0, 0, 1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedConfig:
    """The simulated cluster: one seed and one size give one cluster, forever."""

    seed: int = bounded(0, 0, 2**31)
    nodes: int = bounded(4, 1, 500)
    gpus_per_node: int = bounded(8, 1, 16)
    backfill_days: int = bounded(14, 0, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """How long each level is kept, in days; the coarser the level, the longer."""

    samples_days: float = bounded(30.0, 1, 3650)
    process_samples_days: float = bounded(30.0, 1, 3650)
    minutes_days: float = bounded(90.0, 2, 3650)
    hours_days: float = bounded(1825.0, 30, 36500)
    seal_after_days: float = bounded(1.0, 1, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesConfig:
    """Money for a GPU-hour by GPU model; ``"*"`` prices every model that has no row of its own."""

    currency: str = "USD"
    per_gpu_hour: Mapping[str, float] = field(default_factory=dict, metadata={"low": 0, "high": 1e6})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """Where the service answers, and to whom as what. It binds to loopback unless told otherwise.

    ``socket`` is the path of the Unix socket, ``"off"`` for none; empty: /run/fallow/fallow.sock where the
    service may write there, else DATA/fallow.sock. ``operators`` names users who may act on everybody's jobs,
    beside root and the user that the service runs as. ``open_metrics`` lets Prometheus scrape ``/metrics``
    without a token. One user has at most half of the ``connections``.
    """

    host: str = "127.0.0.1"
    port: int = bounded(9475, 1, 65535)
    socket: str = ""
    operators: tuple[str, ...] = ()
    open_metrics: bool = False
    query_threads: int = bounded(4, 1, 64)
    query_queue: int = bounded(64, 1, 10_000)
    query_timeout_s: float = bounded(30.0, 0.1, 3600)
    send_timeout_s: float = bounded(60.0, 1, 3600)
    receive_timeout_s: float = bounded(20.0, 1, 3600)
    connections: int = bounded(2048, 4, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """Where ``fallow up`` shows the dashboard; ``acting``: whether visitors may sign in to it and act."""

    port: int = bounded(9476, 1, 65535)
    acting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How much of the machine the store may take."""

    memory_mib: int = bounded(1024, 128, 1_048_576)
    threads: int = bounded(2, 1, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """What one project of the tree is guaranteed: ``[quotas.NAME]``.

    ``gpus`` is guaranteed, ``limit`` never exceeded (0: no limit); what is left over goes to the highest
    ``priority``, and by ``weight`` among equals. ``parent`` names another project with a table here.
    """

    gpus: float = bounded(0.0, 0, 1e6)
    limit: float = bounded(0.0, 0, 1e6)
    weight: float = bounded(1.0, 0, 1e6)
    priority: int = bounded(0, -1000, 1000)
    parent: str = ""

    def __post_init__(self) -> None:
        if 0 < self.limit < self.gpus:
            raise ValueError(f"a limit of {self.limit:g} GPUs is below the quota of {self.gpus:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentConfig:
    """Who allows what with running jobs: lists of users or projects, ``"*"`` is everybody; nobody by default.

    ``opt_out`` maps a user or project to the classes of action that are never even advised for its jobs.
    """

    share: tuple[str, ...] = ()
    preemptible: tuple[str, ...] = ()
    checkpointable: tuple[str, ...] = ()
    opt_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [each.value for each in ActionClass]
        for name, classes in self.opt_out.items():
            for each in classes:
                if each not in known:
                    raise ValueError(f"opt_out of {name} names {each!r}; the classes are {', '.join(known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectConfig:
    """What nothing is ever done to, whatever the modes and the consent say; advice on it says so.

    ``jobs`` are patterns of ids and names (``slurm:*``); ``gpus`` are UUIDs or ``node:index``.
    """

    users: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignConfig:
    """What may be done to jobs that Fallow did not launch, once their owner or an operator consented.

    ``terminals`` lets messages be written to the owner's terminals. ``checkpoint`` lets a job be paused by
    CUDA's process checkpoint, whose lock waits ``lock_timeout_s``. A terminal without input for
    ``attended_s`` has nobody sitting at it.
    """

    terminals: bool = True
    checkpoint: bool = False
    lock_timeout_s: float = bounded(10.0, 1, 120)
    attended_s: int = bounded(900, 60, 86_400)


def others() -> Any:
    """A field for the tables of names that are no field here: ``[modes.PROJECT]`` beside ``[modes]``."""
    return field(default_factory=dict, metadata={"others": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectModesConfig:
    """The same for one project and those below it, ``[modes.PROJECT]``; empty: as it is above."""

    schedule: str = ""
    fair_share: str = ""
    reclaim: str = ""
    cap_memory: str = ""
    pack: str = ""
    resize: str = ""
    consolidate: str = ""
    right_size: str = ""
    terminate: str = ""

    def __post_init__(self) -> None:
        _check_modes({item.name: getattr(self, item.name) for item in fields(self)}, unsaid=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesConfig:
    """How far each class of action goes by itself: off, advise, ask (approve each plan) or auto.

    ``schedule`` starts, resumes and promises, and disturbs nobody: who submits a job asks for just that.
    """

    schedule: str = "auto"
    fair_share: str = "advise"
    reclaim: str = "advise"
    cap_memory: str = "advise"
    pack: str = "advise"
    resize: str = "advise"
    consolidate: str = "advise"
    right_size: str = "advise"
    terminate: str = "off"
    by_project: Mapping[str, ProjectModesConfig] = others()

    def __post_init__(self) -> None:
        _check_modes({each.name: getattr(self, each.name) for each in fields(self) if each.type is str})


def _check_modes(said: Mapping[str, str], *, unsaid: bool = False) -> None:
    known = [each.value for each in Mode]
    for name, mode in said.items():
        if mode not in known and not (unsaid and mode == ""):
            raise ValueError(f"the mode of {name} is one of {', '.join(known)}, not {mode!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingConfig:
    """How the service looks after submitted jobs, in seconds of the machine's clock.

    It looks every ``every_s``, and at once when something came. A launcher that was silent for ``silent_s``
    gets nothing new; one for ``launcher_grace_s``, and not seen to live, is lost. It may take ``answer_s`` to
    answer, and ``reshape_s`` until workers of another number have joined.
    """

    every_s: float = bounded(5.0, 0.1, 300)
    silent_s: float = bounded(20.0, 1, 3600)
    launcher_grace_s: float = bounded(120.0, 5, 86_400)
    answer_s: float = bounded(10.0, 1, 600)
    reshape_s: float = bounded(120.0, 1, 3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalConfig:
    """A service whose calendar runs ``speed`` times as fast since ``since_ms``, to see slow rules act.

    Every clock, window and rule keeps its length in calendar time; work takes as long as it takes. It is for
    demonstrations and tests on a driver whose clock hurries with it: on a real one, what is measured would be
    dated wrongly.
    """

    speed: float = bounded(1.0, 1, 1000)
    since_ms: int = bounded(0, 0, 2**53)

    def __post_init__(self) -> None:
        if self.speed > 1 and self.since_ms == 0:
            raise ValueError(
                "a rehearsal needs since_ms, when it began (UTC milliseconds), for its calendar to survive a "
                "restart"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole tree.

    ``projects`` maps a user's name to the project that its GPU-hours count for; ``project_groups`` does the
    same for a Unix group, for users who have no line of their own.
    """

    collect: CollectConfig = field(default_factory=CollectConfig)
    simulated: SimulatedConfig = field(default_factory=SimulatedConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    prices: PricesConfig = field(default_factory=PricesConfig)
    projects: Mapping[str, str] = field(default_factory=dict)
    project_groups: Mapping[str, str] = field(default_factory=dict)
    findings: Thresholds = field(default_factory=Thresholds)
    quotas: Mapping[str, QuotaConfig] = field(default_factory=dict)
    consent: ConsentConfig = field(default_factory=ConsentConfig)
    protect: ProtectConfig = field(default_factory=ProtectConfig)
    foreign: ForeignConfig = field(default_factory=ForeignConfig)
    modes: ModesConfig = field(default_factory=ModesConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    advice: AdviceRules = field(default_factory=AdviceRules)
    delivery: DeliveryConfig = field(default_factory=DeliveryConfig)
    reports: Mapping[str, ReportConfig] = field(default_factory=dict)
    api: ApiConfig = field(default_factory=ApiConfig)
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    rehearsal: RehearsalConfig = field(default_factory=RehearsalConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One effective value and where it came from: ``default``, ``fallow.toml:12`` or ``--port``."""

    key: str
    value: object
    origin: str


class ConfigError(Trouble):
    """The configuration cannot be used; the message names the place, the finding and what would do."""
