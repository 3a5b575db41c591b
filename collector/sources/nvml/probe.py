"""What this machine's driver can measure, what it cannot, and why: for ``fallow doctor``. Never raises.

Asks a child of its own once, through the same code as the source, so that what is said here is what the
source will do.
"""

import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.metrics import METRICS
from collector.sources.nvml.convert import (
    CONTAINER_ADVICE,
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    explain,
    explain_call,
    explain_problem,
)
from collector.sources.nvml.identity import HOST_PID_NAMESPACE, shares_host_pids
from collector.sources.nvml.worker import ChildLost, Worker

MEASURES = (
    ("gpu_utilization", "GPU utilization over the tick (share of time in which any kernel ran)"),
    ("gpm", "SM active, occupancy, tensor, DRAM and graphics activity"),
    ("memory_controller", "memory-controller utilization"),
    ("memory", "memory used, reserved and total"),
    *((each.short, each.nvml.words) for each in METRICS if each.nvml and each.nvml.words),
    ("processes", "processes on the GPU"),
    ("process_utilization", "SM share of each process"),
)
"""Name and words, in the order they are shown; what is read by itself stands in the list of metrics."""

_BY_INSTANCE = ("gpm", "memory", "processes")
_BOARD_ALONE = ("gpu_utilization", "memory_controller", "encoder", "decoder", "jpeg", "ofa")
_INSTANCE_REASON = "a MIG instance has no such counter of its own; the board's stand with its parent"
_START_S, _READ_S = 60.0, 20.0
_TICK_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure of one GPU: by which function of the driver, or, when there is none, why not."""

    name: str
    words: str
    by: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedGpu:
    """One GPU or MIG instance; ``parent_uuid`` for instances only."""

    uuid: str
    index: int
    model: str | None
    parent_uuid: str | None
    mig: bool
    mig_profile: str | None
    persistence_mode: bool | None
    measures: tuple[Measure, ...]
    is_named_by_place: bool = False


_FIRST_NAMESPACES = (("pid", HOST_PID_NAMESPACE), ("uts", "uts:[4026531838]"), ("ipc", "ipc:[4026531839]"))
"""The kernel's fixed numbers (proc_ns.h: PROC_PID_INIT_INO, PROC_UTS_INIT_INO, PROC_IPC_INIT_INO)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was found. ``problem`` says why there is no usable driver; ``advice`` what would help.

    ``is_absent``: there is none, or none is loaded; else one is here, and does not work.
    """

    driver_version: str | None = None
    nvml_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[ProbedGpu, ...] = ()
    failed: tuple[str, ...] = ()
    in_container: bool = False
    problem: str | None = None
    is_absent: bool = False
    advice: tuple[str, ...] = ()
    resident_mib: float | None = None


def probe(root: Path = Path("/")) -> Probe:
    """Ask the driver once; blocks while it initializes, at most a minute. Never raises."""
    contained = in_container(root)
    try:
        worker = Worker(node=socket.gethostname())
    except (ChildLost, OSError) as error:
        return _without(f"the process that reads NVML {error}", contained)
    try:
        hello = worker.receive(_START_S)
        if "unusable" in hello:
            return _unusable(hello["unusable"], contained)
        return _ask(worker, contained)
    except ChildLost as lost:
        where = "" if lost.touching is None else f" while it asked GPU {lost.touching}"
        return _without(f"the process that reads NVML {lost}{where}", contained)
    finally:
        worker.end()


def in_container(root: Path = Path("/")) -> bool:
    """Whether this is a container: by its cgroup, or by Docker's or Podman's mark and a namespace of its own.

    The mark alone says nothing: a virtual machine started from a container's image has it too (seen).
    """
    marked = (root / ".dockerenv").exists() or (root / "run" / ".containerenv").exists()
    if marked and _has_own_namespace(root / "proc" / "self" / "ns"):
        return True
    try:
        text = (root / "proc" / "1" / "cgroup").read_text()
    except OSError:
        return False
    return any(mark in text for mark in ("docker", "kubepods", "libpod", "containerd", "lxc"))


def _has_own_namespace(namespaces: Path) -> bool:
    """Whether one of these is not the kernel's first; so too where they cannot be read."""
    try:
        return any((namespaces / name).readlink().name != first for name, first in _FIRST_NAMESPACES)
    except OSError:
        return True


