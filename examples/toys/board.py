"""What toys have and do on the GPUs of a machine that has none: a board that lies beside the driver's state.

A toy takes memory and keeps a GPU busy by writing its own rows of one mapped file; the stand-in driver
(``tests/driver/toys.c``, which mirrors these structs) counts in the rows of all toys that live. A process is
known by its pid and its start, so a killed one holds nothing from then on. What the GPU has not got is
refused, in the words in which CUDA and PyTorch refuse it. ``CUDA_VISIBLE_DEVICES`` is read as CUDA reads it:
indices or UUIDs (a unique beginning is enough), in that order, up to the first that names nothing; a device
named twice leaves none (CUDA C++ Programming Guide, "CUDA Environment Variables").

A file has room for 256 rows, a row being one process on one GPU.
"""

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STATE_VARIABLE = "FALLOW_DRIVER_STATE"
DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
GIB = 1 << 30
CONTEXT_BYTES = GIB // 2
"""What a process's CUDA context takes on a GPU, before its first tensor."""

_MAGIC = 0x59544C46
_MAX_GPUS = 16
_MAX_TOYS = 256


class OutOfMemory(RuntimeError):
    """The GPU has not got what was asked for."""


class NoDevice(RuntimeError):
    """No GPU is visible to this process."""


class _Gpu(ctypes.Structure):
    _fields_ = (("uuid", ctypes.c_char * 96), ("total", ctypes.c_uint64), ("reserved", ctypes.c_uint64))


class _Toy(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint32),
        ("gpu", ctypes.c_uint32),
        ("started_ticks", ctypes.c_uint64),
        ("memory", ctypes.c_uint64),
        ("sm", ctypes.c_uint32),
        ("controller", ctypes.c_uint32),
    )


class _Board(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("gpu_count", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("gpus", _Gpu * _MAX_GPUS),
        ("toys", _Toy * _MAX_TOYS),
    )


def board_of(state: Path) -> Path:
    """Where the board of a driver's state lies."""
    return state.with_name(f"{state.name}.toys")


def make_board(state: Path, gpus: Sequence[tuple[str, int, int]]) -> Path:
    """A new board for these GPUs: (UUID, bytes of memory, of these reserved by the driver)."""
    board = _Board(magic=_MAGIC, size=ctypes.sizeof(_Board), gpu_count=len(gpus))
    for i, (uuid, total, reserved) in enumerate(gpus):
        board.gpus[i] = _Gpu(uuid.encode(), total, reserved)
    path = board_of(state)
    path.write_bytes(bytes(board))
    return path


class Device:
    """One GPU as this process sees it."""

    def __init__(self, board: "Board", slot: int) -> None:
        self._board, self._slot = board, slot
        self._row: int | None = None

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return str(self._board.mapped.gpus[self._slot].uuid.decode())

    @property
    def total_bytes(self) -> int:
        """Its memory, less what the driver keeps for itself."""
        gpu = self._board.mapped.gpus[self._slot]
        return int(gpu.total - gpu.reserved)

    @property
    def free_bytes(self) -> int:
        """What nobody has taken."""
        with self._board.locked():
            return self._free()

    @property
    def held_bytes(self) -> int:
        """What this process has taken, its context included."""
        return 0 if self._row is None else int(self._board.mapped.toys[self._row].memory)

    @property
    def shared(self) -> bool:
        """Whether another process is on it."""
        with self._board.locked():
            return any(toy.gpu == self._slot and toy.pid != os.getpid() for toy in self._board.living())

    def allocate(self, size: int) -> None:
        """Take so many bytes, and a context before the first. Raises ``OutOfMemory``, nothing taken."""
        with self._board.locked():
            context = 0 if self._row is not None else CONTEXT_BYTES
            free = self._free()
            if size + context > free:
                raise OutOfMemory(self._refusal(size, free))
            row = self._own_row()
            row.memory += size + context

    def release(self, size: int) -> None:
        """Give so many bytes back; the context stays until the process ends."""
        with self._board.locked():
            row = self._own_row()
            row.memory = max(CONTEXT_BYTES, row.memory - size)

    def busy(self, percent: int, controller: int | None = None) -> None:
        """Use it so much from now on; memory traffic is a quarter of that, if nobody says otherwise."""
        with self._board.locked():
            row = self._own_row()
            row.sm, row.controller = percent, percent // 4 if controller is None else controller

    def leave(self) -> None:
        """Give everything back, the context too, as the end of the process would."""
        with self._board.locked():
            if self._row is not None:
                self._board.mapped.toys[self._row] = _Toy()
                self._row = None

    def _free(self) -> int:
        return self.total_bytes - sum(
            int(toy.memory) for toy in self._board.living() if toy.gpu == self._slot
        )

    def _own_row(self) -> _Toy:
        toys = self._board.mapped.toys
        if self._row is None:
            self._row = next(i for i, toy in enumerate(toys) if not toy.pid)
            toys[self._row] = _Toy(os.getpid(), self._slot, started_ticks(os.getpid()) or 0, 0, 0, 0)
        own: _Toy = toys[self._row]
        return own

    def _refusal(self, size: int, free: int) -> str:
        return (
            f"CUDA out of memory. Tried to allocate {size / GIB:.2f} GiB. GPU {self._slot} has a total "
            f"capacity of {self.total_bytes / GIB:.2f} GiB of which {free / GIB:.2f} GiB is free."
        )


class Board:
    """The mapped file. Rows of processes that are gone are wiped by whoever comes next."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)
        self.mapped = _Board.from_buffer(self._map)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else takes or gives back meanwhile."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def living(self) -> list[_Toy]:
        """The rows of processes that live; call it locked."""
        for toy in self.mapped.toys:
            if toy.pid and started_ticks(toy.pid) != toy.started_ticks:
                ctypes.memset(ctypes.addressof(toy), 0, ctypes.sizeof(toy))
        return [toy for toy in self.mapped.toys if toy.pid]

    def holders(self) -> dict[str, dict[int, int]]:
        """By GPU, what each living process holds there, in bytes; GPUs that nobody is on are in it, empty."""
        with self.locked():
            gpus = [gpu.uuid.decode() for gpu in self.mapped.gpus[: self.mapped.gpu_count]]
            held: dict[str, dict[int, int]] = {uuid: {} for uuid in gpus}
            for toy in self.living():
                held[gpus[toy.gpu]][int(toy.pid)] = int(toy.memory)
        return held


def visible() -> tuple[Device, ...]:
    """The GPUs that this process was given, in its order. Raises ``NoDevice`` where there are none."""
    board = Board(board_of(Path(os.environ[STATE_VARIABLE])))
    uuids = [gpu.uuid.decode() for gpu in board.mapped.gpus[: board.mapped.gpu_count]]
    slots = masked(os.environ.get(DEVICES_VARIABLE), uuids)
    if not slots:
        raise NoDevice(f"no GPU: {DEVICES_VARIABLE} is {os.environ.get(DEVICES_VARIABLE)!r}")
    return tuple(Device(board, slot) for slot in slots)


def masked(mask: str | None, uuids: Sequence[str]) -> tuple[int, ...]:
    """Which GPUs a process sees under this mask, in its order; all of them without one."""
    if mask is None:
        return tuple(range(len(uuids)))
    slots: list[int] = []
    for word in (each.strip() for each in mask.split(",")):
        if word.isdigit():
            named = [int(word)] if int(word) < len(uuids) else []
        else:
            named = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(named) != 1:
            break
        slots += named
    return tuple(slots) if len(set(slots)) == len(slots) else ()


def started_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; ``None`` once it is gone, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZXx" else int(fields[19])
