"""How a global batch is cut: which worker computes which samples, in which micro-batches.

Pure arithmetic that the training process and the scheduler share, so that both mean the same by "world
size 3". Nothing here knows tensors, processes or time; keep it so.

The rules (each a property test):

- a micro-batch never exceeds the cap, and is as large as the cap and an even split allow, because small
  micro-batches cost speed;
- the samples of a step sum to the global batch exactly, for any world size and any costs of its ranks;
- workers take contiguous blocks in rank order, so a resize moves boundaries and nothing else.

How this worker's steps are cut, as long as its group and the costs of its ranks stay the same. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from fallow.data.costs import Cost
from fallow.data.shares import NoSplit, split
from fallow.types import Recipe


class BatchError(ValueError):
    """The global batch cannot be cut as asked; the message says what would fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Samples ``[start, stop)`` of a global batch; ``index`` is its place in the whole step."""

    index: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Samples in it, at least 1."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """One global batch, cut for a world: ``ranks[r]`` holds rank ``r``'s micro-batches in order.

    Micro-batch indices count through the ranks, so ``ranks`` flattened is 0, 1, 2, … without a hole.
    """

    global_batch: int
    ranks: tuple[tuple[MicroBatch, ...], ...]

    @property
    def world_size(self) -> int:
        """How many workers take part."""
        return len(self.ranks)

    @property
    def micro_batches(self) -> tuple[MicroBatch, ...]:
        """All micro-batches of the step, in index order."""
        return tuple(micro for rank in self.ranks for micro in rank)

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Each rank's half-open range of micro-batch indices; empty when it has none."""
        return tuple((rank[0].index, rank[-1].index + 1) if rank else (0, 0) for rank in self.ranks)

    def samples(self, rank: int) -> int:
        """How many samples of the global batch ``rank`` computes."""
        return sum(micro.size for micro in self.ranks[rank])


def balanced(
    global_batch: int, max_micro_batch: int, world_size: int, costs: Sequence[Cost] | None = None
) -> StepShape:
    """The fastest cut for this world: samples by ``costs`` (even without), then the fewest micro-batches.

    By ``costs``, one a rank, the slowest rank ends as early as it can, and a rank may get nothing. Without
    them each gets at least one sample. Micro-batch sizes change with the world, so gradients agree between
    worlds to rounding, not to the bit. Raises BatchError for more ranks than samples, and for costs of
    other ranks or whose limits no cut keeps.
    """
    _check(global_batch, max_micro_batch, world_size, most=global_batch, what="samples")
    samples = _shared_out(global_batch, world_size, costs)
    sizes = [even_split(share, -(-share // max_micro_batch)) if share else () for share in samples]
    return _shape(global_batch, sizes)


def fixed(
    global_batch: int,
    max_micro_batch: int,
    micro_batches: int,
    world_size: int,
    costs: Sequence[Cost] | None = None,
) -> StepShape:
    """The same ``micro_batches`` pieces for every world: what bitwise equality between worlds needs.

    Ranks take whole pieces, by ``costs`` of a piece. Raises BatchError when the world is larger
    than the number of pieces or a piece would exceed the cap.
    """
    _check(global_batch, max_micro_batch, world_size, most=micro_batches, what="micro-batches")
    least = -(-global_batch // max_micro_batch)
    if not least <= micro_batches <= global_batch:
        raise BatchError(
            f"a global batch of {global_batch} with at most {max_micro_batch} samples a micro-batch needs "
            f"{least} to {global_batch} micro-batches, not {micro_batches}"
        )
    pieces = even_split(global_batch, micro_batches)
    counts = _shared_out(micro_batches, world_size, costs)
    edges = list(accumulate(counts, initial=0))
    return _shape(global_batch, [pieces[start:stop] for start, stop in pairwise(edges)])


def even_split(total: int, parts: int) -> tuple[int, ...]:
    """``parts`` sizes that differ by at most one and sum to ``total``; the larger ones come first."""
    quotient, remainder = divmod(total, parts)
    return (quotient + 1,) * remainder + (quotient,) * (parts - remainder)


def _shape(global_batch: int, sizes: Sequence[Sequence[int]]) -> StepShape:
    ranks = tuple(tuple(block) for block in _numbered(sizes))
    return StepShape(global_batch=global_batch, ranks=ranks)


def _numbered(sizes: Sequence[Sequence[int]]) -> Iterator[list[MicroBatch]]:
    index = start = 0
    for block in sizes:
        rank = []
        for size in block:
            rank.append(MicroBatch(index=index, start=start, stop=start + size))
            index, start = index + 1, start + size
        yield rank


def _shared_out(total: int, world_size: int, costs: Sequence[Cost] | None) -> tuple[int, ...]:
    if costs is None:
        return even_split(total, world_size)
    if len(costs) != world_size:
        raise BatchError(f"{len(costs)} costs for {world_size} ranks: give one a rank")
    try:
        return split(total, costs)
    except NoSplit as error:
        raise BatchError(str(error)) from error


def _check(global_batch: int, max_micro_batch: int, world_size: int, *, most: int, what: str) -> None:
    if min(global_batch, max_micro_batch, world_size) < 1:
        raise BatchError(
            f"global batch {global_batch}, micro-batch cap {max_micro_batch} and world size {world_size} "
            "must each be at least 1"
        )
    if world_size > most:
        raise BatchError(f"{world_size} workers cannot share {most} {what}: use at most {most} workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Cuts for ``rank`` of ``world_size``. A worker that is warming up takes the first micro-batch only."""

    recipe: Recipe
    world_size: int = 1
    rank: int = 0
    costs: tuple[Cost, ...] | None = None
    warming_up: bool = False

    def shape(self, samples: int) -> StepShape:
        """The shape of a step of ``samples``; ranks beyond its pieces have nothing to do."""
        recipe, world = self.recipe, self.world_size
        if recipe.deterministic:
            pieces = min(samples, recipe.micro_batches or -(-samples // recipe.max_micro_batch))
            ranks = min(world, pieces)
            shape = fixed(samples, recipe.max_micro_batch, pieces, ranks, self._costs(ranks))
        else:
            ranks = min(world, samples)
            shape = balanced(samples, recipe.max_micro_batch, ranks, self._costs(ranks))
        return replace(shape, ranks=(*shape.ranks, *((),) * (world - ranks)))

    def mine(self, shape: StepShape) -> tuple[MicroBatch, ...]:
        """What this worker computes of a step of that shape."""
        return shape.micro_batches[:1] if self.warming_up else shape.ranks[self.rank]

    def _costs(self, ranks: int) -> Sequence[Cost] | None:
        return self.costs if ranks == self.world_size else None


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
    fixed(recipe.global_batch, recipe.max_micro_batch, pieces, 1)
