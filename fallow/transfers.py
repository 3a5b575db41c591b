"""Numbers between the host and a device, without making either wait for the other where that can be.

A copy from or to ordinary memory stops the host until the device has come so far; one from or to page-locked
memory is queued like any other work of the device (CUDA Programming Guide, "Page-Locked Host Memory").
"""

from collections.abc import Sequence

import torch


def page_locked(shape: Sequence[int] | torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Memory on the host with anything in it, page-locked where there is a device that can use it so.

    Torch keeps what a device still reads or writes there from being handed out again.
    """
    try:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    except RuntimeError:  # no device for it, or no more memory that may be locked
        return torch.empty(shape, dtype=dtype)


def to_device(numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``numbers`` in a row on ``device``; they may still be under way when it returns."""
    row = torch.tensor(numbers, dtype=dtype)
    if device.type == "cpu":
        return row
    return page_locked(row.shape, dtype).copy_(row).to(device, non_blocking=True)
