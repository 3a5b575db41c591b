"""What would be free for a job if some gave way: tried on a round's board, thinned out, and undone. Pure."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from math import ceil

from advisor.planner.placement import shrunk, works
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.state.model import Job, Phase, Placement, ProjectName, held_gpus
from collector.model import GpuUuid, JobId, NodeName


class PreemptionTrial:
    """The place that is being made for one job, and who gives way for it, in the order of asking.

    A paused job fits nowhere but on the nodes that hold its state, and what a running one wants more nowhere
    but ``beside`` its own GPUs, among those of their kind. With ``node`` all of it must be there.
    """

    def __init__(
        self,
        round: WorkingState,
        job: Job,
        *,
        guaranteed: bool = False,
        beside: tuple[GpuUuid, ...] = (),
        node: NodeName | None = None,
    ) -> None:
        self._round, self._job, self.guaranteed, self._beside = round, job, guaranteed, beside
        self._node = node
        self._on = job.paused_on if job.phase is Phase.PAUSED else ()
        self._size = (len(self._on) or job.min_gpus) * job.share
        self._before: dict[JobId, Placement] = {}
        self._after: dict[JobId, Placement | None] = {}
        self._depth: dict[JobId, int] = {}
        self._depths: Counter[int] = Counter()
        self.freed: defaultdict[ProjectName, float] = defaultdict(float)
        """GPUs that are given up, by subtree of the project tree."""

    def is_enough(self) -> bool:
        """Whether the job fits now, and may: within every limit, and by its right against all who give way.

        What they give up counts as returned: who takes from a sibling first may then take from strangers
        what their common parent deserves.
        """
        if self._round.over_limit(self._job, self._size, self.freed) is not None:
            return False
        depths = [depth for depth, count in self._depths.items() if count and depth]
        return all(self.may_ask(depth) for depth in depths) and self._fits()

    def reach(self) -> int:
        """On how many levels of the tree, from its project upwards, the job is entitled to its place now."""
        return self._round.entitled(self._job, self._size, self.freed)

    def may_ask(self, depth: int) -> bool:
        """Whether it may take from who meets it that many levels up: by its share, or by its guarantee."""
        if self.guaranteed:
            nearest = self._round.guaranteed(self._job, self._size, self.freed)
            if nearest is None or depth < nearest:
                return False
        return self.reach() >= depth

    def leaving(self) -> Iterator[Job]:
        """Who gives up all that it has."""
        return (self._round.state.jobs[id] for id, after in self._after.items() if after is None)

    def _fits(self) -> bool:
        if self._on or self._beside or self._node is not None:
            return self.place() is not None
        return self._round.board.fits(self._job, self._job.min_gpus)

    def place(self) -> tuple[GpuUuid, ...] | None:
        """Where the job fits now."""
        if self._on:
            return self._round.board.find_on(self._on)
        if self._beside:
            return self._round.board.find_beside(self._job, self._beside, self._job.min_gpus)
        if self._node is not None:
            return self._round.board.find_at(self._job, self._node, self._job.min_gpus)
        return self._round.board.find(self._job, self._job.min_gpus)

    def touches(self, id: JobId) -> bool:
        """Whether a running job has GPUs where the place is to be."""
        return self._node is None or bool(self._near(self._round.state.placements[id].gpus))

    def shrink(self, victim: Job, floor: int, depth: int = 0) -> float:
        """Have a running job go down towards ``floor`` GPUs, no further than is needed; GPUs freed.

        ``depth`` is on how many levels the job must be entitled to take from this one.
        """
        before = self._now(victim.id)
        if before is None or not self._helps(before.gpus):
            return 0.0
        keep = self._target(before, floor) if floor else 0
        if keep >= len(before.gpus):
            return 0.0
        after = None
        if keep:
            gpus = shrunk(self._round.state, before.gpus, keep)
            after = Placement(gpus=gpus, share=before.share)
        self._before.setdefault(victim.id, before)
        self._depth[victim.id] = depth
        self._swap(victim, before, after)
        return self._size_of(before) - self._size_of(after)

    def spare(self, id: JobId) -> None:
        """Let this one stay after all, if it was chosen."""
        if id in self._after:
            self._swap(self._round.state.jobs[id], self._after[id], self._before[id])
            del self._after[id]

    def freed_gpus(self) -> float:
        """GPUs that are given up, in all."""
        return sum(
            self._size_of(self._before[id]) - self._size_of(after) for id, after in self._after.items()
        )

    def thin_out(self, among: Container[JobId] | None = None) -> None:
        """Let everybody stay who needn't go, the last chosen first; ``among`` these alone."""
        for id in reversed([id for id in self._after if among is None or id in among]):
            victim, after = self._round.state.jobs[id], self._after[id]
            self._swap(victim, after, self._before[id])
            if self.is_enough():
                del self._after[id]
            else:
                self._swap(victim, self._before[id], after)

    def chosen(self) -> tuple[tuple[JobId, tuple[GpuUuid, ...]], ...]:
        """Who gives way, and what each goes on with; nothing for those that leave."""
        return tuple((id, () if after is None else after.gpus) for id, after in self._after.items())

    def undo(self) -> None:
        """Put everybody back on the board."""
        for id, after in self._after.items():
            self._restore(self._round.state.jobs[id], after, self._before[id])

    def _target(self, before: Placement, floor: int) -> int:
        """How many GPUs it keeps, when what it gives up is to be what the job lacks; broken ones don't count.

        All, when too few of its GPUs work to go on with.
        """
        gpus = self._round.state.gpus
        working = sum(1 for uuid in before.gpus if works(gpus[uuid]))
        if working < floor:
            return len(before.gpus)
        lacking = self._lacking(before.gpus)
        keep = max(floor, min(working, len(before.gpus) - lacking))
        while keep > floor and self._useful(before, keep) < lacking:
            keep -= 1
        return keep

    def _lacking(self, gpus: tuple[GpuUuid, ...]) -> int:
        """GPUs that the job lacks on this kind, or that its limits lack."""
        board = self._round.board
        if self._on:
            return len(self._on) - len(board.free_on(self._on))
        projects, most = self._round.tree.projects, 0
        for name in self._round.tree.paths[self._job.project]:
            limit = projects[name].limit_gpus
            if limit is not None:
                after = self._round.given[name] - self.freed[name] + self._size
                most = max(most, ceil(after - limit - SHARE_SLACK))
        near = self._near(gpus)
        free = board.free_beside(gpus) if self._node is None else board.room_beside(near)
        return max(self._job.min_gpus - free, most)

    def _useful(self, before: Placement, keep: int) -> int:
        rest = shrunk(self._round.state, before.gpus, keep)
        freed = self._near(uuid for uuid in before.gpus if uuid not in rest)
        return sum(1 for uuid in freed if self._round.board.pool_of(uuid) is not None)

    def _helps(self, gpus: tuple[GpuUuid, ...]) -> bool:
        board = self._round.board
        if self._beside and board.kind_of(gpus) is not board.kind_of(self._beside):
            return False
        return not board.is_promised(gpus) and board.is_useful(self._near(gpus), self._job)

    def _near(self, gpus: Iterable[GpuUuid]) -> tuple[GpuUuid, ...]:
        """Those of these GPUs that lie where the job may."""
        if not self._on and self._node is None:
            return tuple(gpus)
        all_gpus = self._round.state.gpus
        nodes: set[NodeName | None] = {all_gpus[uuid].node for uuid in self._on if uuid in all_gpus}
        nodes = nodes or {self._node}
        return tuple(uuid for uuid in gpus if all_gpus[uuid].node in nodes)

    def _now(self, id: JobId) -> Placement | None:
        return self._after[id] if id in self._after else self._round.placements.get(id)

    def _swap(self, victim: Job, before: Placement | None, after: Placement | None) -> None:
        self._restore(victim, before, after)
        self._after[victim.id] = after
        full = self._before[victim.id]
        self._depths[self._depth[victim.id]] += (after != full) - (before != full)
        more = self._size_of(before) - self._size_of(after)
        for name in self._round.tree.paths[victim.project]:
            self.freed[name] += more

    def _restore(self, victim: Job, before: Placement | None, after: Placement | None) -> None:
        board = self._round.board
        if before is not None:
            board.vacate(victim.id, before)
        if after is not None:
            board.occupy(victim, after)

    def _size_of(self, placement: Placement | None) -> float:
        return 0.0 if placement is None else held_gpus(placement, self._round.state.gpus)
