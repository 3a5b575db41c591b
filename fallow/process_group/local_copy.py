"""Reads tensors out of the memory of a neighbour: another process of the same machine and the same user.

A socket copies every byte twice and wakes both ends for it. ``process_vm_readv(2)`` copies once, from where a
tensor lies to where it belongs, while its owner merely holds still. That the kernel lets us is tried, not
assumed: other machines, other pid namespaces, other users and a seccomp filter all read as "no neighbour",
and then the bytes travel as they always did. For tensors on the CPU; NCCL knows such ways of its own.

What a peer tells is checked: the process it names must be our account's, the one that began when it says,
before and after it is read (root may read any process), and what it offers must be as long as where it goes.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from fallow import accounts

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PID_NAMESPACE = Path("/proc/self/ns/pid")
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
ENV_SWITCH = "FALLOW_READ_NEIGHBOURS"
"""With "0" nothing is offered, and all bytes travel over the group."""
# Small enough that several threads share one tensor, large enough that a call costs nothing beside it.
PIECE_BYTES = 32 * 1024 * 1024
READERS = 2
"""Threads that copy. The kernel copies page by page, so one is slower than the memory; with more, several
who join a machine of few processors keep the sources' own words waiting."""
# linux/prctl.h; Yama's.
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
    began: int
    """When the process began, in the kernel's ticks since boot: a pid alone may be another's by now."""
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
    began = _began(os.getpid())
    if not spans or began is None:
        return None
    return Offer(machine=_machine(), pid=os.getpid(), began=began, spans=spans)


def to_json(offer: Offer) -> dict[str, Any]:
    """The offer as JSON has it."""
    spans = [[place, *span] for place, span in offer.spans.items()]
    return {"machine": offer.machine, "pid": offer.pid, "began": offer.began, "spans": spans}


def from_json(document: Any, into: Sequence[torch.Tensor]) -> Offer:
    """What ``to_json`` gave, for the tensors that it would fill, by their places. Raises ValueError."""
    match document:
        case {"machine": str(machine), "pid": int(pid), "began": int(began), "spans": list(spans)}:
            span_of = {place: (address, nbytes) for place, address, nbytes in spans}
            if all(0 <= place < len(into) and _fits(span, into[place]) for place, span in span_of.items()):
                return Offer(machine=machine, pid=pid, began=began, spans=span_of)
    raise ValueError("its offer of memory does not fit its tensors")


def can_read(offer: Offer) -> bool:
    """Whether a byte of what was offered can be read from here."""
    spans = [span for span in offer.spans.values() if span[1]]
    if not spans or offer.machine != _machine() or not _is_ours(offer):
        return False
    address, _ = spans[-1]
    byte = ctypes.create_string_buffer(1)
    return _copy(offer.pid, address, ctypes.addressof(byte), 1) == 1


def read(offer: Offer, into: Sequence[torch.Tensor]) -> None:
    """Fill ``into``, the offered tensors in the order of their places. Raises NeighbourGone."""
    wholes = [
        tensor if _is_plain(tensor) else torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in into
    ]
    pieces = [
        (offer.pid, address + start, target.data_ptr() + start, min(PIECE_BYTES, nbytes - start))
        for (address, nbytes), target in zip(offer.spans.values(), wholes, strict=True)
        for start in range(0, nbytes, PIECE_BYTES)
    ]
    with ThreadPoolExecutor(READERS, "fallow-read") as readers:
        for _ in readers.map(_copy_piece, pieces):
            pass
    if not _is_ours(offer):
        raise NeighbourGone(f"process {offer.pid} ended while it was read")
    for tensor, target in zip(into, wholes, strict=True):
        if target is not tensor:
            tensor.copy_(target)


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


def _is_ours(offer: Offer) -> bool:
    """Whether the process is this account's, and the one that made the offer."""
    return accounts.of_process(offer.pid) == os.geteuid() and _began(offer.pid) == offer.began


def _began(pid: int) -> int | None:
    """When a process began: field 22 of proc_pid_stat(5), counted after the name, which may hold anything."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _fits(span: tuple[Any, Any], tensor: torch.Tensor) -> bool:
    address, nbytes = span
    lies_on_cpu = tensor.device.type == "cpu" and isinstance(address, int) and address >= 0
    return lies_on_cpu and bool(nbytes == tensor.numel() * tensor.element_size())


def _allow(reader: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_long(reader))


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _copy_piece(piece: tuple[int, int, int, int]) -> None:
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
