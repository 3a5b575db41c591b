"""The port between a training and the workers that compute with it: sums and messages, alone or among many.

No policy and nothing of torch.distributed here: which group carries a world, ``group`` says.
"""

from collections.abc import Sequence
from typing import Protocol

import torch


class GroupBroken(Exception):
    """A collective failed: a peer died, aborted or was too slow. The step in flight is not committed."""


class Work(Protocol):
    """A begun exchange; ``wait`` blocks until it is over. Raises GroupBroken when a peer is gone."""

    def wait(self) -> None:
        """Block until it is over."""
        ...


class Group(Protocol):
    """The collectives that a training step needs. All block; all raise GroupBroken when a peer is gone."""

    @property
    def rank(self) -> int:
        """This worker's place, 0-based."""
        ...

    @property
    def world_size(self) -> int:
        """How many workers compute together."""
        ...

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum each flat buffer over all workers, in place."""
        ...

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        ...

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``full`` with every rank's equally long ``part``, in rank order; flat tensors."""
        ...

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        ...

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        ...

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Begin to sum one flat buffer in place; all workers must begin their sums in the same order.

        Doesn't block. The buffer belongs to the group until the work is over.
        """
        ...

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Begin to hand a contiguous tensor to rank ``to``. Doesn't block; the tensor must not change."""
        ...

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Begin to fill a contiguous tensor from rank ``source``. Doesn't block."""
        ...

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """Begin to send contiguous tensors to ranks and to fill others from ranks. Doesn't block.

        All ranks must begin their exchanges in the same order, and between two ranks tensors are matched in
        the order in which both list them.
        """
        ...

    def settle(self) -> None:
        """Block until all exchanges that were waited for are over. To be called after a number was read that
        hangs on one, and before it is believed: raises GroupBroken if it may be no sum but a remainder.
        """
        ...

    def abort(self) -> None:
        """Drop all connections, so that peers waiting for us fail at once; safe to call twice."""
        ...

    def retire(self) -> None:
        """``abort``, when nobody waits for us here any more: it may still be under way on return."""
        ...


class Alone:
    """A world of one: every collective is the identity."""

    rank = 0
    world_size = 1

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum over one worker: nothing to do."""

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Everything goes to ourselves."""
        incoming.copy_(outgoing)

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Our part is the whole."""
        full.copy_(part)

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Raises GroupBroken: there is nobody to send to."""
        raise GroupBroken(f"no rank {to} in a world of one")

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Raises GroupBroken: there is nobody to receive from."""
        raise GroupBroken(f"no rank {source} in a world of one")

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Sum over one worker: over at once."""
        return Done()

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Raises GroupBroken: there is nobody to send to."""
        raise GroupBroken(f"no rank {to} in a world of one")

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Raises GroupBroken: there is nobody to receive from."""
        raise GroupBroken(f"no rank {source} in a world of one")

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """There is nobody to exchange anything with: over at once."""
        assert not sends and not receives
        return Done()

    def settle(self) -> None:
        """Nothing was under way."""

    def abort(self) -> None:
        """Nothing is connected."""

    def retire(self) -> None:
        """Nothing is connected."""


class Done:
    """An exchange in which there was nothing to do."""

    def wait(self) -> None:
        """It is over."""
