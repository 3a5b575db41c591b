"""Whether all workers have the same samples at the same places, told by a few that each reads beside its own.

A hash of indices says nothing of what lies there: a data set that a script shares out by rank, or files that
are listed in another order, have other samples at equal indices. So where a training has, or may get, several
workers, each reads a few samples before its first step, and a hash of them rides in the sums.

Only what is exact is hashed: whole numbers, texts, bytes, and the types and shapes of all else. Floating
numbers are not: processors of other kinds decode and scale a little differently. Each sample is read twice,
and what differs by itself (it is drawn by a generator of its own) is not compared. So what is told is so.
"""

import ctypes
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import torch

from fallow.data.dataset import MapReader, StreamReader
from fallow.data.sample_digest import MODULI
from fallow.data.sampler import Order
from fallow.state import rng
from fallow.state.rng import Stage

LOG = logging.getLogger("fallow")
NOTES = 1 + len(MODULI)
"""What rides in a step's sum: whether this worker knows its samples' hash, and the hash by each modulus."""
SAMPLES = 4
"""So many are read, spread over the data set; of a stream the first ones."""
DEEPEST = 20
"""Levels of a sample that are looked through; it may hold itself."""


class ContentCheck:
    """One worker's; nothing is read before ``look``."""

    def __init__(self) -> None:
        self.has_looked = False
        self._hash: int | None = None
        self._is_told = False

    def look(self, reader: Any, order: Order, key: int | None) -> None:
        """Read a few samples twice, the first time that it is asked."""
        if self.has_looked:
            return
        self.has_looked = True
        try:
            places = _places(reader, order)
            first, second = (_hash_of(_read(reader, places, key)) for _ in range(2))
        except Exception as error:  # the script's own code, asked for more than it was written for
            LOG.debug("samples could not be read to be compared: %r", error)
            return
        if first == second:
            self._hash = first
        elif isinstance(reader, StreamReader):
            LOG.warning(
                "the stream gave other samples when it was read again. If it shuffles, seed it: each worker "
                "reads it from its beginning, and where orders differ samples are lost and doubled"
            )

    def notes(self, *, takes_part: bool) -> list[float]:
        """This worker's part of the step's sum, if it ``takes_part`` in it."""
        if self._hash is None or not takes_part:
            return [0.0] * NOTES
        return [1.0, *[float(self._hash % modulus) for modulus in MODULI]]

    def check(self, summed: Sequence[float], step: int) -> None:
        """What all workers' notes came to. Says once where others have other samples."""
        if self._hash is None or self._is_told:
            return
        result = round(summed[0])
        if any(round(n) != result * (self._hash % m) for n, m in zip(summed[1:], MODULI, strict=False)):
            self._is_told = True
            LOG.warning(
                "step %d: workers have different samples at the same places, so some samples are lost and "
                "others doubled. Give every worker the whole data set: leave out shard(), "
                "split_dataset_by_node() and whatever else goes by rank, sort lists of files, and split with "
                "a seed",
                step,
            )


def _places(reader: Any, order: Order) -> list[Any]:
    """Which samples are read: of a stream the first ones, else some from the first to the last."""
    count = min(SAMPLES, order.samples)
    if isinstance(reader, StreamReader):
        return list(range(count))
    visited: Sequence[Any] = range(order.samples) if order.visit is None else order.visit(0)
    return [visited[at * (order.samples - 1) // max(1, count - 1)] for at in range(count)]


def _read(reader: Any, places: Sequence[Any], key: int | None) -> list[Any]:
    rng.seed(key, 0, 0, Stage.DATA, device=reader.device)
    source = reader.source
    if isinstance(reader, MapReader):
        return [source[int(place) if isinstance(place, torch.Tensor) else place] for place in places]
    if hasattr(source, "set_epoch"):
        source.set_epoch(0)
    return list(itertools.islice(iter(source), len(places)))


def _hash_of(value: Any, depth: int = 0) -> int:
    """A hash of what is exact in ``value``, the same in every process."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return crc32(_bytes_of(value), crc32(f"{kind} {value.dtype} {tuple(value.shape)}".encode()))
    if isinstance(value, bool | int | str | bytes) or value is None:
        return crc32(f"{kind} {value!r}".encode())
    parts: Sequence[Any] = ()
    if depth < DEEPEST and isinstance(value, Mapping):
        parts = list(itertools.chain.from_iterable(value.items()))
    elif depth < DEEPEST and isinstance(value, list | tuple):
        parts = value
    elif hasattr(value, "dtype") and hasattr(value, "tobytes"):  # NumPy's
        exact = value.dtype.kind in "biuSU"
        return crc32(value.tobytes() if exact else b"", crc32(f"{kind} {value.dtype} {value.shape}".encode()))
    digest = crc32(f"{kind} {len(parts)}".encode())
    for part in parts:
        digest = crc32(_hash_of(part, depth + 1).to_bytes(4, "little"), digest)
    return digest


def _bytes_of(tensor: torch.Tensor) -> bytes:
    """What lies in it, if it is whole numbers on the host."""
    is_exact = not tensor.is_floating_point() and not tensor.is_complex()
    if not is_exact or not tensor.is_cpu or tensor.layout is not torch.strided or not tensor.numel():
        return b""
    flat = tensor.detach().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
