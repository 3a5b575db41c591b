"""Makes the configured sources and inventories out of their names; imports only what is asked for."""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import urlsplit

from service.errors import FallowError
from service.sources.gpu_presence import FaultNamed, GpuPresence, look_for_gpus
from service.sources.specs import (
    DcgmSpec,
    NodesSpec,
    NvmlSpec,
    PeerSpec,
    ReplaySpec,
    SimulatedSpec,
    SourceSpec,
    parse_specs,
)

if TYPE_CHECKING:
    from collector.attribution import Attribution
    from collector.inventory.hub import HubAccounts
    from collector.inventory.leases import Guests, Launched, Lease
    from collector.managers.model import KnownRun
    from collector.managers.ray.reader import RayManager
    from collector.reading import Reading
    from collector.scrape_loop import Attribute
    from collector.source import Source
    from collector.sources.replay.recording import Recording
    from collector.sources.simulated.cluster import SimulatedCluster
    from collector.store.database import Store
    from collector.store.origin import Origin
    from service.config.model import Config

NOTHING_HERE = (
    "this machine has no NVIDIA GPU (no driver is loaded, and none is on the PCI bus), so there is nothing "
    "to measure here. Name what to watch: --source dcgm=URL, --source fallow=URL or --source nodes for other "
    "machines; for a look at Fallow with invented data, --simulated"
)

NOT_PUSHED_TO = (
    "--source nodes is for a service: machines push to it, and there is nothing to read from here. Start "
    "`fallow serve --source nodes`, and `fallow node --head URL` on each machine"
)


class SourceRefused(FallowError):
    """A source cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is read each tick, and the cluster or the recording behind it, when there is one."""

    live: "tuple[Source, ...]"
    inventories: "tuple[Source, ...]"
    simulated: "SimulatedCluster | None"
    recording: "Recording | None"
    remarks: tuple[str, ...]

    @property
    def are_simulated(self) -> bool:
        """Whether what they bring is invented: by the simulated cluster, or by one that was recorded."""
        return self.simulated is not None or (self.recording is not None and self.recording.simulated)


def chosen_specs(
    config: "Config", presence: GpuPresence | None = None
) -> tuple[tuple[SourceSpec, ...], tuple[str, ...]]:
    """The sources and, where nobody chose them, a remark on what is wrong with this machine's own GPUs.

    Invented data is never chosen here: whoever wants the simulated cluster asks for it.
    """
    if config.collect.sources:
        return parse_specs(config.collect.sources), ()
    fault = (presence or look_for_gpus()).fault
    return (NvmlSpec(),), () if fault is None else (f"Fault: {fault}.",)


def refuse_no_gpus(config: "Config", origin: "Origin | None", presence: GpuPresence | None = None) -> None:
    """Raise ``SourceRefused`` where there is nothing to measure: no source was chosen, no GPU is here, and
    the store has held none. A store that has held real GPUs goes on: that they are gone is to be said.
    """
    if config.collect.sources or origin is not None:
        return
    presence_now = presence or look_for_gpus()
    if not presence_now.has_driver and not presence_now.without_driver:
        raise SourceRefused(NOTHING_HERE)


def refuse_other_origin(store: "Store", sources: "Sources") -> None:
    """Raise ``SourceRefused`` where what the sources bring may not go into this store."""
    from collector.store.errors import StoreMixed
    from collector.store.origin import Origin

    try:
        store.must_take(Origin.SIMULATED if sources.are_simulated else Origin.REAL)
    except StoreMixed as error:
        raise SourceRefused(f"{store.folder}: {error}") from error


