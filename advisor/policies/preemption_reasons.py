"""What is said when others give way, and when not: whose right, what is in the way, whom to ask. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from advisor.planner.plan import Rule
from advisor.planner.transition import SHARE_SLACK
from advisor.planner.working_state import WorkingState
from advisor.policies.preemption_candidates import Source
from advisor.state.model import Job, ProjectName, Use
from analytics import text
from collector.model import JobId

NAMED = 2
"""Of more heads of queues, and of more who are in the way, only the number is said."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Whom a search for room asked, and how it went: what a refusal rests on.

    ``entitled`` and ``reach``: on how many levels of the tree the job was entitled to its place before
    anybody gave way, and in the end. ``braked``: the bound on disturbances cut it short.
    """

    may_reclaim: bool
    entitled: int
    reach: int
    sources: Sequence[Source]
    braked: bool
    promised: Counter[JobId]


def start_gpus(job: Job) -> int:
    """How many GPUs it starts on: its smallest world, or what it had when it was paused."""
    return len(job.paused_on) or job.min_gpus


def why_short(round: WorkingState, job: Job, search: SearchResult) -> Short:
    """Why nobody could be made to give way for the job."""
    asks = _asks(round, job)
    if not search.may_reclaim:
        return Short(
            rule=Rule.NO_ROOM,
            reason=f"{asks}; whatever others give up goes first to an earlier job of {job.project}",
            would_change="that job starting, or jobs ending",
            entitled=False,
        )
    guaranteed = round.guaranteed(job, start_gpus(job) * job.share) is not None
    if not search.entitled:
        allocated, fair = text.count(round.given[job.project]), text.count(round.fair[job.project])
        more = _rounded(round, job) + (_overcommitted(round, job) if guaranteed else "")
        return Short(
            rule=Rule.NO_ROOM,
            reason=f"{asks}; {job.project} has {allocated} of its fair share of {fair} GPUs{more}, "
            "so others need not give way",
            would_change="jobs ending, or others wanting less"
            + (", or quotas that fit" if "add up" in more else ""),
            entitled=False,
        )
    return _why_entitled(round, job, search, asks, guaranteed=guaranteed)


def eviction_reason(round: WorkingState, victim: Job, job: Job, *, guaranteed: bool = False) -> str:
    """What the owner of a job reads that gives way."""
    if victim.project == job.project:
        return f"{job.id} of the same project has priority {job.priority}, above its {victim.priority}"
    idle = "it is held idle, and " if victim.use is Use.IDLE else ""
    if guaranteed:
        return f"{idle}it borrows, and {job.id} of {job.project} is guaranteed a place and finds no other"
    mine, fair = text.count(round.given[victim.project]), text.count(round.fair[victim.project])
    theirs = text.count(round.given[job.project])
    return (
        f"{idle}{victim.project} has {mine} GPUs of a fair share of {fair}; {job.project}, with "
        f"{theirs} of {text.count(round.fair[job.project])}, "
        + (f"is guaranteed more for {job.id}" if job.id in round.placements else f"starts {job.id} there")
    )


def _why_entitled(
    round: WorkingState, job: Job, search: SearchResult, asks: str, *, guaranteed: bool
) -> Short:
    counted: Counter[Rule] = sum((source.objections for source in search.sources), Counter())
    if search.braked:
        counted[Rule.RATE] += 1
    parts = [f"{count} {rule.value}" for rule, count in sorted(counted.items())]
    promised = sum((source.promised for source in search.sources), search.promised)
    heads = _named(promised, len(promised))
    if promised:
        parts.append(f"{promised.total()} on GPUs promised to {heads}")
    details = f" ({', '.join(parts)})" if parts else ""
    over = "those over their fair share cannot give way for it" if parts else _at_rest(round, job, search)
    if guaranteed and parts:
        over = f"the quota of {job.project} guarantees it a place, and those who have it cannot give way"
    changes = [PASSING[rule] for rule in SOON if rule in counted]
    changes += [f"the start of {heads}"] if promised else []
    blockers = {each.id: (each, rule) for source in search.sources for each, rule in source.blockers}
    changes += [_ask(each, rule) for each, rule in list(blockers.values())[:NAMED]]
    return Short(
        rule=Rule.NO_ROOM,
        reason=f"{asks}; {over}{details}",
        would_change=" or ".join(changes) or "jobs ending",
        entitled=True,
        soon=any(rule in SOON for rule in counted),
    )


def _ask(job: Job, rule: Rule) -> str:
    """Whom to ask about a job that is in the way by its owner's word."""
    return f"{job.user or 'its owner'} letting {job.id} give way ({rule.value})"


