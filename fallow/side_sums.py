"""Sums over all workers beside the steps' own: of an evaluation, of a decision, of an epoch's end.

Between two steps there is no transaction that would be taken again when a worker dies: some may have the sum
and go on, while others find the group broken. So these sums are counted. Whoever recovers says how many it
has; those who lack the newest are given it by one who has it, before anybody goes on.

    sum number n ─► all have it
         └─► a worker dies ─► survivors regroup ─► who has n gives it to who has n-1, or nobody has it: again
"""

from collections.abc import Callable, Sequence
from typing import Protocol
from zlib import crc32

import torch

from fallow.errors import LoopError
from fallow.process_group.collectives import Group, GroupBroken
from fallow.state import rng
from fallow.state.progress import Progress


class Membership(Protocol):
    """This worker's place among the others."""

    group: Group

    def prove(self) -> None:
        """That all are at one step. Raises GroupBroken."""
        ...

    def recover(self) -> None:
        """Into whatever group comes after a broken one."""
        ...


class SideSums:
    """One worker's; what it counts lies in ``progress``, which is handed to joiners and saved.

    With a ``key``, what is drawn behind a sum is the same in all workers, whatever each drew for its part.
    """

    def __init__(self, progress: Progress, device: torch.device, key: int | None = None):
        self._progress = progress
        self._device = device
        self._key = key

    def sum(
        self, seat: Membership, kind: Callable[[], str], part: Callable[[Group], Sequence[float]]
    ) -> list[float]:
        """All workers' numbers, summed place by place, in float64; every worker must call it.

        ``part`` gives this worker's, and is asked again when a worker died meanwhile; ``kind`` then says
        what they are. Blocks. Raises LoopError where workers sum other things at once, GroupBroken where
        nobody mends a group, and Left.
        """
        progress, number = self._progress, self._progress.sums
        while progress.sums == number:
            row = [float(each) for each in part(seat.group)]
            try:
                seat.prove()
                self._check_alike(seat.group, kind(), len(row))
                progress.last = self._reduced(seat.group, row)
                progress.sums += 1
            except GroupBroken:
                broken = True
            else:
                broken = False
            if broken:
                seat.recover()  # outside: a traceback would keep the broken group's sockets open
        rng.seed(self._key, progress.sums, 1, rng.Stage.BETWEEN, device=self._device)  # 0: behind steps
        return list(progress.last)

    def meet(self, group: Group) -> None:
        """After a recovery: all have the same side sums afterwards. Raises GroupBroken."""
        progress = self._progress
        gathered = torch.zeros(2 * group.world_size, dtype=torch.int64, device=self._device)
        gathered[2 * group.rank] = progress.sums
        gathered[2 * group.rank + 1] = len(progress.last)
        group.all_reduce([gathered])
        numbers = gathered.tolist()
        group.settle()
        counts, lengths = numbers[0::2], numbers[1::2]
        newest = max(counts)
        if min(counts) == newest:
            return
        giver = counts.index(newest)
        row = progress.last if group.rank == giver else [0.0] * lengths[giver]
        sums = self._reduced(group, row)
        progress.sums, progress.last = newest, sums

    def _check_alike(self, group: Group, kind: str, length: int) -> None:
        mark = crc32(f"{kind}/{length}/{self._progress.sums}".encode())
        marks = torch.tensor([mark, mark >> 16], dtype=torch.int64, device=self._device)
        group.all_reduce([marks])
        summed = marks.tolist()
        group.settle()
        if summed != [group.world_size * mark, group.world_size * (mark >> 16)]:
            raise LoopError(
                f"this worker is at {kind} ({length} numbers), and others are at something else: every "
                "worker must call evaluate(), agree() and epochs() alike, with the same data and names"
            )

    def _reduced(self, group: Group, row: Sequence[float]) -> list[float]:
        summed = torch.tensor(row, dtype=torch.float64).to(self._device)
        if len(row):
            group.all_reduce([summed])
        sums: list[float] = summed.tolist()
        group.settle()
        return sums
