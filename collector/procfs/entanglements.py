"""What ties a process to others, as /proc shows it: what no checkpoint of that one process can take along.

Signs, not proofs: NCCL's library and its shared segments, torch's shared CUDA tensors, memory that CUDA
manages on both sides, children that use the GPU, a debugger. A sign that could not be looked at is ``None``,
and is no all-clear.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.describe import GPU_DEVICE
from collector.procfs.files import Denied, Folder, open_folder, read_file
from collector.procfs.stat import parse_boot_ms, parse_stat, parse_uid, started_ms

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

_MAP = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s+(\S.*)$", re.MULTILINE)
_NCCL = re.compile(rb"^/dev/shm/nccl-")
_NCCL_LIBRARY = re.compile(rb"^/.*/libnccl[^/]*\.so")
_GPU_MAPPING = re.compile(rb"^/dev/nvidia")
_SHARED_TENSORS = re.compile(rb"^/dev/shm/(?:torch_|cuda\.shm\.)")
_MANAGED = b"/dev/nvidia-uvm"
_MPS_NAMES = (b"nvidia-cuda-mps",)
"""/proc/PID/comm holds 15 characters: the control daemon and the server read the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBlocker:
    """One process as a checkpoint would meet it; ``None`` is "could not be looked at".

    ``nccl`` is a segment of NCCL's own; over NVLink and cuMem it has none (cuda-checkpoint issues 30 and 45),
    so ``nccl_library`` says whether it could speak NCCL at all. ``managed_bytes`` is what it maps of the
    unified-memory device. ``others`` are descendants of it that use a GPU, or may: it is open in them, and
    they map it by an address that their parent hasn't. ``inherited`` are those in which it is open by
    inheritance alone, as in a loader's workers after a fork. ``cgroup_left_bytes`` is how much more its
    control group may hold, ``None`` also where it has no limit: then ``cgroup_read`` is true.
    """

    pid: int
    started_ms: int
    uid: int | None
    traced: bool | None = None
    nccl: bool | None = None
    nccl_library: bool | None = None
    shared_tensors: bool | None = None
    managed_bytes: int | None = None
    others: tuple[int, ...] = ()
    inherited: tuple[int, ...] = ()
    cgroup_left_bytes: int | None = None
    cgroup_read: bool = False


def entanglement(pid: int, proc: Path = PROC, cgroups: Path = CGROUPS) -> CheckpointBlocker | None:
    """What ties this process; ``None`` when it is gone. Reads its maps and every process's parent."""
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return None
    try:
        return _look(folder, proc, cgroups)
    finally:
        folder.close()


