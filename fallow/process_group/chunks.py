"""Cuts a list of tensors into messages: a large tensor in pieces where it lies, small ones packed together.

Sender and receiver cut alike because both know all shapes and dtypes, in the same order. Everything travels
as bytes, so any dtype does. Nothing here communicates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

import torch

PIECE_BYTES = 8 * 1024 * 1024
"""A chain forwards piece by piece; gloo over loopback was fastest at 2 to 32 MiB (2026-11-21)."""
ALONE_BYTES = 256 * 1024
"""Below this, a message of its own costs more than packing the bytes."""
# The widest element (complex128): a piece may be viewed as any dtype.
ALIGNMENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes ``[start, stop)`` of a large tensor. They lie in ``whole``: the tensor itself where it is
    contiguous on the travelling device, else a contiguous twin of it there.
    """

    tensor: torch.Tensor
    whole: torch.Tensor
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Several small tensors of together ``size`` bytes, padding included; any dtypes, strides and devices."""

    tensors: tuple[torch.Tensor, ...]
    size: int


Parcel = Piece | Pack


def outgoing(tensors: Iterable[torch.Tensor], device: torch.device) -> Iterator[Parcel]:
    """The parcels of tensors to send from ``device``."""
    return _cut(tensors, device, sending=True)


def incoming(tensors: Iterable[torch.Tensor], device: torch.device) -> Iterator[Parcel]:
    """The parcels of tensors to fill, arriving on ``device``."""
    return _cut(tensors, device, sending=False)


def content(parcel: Parcel, device: torch.device) -> torch.Tensor:
    """The bytes to send; a view of the tensor itself where that can be."""
    match parcel:
        case Piece(whole=whole, start=start, stop=stop):
            return _bytes(whole)[start:stop]
        case Pack():
            packed = torch.empty(parcel.size, dtype=torch.uint8, device=device)
            for tensor, part in _parts(parcel, packed):
                part.copy_(tensor)
            return packed
        case _:
            assert_never(parcel)


def landing(parcel: Parcel, device: torch.device) -> torch.Tensor:
    """Where the bytes are to arrive; the tensor itself where that can be."""
    match parcel:
        case Piece(whole=whole, start=start, stop=stop):
            return _bytes(whole)[start:stop]
        case Pack():
            return torch.empty(parcel.size, dtype=torch.uint8, device=device)
        case _:
            assert_never(parcel)


def settle(parcel: Parcel, landed: torch.Tensor) -> None:
    """Put what has landed where it belongs, if it isn't there yet; pieces must be settled in their order."""
    match parcel:
        case Piece(tensor=tensor, whole=whole, stop=stop):
            if whole is not tensor and stop == nbytes(tensor):
                tensor.copy_(whole)
        case Pack():
            for tensor, part in _parts(parcel, landed):
                tensor.copy_(part)
        case _:
            assert_never(parcel)


def nbytes(tensor: torch.Tensor) -> int:
    """The bytes of its elements, without gaps."""
    return int(tensor.numel()) * int(tensor.element_size())


def _cut(tensors: Iterable[torch.Tensor], device: torch.device, *, sending: bool) -> Iterator[Parcel]:
    small: list[torch.Tensor] = []
    for tensor in tensors:
        size = nbytes(tensor)
        if size < ALONE_BYTES:
            small.append(tensor)
            continue
        base = tensor if _lies_ready(tensor, device) else _twin(tensor, device, filled=sending)
        for start in range(0, size, PIECE_BYTES):
            yield Piece(tensor=tensor, whole=base, start=start, stop=min(size, start + PIECE_BYTES))
    yield from _packs(small)


def _packs(small: Iterable[torch.Tensor]) -> Iterator[Pack]:
    packed: list[torch.Tensor] = []
    size = 0
    for tensor in small:
        if size + _padded(tensor) > PIECE_BYTES:
            yield Pack(tensors=tuple(packed), size=size)
            packed, size = [], 0
        packed.append(tensor)
        size += _padded(tensor)
    if size:
        yield Pack(tensors=tuple(packed), size=size)


def _lies_ready(tensor: torch.Tensor, device: torch.device) -> bool:
    return tensor.device == device and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _twin(tensor: torch.Tensor, device: torch.device, *, filled: bool) -> torch.Tensor:
    twin = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    return twin.copy_(tensor) if filled else twin


def _parts(pack: Pack, packed: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    start = 0
    for tensor in pack.tensors:
        yield tensor, packed[start : start + nbytes(tensor)].view(tensor.dtype).view(tensor.shape)
        start += _padded(tensor)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1).view(torch.uint8)


def _padded(tensor: torch.Tensor) -> int:
    return -(-nbytes(tensor) // ALIGNMENT) * ALIGNMENT
