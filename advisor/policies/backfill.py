"""What the head of a queue is promised, and who may use its GPUs until then. Pure.

A promise rests on hard bounds only: the time limits of running jobs, never an estimate. It names the earliest
instant by which enough GPUs of one kind are free, and which they are: those that come free first, then as few
of the free ones as it takes. Which promises are kept in later rounds, and whom they bind, is in
``promised_starts``.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from advisor.actions import HoldForJob
from advisor.planner.free_gpus import Pool
from advisor.planner.working_state import WorkingState
from advisor.policies.promised_starts import is_unseen, sure_end
from advisor.state.model import Job
from analytics import text
from collector.model import GpuUuid, JobId, NodeName


class Ends:
    """When the GPUs that are in use come free for sure, and what of it was promised."""

    def __init__(self, round: WorkingState) -> None:
        self._round = round
        self._by_kind: dict[Pool, list[tuple[int, GpuUuid, JobId]]] | None = None

    def promise(self, job: Job) -> str:
        """Promise the job a start when bounds allow one; returns what to tell its owner about it."""
        round = self._round
        reservation = round.state.reservations.get(job.id)
        if reservation is not None and round.board.reserved_for(job.id):
            return f"; promised to start within {_minutes(reservation.start_ms - round.now_ms)}"
        if job.share < 1:
            return ""
        if reservation is not None and is_unseen(round, reservation):
            within = _minutes(reservation.start_ms - round.now_ms)
            return f"; promised to start within {within}, on GPUs that are not measured just now"
        best = self._earliest(job)
        if best is None:
            return "; no start can be promised: too few of the jobs in its way have a time limit"
        start_ms, gpus = best
        reason = f"the jobs on these GPUs must end within {_minutes(start_ms - round.now_ms)}"
        round.promise(HoldForJob(job=job.id, start_ms=start_ms, gpus=gpus, reason=reason))
        return f"; promised to start within {_minutes(start_ms - round.now_ms)}"

    def hold(self, job: Job) -> str:
        """Hold free GPUs back, in this round, for a head that is entitled to a place and gets one soon."""
        board = self._round.board
        if board.reserved_for(job.id) or job.share < 1:
            return ""
        for pool in [pool for pool in board.may_use(job) if pool.most(job) >= job.min_gpus][:1]:
            free = _on_the_freest(pool, job) if job.on_one_node else board.free_in(pool, job.min_gpus)
            board.promise(job.id, self._round.now_ms, free)
            if free:
                return f"; {len(free)} free GPUs are held back for it"
        return ""

    def _earliest(self, job: Job) -> tuple[int, tuple[GpuUuid, ...]] | None:
        board = self._round.board
        if job.on_one_node:
            return self._earliest_on_a_node(job)
        best: tuple[int, Pool] | None = None
        for pool in board.may_use(job):
            missing = job.min_gpus - pool.free
            first = list(islice(self._ends(pool), max(missing, 1)))
            if len(first) >= missing and (best is None or first[-1][0] < best[0]):
                best = (first[-1][0], pool)
        if best is None:
            return None
        start_ms, pool = best
        by_then = takewhile(lambda end: end[0] <= start_ms, self._ends(pool))
        ending = [uuid for _, uuid in islice(by_then, job.min_gpus)]
        free = board.free_in(pool, job.min_gpus - len(ending))
        return start_ms, (*ending, *free)

    def _earliest_on_a_node(self, job: Job) -> tuple[int, tuple[GpuUuid, ...]] | None:
        """The same on one node: the first on which enough GPUs are free by then."""
        best: tuple[int, tuple[GpuUuid, ...]] | None = None
        for pool in self._round.board.may_use(job):
            cells = {cell.node: cell for cell in pool.cells if cell.size >= job.min_gpus}
            ending: dict[NodeName, list[GpuUuid]] = {}
            for end_ms, uuid in self._ends(pool):
                cell = cells.get(self._round.state.gpus[uuid].node)
                if cell is None:
                    continue
                own = ending.setdefault(cell.node, [])
                own.append(uuid)
                if len(own) + len(cell.free) >= job.min_gpus:
                    if best is None or end_ms < best[0]:
                        best = end_ms, (*own, *cell.free[: job.min_gpus - len(own)])
                    break
        return best

    def _ends(self, pool: Pool) -> Iterator[tuple[int, GpuUuid]]:
        """GPUs of a kind that come free for sure, the earliest first; none that is promised already."""
        if self._by_kind is None:
            self._by_kind = self._all_ends()
        ends = self._by_kind.get(pool, [])
        while ends and not self._is_open(ends[-1]):
            ends.pop()
        return ((end_ms, uuid) for end_ms, uuid, id in reversed(ends) if self._is_open((end_ms, uuid, id)))

    def _is_open(self, end: tuple[int, GpuUuid, JobId]) -> bool:
        _, uuid, id = end
        placement = self._round.placements.get(id)
        return placement is not None and uuid in placement.gpus and not self._round.board.is_promised((uuid,))

    def _all_ends(self) -> dict[Pool, list[tuple[int, GpuUuid, JobId]]]:
        round = self._round
        ends: dict[Pool, list[tuple[int, GpuUuid, JobId]]] = {}
        for id, placement in round.placements.items():
            end_ms = sure_end(round, id)
            if end_ms is None or placement.share < 1:
                continue
            for uuid in placement.gpus:
                pool = round.board.pool_of(uuid)
                if pool is not None:
                    ends.setdefault(pool, []).append((end_ms, uuid, id))
        for own in ends.values():
            # The earliest end last, where `pop` takes it.
            own.sort(reverse=True)
        return ends


def _on_the_freest(pool: Pool, job: Job) -> list[GpuUuid]:
    """What is free on the node that has most free: what is held there stays, so it gets no fewer later."""
    fit = [cell for cell in pool.cells if cell.size >= job.min_gpus]
    # The node of the most free GPUs needs the fewest more to end.
    best = max(fit, key=lambda cell: len(cell.free), default=None)
    return [] if best is None else best.free[: job.min_gpus]


def _minutes(ms: float) -> str:
    return text.length(ms / 1000)
