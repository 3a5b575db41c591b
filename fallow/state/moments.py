"""Takes up what an optimizer keeps beside the parameters, in the very dtypes that it was kept in.

``Optimizer.load_state_dict`` casts floating state to its parameter's dtype (torch 2.13, ``step`` excepted).
NAdam and ASGD keep float32 numbers for float64 parameters, others wide moments for narrow ones: cast, a
joiner would go on with other roundings than those who handed over.
"""

from collections.abc import Mapping
from typing import Any

import torch


def take_up(optimizer: torch.optim.Optimizer, given: Mapping[str, Any]) -> None:
    """Load ``given``, the state of such an optimizer. Raises what ``load_state_dict`` raises."""
    optimizer.load_state_dict(given)
    numbers = [number for group in given["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        if number in given["state"]:
            mine = optimizer.state[parameter]
            mine.update(_uncast(mine, given["state"][number]))


def _uncast(now: Any, kept: Any) -> Any:
    """``now``, with the tensors of ``kept`` where they are of another dtype, on the device of ``now``."""
    if isinstance(kept, torch.Tensor):
        cast = isinstance(now, torch.Tensor) and now.dtype != kept.dtype
        return kept.to(now.device) if cast else now
    if isinstance(kept, dict) and isinstance(now, dict):
        return {key: _uncast(value, kept[key]) if key in kept else value for key, value in now.items()}
    if type(kept) in (list, tuple) and isinstance(now, list | tuple) and len(kept) == len(now):
        return type(kept)([_uncast(mine, theirs) for mine, theirs in zip(now, kept, strict=True)])
    return now
