"""A model whose layers run on the ranks that a plan gives them, within an elastic training.

    burst = fallow.burst.module(model, ["plan-2.json", "plan-4.json"], criterion)
    trainer = job.elastic(burst, optimizer, global_batch=32, max_micro_batch=32)
    for step, batches in trainer.steps(dataset, total_steps=10_000):
        for x, y in batches:
            loss, count = burst(x, y)
            trainer.backward(loss, count=count)
        trainer.step()

Every rank keeps all parameters whole: gradients are summed over all ranks, and who did not compute a layer
adds nothing. So resizing, checkpoints and crashes are as without bursts. Between two layers on other ranks
the samples travel (``exchange``); a rank without samples of a layer skips it. In a world for which there is
no plan, or whose plan says that bursts don't pay, every rank runs all layers on its own samples.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fallow.burst.exchange import Exchange, Waiting, exchanged
from fallow.burst.layers import layers_in_a_row
from fallow.burst.plan import BadPlan, Plan, read_plan
from fallow.burst.shares import Shares, by_counts, on_ranks
from fallow.errors import LossError
from fallow.process_group.collectives import Group, GroupBroken

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def module(
    model: nn.Module, plans: Plan | str | Path | Sequence[Plan | str | Path], criterion: Criterion
) -> "BurstModule":
    """``model`` to be trained by these plans, one for each number of ranks; plans or paths of their files.

    ``criterion(output, target)`` is the mean loss over the samples it is given, as a scalar. Parameters and
    buffers keep their names, so a checkpoint fits the model with and without bursts.
    Raises: BadPlan for a plan of another model or a second one for a number of ranks, BadTable for a model
    whose layers don't run in a row, OSError for a file that cannot be read.
    """
    sources = [plans] if isinstance(plans, Plan | str | Path) else list(plans)
    by_world: dict[int, Plan] = {}
    for each in sources:
        plan = each if isinstance(each, Plan) else read_plan(Path(each).read_text(encoding="utf-8"))
        if plan.gpus in by_world:
            raise BadPlan(f"two plans are for {plan.gpus} ranks: give one for each number of ranks")
        by_world[plan.gpus] = plan
    return BurstModule(model, by_world, criterion)


@dataclass(frozen=True, slots=True)
class _Way:
    """How the ranks of one group run one step: the exchange before each layer (None: shares stay), who has
    samples of each layer, and the exchange of the targets."""

    group: Group
    counts: tuple[int, ...]
    exchanges: tuple[Exchange | None, ...]
    samples: tuple[int, ...]
    targets: Exchange


class BurstModule(nn.Module):  # type: ignore[misc]
    """See ``module``. Called with a target it returns the loss and of how many samples it is the mean; with
    an input alone, the output of all layers run here, for evaluation.
    """

    def __init__(self, model: nn.Module, plans: Mapping[int, Plan], criterion: Criterion) -> None:
        super().__init__()
        # The model's own parts, not the model: so names in a state are the model's.
        self._modules.update(model._modules)
        self._parameters.update(model._parameters)
        self._buffers.update(model._buffers)
        self.training = model.training
        self._row = tuple(layers_in_a_row(model))
        self._plans, self._criterion = dict(plans), criterion
        for plan in self._plans.values():
            self._check(plan)
        self._way: _Way | None = None
        self._traced: tuple[tuple[Any, ...], tuple[tuple[torch.Size, torch.dtype], ...]] | None = None

    def enter(self, group: Group, counts: Sequence[int], waiting: Waiting = nullcontext) -> None:
        """The next step runs in ``group``; rank ``r`` is given ``counts[r]`` samples in one micro-batch.

        ``waiting`` surrounds the waits of a rank that has no samples of the layer before.
        An epoch's last step may have fewer samples than its plan is for; with a rank that has none it runs
        without the plan, as that rank's loop has nothing to call.
        """
        plan = self._plans.get(group.world_size)
        if plan is None or plan.verdict == "uniform" or group.world_size == 1 or min(counts) < 1:
            self._way = None
        elif self._way is None or self._way.group is not group or self._way.counts != tuple(counts):
            self._way = self._lay_out(plan, group, tuple(counts), waiting)

    def check(self, global_batch: int) -> None:
        """Raises BadPlan for a plan that is for another global batch than a training's."""
        for plan in self._plans.values():
            if plan.global_batch != global_batch:
                raise BadPlan(
                    f"the plan for {plan.gpus} ranks is for a global batch of {plan.global_batch}, but this "
                    f"training's has {global_batch}: plan again with --global-batch {global_batch}"
                )

    @property
    def bursts(self) -> bool:
        """Whether the next step runs by a plan; else each rank runs all layers."""
        return self._way is not None

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        """``(loss, count)``, or the output where there is no target."""
        if y is None or self._way is None:
            output = x
            for _, layers in self._row:
                output = _run(layers, output)
            return output if y is None else (self._criterion(output, y), x.shape[0])
        try:
            return self._by_plan(self._way, x, y)
        except GroupBroken:
            # The others wait for this rank: they are freed, and the trainer finds the group broken.
            self._way.group.abort()
            return self._anchor(x.device) * 0.0, 0

    def _by_plan(self, way: _Way, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, int]:
        if torch.is_autocast_enabled(x.device.type):
            raise LossError(
                "a burst module was called within autocast: what travels between ranks has the layers' own "
                "types. Put autocast into the layers that want it"
            )
        anchor, shapes = self._anchor(x.device), self._shapes(x)
        target = way.targets.forth(y)
        for place, (_, layers) in enumerate(self._row):
            exchange = way.exchanges[place]
            if exchange is not None:
                x = exchanged(anchor, x, exchange) if place else exchange.forth(x)
            x = _run(layers, x) if way.samples[place] else _skipped(anchor, x, *shapes[place])
        if way.samples[-1]:
            return self._criterion(x, target), way.samples[-1]
        return x.sum() * 0.0, 0

    def _lay_out(self, plan: Plan, group: Group, counts: tuple[int, ...], waiting: Waiting) -> _Way:
        own = by_counts(counts)
        shares = [
            on_ranks(sum(counts), plan.gpus, placed.first_rank, placed.gpus) for placed in plan.placements
        ]
        return _Way(
            group,
            counts,
            tuple(_exchange(group, a, b, waiting) for a, b in zip([own, *shares], shares, strict=False)),
            tuple(each.count(group.rank) for each in shares),
            Exchange(group, own, shares[-1]),
        )

    def _check(self, plan: Plan) -> None:
        planned, own = [placed.layer for placed in plan.placements], [title for title, _ in self._row]
        if planned == own:
            self._check_statistics(plan)
            return
        odd = next((pair for pair in zip(planned, own, strict=False) if pair[0] != pair[1]), None)
        where = (
            f"{odd[0]!r} where the model has {odd[1]!r}" if odd else f"{len(planned)} layers, not {len(own)}"
        )
        raise BadPlan(
            f"the plan for {plan.gpus} ranks is not of this model: it has {where}. Profile and plan it again"
        )

    def _check_statistics(self, plan: Plan) -> None:
        """Running statistics are averaged over all ranks: wrong where some did not compute them."""
        for placed, (title, layers) in zip(plan.placements, self._row, strict=True):
            if placed.gpus < plan.gpus and any(
                b.is_floating_point() for each in layers for b in each.buffers()
            ):
                raise BadPlan(
                    f"layer {title!r} keeps running statistics and is planned on {placed.gpus} of "
                    f"{plan.gpus} ranks, which is not built: use a layer without them, such as GroupNorm, or "
                    "train without bursts"
                )

    def _anchor(self, device: torch.device) -> torch.Tensor:
        return torch.zeros((), device=device, requires_grad=True)

    def _shapes(self, x: torch.Tensor) -> tuple[tuple[torch.Size, torch.dtype], ...]:
        """Of each layer's result: the shape of a sample and the type, for ranks that have none."""
        key = (x.shape[1:], x.dtype, self.training)
        if self._traced is None or self._traced[0] != key:
            self._traced = key, tuple(_traced([layers for _, layers in self._row], x))
        return self._traced[1]


