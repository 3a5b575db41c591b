"""Several workers on one GPU, or on a device that has no sums of its own: gloo, over copies on the host.

NCCL refuses two members on one GPU ("Duplicate GPU detected"), and gloo sends no tensor that lies on one.
So each tensor is copied to page-locked memory, travels from there, and what came is copied back. The host
waits for the device once a tensor that it sends: meant for trying every path of an elastic training on one
GPU, and for devices that are shared on purpose, not for speed.
"""

from collections.abc import Iterable, Sequence

import torch

from fallow.process_group.collectives import Work
from fallow.process_group.torch_group import TorchGroup
from fallow.transfers import page_locked

Copies = list[tuple[torch.Tensor, torch.Tensor]]


class StagedGroup(TorchGroup):
    """A gloo group for tensors of any device; what lies on the host travels from where it lies."""

    def all_to_all(
        self, incoming: torch.Tensor, outgoing: torch.Tensor, receive: Sequence[int], send: Sequence[int]
    ) -> None:
        """Give rank ``r`` the next ``send[r]`` elements, take ``receive[r]`` from it; flat tensors."""
        landing = _room(incoming)
        super().all_to_all(landing, _copied(outgoing), receive, send)
        _back([(incoming, landing)])

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Fill ``full`` with every rank's equally long ``part``, in rank order; flat tensors."""
        landing = _room(full)
        super().all_gather(landing, _copied(part))
        _back([(full, landing)])

    def start_all_reduce(self, buffer: torch.Tensor) -> Work:
        """Begin to sum one flat buffer in place, once the device has computed it."""
        copy = _copied(buffer)
        return _Staged(super().start_all_reduce(copy), [(buffer, copy)])

    def start_send(self, tensor: torch.Tensor, to: int) -> Work:
        """Begin to hand a contiguous tensor to rank ``to``, once the device has computed it."""
        return super().start_send(_copied(tensor), to)

    def start_receive(self, tensor: torch.Tensor, source: int) -> Work:
        """Begin to fill a contiguous tensor from rank ``source``."""
        landing = _room(tensor)
        return _Staged(super().start_receive(landing, source), [(tensor, landing)])

    def start_exchange(
        self, sends: Sequence[tuple[torch.Tensor, int]], receives: Sequence[tuple[torch.Tensor, int]]
    ) -> Work:
        """Begin to send tensors, once the device has computed them, and to fill others."""
        landings = [(tensor, _room(tensor)) for tensor, _ in receives]
        work = super().start_exchange(
            [(_copied(tensor), to) for tensor, to in sends],
            [(landing, source) for (_, landing), (_, source) in zip(landings, receives, strict=True)],
        )
        return _Staged(work, landings)


class _Staged:
    """An exchange of copies; ``wait`` brings home what came."""

    def __init__(self, work: Work, copies: Copies):
        self._work = work
        self._copies = copies

    def wait(self) -> None:
        """Block until it is over, and queue the copies back."""
        self._work.wait()
        copies, self._copies = self._copies, []
        _back(copies)


def _room(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cpu else page_locked(tensor.shape, tensor.dtype)


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cpu else page_locked(tensor.shape, tensor.dtype).copy_(tensor)


def _back(copies: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for tensor, copy in copies:
        if copy is not tensor:
            tensor.copy_(copy, non_blocking=True)
