"""What ties a process to others, as /proc shows it: what no checkpoint of that one process can take along.

Signs, not proofs: NCCL's library and its shared segments, torch's shared CUDA tensors, memory that CUDA
manages on both sides, children that use the GPU, a debugger. A sign that could not be looked at is ``None``,
and is no all-clear. Who is looked at chose how many descendants and mappings there are: all that one question
reads has a bound in number and time, and what lies beyond was not looked at.
"""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from collector.procfs.proc_files import (
    Denied,
    Folder,
    open_folder,
    parse_boot_ms,
    parse_stat,
    parse_uid,
    read_file,
    started_ms,
)
from collector.procfs.process_info import GPU_DEVICE

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

MOST_DESCENDANTS = 1024
"""Of all processes of one question: 16 GPUs with 64 loader processes each."""
LOOK_LIMIT_S = 5.0
"""For all that one question reads: a quarter of the time that the service waits for the answer."""
MOST_MAP_BYTES = 16 << 20
"""Of one memory map: a training with 40,000 mappings has 5 MB."""

_MAP = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s+(\S.*)$", re.MULTILINE)
_NCCL = re.compile(rb"^/dev/shm/nccl-")
_NCCL_LIBRARY = re.compile(rb"^/.*/libnccl[^/]*\.so")
_GPU_MAPPING = re.compile(rb"^/dev/nvidia")
_SHARED_BY_CUDA = re.compile(rb"^/dev/shm/cuda\.shm\.")
_SHARED_BY_TORCH = re.compile(rb"^/dev/shm/torch_(?:(\d+)_)?")
"""The name that torch gives a segment begins with the process that made it (``NewProcessWideShmHandle``)."""
_UNLINKED = b" (deleted)"
"""Ends the line of a file without a name. torch takes the name of a CPU tensor's segment away at once, where
files are handed over by descriptor (its default); the counters of shared CUDA memory keep theirs."""
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
    inheritance alone, as in a loader's workers after a fork; both are incomplete unless ``descendants_read``.
    ``cgroup_left_bytes`` is how much more its
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
    descendants_read: bool = True
    cgroup_left_bytes: int | None = None
    cgroup_read: bool = False


