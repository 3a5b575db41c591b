"""Reads the samples of a micro-batch, from a data set that can be indexed or from a stream that can skip.

A reader gets a ``Piece`` and gives a collated micro-batch; it can be copied into a loader process. Which
samples a step has, ``sampler`` says; how they are cut, ``batch_plan`` says; when they are read, ``prefetch``.

What a stream must promise: every ``iter()`` of it gives the same samples in the same order in every worker
(of an epoch, if it has ``set_epoch``); it must not share itself out over ranks. To get to a sample it is
asked, in this order: the iterator's ``skip(n)``, the data set's ``skip(n)`` (which gives a data set that
begins later), or else the samples before are read and dropped.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from fallow.data.sampler import Piece
from fallow.errors import DataError
from fallow.state import rng
from fallow.state.rng import Stage

LOG = logging.getLogger("fallow")
Collate = Callable[[list[Any]], Any]


class Dataset(Protocol):
    """A map-style data set."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class Stream(Protocol):
    """A data set that is read from its beginning."""

    def __iter__(self) -> Iterator[Any]: ...


class Reader(Protocol):
    """Turns a piece into a micro-batch. ``source`` is the user's own data set.

    ``device`` is where the model lies: its generator is keyed with the host's, for samples made there.
    """

    source: Any
    device: torch.device | None

    def read(self, piece: Piece) -> Any:
        """The collated samples of ``piece``. Raises DataError; blocks as the data set does."""
        ...


class MapReader:
    """Reads by index. With a ``seed``, randomness is keyed to the piece before it is read."""

    def __init__(
        self,
        source: Dataset,
        collate: Collate | None,
        seed: int | None,
        *,
        device: torch.device | None = None,
    ):
        self.source, self.device = source, device
        self._length = len(source)
        self._collate = collate or torch.utils.data.default_collate
        self._seed = seed

    def read(self, piece: Piece) -> Any:
        """The collated samples; the data set's ``__getitems__`` is used where it has one."""
        rng.seed(self._seed, piece.step, piece.micro.index, Stage.DATA, device=self.device)
        try:
            return self._collate(self._samples(piece))
        except IndexError as error:
            if (now := len(self.source)) >= self._length:
                raise
            raise DataError(
                f"step {piece.step} needs samples up to {max(piece.where)}, but the data set has {now} now "
                f"and had {self._length} when steps() began. Leave it as it is while a training runs"
            ) from error

    def _samples(self, piece: Piece) -> list[Any]:
        many = getattr(self.source, "__getitems__", None)
        samples = many(list(piece.where)) if many else [self.source[index] for index in piece.where]
        if len(samples) != piece.micro.size:
            raise DataError(
                f"__getitems__ gave {len(samples)} samples for {piece.micro.size} indices (step {piece.step})"
            )
        for index, sample in zip(piece.where, samples, strict=True):
            if sample is None:
                raise DataError(
                    f"the data set gave None for sample {index} (step {piece.step}). If the collate function "
                    "drops it, a step has fewer samples than it counts: leave it out of the data set, or of "
                    "order="
                )
        return samples


class StreamReader:
    """Reads a stretch of a stream, going on from the last one where it can.

    ``declared`` is the length that the stream itself claims: where it ends is then compared with that.
    """

    def __init__(
        self,
        source: Stream,
        collate: Collate | None,
        seed: int | None,
        declared: int | None = None,
        *,
        device: torch.device | None = None,
    ):
        self.source, self.device = source, device
        self._told = declared
        self._collate = collate or torch.utils.data.default_collate
        self._seed = seed
        self._iterator: Iterator[Any] | None = None
        self._epoch = self._position = 0

    def read(self, piece: Piece) -> Any:
        """The collated samples; the stream is begun again when it has gone past them."""
        start, size = piece.where[0], piece.micro.size
        if self._iterator is None or piece.epoch != self._epoch or start < self._position:
            self._begin(piece.epoch, start)
        elif start > self._position:
            self._skip(start - self._position)
        rng.seed(self._seed, piece.step, piece.micro.index, Stage.DATA, device=self.device)
        assert self._iterator is not None
        samples = list(itertools.islice(self._iterator, size))
        self._position += len(samples)
        if len(samples) < size:
            claim = "" if self._told is None else f", though it says that it has {self._told}"
            raise DataError(
                f"the stream ended at sample {self._position} of epoch {piece.epoch}{claim}; step "
                f"{piece.step} needs {size - len(samples)} more. Pass samples_per_epoch={self._position} to "
                "go round, or ask for fewer steps"
            )
        if self._position == self._told:
            self._end(self._iterator)
        return self._collate(samples)

    def _end(self, iterator: Iterator[Any]) -> None:
        """Where it says that it ends, see whether it does; what comes next begins anew in any case."""
        more = next(iterator, self) is not self
        if more:
            LOG.warning(
                "the stream says that it has %d samples, but it has more, and those are never read: correct "
                "its __len__, or pass samples_per_epoch= to steps()",
                self._told,
            )
            self._told = None  # said once
        self._iterator = None

    def _begin(self, epoch: int, start: int) -> None:
        """A stream may draw its order when it begins, or with its first sample: that is the same in every
        worker, whichever sample it begins for. What it draws later depends on the samples before.
        """
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)
        self._seed_order(epoch)
        self._epoch, self._position = epoch, 0
        self._iterator = iter(self.source)
        source: Any = self.source
        if hasattr(self._iterator, "skip"):
            self._skip(start)
        elif start and _can_skip(source):
            self._seed_order(epoch)
            self._iterator, self._position = _begun(iter(source.skip(start))), start
        else:
            self._iterator = _begun(self._iterator)
            self._skip(start)

    def _seed_order(self, epoch: int) -> None:
        rng.seed(self._seed, epoch, stage=Stage.ORDER, device=self.device)

    def _skip(self, count: int) -> None:
        assert self._iterator is not None
        if hasattr(self._iterator, "skip"):
            self._iterator.skip(count)
        else:
            next(itertools.islice(self._iterator, count, count), None)
        self._position += count


def _begun(samples: Iterator[Any]) -> Iterator[Any]:
    """The same, of which the first was read now."""
    return itertools.chain(list(itertools.islice(samples, 1)), samples)


def _can_skip(stream: Any) -> bool:
    """Whether ``skip(n)`` gives what is left of the stream after its first ``n`` samples.

    Hugging Face's doesn't where it is shuffled, from some epoch on (datasets 5.2), and it reads what it skips
    as we would: it isn't asked.
    """
    return hasattr(stream, "skip") and not type(stream).__module__.startswith("datasets.")
