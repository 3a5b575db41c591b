"""Moves a training's state from one worker to another over a group, without a disk.

A state is any nesting of dicts, lists and tuples with tensors among its leaves. The skeleton travels
pickled (the peers are one job and trust each other), the tensors in flat buckets of one dtype; a tensor
that fills a bucket alone travels without a copy, and lands in place when the receiver has its twin.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fallow.group import Group

BUCKET_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor stood in the skeleton."""

    index: int
    shape: torch.Size
    dtype: torch.dtype


def send_state(group: Group, to: int, state: Any, device: torch.device) -> int:
    """Hand ``state`` to rank ``to``; returns the bytes of tensors sent. Blocks. Raises GroupBroken."""
    tensors: list[torch.Tensor] = []
    skeleton = _strip(state, tensors)
    header = torch.frombuffer(bytearray(pickle.dumps(skeleton)), dtype=torch.uint8).to(device)
    group.send(torch.tensor([header.numel()], dtype=torch.int64, device=device), to)
    group.send(header, to)
    for bucket in _buckets(tensors):
        group.send(_packed(bucket, device), to)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def receive_state(group: Group, source: int, twins: Any, device: torch.device) -> Any:
    """The state that rank ``source`` sends. Tensors of ``twins`` at the same place, with the same shape and
    dtype, are filled in place and returned; others are new, on ``device``. Raises GroupBroken.
    """
    length = torch.zeros(1, dtype=torch.int64, device=device)
    group.receive(length, source)
    header = torch.zeros(int(length), dtype=torch.uint8, device=device)
    group.receive(header, source)
    skeleton = pickle.loads(bytes(header.cpu().numpy()))
    tensors = [_target(slot, twin, device) for slot, twin in _slots(skeleton, twins)]
    for bucket in _buckets(tensors):
        _fill(group, source, bucket, device)
    return _restore(skeleton, tensors)


def _strip(node: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(node, torch.Tensor):
        tensors.append(node.detach())
        return Slot(len(tensors) - 1, node.shape, node.dtype)
    if isinstance(node, dict):
        return {key: _strip(value, tensors) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return type(node)([_strip(value, tensors) for value in node])
    return node


def _restore(node: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(node, Slot):
        return tensors[node.index]
    if isinstance(node, dict):
        return {key: _restore(value, tensors) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return type(node)([_restore(value, tensors) for value in node])
    return node


def _slots(node: Any, twin: Any) -> Iterator[tuple[Slot, Any]]:
    if isinstance(node, Slot):
        yield node, twin
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _slots(value, twin.get(key) if isinstance(twin, dict) else None)
    elif isinstance(node, list | tuple):
        for place, value in enumerate(node):
            known = isinstance(twin, list | tuple) and place < len(twin)
            yield from _slots(value, twin[place] if known else None)


def _target(slot: Slot, twin: Any, device: torch.device) -> torch.Tensor:
    if isinstance(twin, torch.Tensor) and twin.shape == slot.shape and twin.dtype == slot.dtype:
        return twin.detach()
    return torch.empty(slot.shape, dtype=slot.dtype, device=device)


def _buckets(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Runs of one dtype up to BUCKET_BYTES; both sides cut alike because both know all shapes and dtypes."""
    bucket: list[torch.Tensor] = []
    size = 0
    for tensor in tensors:
        nbytes = tensor.numel() * tensor.element_size()
        if nbytes == 0:
            continue
        if bucket and (bucket[0].dtype != tensor.dtype or size + nbytes > BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += nbytes
    if bucket:
        yield bucket


def _packed(bucket: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    if len(bucket) == 1:
        return bucket[0].to(device).contiguous()
    return torch.cat([tensor.to(device).reshape(-1) for tensor in bucket])


def _fill(group: Group, source: int, bucket: Sequence[torch.Tensor], device: torch.device) -> None:
    only = bucket[0]
    if len(bucket) == 1 and only.is_contiguous() and only.device == device:
        group.receive(only, source)
        return
    flat = torch.empty(sum(tensor.numel() for tensor in bucket), dtype=only.dtype, device=device)
    group.receive(flat, source)
    for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
        tensor.copy_(part.view(tensor.shape))
