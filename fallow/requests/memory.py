"""A job's GPU memory: what it reserved and needs, giving caches back, staying under a cap.

Only what PyTorch's caching allocator holds can be capped or released; the CUDA context and what other
libraries allocate stay. A cap takes effect for allocations from now on. Without a GPU every figure is
``None`` and nothing happens.
"""

import gc
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
