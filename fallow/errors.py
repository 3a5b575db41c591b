"""What a training script can get wrong, named so that its author can put it right.

    Mistake
    ├── LoopError      backward() and step() out of order, or forgotten
    │   └── NotYetJoined   a place in the job was asked for before there is one
    ├── LossError      a loss that cannot be trained on
    ├── DataError      a data set that is not what it was, or cannot be read as it must be
    └── StateError     a saved or handed-over state that does not fit this training

Each message says what was attempted, on what, what was found, and what to do next.
"""


class Mistake(Exception):
    """The training script asked for something that cannot be right."""


class LoopError(Mistake):
    """``backward()`` and ``step()`` were called out of order, twice or not at all."""


class NotYetJoined(LoopError):
    """This worker has no place in the job yet, so it has no rank, world size, step or epoch."""

    def __init__(self, call: str) -> None:
        super().__init__(
            f"{call} was asked for before this worker was taken into the training, so there is none yet: "
            "ask inside the loop over trainer.steps(...). What one worker does for all before the training "
            "(a download, say) belongs before the job is started, or behind a lock of its own"
        )


class LossError(Mistake):
    """The loss is no scalar, hangs on no parameter, or is not finite."""


class DataError(Mistake):
    """The data set changed while it was trained on, or does not give what a step needs."""


class StateError(Mistake):
    """A state does not fit the model, the optimizer or the recipe that should take it up."""
