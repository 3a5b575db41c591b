"""A model's buffers, which forward passes change: found, kept, compared, put back and agreed upon.

Many modules put a new tensor in a buffer's place instead of changing the old one, so a buffer is a module and
a name here, never a tensor. Which there are is settled when a model is first looked at: all workers build the
same one, so all number its buffers alike. One that is made later, or that has another shape, dtype or device
by now (a cache that grows), is each worker's own. Nothing here communicates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from fallow.transfers import if_known

# The integer type as wide as an element, to look at its bits.
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
UNFIT = -(2.0**20)
"""Outweighs what all workers together say of a buffer: it is left alone where one of them has lost it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the buffers since they were kept.

    ``marks`` is above zero for each statistic, then each table, that has other bits now; ``moves`` is how far
    each counter went. Both may be summed over micro-batches and workers. What a device has yet to compute is
    a tensor of a single number.
    """

    marks: tuple[float | torch.Tensor, ...]
    moves: tuple[float | torch.Tensor, ...]


class Buffers:
    """The buffers of ``model``: ``statistics`` (floating and complex), of which an average is wanted; tables
    of whole numbers or of yes and no, and counters (single whole numbers), whose movements are added up.
    """

    def __init__(self, model: nn.Module):
        buffers = _distinct(model)
        self._statistics = [b for b in buffers if b.like.is_floating_point() or b.like.is_complex()]
        others = [b for b in buffers if b not in self._statistics]
        self._counters = [b for b in others if b.like.numel() == 1 and b.like.dtype != torch.bool]
        self._tables = [b for b in others if b not in self._counters]
        self._all = [*self._statistics, *self._tables, *self._counters]
        self._moved: dict[int, torch.Tensor] = {}
        self.statistics: list[torch.Tensor] = [buffer.like for buffer in self._statistics]
        """Of which shape and dtype each is; they hold nothing."""

    @property
    def marks(self) -> int:
        """How many marks ``look`` gives."""
        return len(self._statistics) + len(self._tables)

    @property
    def counters(self) -> int:
        """How many counters there are."""
        return len(self._counters)

    def keep(self) -> None:
        """A step begins: remember all."""
        self._moved = {}
        for buffer in self._all:
            buffer.stood = buffer.now()
        stale = [buffer for buffer in self._all if buffer.stood is not None]
        _copy([(buffer.memory(), buffer.stood) for buffer in stale if buffer.stood is not None])

    def rewind(self) -> None:
        """All stand where ``keep`` saw them, in the tensors of then; safe when it was never called. One that
        has another shape by now stays: its module knows of that.
        """
        back = []
        for buffer in self._all:
            if buffer.stood is not None and buffer.is_here():
                buffer.module._buffers[buffer.name] = buffer.stood
                if not overlaps(buffer.stood):
                    back.append((buffer.stood, buffer.memory()))
        _copy(back)

    def look(self) -> Changes:
        """What changed since ``keep``. Waits for no device. How far tables went is added up here."""
        if not self._all:
            return Changes((), ())
        here = [buffer if buffer.is_here() else None for buffer in self._all]
        marked, counting = here[: self.marks], here[self.marks :]
        marks = [UNFIT if buffer is None else if_known(buffer.differs()) for buffer in marked]
        moves = [0 if buffer is None else if_known(buffer.movement().reshape(())) for buffer in counting]
        for number, table in enumerate(self._tables):
            mark = marks[len(self._statistics) + number]
            if isinstance(mark, torch.Tensor) or mark > 0:
                moved = table.movement()
                self._moved[number] = self._moved[number] + moved if number in self._moved else moved
        return Changes(tuple(marks), tuple(moves))

    def values(self) -> list[torch.Tensor | None]:
        """The statistics as they are; ``None`` for one that is not here any more."""
        buffers = [buffer.now() for buffer in self._statistics]
        return [value.detach() if value is not None and value.requires_grad else value for value in buffers]

    def settle(
        self, averages: Sequence[torch.Tensor], marks: Sequence[float], moves: Sequence[float]
    ) -> tuple[int, ...]:
        """Take the average of each statistic, and the movement of each counter, in all workers.

        ``marks`` and ``moves`` are the sums of theirs. A statistic that nobody changed stays as it is, to the
        bit. Returns the numbers of the tables that somebody changed, which ``settle_tables`` waits for.
        """
        took = [
            (buffer, average)
            for buffer, average, mark in zip(self._statistics, averages, marks, strict=False)
            if mark > 0
        ]
        counting = [(b, moved) for b, moved in zip(self._counters, moves, strict=True) if b.is_here()]
        if counting:
            before = [counter.memory().to(torch.int64) for counter, _ in counting]
            after = torch._foreach_add(before, [round(moved) for _, moved in counting])
            took += [(counter, value) for (counter, _), value in zip(counting, after, strict=True)]
        _put(took)
        return tuple([at for at, mark in enumerate(marks[len(self._statistics) :]) if mark > 0])

    def settle_unread_on(self, device: torch.device) -> bool:
        """Whether ``settle_unread`` comes to what ``settle`` does: all lie on ``device``, each in memory of
        its own. Of two that share memory, the one that nobody changed must not be written back.
        """
        here = [buffer.now() for buffer in self._all]
        tensors = [tensor for tensor in here if tensor is not None]
        storages = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()}
        return len(storages) == sum(tensor.numel() > 0 for tensor in tensors) and not any(
            tensor.device != device or overlaps(tensor) for tensor in tensors
        )

    def settle_unread(
        self, averages: Sequence[torch.Tensor], marks: torch.Tensor, moves: torch.Tensor
    ) -> None:
        """As ``settle`` and ``settle_tables``, to the bit, where no other worker gave anything: the device
        chooses by the ``marks`` that it computed, and nobody waits for them. Call it after ``rewind``.
        """
        if not self._all:
            return
        changed = marks > 0
        took = [
            (buffer, torch.where(changed[at], average, buffer.there()))
            for at, (buffer, average) in enumerate(zip(self._statistics, averages, strict=True))
            if buffer.is_here()
        ]
        for number, table in enumerate(self._tables):
            if table.is_here() and number in self._moved:
                before, moved = table.there(), self._moved[number]
                value = before.to(moved.dtype) + moved
                value = value.clamp(0, 1) if before.dtype == torch.bool else value
                mark = changed[len(self._statistics) + number]
                took.append((table, torch.where(mark, value.to(before.dtype), before)))
        pairs = zip(self._counters, moves.round().to(torch.int64).unbind(), strict=True)
        counting = [(counter, moved) for counter, moved in pairs if counter.is_here()]
        if counting:
            before_moved = [counter.memory().to(torch.int64).reshape(()) for counter, _ in counting]
            after = torch._foreach_add(before_moved, [moved for _, moved in counting])
            took += [(c, value.view(c.like.shape)) for (c, _), value in zip(counting, after, strict=True)]
        _put(took)

    def movement(self, tables: Sequence[int], device: torch.device) -> torch.Tensor:
        """How far this worker moved these tables, in one row of numbers to be summed on ``device``."""
        moved = [
            self._moved[number] if number in self._moved else torch.zeros(self._tables[number].like.shape)
            for number in tables
        ]
        return torch.cat([each.reshape(-1).to(device, torch.int64) for each in moved])

    def settle_tables(self, tables: Sequence[int], moved: torch.Tensor) -> None:
        """Take the movement of all workers; a yes or no that any of them turned over is turned over."""
        changed = [self._tables[number] for number in tables]
        parts = moved.split([table.like.numel() for table in changed])
        took = []
        for table, part in zip(changed, parts, strict=True):
            memory = table.memory()
            value = memory.to(torch.int64) + part.view(memory.shape).to(memory.device)
            took.append((table, value.clamp(0, 1) if memory.dtype == torch.bool else value))
        _put(took)


def beside(model: nn.Module, named: Iterable[str]) -> dict[str, torch.Tensor]:
    """The buffers of ``model`` by their names, without those of ``named``: what ``state_dict`` leaves out."""
    names = set(named)
    return {name: buffer for name, buffer in model.named_buffers() if name not in names}


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, as in an expanded tensor, which cannot be written to."""
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))


