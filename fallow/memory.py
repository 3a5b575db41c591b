"""A job's GPU memory: what it reserved and needs, giving caches back, staying under a cap.

Only what PyTorch's caching allocator holds can be capped or released; the CUDA context and what other
libraries allocate stay. A cap takes effect for allocations from now on. Without a GPU every figure is
``None`` and nothing happens.
"""

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


def measure(device: torch.device) -> Memory:
    """The allocator's figures now."""
    if device.type != "cuda":
        return Memory(reserved_bytes=None, needed_bytes=None, peak_needed_bytes=None, device_total_bytes=None)
    return Memory(
        reserved_bytes=torch.cuda.memory_reserved(device),
        needed_bytes=torch.cuda.memory_allocated(device),
        peak_needed_bytes=torch.cuda.max_memory_allocated(device),
        device_total_bytes=torch.cuda.get_device_properties(device).total_memory,
    )


def release(device: torch.device) -> int | None:
    """Give unused cache back to the driver; returns the bytes freed, ``None`` without a GPU."""
    if device.type != "cuda":
        return None
    before: int = torch.cuda.memory_reserved(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    after: int = torch.cuda.memory_reserved(device)
    return before - after


def cap(device: torch.device, fraction: float) -> None:
    """Let the allocator take at most ``fraction`` of the GPU; beyond it PyTorch raises out of memory.

    Raises ValueError for a fraction outside (0, 1].
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"a memory fraction lies above 0 and is at most 1, not {fraction}")
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(fraction, device)