def _ask(worker: Worker, contained: bool) -> Probe:
    now_us = time.time_ns() // 1000
    request = {"op": "read", "width_us": _TICK_US, "processes": True, "rescan": False, "known": 0}
    worker.ask({**request, "now_us": now_us}, _READ_S)
    answer = worker.ask({"op": "probe"}, _READ_S)
    if "unusable" in answer:
        return _unusable(answer["unusable"], contained)
    versions = answer["versions"]
    gpus = tuple(_gpu(device) for device in answer["devices"])
    failed = tuple(
        f"GPU {one['index']}: {explain_call(one['call'], one['code'])}" for one in answer["failed"]
    )
    cuda = versions["cuda"]
    return Probe(
        driver_version=versions["driver"],
        nvml_version=versions["nvml"],
        cuda_version=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        gpus=gpus,
        failed=failed,
        in_container=contained,
        problem=None if gpus else "the driver finds no GPU",
        advice=tuple(_advice(gpus, failed, contained)),
        resident_mib=worker.resident_mib(),
    )


def _gpu(device: Mapping[str, Any]) -> ProbedGpu:
    instance = "profile" in device
    persistence = device.get("persistence_mode")
    return ProbedGpu(
        uuid=device["uuid"],
        index=device["index"],
        model=device["model"],
        parent_uuid=device["parent"] if instance else None,
        mig=bool(device.get("mig")),
        mig_profile=device.get("profile"),
        persistence_mode=None if persistence is None else bool(persistence),
        is_named_by_place=not instance and bool(device.get("by_place")),
        measures=tuple(_measure(name, words, device, instance=instance) for name, words in MEASURES),
    )


def _measure(name: str, words: str, device: Mapping[str, Any], *, instance: bool) -> Measure:
    by = device["ways"].get(name)
    if name == "processes" and device.get("mig"):
        return Measure(name=name, words=words, by=None, reason="MIG is on: looked up on each instance")
    if by is not None:
        return Measure(name=name, words=words, by=by)
    if instance and name not in _BY_INSTANCE:
        return Measure(name=name, words=words, by=None, reason=_INSTANCE_REASON)
    code = device["refused"].get(name)
    reason = "the driver did not say" if code is None else explain(code)
    if device.get("mig") and name in _BOARD_ALONE:
        reason = f"{reason} (not while MIG is on)"
    return Measure(name=name, words=words, by=None, reason=reason)


def _advice(gpus: Iterable[ProbedGpu], failed: Iterable[str], contained: bool) -> Iterable[str]:
    boards = [gpu for gpu in gpus if gpu.parent_uuid is None]
    off = [str(gpu.index) for gpu in boards if gpu.persistence_mode is False]
    if off:
        yield (
            f"persistence mode is off on GPU {', '.join(off)}: the first call after idle time takes seconds; "
            "run nvidia-persistenced, or `nvidia-smi -pm 1`"
        )
    blind = [str(gpu.index) for gpu in boards if not gpu.mig and not _has(gpu, "gpm")]
    if blind:
        yield (
            f"NVML tells no SM activity of GPU {', '.join(blind)} (Hopper and later have it, where the "
            "driver offers it): GPU utilization is an upper bound only; dcgm-exporter with "
            "DCGM_FI_PROF_SM_ACTIVE says more"
        )
    nameless = [str(gpu.index) for gpu in boards if gpu.is_named_by_place]
    if nameless:
        yield (
            f"the driver tells no readable UUID of GPU {', '.join(nameless)}: named by node and bus id, and "
            "given to no job by Fallow, for CUDA knows no such name; update the driver"
        )
    if any(failed):
        yield "a GPU does not answer: look for Xid messages in the kernel log (dmesg)"
    if contained:
        yield CONTAINER_ADVICE
        if shares_host_pids() is False:
            yield "processes cannot be named: pids here are not the host's; run with --pid=host"


def _has(gpu: ProbedGpu, name: str) -> bool:
    return any(measure.name == name and measure.by for measure in gpu.measures)


def _unusable(problem: Mapping[str, Any], contained: bool) -> Probe:
    is_absent = problem["code"] in (DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND)
    return _without(explain_problem(problem), contained, is_absent=is_absent)


def _without(problem: str, contained: bool, *, is_absent: bool = False) -> Probe:
    advice = (CONTAINER_ADVICE,) if contained else ()
    return Probe(problem=problem, in_container=contained, advice=advice, is_absent=is_absent)