def make_sources(
    config: "Config",
    leases: "Callable[[], Iterable[Mapping[str, object]]] | None" = None,
    launched: "Launched | None" = None,
    *,
    guests: "Guests" = dict,
    runs: "Sequence[KnownRun]" = (),
    nodes: "Source | None" = None,
) -> Sources:
    """The sources, ready to be read; a recording is read whole. Raises ``FallowError``.

    ``leases`` gives the rows of the leases in force, where there is a store; ``launched`` the processes that
    are known to be their jobs', ``guests`` who was sent into the idle gaps of which GPU. ``runs`` are the
    runs of a workload manager that the store knows. ``nodes`` takes in what other machines push; only a
    service is pushed to.
    """
    specs, remarks = chosen_specs(config)
    cluster = make_cluster(config) if SimulatedSpec() in specs else None
    recording = next((_recording(spec.path) for spec in specs if isinstance(spec, ReplaySpec)), None)
    live = tuple(_make(spec, config, cluster, recording, nodes) for spec in specs)
    real = any(isinstance(spec, NvmlSpec | DcgmSpec | NodesSpec) for spec in specs)
    lease_sources = () if leases is None or not real else (_lease_source(leases, launched, guests),)
    return Sources(
        live=(*live, *lease_sources),
        inventories=tuple(_inventories(config, runs)) if real else (),
        simulated=cluster,
        recording=recording,
        remarks=remarks,
    )


def make_attribute(config: "Config") -> "Attribute":
    """Who holds what, by the configured projects; a process over which that trips costs itself alone."""
    from collector.attribution import effective
    from collector.attribution_faults import EachAlone
    from collector.inventory.projects import Projects, project_lookup

    project_of = project_lookup(Projects(users=config.projects, groups=config.project_groups))

    def attribute(readings: "Sequence[Reading]", now_ms: int) -> "Attribution | None":
        return effective(readings, now_ms, project_of=project_of)

    return EachAlone(attribute)


def hub_accounts(accounts: "Sequence[str]") -> "HubAccounts":
    """The accounts as uids and names. Raises ``SourceRefused`` for one that is not here."""
    from collector.inventory.hub import HubAccounts
    from collector.procfs.accounts import name_of, uid_of

    uids = {account: int(account) if account.isdecimal() else uid_of(account) for account in accounts}
    unknown = next((account for account, uid in uids.items() if uid is None), None)
    if unknown is not None:
        raise SourceRefused(
            f"collect.hub_accounts names {unknown!r}, which is no account of this machine; write its uid "
            "where it is one inside of the hub's images alone"
        )
    uids_named = frozenset(uid for uid in uids.values() if uid is not None)
    return HubAccounts(uids=uids_named, names=frozenset(map(name_of, uids_named)))


def make_cluster(config: "Config") -> "SimulatedCluster":
    """A cluster of the configured seed and size: each call a new one, and all of them the same."""
    from collector.sources.simulated.cluster import SimulatedCluster

    shape = config.simulated
    return SimulatedCluster(seed=shape.seed, nodes=shape.nodes, gpus_per_node=shape.gpus_per_node)


def _recording(path: PurePath) -> "Recording":
    from collector.clock import SystemClock
    from collector.sources.replay.errors import RecordingError
    from collector.sources.replay.read import open_recording

    try:
        return open_recording(Path(path), now_ms=SystemClock().now_ms())
    except RecordingError as error:
        raise SourceRefused(str(error)) from error


def _make(
    spec: SourceSpec,
    config: "Config",
    cluster: "SimulatedCluster | None",
    recording: "Recording | None",
    nodes: "Source | None",
) -> "Source":
    match spec:
        case SimulatedSpec():
            assert cluster is not None
            return cluster.source()
        case NvmlSpec():
            return _nvml(config)
        case DcgmSpec(urls=urls):
            return _dcgm(urls, config)
        case PeerSpec(urls=urls):
            return _peers(urls, config)
        case NodesSpec():
            if nodes is None:
                raise SourceRefused(NOT_PUSHED_TO)
            return nodes
        case ReplaySpec():
            from collector.sources.replay.source import ReplaySource

            assert recording is not None
            return ReplaySource(recording)
        case _:
            assert_never(spec)


