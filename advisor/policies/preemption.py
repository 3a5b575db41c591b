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
lowest priority, the most idle GPU-hours, the most recently started. Then the set is thinned from its end:
nobody gives way who needn't.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from advisor.actions import Pause, Requeue
from advisor.planner.limits import Order
from advisor.planner.plan import Rule
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.policies.preemption_candidates import Candidate, Candidates, Line, levels, way_out
from advisor.policies.preemption_trial import PreemptionTrial
from advisor.policies.promised_starts import Promises, gone_by
from advisor.state.model import ActionClass, Job, ProjectName, Use
from analytics import text
from collector.model import GpuUuid, JobId

NAMED = 2
"""Of more heads of queues only the number is said."""
SOON = (Rule.MIN_RUNTIME, Rule.COOLDOWN, Rule.IN_FLIGHT, Rule.RATE)
"""Objections that time alone removes."""


PASSING: Mapping[Rule, str] = {
    Rule.MIN_RUNTIME: "their minimal run time being over",
    Rule.COOLDOWN: "their rest after a disturbance being over",
    Rule.IN_FLIGHT: "the end of what is under way on their machine",
    Rule.RATE: "fewer disturbances within the hour than the bound",
}
"""What the passing of time brings about, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """Why no room could be made; ``soon`` when time alone will make it."""

    rule: Rule
    reason: str
    would_change: str
    entitled: bool
    soon: bool = False


@dataclass(slots=True)
class _Search:
    """How a search for room went: whom it asked, whether it was cut short by the bound on disturbances, and
    how many could not give way because the head of a queue was promised their GPUs. ``reach``: on how many
    levels the job was entitled to its place in the end."""

    may_reclaim: bool
    line: Line = field(default_factory=Line)
    reach: int = 0
    braked: bool = False
    promised: Counter[JobId] = field(default_factory=Counter)


class Reclaimer:
    """Makes room for waiting jobs out of what runs; reads each project's running jobs once."""

    def __init__(self, round: WorkingState, promises: Promises) -> None:
        self._round, self._promises = round, promises
        self._victims = Candidates(round)
        self._hopeless: dict[tuple[object, ...], Short] = {}

    def make_room(self, job: Job, *, may_reclaim: bool = True) -> tuple[GpuUuid, ...] | Short:
        """Have others give way until the job fits, and say where; or say why not: then nothing was changed.

        Promises that do not bind the job are as if they were not made. Those whose GPUs it takes are over.
        """
        round, board = self._round, self._round.board
        entitled = round.entitled(job, wanted_gpus(job) * job.share) if may_reclaim else 0
        held = board.held_for(job.id)
        shape = (*_shape(job), entitled, may_reclaim, job.id in round.state.begun, held)
        if shape in self._hopeless:
            return self._hopeless[shape]
        own = round.state.reservations.get(job.id)
        board.fulfil(job.id)
        aside = self._promises.set_aside(job) if may_reclaim else {}
        room, search = PreemptionTrial(round, job), _Search(may_reclaim=may_reclaim)
        if (aside and room.is_enough()) or self._search(job, room, search):
            self._commit(job, room)
            place = room.place()
            assert place is not None, "room was made for the job"
            self._promises.restore(aside, place, gone_by(job, round.now_ms))
            return place
        search.reach = room.reach()
        room.undo()
        self._promises.restore(aside)
        if held and own is not None:
            board.promise(job.id, own.start_ms, held)
        self._hopeless[shape] = self._why(job, entitled, search)
        return self._hopeless[shape]

    def _search(self, job: Job, room: PreemptionTrial, search: _Search) -> bool:
        """Let candidates give way one by one, first the first in order, until the job fits; then thin out.

        What a sibling gives up counts as returned to their parent, so strangers may come after it.
        """
        round, mine = self._round, self._round.tree.paths[job.project]
        bound = round.limits.actions_per_hour
        braked = bound is not None and round.disturbed >= bound and job.id not in round.state.begun
        taken: defaultdict[ProjectName, float] = defaultdict(float)
        search.line.join(self._victims.sources(job, room.reach() if search.may_reclaim else 0))
        for victim in search.line:
            if victim.floor == 0 and victim.job.id in round.resized:
                continue
            if not self._may_lose(victim, job, taken):
                continue
            heads = round.board.promised_heads(round.state.placements[victim.job.id].gpus)
            if heads:
                search.promised.update(heads)
                continue
            if victim.floor == 0 and braked:
                search.braked = True
                break
            theirs = round.tree.paths[victim.job.project]
            freed = room.shrink(
                victim.job, victim.floor, 0 if victim.level is None else levels(theirs, mine)[1]
            )
            if victim.level is not None:
                taken[victim.level] += freed
            if freed and room.is_enough():
                room.thin_out()
                return True
            if freed and search.may_reclaim:
                search.line.join(self._victims.sources(job, room.reach()))
        return False

    def _may_lose(self, victim: Candidate, job: Job, taken: dict[ProjectName, float]) -> bool:
        if victim.level is None:
            rank = victim.job.priority - job.priority
            settled = self._round.limits.order is Order.GOODPUT  # sizes of equals were weighed already
            return rank <= 0 if victim.floor and not settled else rank < 0
        if victim.level in self._round.tree.paths[job.project]:
            return False
        left = self._round.given[victim.level] - taken[victim.level]
        return left > self._round.fair[victim.level] + SHARE_SLACK

    def _commit(self, job: Job, room: PreemptionTrial) -> None:
        room.undo()
        for id, kept in room.chosen():
            victim = self._round.state.jobs[id]
            if kept:
                self._round.resize(
                    victim, kept, f"shrinks so that {job.id} of {job.project} can start", job.id
                )
                continue
            self._victims.gone.add(id)
            reason = _reason(self._round, victim, job)
            if way_out(victim) is Pause:
                self._round.give_way(
                    Pause(job=id, for_job=job.id, action=ActionClass.FAIR_SHARE, reason=reason)
                )
            else:
                self._round.give_way(Requeue(job=id, for_job=job.id, reason=reason))

    def _asks(self, job: Job) -> str:
        """What it asks for and what there is of it, and who has the rest that is free."""
        board = self._round.board
        if job.paused_on:
            known, free = self._round.state.gpus, len(board.free_on(job.paused_on))
            nodes = ", ".join(sorted({known[uuid].node for uuid in job.paused_on if uuid in known}))
            return (
                f"it is paused, and its state lies on {nodes or 'GPUs that are gone'}: it needs "
                f"{wanted_gpus(job)} GPUs there, and {free} are free for it"
            )
        if not board.may_use(job):
            return "no GPU of the cluster has the model and memory it asks for"
        free = sum(pool.free for pool in board.may_use(job))
        asks = f"it needs {job.min_gpus * job.share:g} GPUs at once and {free} that it can use are free whole"
        waiting = board.waiting_for(job, NAMED)
        if waiting.own:
            asks += f", {waiting.own} more are free and held back for it"
        if waiting.others:
            asks += f", {waiting.others} more are free and promised to {_named(waiting.some, waiting.heads)}"
        return asks

    def _at_rest(self, job: Job, search: _Search) -> str:
        """Why nobody is asked: none is over a fair share, or the project above has its own already."""
        round, mine = self._round, self._round.tree.paths[job.project]
        if search.reach >= len(mine):
            return "nobody is over a fair share"
        full = mine[search.reach]
        given, fair = text.count(round.given[full]), text.count(round.fair[full])
        return (
            f"{full} has {given} of its fair share of {fair} GPUs, so nobody outside it need give way, and "
            "within it nobody can"
        )

    def _why(self, job: Job, entitled: int, search: _Search) -> Short:
        round, sources = self._round, search.line.sources
        counted: Counter[Rule] = sum((source.objections for source in sources), Counter())
        if search.braked:
            counted[Rule.RATE] += 1
        asks = self._asks(job)
        if not search.may_reclaim:
            return Short(
                rule=Rule.NO_ROOM,
                reason=f"{asks}; whatever others give up goes first to an earlier job of {job.project}",
                would_change="that job starting, or jobs ending",
                entitled=False,
            )
        if not entitled:
            given, fair = text.count(round.given[job.project]), text.count(round.fair[job.project])
            return Short(
                rule=Rule.NO_ROOM,
                reason=f"{asks}; {job.project} has {given} of its fair share of {fair} GPUs, "
                "so others need not give way",
                would_change="jobs ending, or others wanting less",
                entitled=False,
            )
        parts = [f"{count} {rule.value}" for rule, count in sorted(counted.items())]
        promised = sum((source.promised for source in sources), search.promised)
        if promised:
            heads = _named(promised, len(promised))
            parts.append(f"{promised.total()} on GPUs promised to {heads}")
        kept = ", ".join(parts)
        over = "those over their fair share cannot give way for it" if kept else self._at_rest(job, search)
        changes = [PASSING[rule] for rule in SOON if rule in counted]
        changes += [f"the start of {heads}"] if promised else []
        return Short(
            rule=Rule.NO_ROOM,
            reason=f"{asks}; {over}" + (f" ({kept})" if kept else ""),
            would_change=" or ".join(changes) or "jobs ending",
            entitled=True,
            soon=any(rule in SOON for rule in counted),
        )


