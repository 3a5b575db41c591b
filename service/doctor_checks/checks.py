"""What this machine can measure, what it can't, why, and what to do: one small examination a row.

Each looks at one thing and never raises for what it finds. Nothing is changed, nothing is kept.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from service import data_folder as client_place
from service.client import running
from service.doctor_checks import answers, control_checks, ray, slurm
from service.doctor_checks.clusters import clusters
from service.doctor_checks.results import Finding, Verdict
from service.sources.specs import DcgmSpec, NodesSpec, NvmlSpec, PeerSpec, ReplaySpec, SimulatedSpec
from service.summaries import pushing_nodes

if TYPE_CHECKING:
    from collector.sources.nvml.probe import Probe, ProbedGpu
    from service.config.model import Config
    from service.schemas.rows import NodesRow

MOST_NODES = 20
"""As many machines as fit a screen, a row each."""
SCARCE_BYTES = 2 * 2**30
"""Below it a store may fill the disk before anybody looks here again."""
PROC = Path("/proc")
CONTAINER_SIGNS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def examine(config: "Config", data: Path) -> Iterator[Finding]:
    """All findings, in the order in which a person would mend them; blocks for some seconds at most."""
    from service.sources.making import chosen_specs

    specs, _ = chosen_specs(config)
    needs_driver = bool(config.collect.sources) and any(isinstance(spec, NvmlSpec) for spec in specs)
    result, version = driver(wanted=needs_driver)
    yield from result
    for spec in specs:
        if not isinstance(spec, NvmlSpec):
            yield _source(spec, config)
    examinations: tuple[Callable[[], Finding], ...] = (
        processes,
        pid_namespace,
        lambda: slurm.slurm(config),
        *((lambda: ray.ray(config),) if config.collect.ray else ()),
        lambda: disk(data),
        lambda: store(data),
        *((lambda: archive(config, data, time.time_ns() // 1_000_000),) if config.archive.address else ()),
    )
    for look in examinations:
        yield look()
    yield from service(data)
    yield from slurm.nodes(data)
    yield from clusters(data)
    yield from acting(config, version)


def acting(config: "Config", driver_version: str | None) -> Iterator[Finding]:
    """What could be done here, once that is allowed: to tell, to pause, to share."""
    yield from control_checks.projects(config)
    yield control_checks.engines()
    yield from control_checks.hooks(config)
    yield control_checks.terminals(config)
    yield control_checks.checkpoint(config, driver_version)
    yield from slurm.engine(config)
    yield control_checks.mps()
    yield control_checks.elastic_network(config)


def processes(proc: Path = PROC) -> Finding:
    """Whether other people's processes can be read: environments and libraries name job and framework."""
    from collector.procfs.proc_files import view_of

    if view_of(proc).hides_pids:
        return Finding(
            subject="processes",
            verdict=Verdict.LIMITED,
            found="/proc is mounted with hidepid: other people's processes are hidden",
            advice="run the service as root, or in the group that gid= of the mount names",
        )
    if os.geteuid() != 0 and not _may_read_all(proc):
        return Finding(
            subject="processes",
            verdict=Verdict.LIMITED,
            found="other people's user and command are readable, their libraries and environment are not: "
            "framework, and jobs given by CUDA_VISIBLE_DEVICES, stay unknown",
            advice="run the service as root, or give it CAP_SYS_PTRACE",
        )
    return Finding(subject="processes", verdict=Verdict.GOOD, found="users, frameworks and jobs are readable")


def pid_namespace(proc: Path = PROC) -> Finding:
    """Whether the driver's pids are those seen here."""
    from collector.procfs.proc_files import view_of

    inside = any(path.exists() for path in CONTAINER_SIGNS)
    where = "in a container" if inside else "on the host"
    match view_of(proc).has_host_pids:
        case False:
            return Finding(
                subject="container",
                verdict=Verdict.LIMITED,
                found=f"{where}, with pids of its own: the driver's pids mean nothing here",
                advice="start the container with the host's pids (docker run --pid=host)",
            )
        case None:
            return Finding(
                subject="container", verdict=Verdict.LIMITED, found=f"{where}; pids could not be compared"
            )
        case _:
            return Finding(subject="container", verdict=Verdict.GOOD, found=f"{where}, with the host's pids")


def disk(data: Path) -> Finding:
    """Whether there is room for the store."""
    place = next((each for each in (data, *data.parents) if each.exists()), Path("/"))
    if not place.is_dir():
        advice = "move that file away, or choose another folder with --data"
        sentence = f"{place} is a file, so that {data} cannot be a folder"
        return Finding(subject="disk", verdict=Verdict.TROUBLE, found=sentence, advice=advice)
    free = shutil.disk_usage(place).free
    sentence = f"{text.size(free)} free for {data}"
    if not os.access(place, os.W_OK):
        advice = "choose a folder of your own with --data"
        return Finding(
            subject="disk", verdict=Verdict.TROUBLE, found=f"{place} may not be written", advice=advice
        )
    if free < SCARCE_BYTES:
        advice = "free some, move the store with --data, or shorten [retention]"
        return Finding(subject="disk", verdict=Verdict.LIMITED, found=sentence, advice=advice)
    return Finding(subject="disk", verdict=Verdict.GOOD, found=sentence)


