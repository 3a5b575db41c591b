"""Models and optimizers that cannot be elastic, refused by their types when a training is asked for.

Alike in every world: a script that is refused under the controller is refused alone as well, before it has
trained for a night. Names are compared, not classes, so that no library is imported to say what it isn't.
"""

from collections.abc import Mapping

import torch
from torch import nn

from fallow.errors import Mistake

SHARDED = "whole replicas come and go, each worker holds the whole model"
MODULES = {
    ("torch.nn.parallel", "DistributedDataParallel"): (
        "sums gradients by itself, over workers that may have gone: pass the bare model, without "
        "DistributedDataParallel around it"
    ),
    ("torch.distributed.fsdp", "FullyShardedDataParallel"): (
        f"is a shard of a model (FSDP): {SHARDED}. Drop the wrapper if the model fits one worker"
    ),
    ("torch.distributed.fsdp", "FSDPModule"): (
        f"is a shard of a model (fully_shard): {SHARDED}. Drop fully_shard() if the model fits one worker"
    ),
    ("torch.nn", "SyncBatchNorm"): (
        "takes its statistics over a fixed set of workers: use nn.BatchNorm, whose running statistics are "
        "averaged over the global batch; deterministic=True makes them alike in any world"
    ),
    ("deepspeed", "DeepSpeedEngine"): (
        "shards and sums by itself (DeepSpeed): pass the bare model, and an optimizer of torch's"
    ),
}
"""By the beginning of the name of the module that defines a class, and the class's own name (torch 2.13)."""
TENSORS = ("torch.distributed", "DTensor")
OPTIMIZERS = {
    ("torch.distributed.optim", "ZeroRedundancyOptimizer"): (
        "spreads its state over a fixed set of workers: use the optimizer that it wraps"
    ),
}
PACKED = ("8bit", "4bit", "Fp8")
"""In the names of torchao's optimizers whose states are tensor subclasses (torchao 0.14)."""


def check_model(model: nn.Module) -> None:
    """Raises Mistake for a model that is wrapped for, or sharded over, a fixed set of workers."""
    for name, module in model.named_modules():
        why = _why(type(module), MODULES)
        if why is not None:
            where = f"the model's part {name!r}" if name else "the model"
            raise Mistake(f"{where} is a {type(module).__name__}, which {why}")
    for name, parameter in model.named_parameters():
        if _why(type(parameter), {TENSORS: ""}) is not None:
            raise Mistake(
                f"parameter {name!r} is a DTensor, so the model is spread over a fixed set of workers "
                f"(tensor parallel, say), but {SHARDED}. Drop parallelize_module() if it fits one worker"
            )


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Raises Mistake for an optimizer that is sharded, or whose state cannot be handed to a joiner."""
    kind = type(optimizer)
    if (why := _why(kind, OPTIMIZERS)) is not None:
        raise Mistake(f"the optimizer is a {kind.__name__}, which {why}")
    if kind.__module__.startswith("torchao.") and any(name in kind.__name__ for name in PACKED):
        raise Mistake(
            f"the optimizer is torchao's {kind.__name__}, whose packed states cannot be handed to a worker "
            "that joins: use torch.optim.AdamW, or another optimizer whose states are plain tensors"
        )


def norm_limit(limit: float | None) -> float | None:
    """What ``max_grad_norm`` asks for; 0 clips nothing, as in Lightning's, Hugging Face's and many own loops.

    Raises Mistake for what is no norm.
    """
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
        raise Mistake(f"max_grad_norm={limit!r} is no norm to clip to: pass a number above 0, or None")
    return float(limit) if limit else None


def step_number(step: int) -> int:
    """``start_step`` as asked for. Raises Mistake for what is no number of steps."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise Mistake(f"start_step={step!r} is no number of steps that were done before")
    return step


def _why(kind: type, reasons: Mapping[tuple[str, str], str]) -> str | None:
    """What is said of ``kind``, or of what it inherits from."""
    for base in kind.__mro__:
        for (module, name), reason in reasons.items():
            if base.__name__ == name and base.__module__.startswith(module):
                return reason
    return None
