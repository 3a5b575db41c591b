"""Rides in somebody's training process: a leaf that imports the standard library and torch only.

    job = fallow.connect()
    trainer = job.elastic(model, optimizer, global_batch=256, max_micro_batch=32)
    for step, batches in trainer.steps(dataset, total_steps=10_000):
        for x, y in batches:
            trainer.backward(loss_fn(model(x), y))
        trainer.step()

Names are looked up when first used, so that the scheduler can import the pure files without torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fallow.early_stopping import EarlyStopping as EarlyStopping
    from fallow.evaluation import Evaluation as Evaluation
    from fallow.job import Job as Job
    from fallow.job import connect as connect
    from fallow.requests.listener import listen as listen
    from fallow.trainer import Trainer as Trainer
    from fallow.types import Step as Step

__all__ = ["EarlyStopping", "Evaluation", "Job", "Step", "Trainer", "connect", "listen"]


def __getattr__(name: str) -> Any:
    if name in ("connect", "Job"):
        from fallow import job

        return getattr(job, name)
    if name == "EarlyStopping":
        from fallow import early_stopping

        return early_stopping.EarlyStopping
    if name == "Evaluation":
        from fallow import evaluation

        return evaluation.Evaluation
    if name == "listen":
        from fallow.requests import listener

        return listener.listen
    if name == "Step":
        from fallow import types

        return types.Step
    if name == "Trainer":
        from fallow import trainer

        return trainer.Trainer
    raise AttributeError(f"module 'fallow' has no attribute {name!r}")
