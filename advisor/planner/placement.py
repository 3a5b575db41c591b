"""Where a job could lie: whole GPUs, gangs packed on nodes, fractions beside jobs they may share with.

``Board`` is what is free during one decision: private to it, mutable, filled from a ``ClusterState``. It
finds places and keeps the books; whether somebody *should* get a place is decided elsewhere.

- A gang lies within one kind of GPU (model and memory), on the fullest node that fits, else on the fewest.
- Whole GPUs are devices. Of MIG instances a job gets one at most: if it asked for a part of a GPU or named
  their model, or where there are no devices.
- A fraction goes to the smallest MIG instance that is free and holds share and memory, and has that alone.
  Where there is none, to the fullest whole GPU that fits it by share and memory, and only beside jobs of the
  same user or jobs that allow it as well; asking for a fraction is allowing it.
- A GPU that was promised to the head of a queue is held back. It is lent only to a job that is sure to be
  gone by then.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from advisor.planner.free_gpus import Cell, Fractions, Kind, Pool, Tenant, kind_of, takes
from advisor.planner.reservations import JobReservations, Waiting
from advisor.planner.transition import memory_beside
from advisor.state.model import ClusterState, Gpu, Job, Placement
from analytics.thresholds import SHARED_RESERVE_BYTES
from collector.model import GpuUuid, JobId, NodeName


def may_share(one: Job, other: Job) -> bool:
    """Whether two jobs may lie on one GPU: one user's own, or both opted in."""
    if one.user is not None and one.user == other.user:
        return True
    return all(job.may_share or job.share < 1 for job in (one, other))


def share_on(job: Job, gpus: tuple[GpuUuid, ...], devices: Mapping[GpuUuid, Gpu]) -> float:
    """The share of each of these GPUs that the job is given: a MIG instance is nobody's in parts."""
    if job.share < 1 and all(uuid in devices and devices[uuid].part_of_device is not None for uuid in gpus):
        return 1.0
    return job.share


def works(gpu: Gpu) -> bool:
    """Whether a job may go on there after a resize: the GPU is healthy, and nobody else is on it."""
    return gpu.healthy and not gpu.occupied


def shrunk(state: ClusterState, gpus: tuple[GpuUuid, ...], keep: int) -> tuple[GpuUuid, ...]:
    """The ``keep`` GPUs to go on with: those of the nodes where the job has most, in their old order.

    Those that work come first.
    """
    by_node: defaultdict[NodeName, list[GpuUuid]] = defaultdict(list)
    for uuid in gpus:
        by_node[state.gpus[uuid].node].append(uuid)
    fullest_first = sorted(by_node.values(), key=lambda own: (-len(own), gpus.index(own[0])))
    ranked = sorted(
        (uuid for own in fullest_first for uuid in own), key=lambda uuid: not works(state.gpus[uuid])
    )
    keep_set = set(ranked[:keep])
    return tuple(uuid for uuid in gpus if uuid in keep_set)


_Kind = tuple[str, int, float, str]


def _kind(gpu: Gpu) -> _Kind:
    """What a pool is of, as it is sorted."""
    return _key(kind_of(gpu))


def _key(kind: Kind) -> _Kind:
    """The same of a pool's kind."""
    model, memory_bytes, part, cluster = kind
    return (model or "", memory_bytes or 0, part or 0.0, cluster or "")


