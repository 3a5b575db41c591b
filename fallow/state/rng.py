"""Randomness keyed by what is computed, not by who computes it: (seed, step, micro-batch, stage).

Python's, torch's and, if the script uses it, NumPy's global generators are set, so that augmentation and
dropout draw the same numbers for a micro-batch in whichever worker, and whichever loader process, it lands.
What all workers do alike (the loop around the micro-batches, the update) draws the same numbers in all.
A generator of the script's own can follow with ``torch.initial_seed()``.
"""

import hashlib
import random
import sys
from enum import StrEnum
from typing import Any

import torch


class Stage(StrEnum):
    """What the numbers are drawn for: reading samples, or computing with them; and, once a step in every
    worker, the loop before its micro-batches, the loop after them, and the update. Or a batch's evaluation.

    Alike in all workers besides: the order that a stream draws for an epoch, what a script does at an epoch's
    beginning, where a joiner begins too, and what it does between steps, behind what each worker did by
    itself (an evaluation's batches) or alone (joining).
    """

    DATA = "data"
    MODEL = "model"
    BEFORE = "before"
    AFTER = "after"
    UPDATE = "update"
    EVALUATION = "evaluation"
    ORDER = "order"
    EPOCH = "epoch"
    BETWEEN = "between"


def seed(
    seed: int | None,
    step: int,
    micro_batch: int = 0,
    stage: Stage = Stage.MODEL,
    *,
    device: torch.device | None = None,
) -> None:
    """Set the global generators for one stage of a step; without a ``seed`` they are left alone.

    Of GPUs it is the one of ``device``, by default the current one.
    """
    if seed is None:
        return
    digest = hashlib.blake2b(f"{seed}/{step}/{micro_batch}/{stage}".encode(), digest_size=8).digest()
    key = int.from_bytes(digest, "little") >> 1
    random.seed(key)
    torch.default_generator.manual_seed(key)
    generator = _of_gpu(device)
    if generator is not None:
        generator.manual_seed(key)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(key % 2**32)


def snapshot(device: torch.device | None = None) -> dict[str, Any]:
    """The global generators as they stand, ``device``'s among them, in types that a checkpoint can hold."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    generator = _of_gpu(device)
    if generator is not None:
        state["cuda"] = generator.get_state()
    if "numpy" in sys.modules:
        kind, keys, position, has_gauss, gauss = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), int(position), int(has_gauss), float(gauss))
    return state


def restore(state: dict[str, Any], device: torch.device | None = None) -> None:
    """Put the global generators where ``snapshot`` found them."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"].cpu())
    generator = _of_gpu(device)
    if "cuda" in state and generator is not None:
        generator.set_state(state["cuda"].cpu())
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])


def _of_gpu(device: torch.device | None) -> torch.Generator | None:
    """A GPU's generator, where CUDA is in use; whether it could be isn't asked: that takes the driver."""
    if not torch.cuda.is_initialized():
        return None
    index = device.index if device is not None and device.type == "cuda" else None
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]
