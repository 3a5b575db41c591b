"""The device that the trainings of these tests run on: the CPU, or with TEST_DEVICE=pretend one that isn't.

The second is registered here, at once: torch counts its devices at the first backward pass.
"""

import os

import torch

NAME = os.environ.get("TEST_DEVICE", "cpu")

if NAME == "pretend":
    from tests.fallow import pretend

    assert pretend.NAME == NAME

DEVICE = torch.device(NAME)
