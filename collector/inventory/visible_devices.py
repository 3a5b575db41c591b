"""What CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES and Slurm's variables name, as CUDA itself reads them.

Indices count what the process could see, not what the node has: inside a container they count its
devices, inside a Slurm job perhaps those of its cgroup. Where two readings are possible, the answer is
``Ambiguous``: a wrong GPU is worse than none. Rules: CUDA C++ Programming Guide, environment variables;
MIG User Guide, device enumeration; NVIDIA Container Toolkit, driver capabilities; sbatch(1).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.model import Gpu, GpuUuid
from collector.procfs.job_root import bounded

MOST_DIGITS = 6
"""Of an index: no node has a million devices, and ``int`` refuses what has over 4,300 digits."""

REASON_CHARS = 60
"""How much of a variable is quoted where it could not be read: whoever wrote it chose its length."""

_DIGITS = re.compile(r"\+?([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The GPUs that the process was given, in its own order; empty when every GPU was hidden from it."""

    uuids: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlimited:
    """Nothing keeps the process from any GPU, so nothing says which one it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """The variables are there and can be read in more than one way, or in none."""

    reason: str


Sight = Visible | Unlimited | Ambiguous


def sight(environment: Mapping[str, str], gpus: Sequence[Gpu], *, in_container: bool) -> Sight:
    """What a process with this environment was given of ``gpus``, which are its node's."""
    outer = _container_sight(environment, gpus) if in_container else Unlimited()
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return outer
    tokens = [token.strip() for token in value.split(",")]
    if len(set(tokens)) < len(tokens):
        return Visible(uuids=())  # CUDA shows no device at all when one is named twice
    if not _leading_number(tokens[0]).isdigit():
        return Visible(uuids=_by_uuid(tokens, gpus))
    indices = _indices(tokens)
    if indices is None:
        return Ambiguous(reason="CUDA_VISIBLE_DEVICES names an index that no node has")
    return _by_index(indices, environment, gpus, outer)


def index_in(text: str) -> int | None:
    """A GPU's index as others write it; ``None`` where it isn't a few digits and nothing else."""
    return int(text) if _is_index(text) else None


def _by_index(
    indices: Sequence[int], environment: Mapping[str, str], gpus: Sequence[Gpu], outer: Sight
) -> Sight:
    match outer:
        case Ambiguous():
            return outer
        case Visible(uuids=inside):
            return _numbered(indices, [gpu for gpu in gpus if gpu.uuid in inside], environment, gpus)
        case Unlimited():
            pass
    slurm = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS")
    if slurm is not None:
        return _in_slurm(indices, slurm, environment, gpus)
    if "SLURM_JOB_ID" in environment:
        return Ambiguous(
            reason="indices in a Slurm job may count its own devices, and SLURM_JOB_GPUS is not set"
        )
    return _numbered(indices, gpus, environment, gpus)


