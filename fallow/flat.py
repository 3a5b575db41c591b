"""A model's gradients and running statistics as flat tensors, so that one sum over the group carries all.

Layout, one flat tensor a dtype, in the order of the model: gradients, then running statistics (floating
buffers such as BatchNorm's means); the first tensor ends with the extra numbers of the step, a mark for each
parameter that had a gradient, and how far each counter moved. Nothing here communicates.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import nn

Storage = list[torch.Tensor]
"""One 1-d tensor a dtype, as ``Flat.allocate`` makes them."""


class Flat:
    """The layout for one model; ``extras`` further numbers travel with it."""

    def __init__(self, model: nn.Module, extras: int):
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.statistics = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self._counters = [buffer for buffer in model.buffers() if _is_counter(buffer)]
        self._counted = [0] * len(self._counters)
        self._extras = extras
        members: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in (*self._parameters, *self.statistics):
            members.setdefault(tensor.dtype, []).append(tensor)
        self._members = sorted(members.items(), key=lambda item: -item[0].itemsize)

    def allocate(self, multiple: int = 1) -> Storage:
        """Zeroed storage, each tensor padded to a multiple of ``multiple`` elements."""
        sizes = [sum(tensor.numel() for tensor in members) for _, members in self._members]
        sizes[0] += self._tail_size()
        return [
            torch.zeros(-(-size // multiple) * multiple, dtype=dtype, device=members[0].device)
            for size, (dtype, members) in zip(sizes, self._members, strict=True)
        ]

    def begin(self) -> None:
        """No parameter has a gradient afterwards, and counters count from here."""
        self.drop_gradients()
        self._counted = [int(counter) for counter in self._counters]

    def rewind_counters(self) -> None:
        """Counters stand where the step began."""
        for counter, before in zip(self._counters, self._counted, strict=True):
            counter.fill_(before)

    def write(self, storage: Storage, fraction: float, extras: Sequence[float]) -> None:
        """The gradients as they are, the statistics times ``fraction``, marks and ``extras``."""
        gradients = set(self._parameters)
        for tensor, view in self._views(storage):
            if tensor not in gradients:
                torch.mul(tensor, fraction, out=view)
            elif tensor.grad is not None:
                view.copy_(tensor.grad)
            else:
                view.zero_()
        tail = self._tail(storage)
        marks = [float(parameter.grad is not None) for parameter in self._parameters]
        moved = [int(counter) - before for counter, before in zip(self._counters, self._counted, strict=True)]
        tail.copy_(torch.tensor([*extras, *marks, *moved], dtype=tail.dtype))

    def read(self, storage: Storage) -> list[float]:
        """Give each parameter its summed gradient, if any worker had one, and set the statistics.

        The gradients are views of ``storage``. Returns the summed extras.
        """
        numbers: list[float] = self._tail(storage).tolist()
        first_counter = self._extras + len(self._parameters)
        marks = dict(zip(self._parameters, numbers[self._extras : first_counter], strict=True))
        for counter, before, moved in zip(
            self._counters, self._counted, numbers[first_counter:], strict=True
        ):
            counter.fill_(before + round(moved))
        for tensor, view in self._views(storage):
            if tensor in marks:
                tensor.grad = view if marks[tensor] > 0 else None
            else:
                tensor.copy_(view)
        return numbers[: self._extras]

    def extras(self, storage: Storage) -> torch.Tensor:
        """The extra numbers in ``storage``, as a view."""
        return self._tail(storage)[: self._extras]

    def drop_gradients(self) -> None:
        """No parameter has a gradient afterwards."""
        for parameter in self._parameters:
            parameter.grad = None

    def _views(self, storage: Storage) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for flat, (_, members) in zip(storage, self._members, strict=True):
            yield from _cut(flat, members)

    def _tail(self, storage: Storage) -> torch.Tensor:
        body = sum(tensor.numel() for tensor in self._members[0][1])
        return storage[0][body : body + self._tail_size()]

    def _tail_size(self) -> int:
        return self._extras + len(self._parameters) + len(self._counters)


def _is_counter(buffer: torch.Tensor) -> bool:
    """A single whole number, such as BatchNorm's count of batches."""
    return buffer.numel() == 1 and not buffer.is_floating_point() and buffer.dtype != torch.bool


def _cut(flat: torch.Tensor, members: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    start = 0
    for tensor in members:
        yield tensor, flat[start : start + tensor.numel()].view(tensor.shape)
        start += tensor.numel()
