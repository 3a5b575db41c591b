"""Steps of our trainer in both modes and of the peer, taking turns on the same processes.

Each way has a model of its own, because each keeps its own buffers; they start alike.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.elastic.training import ENDLESS, SIZES, Size, build
from fallow.data import batch_plan
from fallow.process_group import group as groups
from fallow.trainer import Trainer
from fallow.types import Recipe

WARM_UP = 3
SIZE = SIZES["50M"]
Step = Callable[[], None]


def rank(rank: int, world: int, port: int, steps: int, answers: Any) -> None:
    """Seconds of each step, of each way, and of processor time; rank 0 puts them into ``answers``."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=120))
    dist.init_process_group("gloo", store=dist.PrefixStore("peer", store), rank=rank, world_size=world)
    ways: dict[str, Step] = {
        "peer": _peer(rank, world),
        "plain": _ours(dist.PrefixStore("plain", store), rank, world, deterministic=False),
        "deterministic": _ours(dist.PrefixStore("tree", store), rank, world, deterministic=True),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(WARM_UP + steps):
        for name in random.Random(turn).sample(list(ways), len(ways)):  # whom a way follows costs it memory
            dist.barrier()
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            ways[name]()
            if turn >= WARM_UP:
                took[name].append((time.monotonic() - began_s, time.process_time() - began_cpu_s))
    if rank == 0:
        answers.put(took)
    dist.barrier()
    dist.destroy_process_group()


def _peer(rank: int, world: int) -> Step:
    """The loop that everybody writes; with DDP where there are several workers."""
    model, optimizer, data = build(SIZE)
    parallel = DistributedDataParallel(model) if world > 1 else model
    shape = batch_plan.balanced(SIZE.global_batch, SIZE.max_micro_batch, world)
    loss_of = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        total = 0.0
        for micro in shape.ranks[rank]:
            x, y = data[micro.start : micro.stop]
            last = micro is shape.ranks[rank][-1]
            with nullcontext() if last or world == 1 else parallel.no_sync():
                loss = loss_of(parallel(x), y) * (micro.size * world / SIZE.global_batch)
                loss.backward()
            total += float(loss.detach())
        optimizer.step()

    return step


def _ours(store: dist.Store, rank: int, world: int, deterministic: bool) -> Step:
    model, optimizer, data = build(SIZE)
    recipe = Recipe(
        global_batch=SIZE.global_batch, max_micro_batch=SIZE.max_micro_batch, deterministic=deterministic
    )
    group = groups.connect(store, rank, world, torch.device("cpu")) if world > 1 else None
    trainer = Trainer(model, optimizer, recipe, group=group)
    stepping = _stepping(trainer, model, data, SIZE)
    return lambda: next(stepping)


def _stepping(trainer: Trainer, model: nn.Module, data: Any, size: Size) -> Iterator[None]:
    loss_of = nn.CrossEntropyLoss()
    for _, batches in trainer.steps(data, ENDLESS):
        for x, y in batches:
            trainer.backward(loss_of(model(x), y))
        trainer.step()
        yield
