"""Gradients as views into flat buffers, one a dtype, so that one sum over the group carries everything.

A few extra numbers (the switch flag, the loss, who had a gradient) ride at the end of the first buffer:
no collective of their own. In a world of one there are no buffers and nothing is touched.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import nn


class GradientBuffers:
    """Flat gradients of one model's trainable parameters, plus ``extras`` numbers that are summed too."""

    def __init__(self, parameters: Iterable[nn.Parameter], extras: int):
        self._parameters = [parameter for parameter in dict.fromkeys(parameters) if parameter.requires_grad]
        self._extras = extras
        by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in self._parameters:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
        self._layout = sorted(by_dtype.items(), key=lambda item: -item[0].itemsize)
        self._flat = [self._allocate(place, members) for place, (_, members) in enumerate(self._layout)]
        self._views = {
            parameter: view
            for flat, (_, members) in zip(self._flat, self._layout, strict=True)
            for parameter, view in zip(members, _cut(flat, members), strict=True)
        }

    @property
    def flat(self) -> Sequence[torch.Tensor]:
        """The buffers to be summed, each 1-d."""
        return self._flat

    def prepare(self) -> None:
        """Zero everything and let each parameter accumulate into its view."""
        for flat in self._flat:
            flat.zero_()
        for parameter in self._parameters:
            parameter.grad = None

    def collect(self, extras: Sequence[float]) -> None:
        """Bring this worker's gradients and ``extras`` into the buffers; call before the sum."""
        tail = self._tail()
        for place, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                self._views[parameter].copy_(parameter.grad)
                tail[self._extras + place] = 1
        tail[: self._extras] = torch.tensor(extras, dtype=tail.dtype)

    def spread(self) -> list[float]:
        """Give each parameter its summed gradient, if any worker had one; returns the summed extras."""
        numbers: list[float] = self._tail().tolist()
        for place, parameter in enumerate(self._parameters):
            had_one = numbers[self._extras + place] > 0
            parameter.grad = self._views[parameter] if had_one else None
        return numbers[: self._extras]

    def _tail(self) -> torch.Tensor:
        return self._flat[0][-(self._extras + len(self._parameters)) :]

    def _allocate(self, place: int, members: Sequence[nn.Parameter]) -> torch.Tensor:
        tail = self._extras + len(self._parameters) if place == 0 else 0
        size = sum(parameter.numel() for parameter in members) + tail
        return torch.zeros(size, dtype=members[0].dtype, device=members[0].device)


def _cut(flat: torch.Tensor, members: Sequence[nn.Parameter]) -> Iterable[torch.Tensor]:
    start = 0
    for parameter in members:
        yield flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
