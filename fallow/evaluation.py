"""A data set's sums of a script's own metric, computed by all workers together and the same in each.

The set is cut into batches at places that don't depend on the number of workers, and each batch's numbers
have a place of their own in what is exchanged: so the result has the same bits in every world, also when the
set doesn't divide, and when a worker dies what it had is computed by others, each batch once.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from fallow.data.adapters import Asked, take_in
from fallow.data.batch_plan import MicroBatch, even_split
from fallow.data.prefetch import Ahead, Direct, Supply
from fallow.data.sampler import ENDLESS, Piece
from fallow.errors import DataError, Mistake
from fallow.process_group.collectives import Group
from fallow.state import rng
from fallow.transfers import if_known

Metric = Callable[[Any], Any]
"""From a batch to numbers: each its sum over the batch, or one value a sample; one of them or a dict."""
ONE = "value"
"""What a metric's only number is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Sums of a metric over ``samples`` samples, by name."""

    samples: int
    sums: Mapping[str, float]

    def mean(self, name: str = ONE) -> float:
        """Of one sample. Raises KeyError for a name that the metric didn't give."""
        return self.sums[name] / self.samples


class Evaluator:
    """One evaluation of ``data`` in this worker, in batches of ``batch`` samples.

    Random numbers are keyed as in training, those of ``device`` too, where the model lies.
    """

    def __init__(
        self,
        data: Any,
        metric: Metric,
        *,
        batch: int,
        collate: Any,
        workers: int | None,
        key: int | None,
        device: torch.device,
    ):
        loader = data if isinstance(data, DataLoader) else None
        if loader is not None and loader.batch_size:
            batch = loader.batch_size
        request = Asked(collate=collate, workers=workers, drop_last=False, shuffle=None if loader else False)
        intake = take_in(data, request, batch, 0, key, device=device)
        if intake.order.samples == ENDLESS:
            raise DataError(
                "evaluate() got a stream without a length: give it a __len__, or a data set that can be "
                "indexed, so that the workers can share it"
            )
        self.samples = intake.order.samples
        self._metric, self._seed = metric, partial(rng.seed, key, device=device)
        starts = range(0, self.samples, batch)
        self._micros = [
            MicroBatch(index=at, start=start, stop=min(start + batch, self.samples))
            for at, start in enumerate(starts)
        ]
        several = intake.loading.workers > 0
        own = None if key is None else torch.Generator().manual_seed(key)
        self._supply: Supply = Ahead(intake.reader, intake.loading, own) if several else Direct(intake.reader)
        self._known: dict[int, list[float | torch.Tensor]] = {}
        self.names: tuple[str, ...] = ()

    def part(self, group: Group) -> list[float]:
        """This worker's batches' numbers at their places, and zeros at those of others."""
        mine = self._share(group)
        samples = [
            at for at in mine or (0,) if at not in self._known
        ]  # who has none learns the names from one
        pieces = tuple([self._piece(at) for at in samples])
        self._supply.aim((group.world_size, group.rank), 0, 1, lambda step: pieces if step == 0 else ())
        for piece in pieces:
            fetched = self._supply.fetch(piece)
            self._seed(0, piece.micro.index, rng.Stage.EVALUATION)
            self._known[piece.micro.index] = self._numbers(fetched, piece.micro)
        names = len(self.names)
        row = [0.0] * (len(self._micros) * names)
        for at, values in zip(mine, self._on_host(mine), strict=True):
            row[at * names : (at + 1) * names] = values
        return row

    def told(self) -> str:
        """What is summed, for workers that sum other things."""
        return f"evaluate() of {self.samples} samples for {', '.join(self.names)}"

    def result(self, summed: Sequence[float]) -> Evaluation:
        """What all workers' parts came to."""
        names = self.names
        return Evaluation(
            samples=self.samples,
            sums={name: _sum(summed[at :: len(names)]) for at, name in enumerate(names)},
        )

    def close(self) -> None:
        """End what reads."""
        self._supply.close()

    def _share(self, group: Group) -> range:
        batches, world = len(self._micros), group.world_size
        if batches < world:
            return range(group.rank, min(group.rank + 1, batches))
        shares = even_split(batches, world)
        start = sum(shares[: group.rank])
        return range(start, start + shares[group.rank])

    def _piece(self, at: int) -> Piece:
        micro = self._micros[at]
        return Piece(step=0, micro=micro, epoch=0, where=range(micro.start, micro.stop))

    def _numbers(self, batch: Any, micro: MicroBatch) -> list[float | torch.Tensor]:
        values = self._metric(batch)
        named = dict(values) if isinstance(values, Mapping) else {ONE: values}
        names = tuple(named)
        if not names or (self.names and names != self.names):
            raise Mistake(
                f"the metric gave {list(names)} for a batch, and {list(self.names)} before: it must give the "
                "same names each time"
            )
        self.names = names
        return [_summed(name, value, micro.size) for name, value in named.items()]

    def _on_host(self, batches: Sequence[int]) -> list[list[float]]:
        """The numbers of these batches; waits for the device once."""
        rows = [self._known[at] for at in batches]
        flat = [value for row in rows for value in row]
        late = [value for value in flat if isinstance(value, torch.Tensor)]
        host_values = iter(torch.stack(late).tolist() if late else ())
        numbers = [next(host_values) if isinstance(value, torch.Tensor) else value for value in flat]
        names = len(self.names)
        return [numbers[at * names : (at + 1) * names] for at in range(len(rows))]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Meanwhile the model's parts are in evaluation mode, and no gradients are kept."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def _summed(name: str, value: Any, samples: int) -> float | torch.Tensor:
    """One number of a batch, in float64; on a device it isn't waited for."""
    if isinstance(value, torch.Tensor):
        if value.dim() > 1 or (value.dim() == 1 and len(value) != samples):
            raise Mistake(
                f"the metric's {name!r} has shape {tuple(value.shape)} for a batch of {samples} samples: "
                "give its sum over the batch, or one value a sample (reduction='none')"
            )
        return if_known(value.detach().double().sum())
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Mistake(f"the metric's {name!r} is a {type(value).__name__}: give numbers or tensors") from None


def _sum(values: Sequence[float]) -> float:
    """Exactly rounded, whatever the order; inf of both signs is no number."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):
        return math.nan