def part(model: nn.Module, named: Iterable[str]) -> None:
    """Give each element of these buffers memory of its own, where they are here: they will be filled."""
    modules = dict(model.named_modules())
    for name in named:
        at, _, own = name.rpartition(".")
        places = modules[at]._buffers if at in modules else {}
        buffer = places.get(own)
        if buffer is not None and overlaps(buffer):
            places[own] = buffer.clone(memory_format=torch.contiguous_format)


def take_up(model: nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Take over what ``beside`` gave of another worker's model, where this one has a buffer of that shape.

    Others (a cache of another length, or one that is yet to be made) stay as they are.
    """
    part(model, values)
    here = dict(model.named_buffers(remove_duplicate=False))
    for name, value in values.items():
        own = here.get(name)
        if own is not None and (own.shape, own.dtype) == (value.shape, value.dtype):
            own.detach().copy_(value)


@dataclass(slots=True, eq=False)
class _Buffer:
    """``stood`` is the tensor that was there when it was kept, ``copied`` what it held, as bits too."""

    module: nn.Module
    name: str
    like: torch.Tensor
    device: torch.device
    stood: torch.Tensor | None = None
    copied: torch.Tensor | None = None
    copied_bits: torch.Tensor | None = None

    def now(self) -> torch.Tensor | None:
        """What is there, if it is as the model was built."""
        buffer = self.module._buffers.get(self.name)
        if buffer is None or buffer.shape != self.like.shape:
            return None
        if buffer is self.stood:
            return buffer
        fits = buffer.dtype == self.like.dtype and buffer.device == self.device
        return buffer if fits and buffer.layout is torch.strided else None

    def is_here(self) -> bool:
        """Whether it was there when it was kept, and still is."""
        return self.stood is not None and self.now() is not None

    def memory(self) -> torch.Tensor:
        """Where its value is kept; used again from step to step."""
        if self.copied is None:
            self.copied = torch.empty(self.like.shape, dtype=self.like.dtype, device=self.device)
        return self.copied

    def differs(self) -> torch.Tensor | bool:
        """Whether it has other bits now; on a GPU nobody waits for the answer yet."""
        if self.copied_bits is None:
            self.copied_bits = _bits(self.memory())
        now, before = _bits(self.there()), self.copied_bits
        return not torch.equal(now, before) if now.is_cpu else torch.ne(now, before).any()

    def movement(self) -> torch.Tensor:
        """How far whole numbers went; yes and no in little room, for they are masks and large."""
        wide = torch.int16 if self.like.dtype == torch.bool else torch.int64
        return self.there().to(wide) - self.memory().to(wide)

    def there(self) -> torch.Tensor:
        """What is there, which somebody made sure of."""
        buffer = self.now()
        assert buffer is not None
        return buffer.detach() if buffer.requires_grad else buffer


def _distinct(model: nn.Module) -> list[_Buffer]:
    """Every buffer under the first of its names."""
    ids: set[int] = set()
    result = []
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.layout is torch.strided and id(buffer) not in ids:
                ids.add(id(buffer))
                like = torch.empty(buffer.shape, dtype=buffer.dtype, device="meta")
                result.append(_Buffer(module, name, like, buffer.device))
    return result


def _put(pairs: Sequence[tuple[_Buffer, torch.Tensor]]) -> None:
    """Give each its value: where it stood since the step began, or in a new tensor as the module made one."""
    within = []
    for buffer, value in pairs:
        now = buffer.now()
        if now is not None and now is buffer.stood and not overlaps(now):
            within.append((now, value))
        elif now is not None:
            buffer.module._buffers[buffer.name] = value.to(now.dtype, copy=True)
    _copy(within)


def _copy(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    if pairs:
        with torch.no_grad():
            torch._foreach_copy_([into for into, _ in pairs], [value for _, value in pairs])


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().view(WHOLE[tensor.dtype.itemsize])
