"""Several ranks of one gloo group as threads of the test."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from fallow.process_group import group as groups
from fallow.process_group.collectives import Group

T = TypeVar("T")
CPU = torch.device("cpu")


def together(world: int, work: Callable[[Group], T], device: torch.device = CPU) -> list[T | BaseException]:
    """What each rank's ``work`` returned or raised, in rank order; it begins when all are connected."""
    host = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    all_connected = threading.Barrier(world, timeout=20)

    def run(rank: int) -> T:
        store = dist.TCPStore("127.0.0.1", host.port, is_master=False, timeout=timedelta(seconds=20))
        group = groups.connect(store, rank, world, device)
        all_connected.wait()
        try:
            return work(group)
        finally:
            group.abort()

    return side_by_side(world, run)


def side_by_side(world: int, run: Callable[[int], T]) -> list[T | BaseException]:
    """What ``run`` returned or raised for each rank, each in a thread of its own, in rank order."""
    results: list[T | BaseException] = [RuntimeError("not ended")] * world

    def keep(rank: int) -> None:
        try:
            results[rank] = run(rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=keep, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results
