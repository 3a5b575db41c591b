"""From the child's rows to the model's values: units, the rung, and flags for what cannot be right. Pure.

NVML's return codes in words that say what to do next. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from collector.metrics import METRICS
from collector.model import Basis, Gpu, GpuSample, GpuUuid, MigPlace, NodeName
from collector.sources.nvml.process_list import Held
from collector.sources.nvml.wire import FIELDS, PERCENT

INSTANT = "instant"
MIG_PARENT = "mig-parent"
UNIFIED = "memory-of-processes"
MIG_BY_INSTANCE = "processes-by-mig-instance"
BUSY_WITHOUT_PROCESS = "busy-without-process"
BUSY_AT_IDLE_POWER = "busy-at-idle-power"
BUSY_RATIO = 0.9
"""From here on a GPU with no process, or at its idle power, contradicts itself."""

_IDLE_POWER_SLACK = 1.1
"""Times a GPU's own idle power: its readings scatter by some percent at rest."""
_PERCENTS = len(PERCENT)
_VIDEO = ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio")
_ACTIVITIES = tuple(each.name for each in METRICS if each.nvml and each.nvml.gpm is not None)
ACTIVITY = ("gpu_utilization_ratio", *_ACTIVITIES, *_VIDEO, "memory_controller_ratio")
"""What says that somebody uses a GPU; not the highest of its samples, which reading it alone sets off."""
_NO_ACTIVITY = (None,) * len(_ACTIVITIES)
_activities = itemgetter(*_ACTIVITIES)


def gpus(static: Iterable[Mapping[str, Any]], node: NodeName, driver: str | None) -> tuple[Gpu, ...]:
    """Every GPU and MIG instance; a partitioned GPU keeps the share that no instance has."""
    out: list[Gpu] = []
    for entry in static:
        parts = entry["instances"]
        taken = sum(part["compute_slices"] for part in parts)
        slices = entry["slices"] if entry["mig"] else 1
        persistence = entry["persistence_mode"]
        board = Gpu(
            uuid=GpuUuid(entry["uuid"]),
            node=node,
            index=entry["index"],
            model=entry["model"],
            driver_version=driver,
            power_limit_mw=entry["power_limit_mw"],
            share_of_device=max(slices - taken, 0) / slices if entry["mig"] else 1.0,
            persistence_mode=None if persistence is None else bool(persistence),
        )
        out.append(board)
        out += [_instance(part, board, slices) for part in parts]
    return tuple(out)


def mig_places(static: Iterable[Mapping[str, Any]]) -> tuple[MigPlace, ...]:
    """Where every MIG instance lies."""
    return tuple(
        MigPlace(
            uuid=GpuUuid(part["uuid"]), parent_uuid=GpuUuid(entry["uuid"]), gpu_instance=part["gpu_instance"]
        )
        for entry in static
        for part in entry["instances"]
    )


def with_memory(known: Iterable[Gpu], samples: Iterable[GpuSample]) -> tuple[Gpu, ...]:
    """The same GPUs with the memory that was measured on them."""
    total = {sample.uuid: sample.memory_total_bytes for sample in samples}
    return tuple(
        replace(gpu, memory_total_bytes=total[gpu.uuid]) if total.get(gpu.uuid) is not None else gpu
        for gpu in known
    )


def by_name(row: Sequence[Any]) -> dict[str, Any]:
    """A device's row by the fields of a sample, in their units: percent becomes a ratio."""
    values = [percent if percent is None else percent / 100 for percent in row[:_PERCENTS]]
    values += row[_PERCENTS:]
    return dict(zip(FIELDS, values, strict=True))


def sample(
    uuid: GpuUuid,
    at_ms: int,
    width_ms: int,
    values: dict[str, Any],
    *,
    flags: Sequence[str] = (),
    process_count: int | None = None,
    xid: int | None = None,
) -> GpuSample:
    """What ``by_name`` gave as a sample, on its best rung; activities above 1 are cut to 1 and flagged.

    ``values`` is used up: to fill it costs a quarter less than to copy it.
    """
    activities = _activities(values)
    if activities != _NO_ACTIVITY and max([value for value in activities if value is not None]) > 1:
        strange = [name for name in _ACTIVITIES if (value := values[name]) is not None and value > 1]
        values |= dict.fromkeys(strange, 1.0)
        flags = (*flags, *map(above_one, strange))
    rung, best = _best(values)
    values.update(
        uuid=uuid,
        at_ms=at_ms,
        width_ms=width_ms,
        rung=rung,
        utilization_ratio=best,
        xid=xid,
        process_count=process_count,
        flags=tuple(flags),
    )
    return GpuSample(**values)


def above_one(name: str) -> str:
    """The flag of an activity above 1: seen on MIG, where 1.29 was reported (DCGM issue 152)."""
    return f"{name.removesuffix('_ratio')}-above-1"


def with_unified_memory(board: GpuSample, held: Sequence[Held]) -> GpuSample:
    """A sample of a board that reports no memory of its own, with the sum of what its processes hold.

    GB10, Grace: CPU and GPU share one memory, and nvmlDeviceGetMemoryInfo is not supported (lablup/all-smi
    issue 80). Unchanged where a process's memory is not known, or there is no process.
    """
    memories = [one.memory_used_bytes for one in held if one.memory_used_bytes is not None]
    is_unified = board.memory_used_bytes is None and board.memory_total_bytes is None
    if not is_unified or not held or len(memories) < len(held) or board.uuid.startswith("MIG-"):
        return board
    return replace(board, memory_used_bytes=sum(memories), flags=(*board.flags, UNIFIED))


