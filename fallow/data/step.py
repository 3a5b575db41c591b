"""The step in hand: which of this worker's micro-batches were handed out, and which had their backward pass.

Bookkeeping only, so that a loop that skips, repeats or forgets something is told so at once instead of
training on a wrong batch. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fallow.data.batch_plan import MicroBatch, StepShape
from fallow.errors import LoopError, LossError


@dataclass(frozen=True, slots=True)
class Weighed:
    """One micro-batch's part of the step: its loss counts ``weight``, its running statistics ``fraction``."""

    micro: MicroBatch
    weight: float
    fraction: float
    count: float | None


class OpenStep:
    """Step ``number`` of ``shape``, of which this worker computes ``mine``."""

    def __init__(self, number: int, shape: StepShape, mine: tuple[MicroBatch, ...]):
        self.number = number
        self.shape = shape
        self.mine = mine
        self._handed_out: MicroBatch | None = None
        self._done = 0
        self._counting: bool | None = None

    def hand_out(self, micro: MicroBatch) -> None:
        """The loop gets ``micro`` now. Raises LoopError if it has not finished the one before."""
        if self._handed_out is not None:
            raise LoopError(f"{self._where()}: {_samples(self._handed_out)} had no backward(). {ONCE_EACH}")
        self._handed_out = micro

    def weigh(self, count: float | None) -> Weighed:
        """The part of the micro-batch that was handed out last, whose backward pass begins."""
        if self._handed_out is None:
            raise LoopError(
                f"{self._where()}: backward() was called without a micro-batch in hand "
                f"({self._done} of {len(self.mine)} had theirs). {ONCE_EACH}"
            )
        self._check_count(count)
        micro, self._handed_out = self._handed_out, None
        self._done += 1
        global_batch = self.shape.global_batch
        fraction = micro.size / global_batch
        if count is None:
            return Weighed(micro, fraction, fraction, None)
        return Weighed(micro, count / global_batch, fraction, float(count))

    def close(self) -> None:
        """The step is to be summed. Raises LoopError unless every micro-batch had its backward pass."""
        if self._done < len(self.mine):
            raise LoopError(
                f"{self._where()}: step() was called after {self._done} of this worker's {len(self.mine)} "
                f"micro-batches. {ONCE_EACH}"
            )

    def check_thawed(self, names: Sequence[str]) -> None:
        """Raises LoopError for parameters that became trainable after the first pass, and got a gradient.

        Nobody else's gradients were to be added to theirs.
        """
        if names:
            raise LoopError(
                f"{self._where()}: {', '.join(names)} became trainable during the step, after its first "
                "micro-batch was handed out; nothing was updated. Unfreeze before the loop over the batches"
            )

    def scale(self, total_count: float, counted: int) -> float:
        """What gradients and loss are multiplied with once summed: 1 unless losses were counted.

        Both numbers are sums over all workers, so that all raise LossError or none.
        """
        if not counted:
            return 1.0
        if counted != (pieces := len(self.shape.micro_batches)):
            raise LossError(
                f"{self._where()}: {counted} of all workers' {pieces} micro-batches passed a count to "
                "backward(); nothing was updated. Pass one in every worker, or in none"
            )
        if not total_count:
            raise LossError(
                f"{self._where()}: the counts of all micro-batches sum to 0, so the mean loss is not "
                "defined. Leave samples out of the data set that have nothing to learn from"
            )
        return self.shape.global_batch / total_count

    def _check_count(self, count: float | None) -> None:
        if count is not None and not 0 <= count < float("inf"):
            raise LossError(f"{self._where()}: count={count!r} is no number of items")
        counting = count is not None
        if self._counting is not None and self._counting != counting:
            raise LossError(
                f"{self._where()}: backward() got a count for some micro-batches and none for others; "
                "a step's losses are averaged over samples or over counted items, not both"
            )
        self._counting = counting

    def _where(self) -> str:
        return f"step {self.number}"


ONCE_EACH = (
    "In the loop over a step's micro-batches call trainer.backward(loss) once for each, and trainer.step() "
    "after the loop"
)


def _samples(micro: MicroBatch) -> str:
    return f"micro-batch {micro.index} (samples {micro.start} to {micro.stop - 1} of the global batch)"