def wanted_gpus(job: Job) -> int:
    """How many GPUs it starts on: its smallest world, or what it had when it was paused."""
    return len(job.paused_on) or job.min_gpus


def _shape(job: Job) -> tuple[object, ...]:
    """What a search for room looks at of a job: two of one shape find the same."""
    return (
        job.project,
        job.priority,
        job.min_gpus,
        job.share,
        job.gpu_models,
        job.memory_bytes,
        job.paused_on,
        (job.user, job.may_share) if job.share < 1 else None,
    )


def _named(heads: Iterable[JobId], count: int) -> str:
    """Heads of queues by their names; many only by their number."""
    return " and ".join(sorted(heads)) if count <= NAMED else f"{count} who came before"


def _reason(round: WorkingState, victim: Job, job: Job) -> str:
    if victim.project == job.project:
        return f"{job.id} of the same project has priority {job.priority}, above its {victim.priority}"
    idle = "it is held idle, and " if victim.use is Use.IDLE else ""
    mine, fair = text.count(round.given[victim.project]), text.count(round.fair[victim.project])
    theirs = text.count(round.given[job.project])
    return (
        f"{idle}{victim.project} has {mine} GPUs of a fair share of {fair}; {job.project}, with "
        f"{theirs} of {text.count(round.fair[job.project])}, starts {job.id} there"
    )
