"""What keeps the sharers of a GPU apart, and with which environment a lease's workers start. Pure.

A MIG instance where the GPU is cut that way, MPS where the machine has it and the sharers are one user, else
time-slicing; a lease says which. None but MIG is isolation: a limit in the environment binds who reads it.

Sources: NVIDIA "Multi-Process Service", appendix Environment Variables (thread percentage, pinned memory
limit, pipe directory) and nvidia-cuda-mps-control(1): a daemon serves one user at a time and makes others
wait, and a client finds it in its pipe directory or runs without. PyTorch "CUDA semantics", memory
management; torch 2.13's c10/cuda/CUDAAllocatorConfig.h: PYTORCH_CUDA_ALLOC_CONF is read, PYTORCH_ALLOC_CONF
only where that is not set. TensorFlow "Use a GPU": TF_FORCE_GPU_ALLOW_GROWTH. JAX "GPU memory allocation":
XLA_PYTHON_CLIENT_PREALLOCATE.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from advisor.jobs.model import Sharing, Submission
from advisor.planner.transition import share_of_memory
from analytics import text
from collector.model import GpuUuid

CONTEXT_BYTES = 512 * 1024**2
"""What a process holds besides: CUDA's context and libraries (policy: about 0.5 GiB; 520 MiB on an H100 under
driver 580). In nobody's share, but in what is left free on a device that is shared."""
MEMORY_FRACTION = "FALLOW_MEMORY_FRACTION"
"""Read by ``fallow`` in the job: the part of each device's memory that PyTorch's allocator may take."""
PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
NO_DAEMON_DIRECTORY = "/dev/null"
"""As CUDA_MPS_PIPE_DIRECTORY it leads to no daemon: the program runs without MPS."""