def without_parts(board: GpuSample, parts: Iterable[GpuSample]) -> GpuSample:
    """A partitioned GPU's own sample: the memory that no instance has, so that nothing counts twice."""
    used, total = board.memory_used_bytes, board.memory_total_bytes
    for part in parts:
        used = None if used is None else max(used - (part.memory_used_bytes or 0), 0)
        total = None if total is None else max(total - (part.memory_total_bytes or 0), 0)
    flags = (*board.flags, MIG_PARENT)
    return replace(board, memory_used_bytes=used, memory_total_bytes=total, flags=flags)


def suspicions(
    values: Mapping[str, Any], process_count: int | None, idle_power_mw: int | None
) -> tuple[str, ...]:
    """Flags for counters that contradict each other, in one row."""
    utilization, power_mw = values["gpu_utilization_ratio"], values["power_mw"]
    if utilization is None or utilization < BUSY_RATIO:
        return ()
    flags = (BUSY_WITHOUT_PROCESS,) if process_count == 0 else ()
    if idle_power_mw and power_mw is not None and power_mw <= idle_power_mw * _IDLE_POWER_SLACK:
        flags = (*flags, BUSY_AT_IDLE_POWER)
    return flags


def idle_power(values: Mapping[str, Any], before: int | None) -> int | None:
    """The lowest power seen while nothing ran, mW; ``before`` when this row teaches nothing."""
    power_mw: int | None = values["power_mw"]
    if values["gpu_utilization_max_ratio"] != 0 or not power_mw:
        return before
    return power_mw if before is None else min(before, power_mw)


def _best(values: Mapping[str, Any]) -> tuple[Basis, float | None]:
    """The measure of utilization that says most, of those that there are."""
    if (sm := values["sm_active_ratio"]) is not None:
        return Basis.SM_ACTIVE, sm
    if (graphics := values["graphics_active_ratio"]) is not None:
        return Basis.GRAPHICS_ACTIVE, graphics
    if (any_kernel := values["gpu_utilization_ratio"]) is not None:
        return Basis.GPU_UTILIZATION, any_kernel
    return Basis.UNKNOWN, None


def _instance(part: Mapping[str, Any], board: Gpu, slices: int) -> Gpu:
    return Gpu(
        uuid=GpuUuid(part["uuid"]),
        node=board.node,
        index=board.index,
        model=board.model,
        driver_version=board.driver_version,
        parent_uuid=board.uuid,
        mig_profile=part["profile"],
        share_of_device=part["compute_slices"] / slices,
        persistence_mode=board.persistence_mode,
        gpu_instance=part["gpu_instance"],
        compute_instance=part.get("compute_instance"),
    )


LIBRARY_NOT_FOUND = 12
DRIVER_NOT_LOADED = 9
NAMELESS = -1
"""As in ``library``, which only the child may import."""
_VERSIONS = "have different versions"
_BOTH = (("library", "library"), ("kernel", "loaded kernel module"))
CONTAINER_ADVICE = (
    "in a container, `systemctl daemon-reload` on the host takes the GPUs away "
    "until the container is restarted"
)

_WORDS = {
    NAMELESS: "the driver tells no UUID and no bus id that can be read: nothing names this GPU; update the "
    "driver (of 555 under WSL this is known)",
    1: "the driver was unloaded or reset under us",
    3: "not supported by this device or driver",
    4: "no permission; run as a user who may open /dev/nvidiactl, or lift the driver's restriction",
    9: "the NVIDIA kernel driver is not loaded; run nvidia-smi, then `modprobe nvidia`",
    10: "the driver did not answer in time",
    12: "libnvidia-ml.so.1 was not found; install the NVIDIA driver, or start the container with --gpus all",
    13: "this driver is too old to have the function",
    15: "the GPU is lost (fell off the bus); look for Xid 79 in the kernel log, then reset or reboot",
    16: "the GPU needs a reset (nvidia-smi --gpu-reset) or the machine a reboot",
    17: "the operating system blocked the request; look at device permissions and SELinux",
    18: "library and kernel driver have different versions, as after an update; reboot, or end what "
    "uses the GPUs and load the driver's modules anew (`modprobe -r nvidia_uvm nvidia_drm nvidia_modeset "
    "nvidia`, `modprobe nvidia`); a container has the library of when it was started: start it again",
    25: "this driver has another version of the structure",
    28: "the GPU is no longer found",
    999: "the driver answered 'unknown error'",
}

_XIDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "preemptive cleanup after an earlier error",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping recorded",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high single-bit ECC error rate",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP RPC timeout",
    120: "GSP error",
}
"""After the vendor's list of Xid errors (docs.nvidia.com/deploy/xid-errors); only what a reader may meet."""


def explain(code: int) -> str:
    """What a return code means and what to do about it."""
    return _WORDS.get(code, f"NVML error {code}")


def explain_problem(problem: Mapping[str, Any]) -> str:
    """``explain_call`` of what a child says; where versions differ, with both as far as they are told."""
    versions = problem.get("versions") or {}
    both = ", ".join(f"{what} {versions[key]}" for key, what in _BOTH if versions.get(key))
    words = explain_call(problem["call"], problem["code"])
    return words.replace(_VERSIONS, f"{_VERSIONS} ({both})") if both else words


def explain_call(call: str, code: int) -> str:
    """Which call failed, and why."""
    return f"{call}: {explain(code)}"


def xid(number: int) -> str:
    """An XID with its meaning, when it is a known one."""
    return f"{number}: {_XIDS[number]}" if number in _XIDS else str(number)
