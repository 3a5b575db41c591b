"""How this worker's steps are cut, as long as its group and the weights of its ranks stay the same. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fallow.batches import batch
from fallow.batches.batch import BatchError, MicroBatch, StepShape
from fallow.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Cuts for ``rank`` of ``world_size``. A worker that is warming up takes the first micro-batch only."""

    recipe: Recipe
    world_size: int = 1
    rank: int = 0
    weights: tuple[float, ...] | None = None
    warming_up: bool = False

    def shape(self, samples: int) -> StepShape:
        """The shape of a step of ``samples``; ranks beyond its pieces have nothing to do."""
        recipe, world = self.recipe, self.world_size
        if recipe.deterministic:
            pieces = min(samples, recipe.micro_batches or -(-samples // recipe.max_micro_batch))
            ranks = min(world, pieces)
            shape = batch.fixed(samples, recipe.max_micro_batch, pieces, ranks, self._weights(ranks))
        else:
            ranks = min(world, samples)
            shape = batch.balanced(samples, recipe.max_micro_batch, ranks, self._weights(ranks))
        return replace(shape, ranks=(*shape.ranks, *((),) * (world - ranks)))

    def mine(self, shape: StepShape) -> tuple[MicroBatch, ...]:
        """What this worker computes of a step of that shape."""
        return shape.micro_batches[:1] if self.warming_up else shape.ranks[self.rank]

    def _weights(self, ranks: int) -> Sequence[float] | None:
        return self.weights if ranks == self.world_size else None


def check(recipe: Recipe) -> None:
    """Raises BatchError when no world could train by this recipe."""
    numbers = {
        "global_batch": recipe.global_batch,
        "max_micro_batch": recipe.max_micro_batch,
        "micro_batches": recipe.micro_batches,
    }
    for name, number in numbers.items():
        if number is None and name == "micro_batches":
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise BatchError(
                f"{name}={number!r}: a number of samples or pieces is a whole number, at least 1"
            )
    if recipe.micro_batches is not None and not recipe.deterministic:
        raise BatchError("micro_batches= fixes the pieces of a step, which only deterministic=True does")
    pieces = recipe.micro_batches or -(-recipe.global_batch // recipe.max_micro_batch)
    batch.fixed(recipe.global_batch, recipe.max_micro_batch, pieces, 1)
