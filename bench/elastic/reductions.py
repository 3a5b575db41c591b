"""The exchange of the deterministic mode beside a plain all-reduce of the same bytes, taking turns."""

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fallow.data import batch_plan
from fallow.gradients.deterministic import Tree
from fallow.process_group import group as groups

ELEMENTS = 8 * 1024 * 1024
PIECES = 8
"""Two workers hold one subtree each; three have three pieces, three and two, and hold two subtrees each."""
WARM_UP = 3


def rank(rank: int, world: int, port: int, steps: int, answers: Any) -> None:
    """Seconds of each exchange of PIECES leaves; rank 0 puts them into ``answers``."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=120))
    group = groups.connect(store, rank, world, torch.device("cpu"))
    model = nn.ParameterList([nn.Parameter(torch.zeros(ELEMENTS))])
    plain = torch.ones(ELEMENTS)
    shape = batch_plan.fixed(PIECES, 1, PIECES, world)
    blocks = [(of_rank[0].index, of_rank[-1].index + 1) for of_rank in shape.ranks]
    tree = Tree(model, group, 0)
    took: dict[str, list[float]] = {"tree": [], "all-reduce": []}
    for turn in range(WARM_UP + 3 * steps):
        tree.begin()
        for index in range(*blocks[rank]):
            tree.begin_micro_batch(last=index == blocks[rank][1] - 1)
            model[0].grad = plain
            tree.end_micro_batch(index, 1 / PIECES, torch.zeros(()), None)
        for name, seconds in took.items():
            group.all_reduce([torch.zeros(1)])
            began_s = time.monotonic()
            if name == "tree":
                tree.finish(blocks, [])
            else:
                group.all_reduce([plain])
            if turn >= WARM_UP:
                seconds.append(time.monotonic() - began_s)
        plain.fill_(1.0)
    if rank == 0:
        answers.put(took)
    group.all_reduce([torch.zeros(1)])
