"""Which promises of earlier rounds stand, and whom they bind. Pure.

A promise was made to the head of a queue: to start on these GPUs, no later than then. It is kept while its
GPUs work and whoever is on them is bound to end by then. No GPU is promised twice: where a machine was away
for a while and its GPUs' other halves were promised to somebody else meanwhile, who comes first keeps his
promise, and the other is made a new one.

A promise to a head beyond its quota binds those who rank behind it. Who asks for what its own quota
guarantees ranks before it, and is not held up by it: neither GPUs that are held back free nor those who run
on promised ones are out of his reach. Between two heads only the levels of the tree below their common
ancestor count, as everywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from advisor.actions import HoldForJob
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.state.model import Job, ProjectName, Reservation, Telemetry
from collector.model import GpuUuid, JobId


def end_by(job: Job, start_ms: int) -> int | None:
    """When a job that starts at ``start_ms`` has surely ended; ``None`` when nothing bounds it."""
    return None if job.limit_s is None else start_ms + round(job.limit_s * 1000)


def sure_end(round: WorkingState, id: JobId) -> int | None:
    """When a running job has surely ended; ``None`` when nothing bounds it, or its bound has gone by."""
    job = round.state.jobs[id]
    started_ms = round.now_ms if id in round.new else job.started_ms
    end_ms = None if started_ms is None else end_by(job, started_ms)
    return None if end_ms is None or end_ms <= round.now_ms else end_ms


def is_unseen(round: WorkingState, reservation: Reservation) -> bool:
    """Whether a promise cannot be judged, because a GPU of it is not measured; it stands until it is due."""
    if reservation.start_ms < round.now_ms:
        return False
    result = (round.state.gpus.get(uuid) for uuid in reservation.gpus)
    return any(gpu is not None and gpu.telemetry is Telemetry.UNKNOWN for gpu in result)


class Promises:
    """The promises that stand in one round. Making it holds their GPUs back on the round's board."""

    def __init__(self, round: WorkingState) -> None:
        self._round = round
        self._on: dict[JobId, tuple[JobId, ...]] = {}
        self._kept: dict[JobId, Reservation] = {}
        self._lost: set[JobId] = set()
        if round.state.reservations:
            self._keep()

    def set_aside(self, job: Job) -> Mapping[JobId, Reservation]:
        """Hold nothing back for the heads whose promises do not bind this job; these promises."""
        if not self._kept or not self.is_guaranteed(job):
            return {}
        board = self._round.board
        aside = {
            head: reservation
            for head, reservation in self._kept.items()
            if board.reserved_for(head) == reservation.gpus and not self._binds(head, reservation, job)
        }
        for head in aside:
            board.fulfil(head)
        return aside

    def restore(
        self, aside: Mapping[JobId, Reservation], gpus: Iterable[GpuUuid] = (), until_ms: int | None = None
    ) -> None:
        """Hold back again what was set aside, but for promises whose GPUs were taken for longer than that.

        ``until_ms`` is when who took them is sure to be gone; ``None``: nobody knows.
        """
        lost = set(gpus)
        for head, reservation in aside.items():
            in_time = until_ms is not None and until_ms <= reservation.start_ms
            if in_time or lost.isdisjoint(reservation.gpus):
                self._round.board.promise(head, reservation.start_ms, reservation.gpus)
            else:
                del self._kept[head]
                self._lost.add(head)

    def is_guaranteed(self, job: Job) -> bool:
        """Whether its own project's quota covers the job beside all that the project has."""
        return self._is_within(job.project, job.min_gpus * job.share)

    def take_back(self) -> None:
        """Say of each promise that is not kept that it is none any more, unless a new one was made.

        What cannot be judged because a GPU is not measured, or not there just now, stands until it is due;
        what is held for a job for which others give way was promised by nobody.
        """
        round = self._round
        anew = {step.job for step in round.steps if isinstance(step, HoldForJob)}
        for head, reservation in round.state.reservations.items():
            waits = head in round.state.jobs and head not in round.placements
            if head in anew or head in self._kept or not waits or head in round.state.begun:
                continue
            away = any(uuid not in round.state.gpus for uuid in reservation.gpus)
            unknown = is_unseen(round, reservation) or (away and reservation.start_ms >= round.now_ms)
            if head in self._lost or not unknown:
                reason = "what was promised to it cannot be kept: its GPUs are not free by then"
                round.promise(HoldForJob(job=head, start_ms=round.now_ms, gpus=(), reason=reason))

    def _keep(self) -> None:
        round, last = self._round, self._last_ends()
        sound = {
            head: reservation
            for head, reservation in round.state.reservations.items()
            if head in round.state.jobs
            and head not in round.placements
            and reservation.start_ms >= round.now_ms
            and all(
                round.board.pool_of(uuid) is not None and last.get(uuid, 0.0) <= reservation.start_ms
                for uuid in reservation.gpus
            )
        }
        for head in sorted(sound, key=self._rank):
            reservation = sound[head]
            if not round.board.is_promised(reservation.gpus):
                round.board.promise(head, reservation.start_ms, reservation.gpus)
                self._kept[head] = reservation

    def _last_ends(self) -> dict[GpuUuid, float]:
        """When each promised GPU in use is free for sure; infinity when nothing bounds that."""
        round, on = self._round, defaultdict[GpuUuid, list[JobId]](list)
        promised = {uuid for reservation in round.state.reservations.values() for uuid in reservation.gpus}
        last: dict[GpuUuid, float] = {}
        for id, placement in round.placements.items():
            for uuid in promised.intersection(placement.gpus):
                end_ms = sure_end(round, id)
                last[uuid] = max(last.get(uuid, 0.0), float("inf") if end_ms is None else end_ms)
                on[uuid].append(id)
        for head, reservation in round.state.reservations.items():
            self._on[head] = tuple({id: None for uuid in reservation.gpus for id in on.get(uuid, ())})
        return last

    def _rank(self, head: JobId) -> tuple[bool, bool, int, int, str]:
        """Sorts first whose promise is kept where two were promised one GPU."""
        job, paths = self._round.state.jobs[head], self._round.tree.paths
        beyond = not self._is_covered(head, paths[job.project])
        return (head not in self._round.state.begun, beyond, -job.priority, job.submitted_ms, head)

    def _binds(self, head: JobId, reservation: Reservation, asker: Job) -> bool:
        """Whether the asker must leave alone what is promised to the head."""
        paths, theirs = self._round.tree.paths, self._round.state.jobs[head].project
        common = set(paths[asker.project]) & set(paths[theirs])
        if theirs == asker.project or head in self._round.state.begun:
            return True
        size = asker.min_gpus * asker.share
        if not all(self._is_within(name, size) for name in paths[asker.project] if name not in common):
            return True
        return self._is_covered(head, [name for name in paths[theirs] if name not in common])

    def _is_covered(self, head: JobId, levels: Iterable[ProjectName]) -> bool:
        """Whether a quota of these levels covers the head, once those on its GPUs have ended."""
        round = self._round
        job, gpus = round.state.jobs[head], set(round.state.reservations[head].gpus)
        going: defaultdict[ProjectName, float] = defaultdict(float)
        for id in self._on.get(head, ()):
            placement = round.placements.get(id)
            if placement is not None:
                for name in round.tree.paths[round.state.jobs[id].project]:
                    going[name] += len(gpus.intersection(placement.gpus)) * placement.share
        return any(self._is_within(name, job.min_gpus * job.share - going[name]) for name in levels)

    def _is_within(self, name: ProjectName, more: float) -> bool:
        return self._round.given[name] + more <= self._round.tree.quotas[name] + SHARE_SLACK
