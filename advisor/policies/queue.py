"""Who starts now, in which order, and what the head of each queue is told when it cannot. Pure.

Projects take turns: those whose next job stays within their quota first, then by priority, then whoever
has least of its fair share, then whose next job has waited longest, level by level of the tree. Within a
project: the higher priority, then ``Limits.order``. A gang starts whole or not at all, at its smallest world
(``resize`` lets it grow onto what nobody needs; elastic jobs grow to what they are guaranteed before anybody
borrows).

The first job of a queue that cannot start is its *head*. It is promised the start that running jobs' time
limits guarantee, and the GPUs for it; whoever comes later (back-fill) gets these only when sure to be gone by
then (EASY back-filling, Lifka 1995). A head that its fair share entitles to a place, and that waits only for
somebody's minimal run time, has free GPUs held back so that they cannot be borrowed under its eyes. So has
the one head that has waited longest, once that is ``Limits.aging_s``: it is reached without time limits, too.
"""

from collections import defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import assert_never

from advisor.actions import Requeue
from advisor.planner.limits import Order
from advisor.planner.placement import share_on
from advisor.planner.plan import Rule
from advisor.planner.throughput import remaining_gpu_s_of
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.policies.backfill import Ends
from advisor.policies.borrowing import Firm, refusal_reason
from advisor.policies.guaranteed_growth import grow_guaranteed
from advisor.policies.preemption import Reclaimer
from advisor.policies.preemption_reasons import Short
from advisor.policies.promised_starts import Promises, end_by
from advisor.policies.time_slicing import is_young, rests
from advisor.state.model import ActionClass, Job, Phase, Placement, ProjectName, held_gpus
from analytics import text
from collector.model import GpuUuid, JobId

Turn = tuple[tuple[bool, int, float, int, str], ...]


def fill(round: WorkingState) -> None:
    """Start what can start, by the order above; refuse the rest with reasons."""
    # Those that come after other jobs are told for which they wait, and whether in vain.
    early = (id for id, job in round.state.jobs.items() if job.after and job.phase is Phase.PENDING)
    for id in sorted(early):
        job = round.state.jobs[id]
        if job.after_failed:
            reason = f"it was to start after {' and '.join(job.after_failed)}, which did not end well"
            round.refuse(job, Rule.AFTER, reason, "a submission without --after, or `fallow cancel`")
        else:
            reason = f"it starts after {' and '.join(job.after)}"
            round.refuse(job, Rule.AFTER, reason, "the end of that" if len(job.after) == 1 else "their ends")
    lines = _lines(round)
    desk = _Desk(round)
    turns = [(_turn(round, lines[name][-1]), name) for name in lines]
    heapify(turns)
    grown = aged = False
    while turns:
        if not grown and any(over for over, *_ in turns[0][0]):
            grow_guaranteed(round, desk.reclaimer)
            grown = True
        if not aged and turns[0][0][0][0]:  # from here on all borrow
            desk.hold_for_the_aged(line[-1] for line in lines.values() if line)
            aged = True
        key, name = heappop(turns)
        now = _turn(round, lines[name][-1])
        if turns and now > turns[0][0] and now != key:
            heappush(turns, (now, name))
            continue
        line, moves, size = lines[name], round.moves, _size(lines[name][-1])
        # Whose turn it is changes only when GPUs change hands, or with a job that asks for more.
        while line and round.moves == moves and _size(line[-1]) <= size:
            desk.serve(line.pop())
        if line:
            heappush(turns, (_turn(round, line[-1]), name))
    if not grown:
        grow_guaranteed(round, desk.reclaimer)
    desk.promises.take_back()


