"""The training of ``training.py`` as torchrun's elasticity wants it: DistributedDataParallel and a snapshot.

The snapshot is written when the bench asks for it, just before it changes the world, and read at every
start: what a real training pays for writing many is not held against torchrun.

    torchrun ... bench/elastic/torchrun_training.py LOG SIZE      (started by bench/resize.py)
"""

import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.elastic.training import ENDLESS, SIZES, SLEEP_S, Log, build
from fallow.data import batch_plan


def main() -> None:
    """Train from the snapshot on, until the agent ends this worker."""
    folder, size = Path(sys.argv[1]), SIZES[sys.argv[2]]
    snapshot, wanted = folder / "snapshot.pt", folder / "wanted"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    log = Log(folder, f"rank{rank}")
    model, optimizer, data = build(size)
    first = 0
    if snapshot.exists():
        state = torch.load(snapshot, mmap=True, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    parallel = DistributedDataParallel(model)
    shape = batch_plan.balanced(size.global_batch, size.max_micro_batch, world_size)
    loss_of = nn.CrossEntropyLoss()
    for number in range(first, ENDLESS):
        began_s = time.monotonic()
        optimizer.zero_grad()
        for micro in shape.ranks[rank]:
            time.sleep(SLEEP_S)
            start = number * size.global_batch % len(data)
            x, y = data[start + micro.start : start + micro.stop]
            last = micro is shape.ranks[rank][-1]
            with nullcontext() if last else parallel.no_sync():
                (loss_of(parallel(x), y) * (micro.size * world_size / size.global_batch)).backward()
        computed_s = time.monotonic()
        optimizer.step()
        log.step(number, world_size, began_s, computed_s, time.monotonic())
        if rank == 0 and wanted.exists():
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": number + 1}
            torch.save(state, folder / "snapshot.new")
            (folder / "snapshot.new").replace(snapshot)
            wanted.unlink()


if __name__ == "__main__":
    main()
