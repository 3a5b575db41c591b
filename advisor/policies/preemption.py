"""Who gives way when a waiting job finds no room: by which right, in which order, and how few. Pure.

The right. A job's project must be *entitled* to it: with the job, no level of its tree, up to where it meets
its victim's, is above its fair share. It takes from a project that is above its own fair share, and there
only what no quota covers. The two are compared just below their common ancestor. So whoever takes ends at a
saturation (given over fair share) of at most 1, and whoever loses was above 1: nobody can take back what was
taken from him (KAI, Kueue). What the chosen give up counts as returned: a sibling's part of a department
first, then what the department deserves of strangers. Within one project a job takes from those of strictly
lower priority, quota or not, and from elastic siblings what they have beyond their smallest world.

The order (docs/decide.md): first elastic jobs shrink; then held-idle jobs are paused, or requeued when they
cannot be; then others are requeued; last what the quota of the job's own project covers. Within each: the
lowest priority, the most idle GPU-hours, then the set that does the least harm (work lost, and GPUs beyond
need). The set is thinned from its end: nobody gives way who needn't.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from advisor.actions import Pause, Requeue
from advisor.planner.limits import Order
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.policies.preemption_candidates import (
    Candidate,
    Candidates,
    Line,
    levels,
    lost_gpu_hours,
    way_out,
)
from advisor.policies.preemption_moves import elsewhere, go_on, may_move
from advisor.policies.preemption_reasons import SearchResult, Short, eviction_reason, start_gpus, why_short
from advisor.policies.preemption_trial import PreemptionTrial
from advisor.policies.promised_starts import Promises, end_by
from advisor.state.model import ActionClass, Job, Placement, Reservation
from collector.model import GpuUuid, JobId, NodeName

PEERS = 64
"""Of so many equals the least harm is looked for: enough for a choice, and few enough to try."""
BEYOND_H = 4.0
"""Hours that a GPU given up counts beside the work lost: over so long gains are reckoned elsewhere."""
NODES = 64
"""On so many nodes room is looked for, for a job that must lie on one: each is a search of its own."""
TRIES = 4
"""How often moves alone are tried, each time without those who found no place elsewhere."""


@dataclass(slots=True)
class _Search:
    """How a search for room went: whom it asked, whether it was cut short by the bound on disturbances, and
    how many could not give way because the head of a queue was promised their GPUs. ``reach``: on how many
    levels the job was entitled to its place in the end."""

    may_reclaim: bool
    movable: bool = False
    staying: set[JobId] = field(default_factory=set)
    line: Line = field(default_factory=Line)
    reach: int = 0
    braked: bool = False
    promised: Counter[JobId] = field(default_factory=Counter)

    def may_go(self, victim: Job) -> bool:
        """Whether a job may leave its GPUs in this search."""
        return not self.movable or (may_move(victim) and victim.id not in self.staying)

    def note(self, other: "_Search") -> None:
        """Keep for the refusal what another search for the same job met."""
        self.braked |= other.braked
        self.promised |= other.promised
        self.line = other.line

    def result(self, entitled: int) -> SearchResult:
        """Whom it asked and how it went, for the refusal."""
        return SearchResult(
            may_reclaim=self.may_reclaim,
            entitled=entitled,
            reach=self.reach,
            sources=self.line.sources,
            braked=self.braked,
            promised=self.promised,
        )


class Reclaimer:
    """Makes room for waiting jobs out of what runs; reads each project's running jobs once."""

    def __init__(self, round: WorkingState, promises: Promises) -> None:
        self._round, self._promises = round, promises
        self._victims = Candidates(round)
        self._hopeless: dict[tuple[object, ...], Short] = {}

    def make_room(
        self, job: Job, *, may_reclaim: bool = True, beside: tuple[GpuUuid, ...] = ()
    ) -> tuple[GpuUuid, ...] | Short:
        """Have others give way until the job fits, and say where; or say why not: then nothing was changed.

        ``beside``: the GPUs of a running job that is to have more of their kind; ``job`` says how many.

        Promises that do not bind the job are as if they were not made. Those whose GPUs it takes are over.
        """
        round, board = self._round, self._round.board
        entitled = round.entitled(job, start_gpus(job) * job.share) if may_reclaim else 0
        own_hold = board.reserved_for(job.id)
        kind = board.kind_of(beside) if beside else None
        shape = (
            *_shape(job),
            entitled,
            may_reclaim,
            job.id in round.state.begun,
            own_hold,
            bool(beside),
            kind,
        )
        # Jobs of one shape find the same: where one looked in vain, the next need not look.
        if shape in self._hopeless:
            return self._hopeless[shape]
        # What is held back for the job itself is free to it while room is looked for.
        own = round.state.reservations.get(job.id)
        board.fulfil(job.id)
        aside = self._promises.set_aside(job) if may_reclaim else {}
        nodes, search = self._nodes(job, beside), _Search(may_reclaim=may_reclaim)
        trials = [
            (room, dict[JobId, Placement]())
            for node in nodes
            if (room := self._room(job, search, beside, node, enough=bool(aside))) is not None
        ]
        # First by those alone who go on elsewhere; only then is anybody put back in line.
        for movable in (True, False) if may_reclaim and not trials else ():
            rooms = (self._guaranteed_room(job, search, beside, node, movable=movable) for node in nodes)
            trials = trials or [each for each in rooms if each is not None]
        if trials:
            return self._settled(job, *min(trials, key=lambda each: self._cost(each[0])), aside)
        self._promises.restore(aside)
        if own_hold:
            board.promise(job.id, round.now_ms if own is None else own.start_ms, own_hold)
        self._hopeless[shape] = why_short(round, job, search.result(entitled))
        return self._hopeless[shape]

    def _nodes(self, job: Job, beside: tuple[GpuUuid, ...]) -> tuple[NodeName | None, ...]:
        """The nodes to look for room on, one by one; ``None`` alone for a job that may lie on several.

        Those first that lack fewest GPUs, none where not enough could ever give way.
        """
        round, board = self._round, self._round.board
        if not job.on_one_node or job.share < 1 or job.paused_on or (job.min_gpus == 1 and not beside):
            return (None,)
        if beside:
            return (round.state.gpus[beside[0]].node,)
        might: Counter[NodeName] = Counter()
        for id, placement in round.placements.items():
            runs = round.state.jobs[id]
            if (runs.preemptible or runs.elastic) and placement.share == 1:
                might.update(round.state.gpus[uuid].node for uuid in placement.gpus)
            elif runs.preemptible:
                might.update({round.state.gpus[uuid].node for uuid in placement.gpus})
        cells = [
            (job.min_gpus - len(cell.free), cell.node)
            for pool in board.may_use(job)
            for cell in pool.cells
            if cell.size >= job.min_gpus and len(cell.free) + might[cell.node] >= job.min_gpus
        ]
        # The nodes that lack fewest GPUs; more than so many are not tried.
        return tuple(dict.fromkeys(node for _, node in sorted(cells)))[:NODES] or (None,)

    def _cost(self, room: PreemptionTrial) -> tuple[bool, float]:
        """Sorts first where nobody leaves, then where least is lost."""
        return any(True for _ in room.leaving()), self._harm(room)

    def _room(
        self,
        job: Job,
        search: _Search,
        beside: tuple[GpuUuid, ...],
        node: NodeName | None,
        *,
        enough: bool,
    ) -> PreemptionTrial | None:
        """Who gives way by shares and priorities; nobody where it is ``enough`` to set promises aside."""
        room, own = PreemptionTrial(self._round, job, beside=beside, node=node), _Search(search.may_reclaim)
        result = room if (enough and room.is_enough()) or self._search(job, room, own) else None
        if result is None:
            search.reach = max(search.reach, room.reach())
            search.note(own)
        room.undo()
        return result

    def _settled(
        self,
        job: Job,
        room: PreemptionTrial,
        places: Mapping[JobId, Placement],
        aside: Mapping[JobId, Reservation],
    ) -> tuple[GpuUuid, ...]:
        """Take the steps, and say where there is room now."""
        self._commit(job, room, places)
        place = room.place()
        assert place is not None, "room was made for the job"
        self._promises.restore(aside, place, end_by(job, self._round.now_ms))
        return place

    def _guaranteed_room(
        self,
        job: Job,
        before: _Search,
        beside: tuple[GpuUuid, ...],
        node: NodeName | None = None,
        *,
        movable: bool,
    ) -> tuple[PreemptionTrial, dict[JobId, Placement]] | None:
        """A place that its guarantee gives it out of borrowers who are within their fair shares.

        There are GPUs enough for all then, only none where the job can run. ``movable``: by those alone
        who shrink, or go on elsewhere; else whoever finds no place elsewhere is put back in line.
        """
        size, quotas = start_gpus(job) * job.share, self._round.tree.quotas
        if all(quotas[name] < size - SHARE_SLACK for name in self._round.tree.paths[job.project]):
            return None
        staying: set[JobId] = set()
        for _ in range(TRIES if movable else 1):
            room = PreemptionTrial(self._round, job, guaranteed=True, beside=beside, node=node)
            search = _Search(may_reclaim=True, movable=movable, staying=staying)
            if not self._search(job, room, search):
                room.undo()
                before.note(search)
                return None
            places = elsewhere(self._round, job, room)
            lost = {each.id for each in room.leaving()} - places.keys()
            if not movable or not lost:
                return room, places
            staying |= lost
        return None

    def _search(self, job: Job, room: PreemptionTrial, search: _Search) -> bool:
        """Let candidates give way one by one, first the first in order, until the job fits; then thin out.

        What a sibling gives up counts as returned to their parent, so strangers may come after it.
        """
        round = self._round
        bound = round.limits.actions_per_hour
        braked = bound is not None and round.disturbed >= bound and job.id not in round.state.begun
        reach, guaranteed = room.reach() if search.may_reclaim else 0, room.guaranteed
        search.line.join(self._victims.sources(job, reach, guaranteed=guaranteed))
        turn, chosen = iter(search.line), list[Candidate]()
        for victim in turn:
            if not room.touches(victim.job.id) or not self._may_ask(victim, job, room, search):
                continue
            if victim.floor == 0 and braked:
                search.braked = True
                break
            freed = self._take(victim, job, room)
            if freed:
                chosen.append(victim)
            if freed and room.is_enough():
                room.thin_out()
                if victim.floor == 0:
                    rank, others = victim.rank, islice(turn, PEERS)
                    peers = [each for each in (*chosen, *others) if each.rank == rank]
                    peers = [each for each in peers if room.touches(each.job.id)]
                    self._least_harm(
                        job,
                        room,
                        [each for each in peers if self._may_ask(each, job, room, search, late=True)],
                    )
                return True
            if freed and search.may_reclaim:
                search.line.join(self._victims.sources(job, room.reach(), guaranteed=guaranteed))
        return False

    def _least_harm(self, job: Job, room: PreemptionTrial, peers: list[Candidate]) -> None:
        """Of sets of equals have the one give way that does the least harm, what was found so far among them.

        Tried are those who lose least, the smallest, and who comes nearest to what is lacking.
        """
        if len(peers) > PEERS:
            return
        sizes = {each.job.id: self._round.state.placements[each.job.id].size_gpus for each in peers}
        current = {each.job.id for each in peers if each.job.id in {id for id, _ in room.chosen()}}
        best = (self._harm(room), [each for each in peers if each.job.id in current])
        lacking = sum(sizes[each.job.id] for each in best[1])
        lost = {each.job.id: lost_gpu_hours(self._round, each.job) for each in peers}
        orders = (
            sorted(peers, key=lambda each: (lost[each.job.id], sizes[each.job.id], each.job.id)),
            sorted(peers, key=lambda each: (sizes[each.job.id], lost[each.job.id], each.job.id)),
            *([each] for each in peers if sizes[each.job.id] <= lacking),
        )
        for order in orders:
            if self._again(job, room, peers, order):
                best = min(best, (self._harm(room), list(order)), key=lambda each: each[0])
        self._again(job, room, peers, best[1])

    def _again(
        self, job: Job, room: PreemptionTrial, peers: list[Candidate], order: Iterable[Candidate]
    ) -> bool:
        """Have none of these give way but the first in this order, until the job fits; whether it does."""
        for each in peers:
            room.spare(each.job.id)
        for each in order:
            if room.is_enough():
                break
            if self._may_lose(each, job, room):
                self._take(each, job, room)
        if not room.is_enough():
            return False
        room.thin_out({each.job.id for each in peers})
        return True

    def _harm(self, room: PreemptionTrial) -> float:
        """GPU-hours: the work that is lost, and the GPUs given up, most of which wait for their next job."""
        lost = sum(lost_gpu_hours(self._round, victim) for victim in room.leaving())
        return lost + BEYOND_H * room.freed_gpus()

    def _take(self, victim: Candidate, job: Job, room: PreemptionTrial) -> float:
        return room.shrink(victim.job, victim.floor, self._depth(victim, job))

    def _depth(self, victim: Candidate, job: Job) -> int:
        """On how many levels of its tree the job must be entitled to take from this one."""
        paths = self._round.tree.paths
        return 0 if victim.level is None else levels(paths[victim.job.project], paths[job.project])[1]

    def _may_ask(
        self, victim: Candidate, job: Job, room: PreemptionTrial, search: _Search, *, late: bool = False
    ) -> bool:
        """Whether it may be asked now; ``late``: once others of its level stay in its place."""
        if victim.floor == 0 and (victim.job.id in self._round.resized or not search.may_go(victim.job)):
            return False
        depth = self._depth(victim, job)
        if room.guaranteed and depth and not room.may_ask(depth):
            return False
        if not late and not self._may_lose(victim, job, room):
            return False
        heads = self._round.board.promised_heads(self._round.state.placements[victim.job.id].gpus)
        search.promised.update(heads)
        return not heads

    def _may_lose(self, victim: Candidate, job: Job, room: PreemptionTrial) -> bool:
        if victim.job.id == job.id:
            return False
        if victim.level is None:
            if job.id in self._round.placements:  # nobody shrinks for a sibling that is only to grow
                return False
            rank = victim.job.priority - job.priority
            settled = self._round.limits.order is Order.GOODPUT  # sizes of equals were weighed already
            return rank <= 0 if victim.floor and not settled else rank < 0
        if victim.level in self._round.tree.paths[job.project]:
            return False
        excess = self._round.given[victim.level] - room.freed[victim.level]
        return room.guaranteed or excess > self._round.fair[victim.level] + SHARE_SLACK

    def _commit(self, job: Job, room: PreemptionTrial, places: Mapping[JobId, Placement]) -> None:
        for id, gpus in room.chosen():
            victim = self._round.state.jobs[id]
            if gpus:
                does = "grow to what it is guaranteed" if job.id in self._round.placements else "start"
                self._round.resize(
                    victim, gpus, f"shrinks so that {job.id} of {job.project} can {does}", job.id
                )
                continue
            self._victims.gone.add(id)
            if id in places:
                go_on(self._round, victim, places[id], job)
                continue
            reason = eviction_reason(self._round, victim, job, guaranteed=room.guaranteed)
            if way_out(victim) is Pause:
                self._round.give_way(
                    Pause(job=id, for_job=job.id, action=ActionClass.FAIR_SHARE, reason=reason)
                )
            else:
                self._round.give_way(Requeue(job=id, for_job=job.id, reason=reason))


def _shape(job: Job) -> tuple[object, ...]:
    """What a search for room looks at of a job: two of one shape find the same."""
    return (
        job.project,
        job.priority,
        job.min_gpus,
        job.share,
        job.gpu_models,
        job.topology,
        job.memory_bytes,
        job.paused_on,
        (job.user, job.may_share) if job.share < 1 else None,
    )