class _Desk:
    """Serves waiting jobs one by one; remembers which queues have a head already."""

    def __init__(self, round: WorkingState) -> None:
        self.round = round
        self._firm = Firm(round)
        self.promises = Promises(round)
        self._ends = Ends(round)
        self.reclaimer = Reclaimer(round, self.promises)
        self._heads: defaultdict[ProjectName, int] = defaultdict(int)
        self._owed: set[ProjectName] = set()
        self._aged: JobId | None = None

    def hold_for_the_aged(self, heads: Iterable[Job]) -> None:
        """Keep free GPUs for the head that has waited longest and too long, until all it needs are free.

        One at a time, so each is reached once those on its GPUs have ended, whoever comes meanwhile; who asks
        for what a quota guarantees has had its turn before.
        """
        round, late_ms = self.round, self.round.now_ms - self.round.limits.aging_s * 1000
        for job in sorted(heads, key=lambda each: (each.submitted_ms, each.id)):
            if job.submitted_ms > late_ms:
                return
            fits = any(pool.most(job) >= job.min_gpus for pool in round.board.may_use(job))
            if job.share < 1 or job.phase is not Phase.PENDING or not fits:
                continue
            if round.over_limit(job, _size(job)) is None and self._firm.lack(job) is None:
                self._aged = job.id
                place = self._fits(job)
                if place is None:
                    self._ends.hold(job)
                else:  # who comes before it in turn does not take it again
                    self.round.board.promise(job.id, self.round.now_ms, place)
                return

    def serve(self, job: Job) -> None:
        """Start the job, or refuse it with the reason."""
        size = _size(job)
        limit = self.round.over_limit(job, size)
        most = max((pool.most(job) for pool in self.round.board.may_use(job)), default=0)
        if job.min_gpus > most:
            has = f"no node has more than {most}" if job.on_one_node else f"the cluster has {most}"
            self.round.refuse(
                job,
                Rule.NEVER_FITS,
                f"it needs {_request(job)} of one kind at once{_such(job)}, and {has} for it"
                + self._cut(job),
                "a smaller request, or more such GPUs" + (" on one node" if job.on_one_node else ""),
            )
        elif limit is not None:
            # Start it in the place of others below the same limit, or say that the limit is reached.
            result = None
            if self._firm.lack(job) is None:
                result = self.reclaimer.make_room(job, may_reclaim=job.project not in self._owed)
            if result is None or isinstance(result, Short):
                self._refuse_limit(job, size, limit)
            else:
                self._place(job, result, f"others below the limit of {limit} gave way")
        elif (lack := self._firm.lack(job)) is not None:
            free = sum(pool.free for pool in self.round.board.may_use(job))
            self.round.refuse(job, Rule.UNGUARANTEED, *refusal_reason(job, lack, free))
        elif job.phase is Phase.PAUSED and job.paused_on:
            self._resume(job)
        else:
            self._start(job, size)

    def _cut(self, job: Job) -> str:
        """What is said of MIG instances to who asks for whole GPUs, where there are some."""
        if job.share < 1 or all(pool.part_of_device is None for pool in self.round.board.pools):
            return ""
        return (
            "; MIG instances are given one to a job, and instead of a whole GPU only where the job names them"
        )

    def _start(self, job: Job, size: float) -> None:
        gpus = self._fits(job)
        if gpus is not None and not self._may_have(job, gpus):
            return
        if gpus is not None:
            self._place(job, gpus, "there is room")
            return
        steps = len(self.round.steps)
        result = self.reclaimer.make_room(job, may_reclaim=job.project not in self._owed)
        if isinstance(result, Short):
            self._wait(job, result)
        elif len(self.round.steps) > steps:
            self._place(job, result, "others gave way")
        else:
            self._place(job, result, "its quota goes before what was promised beyond one")

    def _fits(self, job: Job) -> tuple[GpuUuid, ...] | None:
        board, end_ms = self.round.board, end_by(job, self.round.now_ms)
        if job.id == self._aged:  # what is held back for it is free to nobody else
            return board.find_reserved(job, job.min_gpus, end_ms) or board.find(job, job.min_gpus)
        return board.find(job, job.min_gpus) or board.find_reserved(job, job.min_gpus, end_ms)

    def _may_have(self, job: Job, gpus: tuple[GpuUuid, ...]) -> bool:
        """Whether what it would be given is within every limit: a MIG instance is more than was asked for."""
        all_gpus = self.round.state.gpus
        size = held_gpus(Placement(gpus=gpus, share=share_on(job, gpus, all_gpus)), all_gpus)
        limit = self.round.over_limit(job, size)
        if limit is not None:
            self._refuse_limit(job, size, limit)
        return limit is None

    def _place(self, job: Job, gpus: tuple[GpuUuid, ...], how: str) -> None:
        allocated = text.count(self.round.given[job.project])
        fair = text.count(self.round.fair[job.project])
        shrunk = f" on {len(gpus)} of the {job.max_gpus} GPUs it can use" if job.elastic else ""
        reason = f"{how}: {job.project} has {allocated} of its fair share of {fair} GPUs; starts{shrunk}"
        self._firm.note(job)
        self.round.start(job, gpus, reason)

    def _wait(self, job: Job, short: Short) -> None:
        round = self.round
        if short.entitled:
            self._owed.add(job.project)
        outlook = ""
        if self._heads[job.project] < round.limits.heads:
            self._heads[job.project] += 1
            aside = self.promises.set_aside(job)
            outlook = self._ends.promise(job) if not short.soon else self._ends.hold(job)
            self.promises.restore(aside, round.board.reserved_for(job.id))
        if job.id == self._aged:
            count, waits = len(round.board.reserved_for(job.id)), (round.now_ms - job.submitted_ms) / 1000
            outlook += (
                f"; it has waited longest, {text.length(waits)}: {count} GPUs are held back for it until "
            )
            outlook += f"{job.min_gpus} are free"
        round.refuse(job, short.rule, short.reason + outlook, short.would_change)

    def _resume(self, job: Job) -> None:
        """Bring it back where its state lies, and have others give way there; else it goes on waiting.

        It is put back in the queue only where that loses nothing and brings it a place.
        """
        board = self.round.board
        gpus = board.find_on(job.paused_on)
        if gpus is not None:
            if self._may_have(job, gpus):
                self._place(job, gpus, "there is room again where its state lies")
            return
        result = self.reclaimer.make_room(job, may_reclaim=job.project not in self._owed)
        if not isinstance(result, Short):
            self._place(job, result, "others gave way where its state lies")
            return
        elsewhere = board.find(job, job.min_gpus)
        if elsewhere is not None and result.entitled and self._may_restart(job):
            # Put a paused job back in the queue, and hold the place that it is to have there.
            self.round.board.promise(job.id, self.round.now_ms, elsewhere)
            self.round.disturbed += 1
            reason = (
                "where its state lies there is no room for it, elsewhere there is, and all it did is saved"
            )
            self.round.steps.append(Requeue(job=job.id, reason=reason))
            self.round.refuse(job, Rule.STATE_ELSEWHERE, "it is put back in the queue first")
            return
        loss = (
            "" if elsewhere is None else "; there is room elsewhere, but it would lose what it has not saved"
        )
        if result.entitled and result.soon:
            self._owed.add(job.project)
            board.promise(job.id, self.round.now_ms, board.free_on(job.paused_on))
        self.round.refuse(job, Rule.STATE_ELSEWHERE, result.reason + loss, result.would_change)

    def _may_restart(self, job: Job) -> bool:
        """Whether a paused job may be put back in the queue: all it did is saved, and nobody minds."""
        round = self.round
        bound = round.limits.actions_per_hour
        return (
            job.checkpoint_ms is not None
            and job.acted_ms is not None
            and job.checkpoint_ms >= job.acted_ms
            and "requeue" not in job.withheld
            and "requeue" not in job.cannot
            and (bound is None or round.disturbed < bound)
            and not round.limits.is_off(ActionClass.FAIR_SHARE, job.project, round.state.projects)
        )

    def _refuse_limit(self, job: Job, size: float, limit: ProjectName) -> None:
        bound, allocated = self.round.tree.projects[limit].limit_gpus, text.count(self.round.given[limit])
        self.round.refuse(
            job,
            Rule.LIMIT,
            f"{limit} has {allocated} GPUs of a limit of {bound:g}; {size:g} more exceed it",
            "jobs of the project ending, or a higher limit",
        )


