"""A job's GPU memory: what it reserved and needs, giving caches back, staying under a cap.

Only what PyTorch's caching allocator holds can be capped or released; the CUDA context and what other
libraries allocate stay. A cap takes effect for allocations from now on. Without a GPU every figure is
``None`` and nothing happens.

This process's part of its devices' memory, as whoever launched it says: a cap on PyTorch's allocator.

The cap is set when CUDA is first used, not before: who initializes CUDA can fork no more. It binds what goes
through PyTorch's allocator; CUDA's context and other libraries hold what they like.
"""

import gc
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One GPU's memory as the allocator of this process sees it; ``None`` without a GPU.

    ``peak_needed_bytes`` is the most that tensors took since the last release: what lies between it and
    ``reserved_bytes`` is cache.
    """

    reserved_bytes: int | None
    needed_bytes: int | None
    peak_needed_bytes: int | None
    device_total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What giving the cache back came to; ``freed_bytes`` is ``None`` without a GPU."""

    before: Memory
    after: Memory
    freed_bytes: int | None


class JobMemory:
    """This process's share of one GPU's memory; ``job.memory`` is one."""

    def __init__(self, device: torch.device):
        self._device = device

    def measure(self) -> Memory:
        """The allocator's figures now."""
        return measure(self._device)

    def limit(self, fraction: float) -> None:
        """Let the allocator take at most ``fraction`` of the GPU; beyond it PyTorch raises out of memory.

        Raises ValueError for a fraction outside (0, 1].
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"a memory fraction lies above 0 and is at most 1, not {fraction}")
        if self._device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(float(fraction), self._device)

    def release(self) -> Freed:
        """Give unused cache back to the driver and begin a new peak; says what that freed.

        Tensors that only a reference cycle keeps alive are collected first. Blocks until the GPU is idle.
        """
        before = self.measure()
        if self._device.type == "cuda":
            gc.collect()
            with torch.cuda.device(self._device):  # else CUDA may open the thread's current GPU for it
                torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self._device)
        after = self.measure()
        if before.reserved_bytes is None or after.reserved_bytes is None:
            return Freed(before=before, after=after, freed_bytes=None)
        return Freed(before=before, after=after, freed_bytes=before.reserved_bytes - after.reserved_bytes)


def measure(device: torch.device) -> Memory:
    """The allocator's figures now; all ``None`` without a GPU."""
    if device.type != "cuda":
        return Memory(reserved_bytes=None, needed_bytes=None, peak_needed_bytes=None, device_total_bytes=None)
    return Memory(
        reserved_bytes=torch.cuda.memory_reserved(device),
        needed_bytes=torch.cuda.memory_allocated(device),
        peak_needed_bytes=torch.cuda.max_memory_allocated(device),
        device_total_bytes=torch.cuda.get_device_properties(device).total_memory,
    )


LOG = logging.getLogger("fallow")

ENV_FRACTION = "FALLOW_MEMORY_FRACTION"
"""Above 0, at most 1: of the memory of each device that this process sees."""


def keep_to_share(environment: Mapping[str, str] = os.environ) -> float | None:
    """Hold PyTorch to the share that the environment names; returns it, ``None`` when there is none.

    What is no fraction is logged and left: a training is not ended for it.
    """
    text = environment.get(ENV_FRACTION)
    if text is None:
        return None
    fraction = _fraction(text)
    if fraction is None:
        LOG.warning("%s=%s is no fraction above 0 and up to 1: memory is not limited", ENV_FRACTION, text)
        return None
    torch.cuda._lazy_call(lambda: _cap(fraction))  # at once, or with CUDA
    return fraction


def _cap(fraction: float) -> None:
    """Called while CUDA is being initialized: what is raised here would end the user's first use of it."""
    for device in range(torch.cuda.device_count()):
        try:
            torch.cuda.set_per_process_memory_fraction(fraction, device)
        except RuntimeError as error:
            LOG.warning("cannot limit memory of device %d to %g of it: %s", device, fraction, error)


def _fraction(text: str) -> float | None:
    try:
        fraction = float(text)
    except ValueError:
        return None
    return fraction if 0 < fraction <= 1 else None