def store(data: Path) -> Finding:
    """Whether there is a store, and how much it takes."""
    path = client_place.store_file(data)
    if not path.exists():
        advice = "`fallow up` or `fallow serve` makes one"
        return Finding(subject="store", verdict=Verdict.ABSENT, found=f"none in {data} yet", advice=advice)
    sealed = sum(each.stat().st_size for each in (data / "sealed").rglob("*.parquet"))
    sentence = f"{text.size(path.stat().st_size)}, and {text.size(sealed)} of sealed days"
    return Finding(subject="store", verdict=Verdict.GOOD, found=sentence)


def archive(config: "Config", data: Path, now_ms: int) -> Finding:
    """Whether the bucket of archived days answers, with the credentials that are found here, and which days
    it should have and are in DATA still."""
    from collector.store.bucket import ArchivePlace, Bucket
    from collector.store.errors import ArchiveAway

    settings = config.archive
    place = ArchivePlace(
        address=settings.address, endpoint=settings.endpoint, region=settings.region, ca_file=settings.ca_file
    )
    late = _uncopied(data, config.retention.samples_days, now_ms)
    try:
        Bucket(place).answers()
    except ArchiveAway as error:
        advice = "the service needs the same AWS variables or files as this shell; see docs/store.md"
        return Finding(subject="archive", verdict=Verdict.TROUBLE, found=f"{error}{late}", advice=advice)
    verdict = Verdict.LIMITED if late else Verdict.GOOD
    return Finding(subject="archive", verdict=verdict, found=f"{place.shown} answers{late}")


def _uncopied(data: Path, samples_days: float, now_ms: int) -> str:
    """Which sealed days are older than they are kept for: each hour they are copied, and go."""
    from collector.store.retention import cut_ms

    cut = datetime.fromtimestamp(cut_ms(now_ms, samples_days) / 1000, UTC).date().isoformat()
    days = {folder.name.removeprefix("day=") for folder in data.glob("sealed/day=*") if any(folder.iterdir())}
    late = sorted(day for day in days if day < cut)
    if not late:
        return ""
    return (
        f"; {text.many(len(late), 'sealed day')} past samples_days ({samples_days:g}), the oldest "
        f"{late[0]}, {'is' if len(late) == 1 else 'are'} not copied yet: a running service tries every hour"
    )


def service(data: Path) -> Iterator[Finding]:
    """Whether a service runs for this DATA, whether it is well, and what each of its sources answers."""
    from service.client import ClientError, connect

    announcement = running(data)
    if announcement is None:
        advice = "start one with `fallow serve`, or with the dashboard: `fallow up`"
        yield Finding(subject="service", verdict=Verdict.ABSENT, found=f"none runs for {data}", advice=advice)
        return
    try:
        with connect(data) as client:
            health = client.health()
            remark = f", {health.remark}" if health.remark else ""
            status = (
                f"{announcement.url}, process {announcement.pid}, "
                f"version {health.version}: {health.status}{remark}"
            )
            well = health.status != "degraded"
            yield Finding(
                subject="service",
                verdict=Verdict.GOOD if well else Verdict.TROUBLE,
                found=status,
                advice="" if well else str(health.reason),
            )
            yield from answers.findings(answers.answers_of(client))
            yield from pushed_nodes(client.rows_if_kept("nodes") or [], datetime.now(UTC))
    except ClientError as error:
        yield Finding(subject="service", verdict=Verdict.TROUBLE, found=str(error))


def pushed_nodes(rows: "list[NodesRow]", at: datetime) -> Iterator[Finding]:
    """A row for each machine that pushes, those with trouble first; many that are well are one row."""
    node_words = pushing_nodes.of_nodes(rows, at)
    for node in node_words[:MOST_NODES]:
        yield Finding(
            subject=f"node {node.node}",
            verdict=Verdict.LIMITED if node.trouble else Verdict.GOOD,
            found=node.state,
            advice="; ".join(node.trouble),
        )
    rest = node_words[MOST_NODES:]
    if rest:
        silent = sum(bool(node.trouble) for node in rest)
        sentence = f"{len(rest)} more push" + (
            f"; {silent} of them are silent, or their clock is wrong" if silent else ""
        )
        yield Finding(
            subject="nodes",
            verdict=Verdict.LIMITED if silent else Verdict.GOOD,
            found=f"{sentence}: `GET /v1/query/nodes` of the API has all",
        )