def _nvml(config: "Config") -> "Source":
    from collector.model import NodeName
    from collector.sources.nvml.source import NvmlOptions, NvmlSource
    from service.sources.described import Described

    node = NodeName(socket.gethostname())
    options = NvmlOptions(
        tick_ms=round(config.collect.tick_s * 1000), processes_every=config.collect.process_every_ticks
    )
    source = FaultNamed(NvmlSource(node=node, options=options))
    if not config.collect.process_details:
        return source
    return Described(source, node, hub_accounts(config.collect.hub_accounts))


def _dcgm(urls: tuple[str, ...], config: "Config") -> "Source":
    from collector.dcgm.fetch import Limits
    from collector.dcgm.source import DcgmSettings, dcgm_source

    limits = Limits.of_gpus(config.collect.gpus_per_address, config.collect.scrape_timeout_s)
    interval_ms = round(config.collect.dcgm_interval_s * 1000)
    return dcgm_source(DcgmSettings(urls=urls, interval_ms=interval_ms, limits=limits))


def _peers(urls: tuple[str, ...], config: "Config") -> "Source":
    from collector.dcgm.fetch import Limits
    from collector.sources.peer import PeerSettings, peer_source

    limits = Limits.of_gpus(config.collect.gpus_per_address, config.collect.scrape_timeout_s)
    return peer_source(PeerSettings(urls=urls, limits=limits))


def _inventories(config: "Config", runs: "Sequence[KnownRun]") -> "Iterator[Source]":
    from collector.inventory.slurm_programs import is_a_site

    if config.collect.slurm and is_a_site():
        from collector.managers.slurm.reader import SlurmManager
        from collector.managers.source import ManagerSource

        yield ManagerSource(SlurmManager(runs))
    if config.collect.kubernetes:
        yield _kubernetes(config)
    if config.collect.ray:
        from collector.managers.source import ManagerSource

        yield ManagerSource(ray_manager(config))


def _kubernetes(config: "Config") -> "Source":
    from collector.managers.kubernetes.api import account_of
    from collector.managers.kubernetes.reader import KubernetesManager
    from collector.managers.source import ManagerSource

    collect = config.collect
    files = collect.kubernetes_token_file, collect.kubernetes_ca_file
    account = account_of(collect.kubernetes, *files)
    if account is None:
        raise SourceRefused(
            "collect.kubernetes is `in-cluster`, or an address that begins with https:// together with "
            "collect.kubernetes_token_file"
        )
    return ManagerSource(KubernetesManager(account, jobs=config.foreign.kubernetes))


def ray_manager(config: "Config") -> "RayManager":
    """The Ray cluster that is configured. Raises ``SourceRefused`` for an address that is none."""
    from collector.managers.ray.api import Account
    from collector.managers.ray.reader import RayManager

    collect = config.collect
    parts = urlsplit(collect.ray)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise SourceRefused(
            "collect.ray is the address of Ray's dashboard, as http://head:8265; a token goes into the file "
            "that collect.ray_token_file names"
        )
    account = Account(
        url=collect.ray.rstrip("/"),
        token_file=Path(collect.ray_token_file) if collect.ray_token_file else None,
        ca_file=Path(collect.ray_ca_file) if collect.ray_ca_file else None,
    )
    return RayManager(account, user_key=collect.ray_user_key)


def _lease_source(
    leases: "Callable[[], Iterable[Mapping[str, object]]]", launched: "Launched | None", guests: "Guests"
) -> "Source":
    """Read at every tick: it costs one query, and a job that just began is its owner's from the first one."""
    from collector.inventory.leases import LeaseSource

    return LeaseSource(lambda: [_lease(row) for row in leases()], launched, guests)


def _lease(row: Mapping[str, Any]) -> "Lease":
    from collector.inventory.leases import Lease
    from collector.model import JobKind

    return Lease(
        gpu_uuid=row["gpu_uuid"],
        job=row["job"],
        user=row["user_name"],
        project=row["project"],
        name=row["job_name"],
        kind=None if row["kind"] is None else JobKind(row["kind"]),
        share=row["share"],
    )
