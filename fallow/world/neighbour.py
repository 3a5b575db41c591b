"""Reads tensors out of the memory of a neighbour: another process of the same machine and the same user.

A socket copies every byte twice and wakes both ends for it. ``process_vm_readv(2)`` copies once, from where a
tensor lies to where it belongs, while its owner merely holds still. That the kernel lets us is tried, not
assumed: other machines, other pid namespaces, other users and a seccomp filter all read as "no neighbour",
and then the bytes travel as they always did. For tensors on the CPU; NCCL knows such ways of its own.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
ENV_SWITCH = "FALLOW_READ_NEIGHBOURS"
"""With "0" nothing is offered, and all bytes travel over the group."""
PIECE_BYTES = 32 * 1024 * 1024
READERS = 2
"""Threads that copy. The kernel copies page by page, so one is slower than the memory; with more, several
who join a machine of few processors keep the sources' own words waiting."""
PR_SET_PTRACER = 0x59616D61
ANY = -1
NOBODY = 0


class NeighbourGone(Exception):
    """The memory that was offered can no longer be read: its owner has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Where some of a state's tensors lie, for whoever can look: by their place in its list of tensors."""

    machine: str
    pid: int
    spans: dict[int, tuple[int, int]]
    """Place to address and bytes."""


def offer(tensors: Sequence[torch.Tensor], environment: Mapping[str, str] = os.environ) -> Offer | None:
    """An offer of those ``tensors`` that lie on the CPU without gaps; they must not change until read.

    ``None`` where there are none, or where ENV_SWITCH forbids it.
    """
    if environment.get(ENV_SWITCH) == "0":
        return None
    spans = {
        place: (tensor.data_ptr(), tensor.numel() * tensor.element_size())
        for place, tensor in enumerate(tensors)
        if _is_plain(tensor)
    }
    return Offer(machine=_machine(), pid=os.getpid(), spans=spans) if spans else None


def can_read(made: Offer) -> bool:
    """Whether a byte of what was offered can be read from here."""
    spans = [span for span in made.spans.values() if span[1]]
    if not spans or made.machine != _machine():
        return False
    address, _ = spans[-1]
    byte = ctypes.create_string_buffer(1)
    return _copy(made.pid, address, ctypes.addressof(byte), 1) == 1


def read(made: Offer, into: Sequence[torch.Tensor]) -> None:
    """Fill ``into``, the offered tensors in the order of their places. Raises NeighbourGone."""
    wholes = [
        tensor if _is_plain(tensor) else torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in into
    ]
    pieces = [
        (made.pid, address + start, whole.data_ptr() + start, min(PIECE_BYTES, nbytes - start))
        for (address, nbytes), whole in zip(made.spans.values(), wholes, strict=True)
        for start in range(0, nbytes, PIECE_BYTES)
    ]
    with ThreadPoolExecutor(READERS, "fallow-read") as readers:
        for _ in readers.map(_copy_whole, pieces):
            pass
    for tensor, whole in zip(into, wholes, strict=True):
        if whole is not tensor:
            tensor.copy_(whole)


@contextmanager
def letting_read() -> Iterator[None]:
    """Meanwhile processes of this user may read our memory where Yama lets only ancestors (scope 1)."""
    guarded = YAMA.exists() and YAMA.read_text().strip() == "1"
    if guarded:
        _allow(ANY)
    try:
        yield
    finally:
        if guarded:
            _allow(NOBODY)


def _allow(reader: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_long(reader))


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _copy_whole(piece: tuple[int, int, int, int]) -> None:
    """Copy one piece: process, where it lies there, where here, bytes. Raises NeighbourGone."""
    pid, theirs, ours, nbytes = piece
    done = 0
    while done < nbytes:
        copied = _copy(pid, theirs + done, ours + done, nbytes - done)
        if copied <= 0:
            raise NeighbourGone(f"the memory of process {pid} can no longer be read")
        done += copied


def _copy(pid: int, theirs: int, ours: int, nbytes: int) -> int:
    """How many bytes came over; -1 when none may or can."""
    call = _system_call()
    if call is None:
        return -1
    local, remote = _Span(ours, nbytes), _Span(theirs, nbytes)
    return int(call(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))


@cache
def _system_call() -> "ctypes._NamedFuncPointer | None":
    call = getattr(ctypes.CDLL(None), "process_vm_readv", None)
    if call is not None:
        span, count = ctypes.POINTER(_Span), ctypes.c_ulong
        call.argtypes = (ctypes.c_int, span, count, span, count, count)
        call.restype = ctypes.c_ssize_t
    return call


def _machine() -> str:
    """This boot of this machine and this pid namespace; of nobody else, where they cannot be told."""
    try:
        return f"{BOOT_ID.read_text().strip()} {PID_NAMESPACE.stat().st_ino}"
    except OSError:
        return f"unknown, seen by {os.getpid()}"


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    )