EXPANDABLE = "expandable_segments:True"
MEMORY_DEFAULTS: Mapping[str, str] = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "PYTORCH_CUDA_ALLOC_CONF": EXPANDABLE,
    "PYTORCH_ALLOC_CONF": EXPANDABLE,
}
"""Take memory as it is needed, and keep it in pieces that grow. PyTorch has two names for one setting: old
versions know only the first, and new ones warn of it one day."""
ONE_SETTING = (
    frozenset({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}),
    frozenset({"XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_ALLOCATOR"}),
)
"""Names of which a user who has set one has set all: adding another would change what the first means."""
LEASE_NAMES = frozenset(
    {
        *MEMORY_DEFAULTS,
        MEMORY_FRACTION,
        PIPE_DIRECTORY,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
    }
)
"""All that a lease may set in a job's environment: what is set here, and by the advice to cap memory. A
launcher refuses any other name, because many of them run code (LD_PRELOAD, BASH_ENV, PYTHONPATH)."""
UPPER_LIMITS = frozenset({MEMORY_FRACTION, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"})
"""A user may have set less, never more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A leased device: ``is_instance`` for a MIG instance; ``memory_bytes`` of it, ``None`` unknown.

    ``part_of_device`` is the instance's part of its device's compute, ``None`` unknown.
    """

    uuid: GpuUuid
    memory_bytes: int | None = None
    is_instance: bool = False
    part_of_device: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """Another job with a lease of some of the same devices."""

    user: str
    sharing: Sharing = Sharing.TIME_SLICED


@dataclass(frozen=True, slots=True, kw_only=True)
class Mps:
    """What is known of MPS on the machine.

    ``pipe_directory`` leads to a control daemon that runs, ``None`` where none does: ``why`` says what was
    found. A daemon that isn't root's serves its ``owner`` alone. ``users`` have running jobs under it,
    anywhere on the machine: it serves one user at a time, and the others wait.
    """

    pipe_directory: str | None = None
    why: str = "nobody looked for an MPS control daemon"
    owner: str | None = None
    users: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a lease is held: ``memory_bytes`` is its share of each device's memory, ``None`` for all of it.

    ``settings`` go into ``StartCommand``; ``sentences`` say to a person what was chosen, and why.
    """

    sharing: Sharing
    memory_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    sentences: tuple[str, ...] = ()


def terms(
    submission: Submission, share: float, devices: Sequence[Device], sharers: Sequence[Sharer], mps: Mps
) -> Terms:
    """How ``submission`` holds ``share`` of each of ``devices`` beside ``sharers``."""
    sharing, why = _sharing(submission, share, devices, sharers, mps)
    allowed = memory_of(submission, share, devices, sharing)
    settings = _apart(sharing, share, devices, allowed, mps)
    if allowed is not None:
        settings |= _capped(devices, allowed)
    defaults = dict(MEMORY_DEFAULTS) if submission.memory_defaults else {}
    return Terms(
        sharing=sharing,
        memory_bytes=allowed,
        settings=tuple(sorted({**defaults, **settings}.items())),
        sentences=(why, *_about_memory(allowed, settings), about_defaults(submission)),
    )


def memory_of(
    submission: Submission, share: float, devices: Sequence[Device], sharing: Sharing
) -> int | None:
    """Bytes that a lease may use on each of its devices: as asked for, else its part of what can be shared.

    ``None`` where the device is the job's alone, or its size is not known.
    """
    if sharing in (Sharing.WHOLE, Sharing.MIG):
        return None
    if submission.memory_bytes is not None:
        return submission.memory_bytes
    sizes = [device.memory_bytes for device in devices]
    sizes_in_bytes = [size for size in sizes if size is not None]
    if len(sizes_in_bytes) < len(sizes) or not sizes_in_bytes:
        return None
    return share_of_memory(min(sizes_in_bytes), share)


def environment(settings: Sequence[tuple[str, str]], own: Mapping[str, str]) -> dict[str, str]:
    """What of ``settings`` is added to a job whose user has set ``own``: defaults yield, limits only fall."""
    added = dict(settings)
    for name in MEMORY_DEFAULTS:
        if name in added and _names_of(name) & own.keys():
            del added[name]
    for name in UPPER_LIMITS & added.keys() & own.keys():
        added[name] = _lower(added[name], own[name])
    if added.get(PIPE_DIRECTORY) == NO_DAEMON_DIRECTORY and PIPE_DIRECTORY in own:
        del added[PIPE_DIRECTORY]  # a daemon of the user's own, for a device that nobody else uses through it
    return added


def about_defaults(submission: Submission) -> str:
    """The sentence on the memory defaults that a job starts with."""
    if not submission.memory_defaults:
        return "It was submitted with --no-memory-defaults: its framework takes memory as it likes."
    named = ", ".join(f"{name}={value}" for name, value in MEMORY_DEFAULTS.items())
    return f"Unless its user has set them, it starts with {named} (refuse with --no-memory-defaults)."


def _sharing(
    submission: Submission, share: float, devices: Sequence[Device], sharers: Sequence[Sharer], mps: Mps
) -> tuple[Sharing, str]:
    """What keeps it apart, and the sentence that says why."""
    alone = share >= 1 and not sharers
    if alone and devices and all(device.is_instance for device in devices):
        return Sharing.MIG, f"{_instance(submission, devices)}: memory and compute are its own, by hardware."
    if alone:
        return Sharing.WHOLE, "It has its devices alone."
    others = sorted({sharer.user for sharer in sharers} - {submission.user})
    part = f"It has {text.percent(share)} of each device"
    if others:
        return Sharing.TIME_SLICED, (
            f"{part} by time-slicing: it shares with {', '.join(others)}, and MPS is for jobs of one user, "
            "because a fault in one of its clients ends all."
        )
    if mps.pipe_directory is None:
        return Sharing.TIME_SLICED, f"{part} by time-slicing: {mps.why}."
    if mps.owner not in (None, submission.user):
        return (
            Sharing.TIME_SLICED,
            f"{part} by time-slicing: the MPS daemon serves its owner {mps.owner} alone.",
        )
    elsewhere = sorted(mps.users - {submission.user})
    if elsewhere:
        return Sharing.TIME_SLICED, (
            f"{part} by time-slicing: the MPS daemon serves {', '.join(elsewhere)}, one user at a time."
        )
    if any(sharer.sharing is not Sharing.MPS for sharer in sharers):
        return Sharing.TIME_SLICED, (
            f"{part} by time-slicing: who shares it runs without MPS, and one side alone gains nothing by it."
        )
    return (
        Sharing.MPS,
        f"{part} under MPS: its threads are limited to that, and all sharers are {submission.user}.",
    )


def _instance(submission: Submission, devices: Sequence[Device]) -> str:
    part = devices[0].part_of_device
    if submission.share >= 1 or part is None:
        return "Its device is a MIG instance"
    return (
        f"It asked for {text.percent(submission.share)} of a GPU and has {devices[0].uuid}, "
        f"{text.percent(part)} of one, the smallest MIG instance that was free and holds what it asked for"
    )


def _apart(
    sharing: Sharing, share: float, devices: Sequence[Device], allowed: int | None, mps: Mps
) -> dict[str, str]:
    """Settings that put the job under MPS, or keep it away from a daemon that is there for others."""
    match sharing:
        case Sharing.MPS:
            assert mps.pipe_directory is not None
            result = {
                PIPE_DIRECTORY: mps.pipe_directory,
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{max(1, min(100, round(share * 100)))}",
            }
            if allowed is not None:
                limit = f"{(allowed + CONTEXT_BYTES) // 1024**2}M"
                result["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(
                    f"{ordinal}={limit}" for ordinal in range(len(devices))
                )
            return result
        case Sharing.WHOLE | Sharing.MIG | Sharing.TIME_SLICED:
            return {} if mps.pipe_directory is None else {PIPE_DIRECTORY: NO_DAEMON_DIRECTORY}
        case _:
            assert_never(sharing)


def _capped(devices: Sequence[Device], allowed: int) -> dict[str, str]:
    """The share as PyTorch takes it: a part of the device, of the largest where they differ."""
    sizes = [device.memory_bytes for device in devices if device.memory_bytes]
    if len(sizes) < len(devices) or not sizes:
        return {}
    return {MEMORY_FRACTION: f"{min(1.0, max(0.001, allowed / max(sizes))):.4f}"}


def _about_memory(allowed: int | None, settings: Mapping[str, str]) -> tuple[str, ...]:
    if allowed is None:
        return ()
    sentence = f"Its share of memory is {text.size(allowed)} on each device"
    if MEMORY_FRACTION not in settings:
        return (f"{sentence}; it is watched, and told when it holds more.",)
    return (
        f"{sentence}: PyTorch jobs that use fallow are held to it ({MEMORY_FRACTION}), all others are "
        "watched, and told when they hold more.",
    )


def _names_of(name: str) -> frozenset[str]:
    return next((names for names in ONE_SETTING if name in names), frozenset({name}))


def _lower(limit: str, own: str) -> str:
    try:
        return own if 0 < float(own) < float(limit) else limit
    except ValueError:
        return limit