def _exchange(group: Group, before: Shares, after: Shares, waiting: Waiting) -> Exchange | None:
    return None if before == after else Exchange(group, before, after, waiting)


def _run(layers: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _traced(row: Sequence[Sequence[nn.Module]], x: torch.Tensor) -> Sequence[tuple[torch.Size, torch.dtype]]:
    """Runs the layers on tensors without data, two samples of them."""
    results, sample = [], torch.empty((2, *x.shape[1:]), dtype=x.dtype, device="meta")
    for layers in row:
        for layer in layers:
            state = {
                name: tensor.detach().to("meta")
                for name, tensor in (*layer.named_parameters(), *layer.named_buffers())
            }
            sample = torch.func.functional_call(layer, state, (sample,))
        if sample.shape[:1] != (2,):
            raise BadPlan("a layer changes the number of samples: profile the model, which names it")
        results.append((sample.shape[1:], sample.dtype))
    return results


class _Skipped(torch.autograd.Function):  # type: ignore[misc]
    """A layer of which this rank has no samples: nothing of the next one's shape."""

    @staticmethod
    def forward(
        ctx: Any, anchor: torch.Tensor, value: torch.Tensor, shape: torch.Size, dtype: torch.dtype
    ) -> Any:
        ctx.given = value.shape, value.dtype
        return value.new_empty((0, *shape), dtype=dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        shape, dtype = ctx.given
        return None, gradients[0].new_empty(shape, dtype=dtype), None, None


def _skipped(
    anchor: torch.Tensor, value: torch.Tensor, shape: torch.Size, dtype: torch.dtype
) -> torch.Tensor:
    nothing: torch.Tensor = _Skipped.apply(anchor, value, shape, dtype)
    return nothing
