"""Sums the gradients of all workers while the backward pass is still busy: the reducer of the plain mode.

Each worker accumulates its micro-batches in the buckets themselves. In its last micro-batch, a bucket whose
gradients are all there starts to travel at once, as DistributedDataParallel does (Li et al., VLDB 2020,
section 3.2.3); the statistics and the numbers of the step leave with the last bucket. Buckets travel in
one order on all workers, whatever the order in which their gradients came.
"""

import weakref
from collections.abc import Callable, Sequence

import torch
from torch import nn

from fallow.gradients import checks
from fallow.gradients.flat import Flat, Storage, on_wire, put
from fallow.gradients.reducer import TALLIES, Summed, check_whole
from fallow.process_group.collectives import Group, GroupBroken, Work
from fallow.state.buffers import Buffers

BUCKET_BYTES = 25 * 1024 * 1024
"""As DistributedDataParallel's default: small enough to overlap, large enough for the network."""


class Plain:
    """Each worker accumulates its own micro-batches; one all-reduce a bucket sums the workers.

    Running statistics that somebody changed are averaged over the workers, by samples. Between the last
    backward pass and ``finish``, gradients that travel are in no parameter's ``grad``.
    """

    def __init__(
        self,
        model: nn.Module,
        group: Group,
        notes: int,
        spare: Storage | None = None,
        bucket_bytes: int = BUCKET_BYTES,
        *,
        buffers: Buffers | None = None,
    ):
        self._group = group
        self._flat = Flat(model, TALLIES + notes, bucket_bytes, buffers)
        self._storage = self._flat.allocate(spare=spare)
        self._views = self._flat.gradients(self._storage)
        self._buckets = [place.bucket for place in self._flat.layout.gradients]
        self._absent: frozenset[int] = frozenset()  # had no gradient anywhere in the step before
        self._works: list[Work] = []
        self._failure: str | None = None
        self._loss: torch.Tensor | float = 0.0
        self._count = self._fraction = 0.0
        self._counted = 0
        self._present: list[bool] = []
        self._sparse: set[int] = set()
        self._waiting: list[set[int]] = []  # per bucket that may leave early, from the last micro-batch on
        self._sent = 0
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(_arrival(self, number))
            for number, parameter in enumerate(self._flat.parameters)
        ]

    def begin(self) -> None:
        """Drop all gradients."""
        self._flat.begin()
        self._reset()

    def begin_micro_batch(self, last: bool) -> None:
        """From the last one on, whatever is complete travels."""
        if last:
            expected = [set(self._flat.layout.members(at)) for at in range(self._flat.layout.early)]
            self._waiting = [members - self._absent for members in expected]

    def end_micro_batch(self, index: int, fraction: float, loss: torch.Tensor, count: float | None) -> None:
        """Add up this worker's part of the global batch."""
        self._loss = self._loss + loss
        self._count += count or 0.0
        self._counted += count is not None
        self._fraction += fraction

    def arrived(self, number: int) -> None:
        """Parameter ``number`` has got a gradient, or more of one, in a backward pass."""
        bucket = self._buckets[number]
        if bucket < self._sent:
            return  # too late for its bucket: it stays in ``grad``, and ``finish`` sees to it
        self._move_in(number)
        if bucket < len(self._waiting):
            self._waiting[bucket].discard(number)
            while self._sent < len(self._waiting) and not self._waiting[self._sent]:
                self._pack(self._sent)
                self._send()

    def finish(self, blocks: Sequence[tuple[int, int]], notes: Sequence[float], mark: int = 1) -> Summed:
        """Send what hasn't been sent, and wait for all of it."""
        flat, storage = self._flat, self._storage
        late = {n: p.grad for n, p in enumerate(flat.parameters) if p.grad is not None and self._is_sent(n)}
        for bucket in range(self._sent, len(storage)):
            self._pack(bucket)
        present = [has or number in late for number, has in enumerate(self._present)]
        extras = [self._loss, self._count, self._counted, mark, *notes]
        fraction = self._fraction if self._group.world_size > 1 else 1.0  # not 0.9999…
        flat.write_rest(storage, fraction, extras, present, len(late) + len(self._sparse))
        while self._sent < len(storage):
            self._send()
        self._wait()
        numbers = flat.numbers(storage)
        self._check_sum(numbers[TALLIES - 1], mark * self._group.world_size)
        totals = flat.read(storage, numbers)
        checks.complete(self._group, flat, storage, totals, late=late, sparse=self._sparse)
        self._absent = frozenset([n for n, has in enumerate(totals.present) if not has])
        loss, count, counted, _, *summed = totals.extras
        return Summed(loss, count, round(counted), tuple(summed))

    def close(self) -> Storage:
        """Take the hooks off the parameters. What still travels keeps its buckets."""
        for hook in self._hooks:
            hook.remove()
        return [] if self._works or self._failure is not None else self._storage

    def _reset(self) -> None:
        self._loss = self._count = self._fraction = 0.0
        self._counted = 0
        self._present = [False] * len(self._views)
        self._sparse, self._waiting, self._sent = set(), [], 0

    def _is_sent(self, number: int) -> bool:
        return self._buckets[number] < self._sent

    def _move_in(self, number: int) -> None:
        """Let the gradient lie in its bucket, where further micro-batches are then added to it."""
        parameter, view = self._flat.parameters[number], self._views[number]
        gradient = parameter.grad
        if gradient is not view and gradient is not None:
            if gradient.layout is not torch.strided:
                self._sparse.add(number)
            put(view, gradient)
            parameter.grad = view

    def _pack(self, bucket: int) -> None:
        """Make the bucket's gradients final, and take them away from autograd."""
        for number in self._flat.layout.members(bucket):
            self._move_in(number)
            parameter = self._flat.parameters[number]
            self._present[number] = parameter.grad is not None
            if parameter.grad is None:
                self._views[number].zero_()
            parameter.grad = None

    def _send(self) -> None:
        """Start the next bucket. A broken group is told of in ``finish``: autograd knows no retry."""
        bucket, self._sent = self._storage[self._sent], self._sent + 1
        if self._failure is None:
            try:
                self._works.append(self._group.start_all_reduce(on_wire(bucket)))
            except GroupBroken as error:
                self._failure = str(error)  # not the error: its traceback would keep the group alive

    def _check_sum(self, value: float, expected: float) -> None:
        try:
            check_whole(self._group, value, expected)
        except GroupBroken as error:
            self._failure = str(error)
            raise

    def _wait(self) -> None:
        """Until all sums are there. Keeps no work of a broken group: it would keep its sockets open."""
        works, self._works = self._works, []
        try:
            for work in works:
                work.wait()
        except GroupBroken as error:
            self._failure = self._failure or str(error)
        if self._failure is not None:
            raise GroupBroken(self._failure)


def _arrival(reducer: Plain, number: int) -> Callable[[torch.Tensor], None]:
    """A hook that doesn't keep the reducer alive."""
    alive = weakref.ref(reducer)

    def arrived(_: torch.Tensor) -> None:
        result = alive()
        if result is not None:
            result.arrived(number)

    return arrived
