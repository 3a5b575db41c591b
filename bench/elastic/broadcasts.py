"""What the network gives when nothing else is done: the same bytes broadcast by gloo between idle ranks."""

import multiprocessing
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

MESSAGE_BYTES = 32 * 1024 * 1024
TURNS = 4


def seconds(nbytes: int, receivers: int) -> float:
    """The best of a few broadcasts of ``nbytes`` to ``receivers`` processes, in messages of 32 MiB."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    spawning = multiprocessing.get_context("spawn")
    answers: Any = spawning.SimpleQueue()
    processes = [
        spawning.Process(target=_rank, args=(rank, receivers + 1, store.port, nbytes, answers))
        for rank in range(receivers + 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    best: float = answers.get()
    return best


def _rank(rank: int, world: int, port: int, nbytes: int, answers: Any) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=60))
    group = dist.ProcessGroupGloo(store, rank, world, timedelta(seconds=60))
    messages = torch.ones(nbytes, dtype=torch.uint8).split(MESSAGE_BYTES)
    took = []
    for _ in range(TURNS):
        group.barrier().wait()
        began_s = time.monotonic()
        for message in messages:
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = 0, 0
            group.broadcast([message], options).wait()
        group.barrier().wait()
        took.append(time.monotonic() - began_s)
    if rank == 0:
        answers.put(min(took))