def _asks(round: WorkingState, job: Job) -> str:
    """What it asks for and what there is of it, and who has the rest that is free."""
    board = round.board
    if job.paused_on:
        gpus, free = round.state.gpus, len(board.free_on(job.paused_on))
        nodes = ", ".join(sorted({gpus[uuid].node for uuid in job.paused_on if uuid in gpus}))
        return (
            f"it is paused, and its state lies on {nodes or 'GPUs that are gone'}: it needs "
            f"{start_gpus(job)} GPUs there, and {free} are free for it"
        )
    if not board.may_use(job):
        return "no GPU of the cluster has the model and memory it asks for"
    free = sum(pool.free for pool in board.may_use(job))
    asks = f"it needs {job.min_gpus * job.share:g} GPUs at once and {free} that it can use are free whole"
    if job.on_one_node and job.min_gpus > 1:
        most = max(pool.freest() for pool in board.may_use(job))
        asks = (
            f"it needs {job.min_gpus * job.share:g} GPUs at once on one node, and no node has more than "
            f"{most} free that it can use"
        )
    waiting = board.waiting_for(job, NAMED)
    if waiting.own:
        asks += f", {waiting.own} more are free and held back for it"
    if waiting.others:
        asks += f", {waiting.others} more are free and promised to {_named(waiting.some, waiting.heads)}"
    return asks


def _at_rest(round: WorkingState, job: Job, search: SearchResult) -> str:
    """Why nobody is asked: none is over a fair share, or the project above has its own already."""
    mine = round.tree.paths[job.project]
    if search.reach >= len(mine):
        return "nobody is over a fair share"
    full = mine[search.reach]
    allocated, fair = text.count(round.given[full]), text.count(round.fair[full])
    return (
        f"{full} has {allocated} of its fair share of {fair} GPUs, so nobody outside it need give way, and "
        "within it nobody can"
    )


def _rounded(round: WorkingState, job: Job) -> str:
    """What its fair share was before it was rounded down, in words; nothing where that keeps no job out."""
    exact, after = round.shares.exact_gpus, start_gpus(job) * job.share - SHARE_SLACK
    for name in round.tree.paths[job.project]:
        is_rounding = name in exact and round.fair[name] < round.given[name] + after < floor(exact[name]) + 1
        if is_rounding:
            where = "" if name == job.project else f"{name}: "
            return f" ({where}{text.count(exact[name])} before rounding to whole GPUs)"
    return ""


def _overcommitted(round: WorkingState, job: Job) -> str:
    """The first place up the tree where more is guaranteed than there is, in words; nothing where none is."""
    tree = round.tree
    for name in tree.paths[job.project]:
        parent = tree.projects[name].parent
        siblings = tree.roots if parent is None else tree.children[parent]
        there = round.shares.capacity_gpus if parent is None else tree.quotas[parent]
        total = sum(tree.quotas[each] for each in siblings)
        if total > there + SHARE_SLACK:
            return (
                f" (quotas {_below(parent)} add up to {text.count(total)}, and there are {text.count(there)})"
            )
    return ""


def _below(parent: ProjectName | None) -> str:
    return "of the site" if parent is None else f"below {parent}"


def _named(heads: Iterable[JobId], count: int) -> str:
    """Heads of queues by their names; many only by their number."""
    return " and ".join(sorted(heads)) if count <= NAMED else f"{count} who came before"
