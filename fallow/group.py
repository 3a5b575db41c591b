"""The workers that compute together now: a port over torch's process groups, alone or many.

``init_process_group`` is global state, so the old group and its successor could not live side by side;
groups are built directly on a store prefix instead. No policy here: who is in a group, the plan says.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

CONNECT_TIMEOUT = timedelta(seconds=10)
COLLECTIVE_TIMEOUT = timedelta(seconds=60)


class GroupBroken(Exception):
    """A collective failed: a peer died, aborted or was too slow. The step in flight is not committed."""


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

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        ...

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        ...

    def abort(self) -> None:
        """Drop all connections, so that peers waiting for us fail at once; safe to call twice."""
        ...


class Alone:
    """A world of one: every collective is the identity."""

    rank = 0
    world_size = 1

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum over one worker: nothing to do."""

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Raises GroupBroken: there is nobody to send to."""
        raise GroupBroken(f"no rank {to} in a world of one")

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Raises GroupBroken: there is nobody to receive from."""
        raise GroupBroken(f"no rank {source} in a world of one")

    def abort(self) -> None:
        """Nothing is connected."""


class TorchGroup:
    """A process group of torch.distributed, gloo for CPUs and NCCL for GPUs."""

    def __init__(self, process_group: dist.Backend):
        self._group: dist.Backend | None = process_group
        self.rank = process_group.rank()
        self.world_size = process_group.size()

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        """Sum each flat buffer over all workers, in place; the buffers travel concurrently."""
        try:
            works = [self._alive().allreduce([buffer]) for buffer in buffers]
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise GroupBroken(str(error)) from error

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Hand a contiguous tensor to rank ``to``."""
        try:
            self._alive().send([tensor], to, 0).wait()
        except RuntimeError as error:
            raise GroupBroken(str(error)) from error

    def receive(self, tensor: torch.Tensor, source: int) -> None:
        """Fill a contiguous tensor from rank ``source``."""
        try:
            self._alive().recv([tensor], source, 0).wait()
        except RuntimeError as error:
            raise GroupBroken(str(error)) from error

    def abort(self) -> None:
        """Drop all connections."""
        if self._group is not None:
            group, self._group = self._group, None
            group.abort()

    def _alive(self) -> dist.Backend:
        if self._group is None:
            raise GroupBroken("this group was aborted")
        return self._group


def connect(store: dist.Store, rank: int, world_size: int, device: torch.device) -> Group:
    """Build the group of ``world_size`` workers that meet in ``store``; blocks until all are there.

    Raises GroupBroken when they are not there within CONNECT_TIMEOUT.
    """
    if world_size == 1:
        return Alone()
    try:
        if device.type == "cuda":
            return TorchGroup(dist.ProcessGroupNCCL(store, rank, world_size, dist.ProcessGroupNCCL.Options()))
        group = dist.ProcessGroupGloo(store, rank, world_size, CONNECT_TIMEOUT)
        group.set_timeout(COLLECTIVE_TIMEOUT)
        return TorchGroup(group)
    except RuntimeError as error:
        raise GroupBroken(f"rank {rank} of {world_size} could not connect: {error}") from error