def available_bytes(proc: Path = PROC) -> int | None:
    """Memory that the host could give without swapping (``MemAvailable``); ``None`` when it is not said."""
    text = read_file(proc / "meminfo") or b""
    found = re.search(rb"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def mps_pids(proc: Path = PROC) -> dict[int, tuple[int, ...]]:
    """The processes of CUDA's multi-process service, by the account that each is.

    While root's runs, any CUDA process may be its client; somebody else's serves that account alone. A
    process is its real user's, whatever its program lets it be.
    """
    found: dict[int, list[int]] = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit():
            name = read_file(Path(entry.path) / "comm")
            if name is not None and name.strip().startswith(_MPS_NAMES):
                uid = parse_uid(read_file(Path(entry.path) / "status") or b"")
                if uid is not None:
                    found.setdefault(uid, []).append(int(entry.name))
    return {uid: tuple(sorted(pids)) for uid, pids in found.items()}


def _look(folder: Folder, proc: Path, cgroups: Path) -> CheckpointBlocker | None:
    text = folder.read("stat")
    if isinstance(text, Denied):
        return None
    stat, status, maps = parse_stat(text), folder.read("status"), folder.read("maps")
    known = None if isinstance(maps, Denied) else maps
    left = _cgroup_left(folder, cgroups)
    others, inherited = _gpu_descendants(folder.pid, proc)
    return CheckpointBlocker(
        pid=folder.pid,
        started_ms=started_ms(stat, _boot_ms(proc), os.sysconf("SC_CLK_TCK")),
        uid=None if isinstance(status, Denied) else parse_uid(status),
        traced=None if isinstance(status, Denied) else _is_traced(status),
        nccl=None if known is None else _maps_any(known, _NCCL),
        nccl_library=None if known is None else _maps_any(known, _NCCL_LIBRARY),
        shared_tensors=None if known is None else _maps_any(known, _SHARED_TENSORS),
        managed_bytes=None if known is None else _managed(known),
        others=others,
        inherited=inherited,
        cgroup_left_bytes=None if left is None else left[0],
        cgroup_read=left is not None,
    )


def _boot_ms(proc: Path) -> int:
    return parse_boot_ms(read_file(proc / "stat") or b"btime 0")


def _is_traced(status: bytes) -> bool | None:
    found = re.search(rb"^TracerPid:\s+(\d+)", status, re.MULTILINE)
    return None if found is None else int(found[1]) != 0


def _maps_any(maps: bytes, wanted: re.Pattern[bytes]) -> bool:
    return any(wanted.match(found[3]) for found in _MAP.finditer(maps))


def _managed(maps: bytes) -> int:
    return sum(int(m[2], 16) - int(m[1], 16) for m in _MAP.finditer(maps) if m[3].startswith(_MANAGED))


def _gpu_descendants(pid: int, proc: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that use a GPU or may, and those that only inherited its open files; each in order."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit():
            text = read_file(Path(entry.path) / "stat")
            if text is not None:
                children.setdefault(parse_stat(text).parent_pid, []).append(int(entry.name))
    using: list[int] = []
    inherited: list[int] = []
    line = [(child, pid) for child in children.get(pid, ())]
    while line:
        child, parent = line.pop()
        line += [(each, child) for each in children.get(child, ())]
        if _may_hold_gpu(child, proc):
            (using if _maps_its_own(child, parent, proc) else inherited).append(child)
    return tuple(sorted(using)), tuple(sorted(inherited))


def _maps_its_own(pid: int, parent: int, proc: Path) -> bool:
    """Whether it maps a GPU by an address that its parent hasn't: then it made a context of its own.

    A fork copies mappings to the same addresses, if at all. What cannot be read counts as if.
    """
    own, parents = _gpu_addresses(pid, proc), _gpu_addresses(parent, proc)
    return own is None or bool(own - (parents or frozenset()))


def _gpu_addresses(pid: int, proc: Path) -> frozenset[bytes] | None:
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return None
    try:
        maps = folder.read("maps")
    finally:
        folder.close()
    if isinstance(maps, Denied):
        return None
    return frozenset(found[1] for found in _MAP.finditer(maps) if _GPU_MAPPING.match(found[3]))


def _may_hold_gpu(pid: int, proc: Path) -> bool:
    """Whether a GPU is open in it; one that may not be looked at counts as if."""
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return not folder.gone
    try:
        held = folder.holds_open(GPU_DEVICE)
    finally:
        folder.close()
    return held is True or (isinstance(held, Denied) and not held.gone)


def _cgroup_left(folder: Folder, cgroups: Path) -> tuple[int | None] | None:
    """Bytes that the tightest of its control groups still allows (v2), ``(None,)`` without a limit."""
    text = folder.read("cgroup")
    if isinstance(text, Denied):
        return None
    line = next(
        (each for each in text.decode("utf-8", "replace").splitlines() if each.startswith("0::")), None
    )
    if line is None:
        return None
    path, left = cgroups / line.removeprefix("0::").strip().lstrip("/"), []
    while path != cgroups and cgroups in path.parents:
        most, now = read_file(path / "memory.max"), read_file(path / "memory.current")
        if most is not None and now is not None and most.strip().isdigit():
            left.append(int(most) - int(now))
        path = path.parent
    return (min(left, default=None),)