class Board:
    """What is free, and what is held back for whom, during one decision."""

    def __init__(self, state: ClusterState) -> None:
        self._gpus = state.gpus
        self._cells: dict[GpuUuid, tuple[Pool, Cell]] = {}
        self._shared = Fractions()
        self._at: dict[tuple[NodeName, _Kind], Cell] = {}
        self._back = JobReservations()
        self._only_instances = all(gpu.part_of_device is not None for gpu in state.gpus.values())
        allocated = {uuid for placement in state.placements.values() for uuid in placement.gpus}
        self.pools = self._pools(state, allocated)
        for job, placement in state.placements.items():
            if placement.share < 1:
                self._share(state.jobs[job], placement)

    @property
    def free_gpus(self) -> int:
        """Whole GPUs that are free and not held back."""
        return sum(pool.free for pool in self.pools)

    def may_use(self, job: Job) -> list[Pool]:
        """The kinds of GPU the job can run on, its profile's own first, then where most is free."""
        own = job.profile.gpu_model if job.profile is not None else None
        fit = [pool for pool in self.pools if takes(job, pool.kind, only_instances=self._only_instances)]
        if len(fit) > 1:
            fit.sort(
                key=lambda pool: (
                    pool.part_of_device is not None,
                    pool.model != own or own is None,
                    -pool.free,
                    pool.model or "",
                )
            )
        return fit

    @property
    def all_free_gpus(self) -> int:
        """Whole GPUs that are free, those held back included."""
        return self.free_gpus + len(self._back.waiting)

    def find(self, job: Job, count: int) -> tuple[GpuUuid, ...] | None:
        """Where ``count`` GPUs for the job are free, nothing taken; ``None`` when there is no such place."""
        if job.share < 1:
            return self._find_instances(job, count) or self._find_shared(job, count)
        kinds = self._in_reach(job, count)
        for on_one_node in (True,) if job.on_one_node else (True, False) if job.prefers_node else (False,):
            for pool in kinds:
                pick = pool.pick(count, on_one_node=on_one_node)
                if pick is not None:
                    return pick
        return None

    def find_at(self, job: Job, node: NodeName, count: int) -> tuple[GpuUuid, ...] | None:
        """The same on this node, whole GPUs of one kind."""
        cells = (self._at.get((node, _key(pool.kind))) for pool in self._in_reach(job, count))
        fit = (cell for cell in cells if cell is not None and len(cell.free) >= count)
        return next((tuple(cell.free[:count]) for cell in fit), None)

    def fits(self, job: Job, count: int) -> bool:
        """Whether ``find`` would find a place."""
        if job.share < 1:
            return self.find(job, count) is not None
        kinds = self._in_reach(job, count)
        return any((pool.freest() if job.on_one_node else pool.free) >= count for pool in kinds)

    def is_useful(self, gpus: tuple[GpuUuid, ...], job: Job) -> bool:
        """Whether the job could use any of these GPUs if they were free: of its kind, promised to nobody."""
        pool = self.kind_of(gpus)
        return pool is not None and not self.is_promised(gpus) and pool in self.may_use(job)

    def is_promised(self, gpus: tuple[GpuUuid, ...]) -> bool:
        """Whether any of these GPUs is held back for somebody, now or as soon as it comes free."""
        return bool(self._back.heads(gpus))

    def free_beside(self, gpus: tuple[GpuUuid, ...]) -> int:
        """Free GPUs of the kind that these are of."""
        pool = self.kind_of(gpus)
        return 0 if pool is None else pool.free

    def find_reserved(self, job: Job, count: int, end_ms: int | None) -> tuple[GpuUuid, ...] | None:
        """The same, with GPUs that are held back for the job itself, or from ``end_ms`` on for others.

        ``end_ms`` is when the job is sure to have ended; ``None``: nobody knows.
        """
        lent = [uuid for uuid in self.reserved_for(job.id) if uuid in self._back.waiting]
        if end_ms is not None and end_ms <= self._back.latest_ms:
            lent = [uuid for uuid in self._back.waiting if self._back.may_lend(uuid, job.id, end_ms)]
        if not lent:
            return None
        for uuid in lent:
            pool, cell = self._cells[uuid]
            pool.put(cell, (uuid,))
        gpus = self.find(job, count)
        for uuid in lent:
            pool, cell = self._cells[uuid]
            pool.take(cell, (uuid,))
        return gpus

    def find_beside(self, job: Job, own: tuple[GpuUuid, ...], more: int) -> tuple[GpuUuid, ...] | None:
        """``more`` whole GPUs of the same kind for a job that runs on ``own``, on its own nodes first."""
        pool = self.pool_of(own[0])
        if pool is None or pool.part_of_device is not None or pool.free < more:
            return None
        near: list[GpuUuid] = []
        for cell in dict.fromkeys(self._cells[uuid][1] for uuid in own if uuid in self._cells):
            near += cell.free[: more - len(near)]
        if len(near) == more:
            return tuple(near)
        if job.on_one_node:
            return None
        self._take_gpus(near)  # so that the rest is not picked from among them
        rest = pool.pick(more - len(near))
        self._put_gpus(near)
        return None if rest is None else (*near, *rest)

    def room_beside(self, own: tuple[GpuUuid, ...], *, ever: bool = False) -> int:
        """GPUs of their kind that are free on the node of these; ``ever``: that there are beside them."""
        cell = next((self._cells[uuid][1] for uuid in own if uuid in self._cells), None)
        if cell is None:
            return 0
        return cell.size - len(own) if ever else len(cell.free)

    def find_on(self, before: tuple[GpuUuid, ...]) -> tuple[GpuUuid, ...] | None:
        """As many free GPUs of the same kind on each node that ``before`` lies on, the very same if free."""
        result = self.free_on(before)
        return result if len(result) == len(before) else None

    def free_on(self, before: tuple[GpuUuid, ...]) -> tuple[GpuUuid, ...]:
        """The same, as far as there are; in place of a broken one another of its node."""
        picked: list[GpuUuid] = []
        for uuid in before:
            gpu = self._gpus.get(uuid)
            cell = None if gpu is None else self._at.get((gpu.node, _kind(gpu)))
            if cell is None:
                continue
            others = (each for each in cell.free if each not in picked and each not in before)
            free = uuid if uuid in cell.free else next(others, None)
            if free is not None:
                picked.append(free)
        return tuple(picked)

    def occupy(self, job: Job, placement: Placement) -> None:
        """Take the place for the job; GPUs of it that may not be given away are not in the books."""
        if placement.share < 1:
            self._take_gpus(uuid for uuid in placement.gpus if uuid not in self._shared)
            self._share(job, placement)
        else:
            self._take_gpus(placement.gpus)

    def vacate(self, job: JobId, placement: Placement) -> None:
        """Give the place back; GPUs that may not be given away stay out."""
        if placement.share < 1:
            self._put_gpus(
                uuid for uuid in placement.gpus if self._shared.leave(uuid, job, is_open=self._is_open(uuid))
            )
        else:
            self._put_gpus(placement.gpus)

    def promise(self, job: JobId, start_ms: int, gpus: Iterable[GpuUuid]) -> None:
        """Hold these GPUs back for the head of a queue, now or as soon as they come free.

        Nothing else is held back for it then, and nothing that is held back for another.
        """
        self.fulfil(job)
        for uuid in self._back.promise(job, start_ms, gpus):
            self._shared.close(uuid)
            pool, cell = self._cells.get(uuid, (None, None))
            if pool is not None and cell is not None and uuid in cell.free:
                pool.take(cell, (uuid,))
                self._back.wait(uuid, pool)

    def fulfil(self, job: JobId) -> None:
        """Hold nothing back for this job any more."""
        for uuid in self._back.reserved_for(job):
            if uuid in self._back.waiting:
                self._back.end_wait(uuid)
                pool, cell = self._cells[uuid]
                pool.put(cell, (uuid,))
        for uuid in self._back.fulfil(job):
            if uuid in self._cells:
                self._shared.open(uuid)

    def reserved_for(self, job: JobId) -> tuple[GpuUuid, ...]:
        """The GPUs that are held back for this job, or will be as soon as they come free."""
        return self._back.reserved_for(job)

    def promised_heads(self, gpus: Iterable[GpuUuid]) -> tuple[JobId, ...]:
        """The heads of queues that any of these GPUs is held back for, now or as soon as it comes free."""
        return self._back.heads(gpus)

    @property
    def released(self) -> int:
        """How often something was held back no longer."""
        return self._back.released

    def waiting_for(self, job: Job, names: int) -> Waiting:
        """Those that are held back of the free GPUs it could use; ``names`` heads at most by name."""
        return self._back.waiting_for(job.id, self.may_use(job), names)

    def is_free(self, uuid: GpuUuid) -> bool:
        """Whether the whole GPU is free, held back or not."""
        if uuid in self._back.waiting:
            return True
        return uuid in self._cells and uuid in self._cells[uuid][1].free

    def free_in(self, pool: Pool, most: int) -> list[GpuUuid]:
        """Up to ``most`` whole free GPUs of a kind, the last first, those held back left out."""
        return pool.last(most)

    def pool_of(self, uuid: GpuUuid) -> Pool | None:
        """The kind of a GPU that may be given away."""
        result = self._cells.get(uuid)
        return None if result is None else result[0]

    def kind_of(self, gpus: Iterable[GpuUuid]) -> Pool | None:
        """The kind of the first of these GPUs that may be given away; a broken one is of none."""
        return next((self._cells[uuid][0] for uuid in gpus if uuid in self._cells), None)

    def _in_reach(self, job: Job, count: int) -> list[Pool]:
        """The kinds of GPU that the job can have ``count`` of: of MIG instances one at most."""
        return [pool for pool in self.may_use(job) if count == 1 or pool.part_of_device is None]

    def _pools(self, state: ClusterState, allocated: set[GpuUuid]) -> list[Pool]:
        pools: dict[_Kind, Pool] = {}
        blocked = {name for name, node in state.nodes.items() if not node.schedulable}
        for gpu in state.gpus.values():
            # Such GPUs are in no book at all: whatever lies on them can neither be taken nor be given back.
            if not gpu.healthy or gpu.occupied or gpu.protected or gpu.node in blocked:
                continue
            kind = _kind(gpu)
            cell = self._at.get((gpu.node, kind))
            if cell is None:
                pool = pools.get(kind)
                if pool is None:
                    pool = pools[kind] = Pool(kind_of(gpu))
                cell = self._at[gpu.node, kind] = Cell(gpu.node, 0)
                pool.cells.append(cell)
            self._cells[gpu.uuid] = (pools[kind], cell)
            pools[kind].size += 1
            cell.size += 1
            if gpu.uuid not in allocated:
                cell.free.append(gpu.uuid)
        for pool in pools.values():
            pool.cells.sort(key=lambda each: each.node)
            pool.settle()
        return [pools[kind] for kind in sorted(pools)]

    def _take_gpus(self, gpus: Iterable[GpuUuid]) -> None:
        by_cell: dict[Cell, list[GpuUuid]] = {}
        for uuid in gpus:
            if uuid not in self._cells:
                continue
            if uuid in self._back.waiting:
                self._back.end_wait(uuid)
            else:
                by_cell.setdefault(self._cells[uuid][1], []).append(uuid)
        for cell, own in by_cell.items():
            self._cells[own[0]][0].take(cell, own)

    def _put_gpus(self, gpus: Iterable[GpuUuid]) -> None:
        by_cell: dict[Cell, list[GpuUuid]] = {}
        for uuid in gpus:
            if uuid not in self._cells:
                continue
            if uuid in self._back:
                self._back.wait(uuid, self._cells[uuid][0])
            else:
                by_cell.setdefault(self._cells[uuid][1], []).append(uuid)
        for cell, own in by_cell.items():
            self._cells[own[0]][0].put(cell, own)

    def _share(self, job: Job, placement: Placement) -> None:
        for uuid in placement.gpus:
            need = memory_beside(job, self._gpus[uuid], placement.share)
            tenant = Tenant(job=job, share=placement.share, memory_bytes=need)
            self._shared.enter(uuid, tenant, is_open=self._is_open(uuid))

    def _is_open(self, uuid: GpuUuid) -> bool:
        return uuid in self._cells and uuid not in self._back

    def _find_instances(self, job: Job, count: int) -> tuple[GpuUuid, ...] | None:
        """A free MIG instance of the smallest kind that holds the job's share and memory."""
        if count > 1:
            return None
        kinds = [pool for pool in self.may_use(job) if pool.part_of_device is not None]
        kinds.sort(key=lambda pool: (pool.part_of_device, pool.memory_bytes or 0, pool.model or ""))
        return next((pick for pool in kinds if (pick := pool.pick(count)) is not None), None)

    def _find_shared(self, job: Job, count: int) -> tuple[GpuUuid, ...] | None:
        kinds = [pool for pool in self.may_use(job) if pool.part_of_device is None]
        if job.on_one_node and count > 1:
            return self._find_shared_on_node(job, count, kinds)
        picked: list[GpuUuid] = []
        for uuid in self._shared.with_room(job.share):
            if len(picked) == count:
                break
            if self._cells[uuid][0] in kinds and self._fits_beside(job, self._gpus[uuid]):
                picked.append(uuid)
        if len(picked) == count:
            return tuple(picked)
        rest = (pool.pick(count - len(picked)) for pool in kinds)
        more = next((pick for pick in rest if pick is not None), None)
        return None if more is None else (*picked, *more)

    def _find_shared_on_node(self, job: Job, count: int, kinds: list[Pool]) -> tuple[GpuUuid, ...] | None:
        """Parts of ``count`` GPUs of one node, of one kind, where most of them are shared already."""
        shared: defaultdict[Cell, list[GpuUuid]] = defaultdict(list)
        for uuid in self._shared.with_room(job.share):
            if self._fits_beside(job, self._gpus[uuid]):
                shared[self._cells[uuid][1]].append(uuid)
        cells = (cell for pool in kinds for cell in pool.cells)
        fit = [cell for cell in cells if len(shared.get(cell, ())) + len(cell.free) >= count]
        best = max(fit, key=lambda cell: len(shared.get(cell, ())), default=None)
        return None if best is None else tuple((*shared.get(best, ()), *best.free)[:count])

    def _fits_beside(self, job: Job, gpu: Gpu) -> bool:
        need = memory_beside(job, gpu, job.share)
        if need is None or gpu.memory_bytes is None:
            return False
        for tenant in self._shared.tenants(gpu.uuid):
            if tenant.memory_bytes is None or not may_share(job, tenant.job):
                return False
            need += tenant.memory_bytes
        return need <= gpu.memory_bytes - SHARED_RESERVE_BYTES