def driver(*, wanted: bool) -> tuple[tuple[Finding, ...], str | None]:
    """Whether an NVIDIA driver is here and what each GPU measures, and the driver's version.

    ``wanted``: somebody chose ``nvml``. The driver itself is asked: a machine may lack the usual signs of it
    and have GPUs all the same. Blocks while it initializes, at most a minute.
    """
    from collector.sources.nvml.probe import probe
    from service.sources.gpu_presence import look_for_gpus

    presence = look_for_gpus()
    if presence.fault is not None:
        what, _, advice = presence.fault.partition(". ")
        return (Finding(subject="NVIDIA driver", verdict=Verdict.TROUBLE, found=what, advice=advice),), None
    probe_result = probe()
    if probe_result.is_absent and not presence.has_driver and not wanted:
        absent = Finding(
            subject="NVIDIA driver",
            verdict=Verdict.ABSENT,
            found="no driver is loaded on this machine, and no NVIDIA GPU is on its PCI bus",
            advice="with GPUs here: install the driver, or start the container with --gpus all; without: "
            "watch other machines (--source dcgm=URL or fallow=URL), or look at invented data (--simulated)",
        )
        return (absent,), None
    return tuple(driver_findings(probe_result)), probe_result.driver_version


def driver_findings(probe_result: "Probe") -> Iterator[Finding]:
    """What a probe of the driver says: the driver, then each GPU with what it can't measure. Pure."""
    if probe_result.problem is not None:
        what, _, remedy = probe_result.problem.partition("; ")
        advice = "; ".join(filter(None, (remedy, *probe_result.advice)))
        yield Finding(subject="NVIDIA driver", verdict=Verdict.TROUBLE, found=what, advice=advice)
        return
    boards = sum(gpu.parent_uuid is None for gpu in probe_result.gpus)
    yield Finding(
        subject="NVIDIA driver",
        verdict=Verdict.TROUBLE
        if probe_result.failed
        else Verdict.LIMITED
        if probe_result.advice
        else Verdict.GOOD,
        found="; ".join(
            (
                f"driver {probe_result.driver_version or 'of an unreadable version'}, "
                f"CUDA {probe_result.cuda_version or 'of an unknown version'}, {text.many(boards, 'GPU')}",
                *probe_result.failed,
            )
        ),
        advice="; ".join(probe_result.advice),
    )
    yield from (_gpu(gpu) for gpu in probe_result.gpus)


def _gpu(gpu: "ProbedGpu") -> Finding:
    model = (gpu.model or "unknown model").removeprefix("NVIDIA ")
    name = f"{model} {gpu.mig_profile}" if gpu.mig_profile else model
    missing = [f"{measure.words}: {measure.reason}" for measure in gpu.measures if measure.by is None]
    measured = sum(measure.by is not None for measure in gpu.measures)
    return Finding(
        subject=f"GPU {gpu.index}",
        verdict=Verdict.LIMITED if missing else Verdict.GOOD,
        found=f"{name}: measures {measured} of {len(gpu.measures)}"
        + (f"; not {'; not '.join(missing)}" if missing else ""),
    )


def _source(
    spec: "DcgmSpec | NodesSpec | PeerSpec | ReplaySpec | SimulatedSpec", config: "Config"
) -> Finding:
    match spec:
        case SimulatedSpec():
            shape = config.simulated
            sentence = f"{shape.nodes} nodes of {shape.gpus_per_node} GPUs that are not there"
            return Finding(subject="simulated", verdict=Verdict.GOOD, found=sentence)
        case NodesSpec():
            sentence = "machines push to this service; each of them is below, where it runs"
            return Finding(subject="nodes", verdict=Verdict.GOOD, found=sentence)
        case ReplaySpec(path=path):
            verdict = Verdict.GOOD if Path(path).is_file() else Verdict.TROUBLE
            return Finding(subject="replay", verdict=verdict, found=f"{path}")
        case DcgmSpec(urls=urls) | PeerSpec(urls=urls):
            return scraped(urls, "dcgm" if isinstance(spec, DcgmSpec) else "fallow", config)


def scraped(urls: tuple[str, ...], kind: str, config: "Config") -> Finding:
    """What exporters, or other Fallows, answer when they are asked once as the service asks them."""
    from dataclasses import replace

    from collector.reading import Reading
    from service.server.assemble import read_once

    alone = replace(config.collect, sources=(f"{kind}={','.join(urls)}",), slurm=False)
    tick, _ = read_once(replace(config, collect=alone))
    outcome = tick.outcomes[0]
    if not isinstance(outcome, Reading):
        return Finding(subject=kind, verdict=Verdict.TROUBLE, found=outcome.reason)
    sentence = f"{len(outcome.gpus)} GPUs from {len(urls)} addresses in {outcome.duration_ms:.0f} ms"
    silent = "; ".join(sorted({gap.reason for gap in outcome.gaps}))
    verdict = Verdict.LIMITED if silent else Verdict.GOOD
    return Finding(subject=kind, verdict=verdict, found=sentence, advice=silent)


def _may_read_all(proc: Path) -> bool:
    """CAP_SYS_PTRACE is bit 19 of the effective set (capability.h)."""
    try:
        status = (proc / "self" / "status").read_text()
    except OSError:
        return False
    line = next((each for each in status.splitlines() if each.startswith("CapEff:")), "CapEff: 0")
    return bool(int(line.split()[1], 16) >> 19 & 1)