def _in_slurm(
    indices: Sequence[int], slurm: str, environment: Mapping[str, str], gpus: Sequence[Gpu]
) -> Sight:
    """SLURM_JOB_GPUS counts the node's devices; CUDA's own variable counts them or the job's, by site."""
    tokens = [token.strip() for token in slurm.split(",")]
    if not all(_is_index(token) for token in tokens):
        return Ambiguous(reason=f"SLURM_JOB_GPUS={bounded(slurm, REASON_CHARS)} is not a list of indices")
    numbers = sorted(int(token) for token in tokens)
    readings = []
    if set(indices) <= set(numbers):
        readings.append(list(indices))
    if all(index < len(numbers) for index in indices):
        readings.append([numbers[index] for index in indices])
    if not readings or any(reading != readings[0] for reading in readings):
        words = f"indices {list(indices[:8])} do not fit SLURM_JOB_GPUS={bounded(slurm, REASON_CHARS)}"
        return Ambiguous(reason=f"{words} in one way only")
    pci_order = {**environment, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # Slurm counts as the driver does
    return _numbered(readings[0], gpus, pci_order, gpus)


def _container_sight(environment: Mapping[str, str], gpus: Sequence[Gpu]) -> Sight:
    """The devices that the container runtime let in, by the variable that asked it to."""
    value = environment.get("NVIDIA_VISIBLE_DEVICES")
    match value:
        case None | "void":
            return Ambiguous(reason="the container's devices are not in its environment (CDI or mounts)")
        case "all":
            return Unlimited()
        case "" | "none":
            return Visible(uuids=())
        case _:
            tokens = [token.strip() for token in value.split(",")]
            return _named_by_runtime(tokens, gpus)


def _named_by_runtime(tokens: Sequence[str], gpus: Sequence[Gpu]) -> Sight:
    """The runtime knows indices, UUIDs, and ``GPU:instance`` pairs, and mixes them; CUDA counts by index."""
    uuids: list[GpuUuid] = []
    for token in tokens:
        if ":" in token:
            named = bounded(token, REASON_CHARS)
            return Ambiguous(reason=f"NVIDIA_VISIBLE_DEVICES names a MIG instance by position ({named})")
        gpu = _at_index(int(token), gpus) if _is_index(token) else _with_prefix(token, gpus)
        if gpu is None:
            named = bounded(token, REASON_CHARS)
            return Ambiguous(reason=f"NVIDIA_VISIBLE_DEVICES names {named}, which this node does not have")
        uuids.append(gpu.uuid)
    return Visible(uuids=tuple(gpu.uuid for gpu in _in_order(gpus) if gpu.uuid in uuids))


def _numbered(
    indices: Sequence[int], seen: Sequence[Gpu], environment: Mapping[str, str], gpus: Sequence[Gpu]
) -> Sight:
    """The devices at ``indices`` among those ``seen``, up to the first index that is not there."""
    devices = _in_order(seen)
    if any(gpu.parent_uuid is not None for gpu in devices):
        return Ambiguous(reason="an index on a device in MIG mode means one of its instances")
    if any(gpu.index is None for gpu in devices):
        return Ambiguous(reason="the node's indices are not known")
    if environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and len({gpu.model for gpu in devices}) > 1:
        return Ambiguous(reason="the node mixes GPU models and CUDA_DEVICE_ORDER is not PCI_BUS_ID")
    if seen is gpus and [gpu.index for gpu in devices] != list(range(len(devices))):
        return Ambiguous(reason="a GPU of the node is missing from the driver's list, which moves indices")
    uuids: list[GpuUuid] = []
    for index in indices:
        if index >= len(devices):
            break
        uuids.append(devices[index].uuid)
    return Visible(uuids=tuple(uuids))


def _by_uuid(tokens: Sequence[str], gpus: Sequence[Gpu]) -> tuple[GpuUuid, ...]:
    """The devices whose UUIDs begin so, up to the first that is unknown or ambiguous."""
    uuids: list[GpuUuid] = []
    for token in tokens:
        gpu = _with_prefix(token, gpus)
        if gpu is None or gpu.uuid in uuids:
            break
        uuids.append(gpu.uuid)
    return tuple(uuids)


def _with_prefix(token: str, gpus: Iterable[Gpu]) -> Gpu | None:
    if not token.startswith(("GPU-", "MIG-")):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.lower().startswith(token.lower())]
    exact = [gpu for gpu in matches if len(gpu.uuid) == len(token)]
    return (exact or matches)[0] if exact or len(matches) == 1 else None


def _at_index(index: int, gpus: Iterable[Gpu]) -> Gpu | None:
    return next((gpu for gpu in gpus if gpu.index == index and gpu.parent_uuid is None), None)


def _is_index(token: str) -> bool:
    """Whether it is a few digits alone; ``isdigit`` also says so of ``²``, which no ``int`` can read."""
    return token.isascii() and token.isdigit() and len(token) <= MOST_DIGITS


def _indices(tokens: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers, up to the first token that is none; CUDA reads the digits at the front of a token.

    ``None`` where one of them has more than MOST_DIGITS.
    """
    indices: list[int] = []
    for token in tokens:
        digits = _leading_number(token)
        if not digits.isdigit():
            break
        if len(digits) > MOST_DIGITS:
            return None
        indices.append(int(digits))
    return tuple(indices)


def _leading_number(token: str) -> str:
    match = _DIGITS.match(token)
    return match[1] if match else ""


def _in_order(gpus: Iterable[Gpu]) -> list[Gpu]:
    return sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.uuid))
