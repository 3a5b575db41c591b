"""Numbers between the host and a device, without making either wait for the other where that can be.

A copy from or to ordinary memory stops the host until the device has come so far; one from or to page-locked
memory is queued like any other work of the device (CUDA Programming Guide, "Page-Locked Host Memory").
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch


def page_locked(shape: Sequence[int] | torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Memory on the host with anything in it, page-locked where there is a device that can use it so.

    Torch keeps what a device still reads or writes there from being handed out again.
    """
    try:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    except RuntimeError:  # no device for it, or no more memory that may be locked
        return torch.empty(shape, dtype=dtype)


def if_known(value: torch.Tensor | float) -> torch.Tensor | float:
    """The number, unless a device has yet to compute it: a look at it there would wait."""
    return value if isinstance(value, torch.Tensor) and not value.is_cpu else float(value)


def to_device(numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``numbers`` in a row on ``device``; they may still be under way when it returns."""
    row = torch.tensor(numbers, dtype=dtype)
    if device.type == "cpu":
        return row
    return page_locked(row.shape, dtype).copy_(row).to(device, non_blocking=True)


class Late:
    """Single numbers on their way from ``device``, with whatever it has yet to compute before them.

    Each that it computes is copied as it is, and those that are known stay here: to gather them there in a
    row first would take several launches more, which a short step feels.
    """

    def __init__(self, numbers: Sequence[torch.Tensor | float], device: torch.device):
        module: Any = torch.get_device_module(device)
        has_events = hasattr(module, "Event") and hasattr(module, "current_stream")
        self._came: Any = None
        self._numbers = [_sent(number) if has_events else number for number in numbers]
        if has_events:
            self._came = module.Event()
            self._came.record(module.current_stream(device))

    def is_here(self) -> bool:
        """Whether ``values`` would not wait."""
        return self._came is None or bool(self._came.query())

    def values(self) -> list[float]:
        """The numbers; blocks until they are here."""
        if self._came is not None:
            self._came.synchronize()
            self._came = None
        return [float(number) for number in self._numbers]


def _sent(number: torch.Tensor | float) -> torch.Tensor | float:
    """A copy on the host of a number that a device has yet to compute; it is there when the device has."""
    if not isinstance(number, torch.Tensor) or number.is_cpu:
        return number
    return page_locked((), number.dtype).copy_(number.detach().reshape(()), non_blocking=True)


def row_of(numbers: Sequence[torch.Tensor | float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Numbers in a row on ``device``; those that are being computed there are not waited for."""
    if device.type == "cpu":
        return torch.tensor([float(number) for number in numbers], dtype=dtype)
    numbers_or_zero = [0.0 if isinstance(number, torch.Tensor) else float(number) for number in numbers]
    row = to_device(numbers_or_zero, dtype, device)
    at = 0
    for kind, run in groupby(numbers, lambda number: getattr(number, "dtype", None)):
        alike = list(run)
        if kind is not None:
            computed = [number.detach().reshape(()).to(device) for number in alike]  # type: ignore[union-attr]
            row[at : at + len(alike)].copy_(torch.stack(computed))
        at += len(alike)
    return row