class Looking:
    """What one question may still read, and what it has read that serves the next process of it too."""

    def __init__(
        self,
        proc: Path = PROC,
        *,
        most: int = MOST_DESCENDANTS,
        limit_s: float = LOOK_LIMIT_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.proc = proc
        self._left, self._now_s, self._until_s = most, now_s, now_s() + limit_s
        self._children: dict[int, list[int]] | None = None
        self._addresses: dict[int, frozenset[bytes] | None] = {}

    def has_time(self) -> bool:
        """Whether more may be read."""
        return self._now_s() < self._until_s

    def takes_one(self) -> bool:
        """Whether one more descendant may be looked at; it counts then."""
        self._left -= 1
        return self._left >= 0 and self.has_time()

    def children(self) -> dict[int, list[int]] | None:
        """The children of every process, read once; ``None`` where the time did not suffice."""
        if self._children is None:
            self._children = self._read_children()
        return self._children

    def gpu_addresses(self, pid: int) -> frozenset[bytes] | None:
        """Where a process maps a GPU; ``None`` where that cannot be read. Read once a process."""
        if pid not in self._addresses:
            self._addresses[pid] = _gpu_addresses(pid, self.proc)
        return self._addresses[pid]

    def _read_children(self) -> dict[int, list[int]] | None:
        children: dict[int, list[int]] = {}
        with os.scandir(self.proc) as entries:
            for entry in entries:
                if not self.has_time():
                    return None
                text = read_file(Path(entry.path) / "stat") if entry.name.isdigit() else None
                if text is not None:
                    children.setdefault(parse_stat(text).parent_pid, []).append(int(entry.name))
        return children


def entanglement(
    pid: int, proc: Path = PROC, cgroups: Path = CGROUPS, looking: Looking | None = None
) -> CheckpointBlocker | None:
    """What ties this process; ``None`` when it is gone. Reads its maps and every process's parent.

    Processes of one question share a ``looking``, and its bounds.
    """
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return None
    try:
        return _look(folder, looking or Looking(proc), cgroups)
    finally:
        folder.close()


def owner(pid: int, proc: Path = PROC) -> CheckpointBlocker | None:
    """Only when this process began and whose it is; ``None`` when it is gone."""
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return None
    try:
        text, status = folder.read("stat"), folder.read("status")
    finally:
        folder.close()
    return None if isinstance(text, Denied) else _owner(pid, text, status, proc)


def available_bytes(proc: Path = PROC) -> int | None:
    """Memory that the host could give without swapping (``MemAvailable``); ``None`` when it is not said."""
    text = read_file(proc / "meminfo") or b""
    match = re.search(rb"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return None if match is None else int(match[1]) * 1024


def mps_pids(proc: Path = PROC) -> dict[int, tuple[int, ...]]:
    """The processes of CUDA's multi-process service, by the account that each is.

    While root's runs, any CUDA process may be its client; somebody else's serves that account alone. A
    process is its real user's, whatever its program lets it be.
    """
    pids_by_uid: dict[int, list[int]] = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit():
            name = read_file(Path(entry.path) / "comm")
            if name is not None and name.strip().startswith(_MPS_NAMES):
                uid = parse_uid(read_file(Path(entry.path) / "status") or b"")
                if uid is not None:
                    pids_by_uid.setdefault(uid, []).append(int(entry.name))
    return {uid: tuple(sorted(pids)) for uid, pids in pids_by_uid.items()}


def _look(folder: Folder, looking: Looking, cgroups: Path) -> CheckpointBlocker | None:
    text, status = folder.read("stat"), folder.read("status")
    if isinstance(text, Denied):
        return None
    maps = _maps(folder) if looking.has_time() else None
    rest = _cgroup_left(folder, cgroups)
    others, inherited, is_whole = _gpu_descendants(folder.pid, looking)
    return replace(
        _owner(folder.pid, text, status, looking.proc),
        traced=None if isinstance(status, Denied) else _is_traced(status),
        nccl=None if maps is None else _maps_any(maps, _NCCL),
        nccl_library=None if maps is None else _maps_any(maps, _NCCL_LIBRARY),
        shared_tensors=None if maps is None else _shares_gpu_memory(folder.pid, maps, looking),
        managed_bytes=None if maps is None else _managed(maps),
        others=others,
        inherited=inherited,
        descendants_read=is_whole,
        cgroup_left_bytes=None if rest is None else rest[0],
        cgroup_read=rest is not None,
    )


def _owner(pid: int, text: bytes, status: bytes | Denied, proc: Path) -> CheckpointBlocker:
    return CheckpointBlocker(
        pid=pid,
        started_ms=started_ms(parse_stat(text), _boot_ms(proc), os.sysconf("SC_CLK_TCK")),
        uid=None if isinstance(status, Denied) else parse_uid(status),
    )


def _maps(folder: Folder) -> bytes | None:
    """The memory map; ``None`` where it cannot be read, or not all of it."""
    maps = folder.read_start("maps", MOST_MAP_BYTES)
    return None if isinstance(maps, Denied) or len(maps) >= MOST_MAP_BYTES else maps


def _boot_ms(proc: Path) -> int:
    return parse_boot_ms(read_file(proc / "stat") or b"btime 0")


def _is_traced(status: bytes) -> bool | None:
    match = re.search(rb"^TracerPid:\s+(\d+)", status, re.MULTILINE)
    return None if match is None else int(match[1]) != 0


def _maps_any(maps: bytes, pattern: re.Pattern[bytes]) -> bool:
    return any(pattern.match(match[3]) for match in _MAP.finditer(maps))


def _shares_gpu_memory(pid: int, maps: bytes, looking: Looking) -> bool:
    """Whether it maps what counts the users of CUDA memory between processes.

    Batches of a DataLoader lie in segments of the same kind: they have no name any more, or were made by a
    worker that uses no GPU of its own. A named segment that the process made itself counts as a sign, for
    what is in it cannot be told from outside.
    """
    for match in _MAP.finditer(maps):
        if _SHARED_BY_CUDA.match(match[3]):
            return True
        segment = _SHARED_BY_TORCH.match(match[3])
        if segment is None or match[3].endswith(_UNLINKED):
            continue
        maker = None if segment[1] is None else int(segment[1])
        if maker is None or maker == pid or _may_use_gpu(maker, pid, looking):
            return True
    return False


def _may_use_gpu(pid: int, beside: int, looking: Looking) -> bool:
    """Whether a process may have a context of its own on a GPU; one that is gone has none."""
    return _may_hold_gpu(pid, looking.proc) and _maps_its_own(pid, beside, looking)


def _managed(maps: bytes) -> int:
    return sum(int(m[2], 16) - int(m[1], 16) for m in _MAP.finditer(maps) if m[3].startswith(_MANAGED))


def _gpu_descendants(pid: int, looking: Looking) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Those that use a GPU or may, those that only inherited its open files, each in order; whether all were
    looked at.
    """
    children = looking.children()
    if children is None:
        return (), (), False
    using: list[int] = []
    inherited: list[int] = []
    line = [(child, pid) for child in children.get(pid, ())]
    while line:
        if not looking.takes_one():
            return tuple(sorted(using)), tuple(sorted(inherited)), False
        child, parent = line.pop()
        line += [(each, child) for each in children.get(child, ())]
        if _may_hold_gpu(child, looking.proc):
            (using if _maps_its_own(child, parent, looking) else inherited).append(child)
    return tuple(sorted(using)), tuple(sorted(inherited)), True


def _maps_its_own(pid: int, parent: int, looking: Looking) -> bool:
    """Whether it maps a GPU by an address that its parent hasn't: then it made a context of its own.

    A fork copies mappings to the same addresses, if at all. What cannot be read counts as if.
    """
    own, parents = looking.gpu_addresses(pid), looking.gpu_addresses(parent)
    return own is None or bool(own - (parents or frozenset()))


def _gpu_addresses(pid: int, proc: Path) -> frozenset[bytes] | None:
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return None
    try:
        maps = _maps(folder)
    finally:
        folder.close()
    if maps is None:
        return None
    return frozenset(match[1] for match in _MAP.finditer(maps) if _GPU_MAPPING.match(match[3]))


def _may_hold_gpu(pid: int, proc: Path) -> bool:
    """Whether a GPU is open in it; one that may not be looked at counts as if."""
    folder = open_folder(proc, pid)
    if isinstance(folder, Denied):
        return not folder.gone
    try:
        holds = folder.holds_open(GPU_DEVICE)
    finally:
        folder.close()
    return holds is True or (isinstance(holds, Denied) and not holds.gone)


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
    path, rest = cgroups / line.removeprefix("0::").strip().lstrip("/"), []
    while path != cgroups and cgroups in path.parents:
        most, now = read_file(path / "memory.max"), read_file(path / "memory.current")
        if most is not None and now is not None and most.strip().isdigit():
            rest.append(int(most) - int(now))
        path = path.parent
    return (min(rest, default=None),)
