"""The device that the trainings of these tests run on: the CPU, or with TEST_DEVICE=pretend one that isn't.

The second is registered here, at once: torch counts its devices at the first backward pass.
"""

import os

import torch
from torch import nn

NAME = os.environ.get("TEST_DEVICE", "cpu")

if NAME == "pretend":
    from tests.fallow import pretend

    assert pretend.NAME == NAME

DEVICE = torch.device(NAME)


def moved(model: nn.Module, name: str = NAME) -> nn.Module:
    """``model`` on the device; a weight in two places stays one, as it does on GPUs.

    For a device that is written in Python, torch makes a new parameter in each place instead.
    """
    first: dict[int, tuple[nn.Module, str]] = {}
    twins = []
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if id(parameter) in first:
                twins.append((module, key, *first[id(parameter)]))
            first.setdefault(id(parameter), (module, key))
    model.to(name)
    for module, key, owner, original in twins:
        module._parameters[key] = owner._parameters[original]
    return model