def _size(job: Job) -> float:
    """What its smallest world takes, in GPUs."""
    return job.min_gpus * job.share


def _request(job: Job) -> str:
    count = "1 GPU" if job.min_gpus == 1 else f"{job.min_gpus} GPUs"
    return count if job.share >= 1 else f"{text.percent(job.share)} of {count}"


def _such(job: Job) -> str:
    """What else the GPUs must be."""
    models = " on one node" if job.on_one_node else ""
    models += f", {' or '.join(job.gpu_models)}" if job.gpu_models else ""
    return models if job.memory_bytes is None else f"{models} with {text.size(job.memory_bytes)} of memory"


def _lines(round: WorkingState) -> dict[ProjectName, list[Job]]:
    """The queue of each project, its first job last."""
    lines: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    tree, off = round.state.projects, round.limits.is_off
    idle = {name for name in round.tree.paths if off(ActionClass.SCHEDULE, name, tree)}
    for job in round.state.jobs.values():
        if job.phase is not Phase.RUNNING and job.project not in idle and not rests(round, job):
            lines[job.project].append(job)
    for line in lines.values():
        line.sort(key=lambda job: _place_in_line(job, round.limits.order), reverse=True)
    return lines


def _place_in_line(job: Job, order: Order) -> tuple[int, float, int, str]:
    match order:
        case Order.ARRIVAL:
            first = 0.0
        case Order.SHORTEST | Order.GOODPUT:
            rest_s = remaining_gpu_s_of(job)
            first = float("inf") if rest_s is None else rest_s
        case Order.YOUNGEST:
            first = 0.0 if is_young(job) else 1.0
        case _:
            assert_never(order)
    return (-job.priority, first, job.submitted_ms, job.id)


def _turn(round: WorkingState, job: Job) -> Turn:
    """Sorts the job that comes first: by level of the tree, from the top."""
    return tuple(_standing(round, each, job) for each in reversed(round.tree.paths[job.project]))


def _standing(round: WorkingState, name: ProjectName, job: Job) -> tuple[bool, int, float, int, str]:
    allocated, fair = round.given[name], round.shares.exact_gpus.get(name, round.fair[name])
    over = allocated + _size(job) > round.tree.quotas[name] + SHARE_SLACK
    ratio = allocated / fair if fair > 0 else float("inf")
    return (over, -round.tree.projects[name].priority, ratio, job.submitted_ms, name)
