"""What can be configured, with its default, its unit, its bounds and its sentence; no reading of files.

One TOML file, one tree: every table is a dataclass here or beside here, every key a field. Precedence is
default < file < flag. Environment variables carry secrets and paths only, never a setting.

``docs/configuration.md`` is written from these classes (``service.config.reference``): the first line of a
class's docstring is its heading, the paragraphs after it are its words, each key's ``about`` is its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.planner.limits import PlannerConfig
from analytics.thresholds import Thresholds
from service.config.alerting import AlertsConfig, ReceiverConfig
from service.config.archive import ArchiveConfig
from service.config.bounding import LimitsConfig
from service.config.deciding import (
    ActingConfig,
    ConsentConfig,
    DecidingConfig,
    ExternalJobsConfig,
    MembershipConfig,
    ModesConfig,
    ProjectModesConfig,
    ProtectConfig,
    QuotaConfig,
    check_tree,
)
from service.config.fields import Misplaced, bounded, names, told
from service.config.hooks import HookConfig, check_hooks
from service.config.node import NodeConfig
from service.config.remote_write import RemoteWriteConfig
from service.config.system import SystemConfig
from service.config.telling import DeliveryConfig, ReportConfig, check_receivers
from service.errors import FallowError
from service.logs import LogFormat

__all__ = [
    "ActingConfig",
    "AlertsConfig",
    "ApiConfig",
    "CollectConfig",
    "Config",
    "ConfigError",
    "ConsentConfig",
    "DashboardConfig",
    "DeliveryConfig",
    "ExternalJobsConfig",
    "HookConfig",
    "LimitsConfig",
    "LogConfig",
    "MembershipConfig",
    "ModesConfig",
    "NodeConfig",
    "PlannerConfig",
    "PricesConfig",
    "ProjectModesConfig",
    "ProtectConfig",
    "QuotaConfig",
    "ReceiverConfig",
    "RehearsalConfig",
    "RemoteWriteConfig",
    "ReportConfig",
    "RetentionConfig",
    "Setting",
    "SimulatedConfig",
    "StoreConfig",
    "SystemConfig",
    "Thresholds",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectConfig:
    """What is read, and how often."""

    sources: tuple[str, ...] = told(
        (),
        "`nvml`, `nodes`, `dcgm=URL[,URL]`, `fallow=URL[,URL]`, `replay=FILE`, or `simulated` alone; none: "
        "`nvml`, this machine's own GPUs (flag `--source`, repeatable; `--simulated`)",
    )
    tick_s: float = bounded(10.0, 1, 300, "seconds between two readings (flag `--tick`)")
    process_every_ticks: int = bounded(
        3, 1, 60, "the driver's process lists are dear: read at every n-th tick"
    )
    source_timeout_s: float = bounded(
        8.0, 0.5, 300, "how long a tick waits for a source; never more than 4/5 of a tick"
    )
    inventory_every_s: float = bounded(
        30.0, 1, 3600, "how often Slurm, Kubernetes and Ray are asked; leases are read at every tick"
    )
    process_details: bool = told(True, "read user, framework and job of each process from `/proc`")
    hub_accounts: tuple[str, ...] = told(
        (),
        "accounts, by name or uid, as which a JupyterHub runs its users' containers: of those, and of no "
        "others, `JUPYTERHUB_USER` is believed "
        "([who is behind a container](who-and-what.md#who-is-behind-a-container))",
    )
    slurm: bool = told(True, "ask `squeue`, where it is installed")
    kubernetes: str = told(
        "",
        "`in-cluster`, where this is a pod with a service account, or the API server's `https` address; "
        "empty: not asked ([Kubernetes](kubernetes.md))",
    )
    kubernetes_token_file: str = told("", "the file of the token, where it isn't the pod's own")
    kubernetes_ca_file: str = told("", "the CA's certificate (PEM) behind that address, beside the system's")
    ray: str = told(
        "",
        "the address of a Ray cluster's dashboard, `http://head:8265`; empty: not asked ([Ray](ray.md))",
    )
    ray_token_file: str = told("", "the file of Ray's token, where the cluster wants one")
    ray_ca_file: str = told("", "the CA's certificate (PEM) behind an `https` address, beside the system's")
    ray_user_key: str = told(
        "",
        "the key of a Ray job's metadata that names its person; whoever submits may write it, so name one "
        "only where your own gateway does. Empty: nobody's word is believed",
    )
    dcgm_interval_s: float = bounded(30.0, 1, 600, "dcgm-exporter's own interval: the width of its samples")
    scrape_timeout_s: float = bounded(5.0, 0.5, 60, "how long one exporter or peer may take")
    gpus_per_address: int = bounded(
        1024,
        16,
        100_000,
        "GPUs that one exporter or peer may name within a day, for each becomes rows: a page that names more "
        "is not believed. One machine has 128 at most; more for a Prometheus or a Fallow that speaks for a "
        "cluster ([bounds of a page](dcgm.md#when-a-page-cannot-be-believed))",
    )
    replay_speed: float = bounded(
        0.0, 0, 1e6, "how many times faster than lived a recording is played; 0: as fast as it goes"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedConfig:
    """The simulated cluster."""

    seed: int = bounded(0, 0, 2**31, "one seed and one size give one cluster, for ever")
    nodes: int = bounded(4, 1, 500, "machines")
    gpus_per_node: int = bounded(8, 1, 16, "GPUs in each")
    backfill_days: int = bounded(14, 0, 60, "the past that is filled in at the first start")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """How long each level is kept, in days."""

    samples_days: float = bounded(30.0, 1, 3650, "samples, sealed or not")
    process_samples_days: float = bounded(30.0, 1, 3650, "samples of processes")
    minutes_days: float = bounded(90.0, 2, 3650, "the one-minute roll-up")
    hours_days: float = bounded(
        1825.0,
        30,
        36500,
        "the roll-ups of hours and days, and ended allocations, events, gaps, closed findings",
    )
    jobs_days: float = bounded(
        730.0,
        30,
        36500,
        "submitted jobs that ended, with their commands, pauses and leases, so that this year can be held "
        "against the last; who used what stays with the hours",
    )
    consents_days: float = bounded(
        365.0, 30, 36500, "what owners allowed and then took back, or of jobs that ended; what holds stays"
    )
    seal_after_days: float = bounded(1.0, 1, 30, "how long after its end a UTC day is moved to Parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesConfig:
    """Money."""

    currency: str = told("USD", "shown beside every amount")
    per_gpu_hour: Mapping[str, float] = names(
        'GPU model as the driver names it = the price of an hour; `"*"` prices all others', 0, 1e6
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """The service's door."""

    host: str = told(
        "127.0.0.1",
        "the address to answer at (flag `--host`); anything but loopback lets other machines in, with the "
        "token",
    )
    port: int = bounded(
        9475,
        1,
        65535,
        "the port (flag `--port`); where nobody chose it and it is taken, a free one is used",
    )
    socket: str = told(
        "",
        'the Unix socket: a path, `"off"` for none; empty: `/run/fallow/fallow.sock` where that folder is '
        "there and the service may write to it, else `DATA/fallow.sock`",
    )
    operators: tuple[str, ...] = told(
        (), "users who may act on everybody's jobs, beside root and the user that the service runs as"
    )
    open_metrics: bool = told(False, "let `/metrics` be scraped without the token")
    private: bool = told(
        False,
        "hide commands and names of other people's jobs from everybody but operators "
        "([private mode](act-safely.md#private-mode))",
    )
    query_threads: int = bounded(4, 1, 64, "questions answered at once")
    query_queue: int = bounded(
        64, 1, 10_000, "questions that may wait beyond those; more are refused at once"
    )
    query_timeout_s: float = bounded(30.0, 0.1, 3600, "after so long a question is interrupted")
    answer_mib: int = bounded(
        64,
        1,
        4096,
        "the largest answer to a question, in MiB of Arrow data, a quarter as JSON: 600,000 rows of a "
        "hundred bytes; what is larger is refused, with how to ask for less",
    )
    export_gib: float = bounded(
        16.0,
        0.001,
        4096,
        "the largest export, in GiB: a month of a thousand GPUs in Parquet takes four; each person has one "
        "at a time on the disk, until it is sent",
    )
    send_timeout_s: float = bounded(60.0, 1, 3600, "a reader that takes nothing for so long is given up on")
    receive_timeout_s: float = bounded(
        20.0, 1, 3600, "a request that has not come whole by then is given up on"
    )
    connections: int = bounded(
        2048,
        4,
        10_000,
        "connections at once, launchers and readers together; one user has at most half of them",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """Where the dashboard is shown, and whether one can act from it."""

    port: int = bounded(9476, 1, 65535, "where `fallow up` shows it, on loopback (flag `--dashboard-port`)")
    acting: bool = told(
        False,
        "whether visitors may sign in to it and act, each as themselves (flag `--allow-acting`; "
        "[dashboard](dashboard.md))",
    )
    hosts: tuple[str, ...] = told(
        (),
        "names that it answers to beside loopback, addresses in digits and the machine's own name: the name "
        "of a proxy before it; a page of any other name is not answered ([why](dashboard.md#behind-a-proxy))",
    )
    run_pages: Mapping[str, str] = names(
        "where the runs of a tracker or scheduler have their pages: "
        '`wandb = "https://wandb.ai/{entity}/{project}/runs/{id}"`, `slurm`, `mlflow` and others '
        "([run ids](run-ids.md))"
    )

    def __post_init__(self) -> None:
        from service.summaries.run_links import trouble_with
        from service.trust.hosts import host_name

        for each in self.hosts:
            if host_name(each) != each.lower():
                raise ValueError(f"hosts names {each!r}; write a host's name alone, without scheme and port")
        if trouble := trouble_with(self.run_pages):
            raise ValueError(trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How much of the machine the store may take."""

    memory_mib: int = bounded(1024, 256, 1_048_576, "the most memory that the store's engine takes")
    threads: int = bounded(2, 1, 64, "and the most threads: it is a guest beside other people's jobs")
    temporary_mib: int = bounded(
        4096,
        64,
        1_048_576,
        "the most that questions which need more memory put aside on the disk meanwhile, all together",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What the service writes to its log, on standard error ([how to read it](health.md#the-log)).

    Security events are also kept in `DATA/security.log`.
    """

    format: str = told("text", 'a line of text for each event (`"text"`), or a JSON object (`"json"`)')

    def __post_init__(self) -> None:
        if self.format not in list(LogFormat):
            raise Misplaced(f"format is {' or '.join(LogFormat)}, not {self.format!r}", "format")


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalConfig:
    """A calendar in a hurry.

    For demonstrations and tests on the [stand-in driver](../examples/toys/README.md), whose clock hurries
    with it; never for a real one, where what is measured would be dated wrongly. Clocks, windows and rules
    keep their lengths in calendar time, work takes as long as it takes, and the service says at its start
    that it rehearses.
    """

    speed: float = bounded(1.0, 1, 1000, "the calendar runs so many times as fast as the machine's clock")
    since_ms: int = bounded(
        0,
        0,
        2**53,
        "since then, in UTC milliseconds; needed with a speed, so that a restart goes on in the same "
        "calendar",
    )

    def __post_init__(self) -> None:
        if self.speed > 1 and self.since_ms == 0:
            raise ValueError(
                "a rehearsal needs since_ms, when it began (UTC milliseconds), for its calendar to survive a "
                "restart"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole tree; the reference has its tables in this order."""

    collect: CollectConfig = field(default_factory=CollectConfig)
    simulated: SimulatedConfig = field(default_factory=SimulatedConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    archive: ArchiveConfig = field(default_factory=ArchiveConfig)
    prices: PricesConfig = field(default_factory=PricesConfig)
    projects: Mapping[str, str] = names(
        'Who works for which project. A user = "project". What Slurm or Kubernetes says of a job\'s project '
        "goes first."
    )
    project_groups: Mapping[str, str] = names(
        'The same by Unix group. A group = "project", for users without a line of their own under '
        "`[projects]`."
    )
    findings: Thresholds = field(default_factory=Thresholds)
    quotas: Mapping[str, QuotaConfig] = field(default_factory=dict)
    membership: MembershipConfig = field(default_factory=MembershipConfig)
    consent: ConsentConfig = field(default_factory=ConsentConfig)
    protect: ProtectConfig = field(default_factory=ProtectConfig)
    foreign: ExternalJobsConfig = field(default_factory=ExternalJobsConfig)
    hooks: Mapping[str, HookConfig] = field(default_factory=dict)
    modes: ModesConfig = field(default_factory=ModesConfig)
    deciding: DecidingConfig = field(default_factory=DecidingConfig)
    acting: ActingConfig = field(default_factory=ActingConfig)
    advice: PlannerConfig = field(default_factory=PlannerConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    delivery: DeliveryConfig = field(default_factory=DeliveryConfig)
    reports: Mapping[str, ReportConfig] = field(default_factory=dict)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    remote_write: RemoteWriteConfig = field(default_factory=RemoteWriteConfig)
    node: NodeConfig = field(default_factory=NodeConfig)
    dashboard: DashboardConfig = field(default_factory=DashboardConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)
    rehearsal: RehearsalConfig = field(default_factory=RehearsalConfig)
    system: SystemConfig = field(default_factory=SystemConfig)

    def __post_init__(self) -> None:
        check_tree(self.quotas)
        check_hooks(self.hooks)
        check_receivers(self.delivery, self.reports, self.alerts.to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One effective value and where it came from: ``default``, ``fallow.toml:12`` or ``--port``."""

    key: str
    value: object
    origin: str


class ConfigError(FallowError):
    """The configuration cannot be used; the message names the place, the finding and what would do."""
