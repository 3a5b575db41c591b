"""What there is to do, by job: what each cost, what was found of it, what is advised, what is put off. Pure.

A job is the unit (docs/decisions/0050): hours and money are the ledger's of the range (0049); findings,
advice and plans only say why, and what to do. All jobs are put in order first, which costs little each; what
a card says is put together for those that are shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from analytics.vocabulary.actions import ActionClass
from analytics.vocabulary.findings import words_of_kind
from service.summaries.finding_groups import by_kind, is_own_doing, the_rest
from service.summaries.job_verdicts import verdict
from service.summaries.message_to_owner import Said
from service.summaries.waste_table import TALK, Waste, is_running, waste_table

if TYPE_CHECKING:
    from service.schemas.advice import AbstainRow, AdviceRow
    from service.schemas.control import Plan, Refused
    from service.schemas.rows import (
        FindingsRow,
        JobsRow,
        LedgerByJobRow,
        SpokenRow,
        UnjudgedPastsRow,
        UnjudgedRow,
    )


class Place(StrEnum):
    """Where a job stands on the list."""

    NOW = "now"
    """It holds a GPU, and something is found or advised now."""
    NO_FINDING = "no-finding"
    """It holds a GPU that it wasted at times, and nothing is found now: it works, or rests as it may."""
    PUT_OFF = "put-off"
    """Somebody keeps it, or a plan about it was turned down for a while."""
    OVER = "over"
    """It has given back its last GPU: to talk about before the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured and judged of a range; rows of queries of these names over the same range.

    ``open_now`` are the findings that are open now, ``None``: those of the range. ``newest`` is when anything
    was measured last, in the API's form. Without ``is_judged`` nobody has looked for findings yet;
    ``pasts`` are those in which nobody has yet.
    """

    ledger: "Sequence[LedgerByJobRow]"
    jobs: "Sequence[JobsRow]"
    findings: "Sequence[FindingsRow]"
    open_now: "Sequence[FindingsRow] | None"
    spoken: "Sequence[SpokenRow]"
    newest: str | None
    is_judged: bool
    unjudged: "Sequence[UnjudgedRow]" = ()
    pasts: "Sequence[UnjudgedPastsRow]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advising:
    """What is advised, what is not and why, and the plans that were made: of now, whatever the range."""

    advice: "Sequence[AdviceRow]" = ()
    abstained: "Sequence[AbstainRow]" = ()
    refused: "Sequence[Refused]" = ()
    plans: "Sequence[Plan]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A job on the list, with what orders and filters it; ``job`` is its row of the query ``jobs``.

    ``findings`` are about its own doing, those that are open first. ``ledger`` is ``None`` where it held
    nothing in the range. ``put_off_until`` has who put it off.
    """

    id: str
    place: Place
    ledger: "LedgerByJobRow | None"
    job: "JobsRow | None"
    findings: "tuple[FindingsRow, ...]"
    advice: "tuple[AdviceRow, ...]"
    put_off_until: "tuple[datetime, str] | None" = None

    @property
    def wasted_gpu_hours(self) -> float:
        """What it wasted in the range, by the ledger."""
        return (self.ledger["wasted_gpu_hours"] or 0.0) if self.ledger is not None else 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of what was found of it, and the classes of what is advised."""
        return frozenset(each["kind"] for each in self.findings) | {each["class"] for each in self.advice}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What is said of a job. ``said`` is what its owner can be written; empty: nothing of it is open.

    ``kinds`` are of the findings; without any ``not_found`` is the ledger's word for its hours, which blames
    nobody. ``sentences`` are of the findings, in UTC, ``rests`` on how many more GPUs each is so, and their
    sum. ``remedy`` is what helps where nothing is advised; why not, ``why_not`` says (``None``: no policy
    said why). ``waiting`` are the numbers of plans that wait.
    """

    item: Item
    user: str | None
    project: str | None
    name: str
    job_kind: str | None
    state: str | None
    kinds: tuple[str, ...]
    not_found: str | None
    sentences: tuple[str, ...]
    rests: tuple[str, ...]
    low_saturation_gpu_hours: float
    said: tuple[Said, ...]
    remedy: str | None
    why_not: str | None
    waiting: tuple[int, ...] = ()


def listed(measured: Measured, advising: Advising, now: datetime) -> tuple[Item, ...]:
    """Every job that wasted anything in the range, or of which something is found or advised; dearest first.

    In the order of money, then GPU-hours wasted, then hours at low saturation, then what advice would give.
    """
    jobs = {str(each["job"]): each for each in measured.jobs}
    ledger = {str(each["key"]): each for each in measured.ledger if each["key"] is not None}
    findings = _by_job(each for each in _of_all(measured) if is_own_doing(each["kind"]))
    advised: dict[str, list[AdviceRow]] = {}
    for each in advising.advice:
        if each["job"] is not None and each["job"] in jobs:  # what the filters leave
            advised.setdefault(each["job"], []).append(each)
    put_off = _put_off(measured.spoken, advising.plans, now)
    planned = {step.job for plan in advising.plans if plan.state == "waiting" for step in plan.steps}
    wasteful = [job for job, row in ledger.items() if row["wasted_gpu_hours"]]
    items = [
        Item(
            id=job,
            place=_place(
                jobs.get(job),
                is_open=any(each["closed_at"] is None for each in findings.get(job, ())),
                is_asked=job in advised or job in planned,
                is_put_off=job in put_off,
                newest=measured.newest,
            ),
            ledger=ledger.get(job),
            job=jobs.get(job),
            findings=tuple(sorted(findings.get(job, ()), key=lambda each: each["closed_at"] is not None)),
            advice=tuple(advised.get(job, ())),
            put_off_until=put_off.get(job),
        )
        for job in dict.fromkeys((*wasteful, *findings, *advised))
    ]
    return tuple(sorted(items, key=_dearest))


def _dearest(item: Item) -> tuple[float, float, float, float, str]:
    cost = (item.ledger["wasted_cost"] or 0.0) if item.ledger is not None else 0.0
    gain = sum(each["gain_gpu_hours"] or 0.0 for each in item.advice)
    return -cost, -item.wasted_gpu_hours, -low_hours(item), -gain, item.id


def low_hours(item: Item) -> float:
    """GPU-hours of the range at low saturation, which are no waste."""
    return (item.ledger["low_saturation_gpu_hours"] or 0.0) if item.ledger is not None else 0.0


def card(item: Item, measured: Measured, advising: Advising) -> Card:
    """What is said of a job on the list."""
    first = item.findings[0] if item.findings else None
    row = item.job
    waste = _waste(item, measured)
    kinds = dict.fromkeys(str(each["kind"]) for each in item.findings)
    open_ones = [each for each in item.findings if each["closed_at"] is None]
    parts = by_kind(item.findings if item.place is Place.OVER else open_ones, _kind, is_open=bool(open_ones))
    firsts = [part[0] for part in parts]
    name = (row and row["job_name"]) or (first and first["job_name"]) or item.id
    return Card(
        item=item,
        user=row["user_name"] if row else first["user_name"] if first else None,
        project=row["project"] if row else first["project"] if first else None,
        name=str(name),
        job_kind=row["kind"] if row else first["job_kind"] if first else None,
        state=None if row is None else verdict(row),
        kinds=tuple(kinds),
        not_found=None if kinds or waste is None else waste.found,
        sentences=tuple(each["sentence"] for each in firsts),
        rests=tuple(the_rest(part) for part in parts),
        low_saturation_gpu_hours=low_hours(item),
        said=tuple(
            Said(str(each["kind"]), f"{each['sentence']}{the_rest(part)}", each["evidence"])
            for each, part in zip(firsts, parts, strict=True)
            if each["closed_at"] is None
        ),
        remedy=_remedy(item, waste),
        why_not=None if item.advice else _why_not(item, advising),
        waiting=tuple(
            plan.plan
            for plan in advising.plans
            if plan.state == "waiting" and any(step.job == item.id for step in plan.steps)
        ),
    )


def _kind(row: "FindingsRow") -> str:
    return str(row["kind"])


def _of_all(measured: Measured) -> "Iterable[FindingsRow]":
    """The range's findings, and what is open now, each once."""
    numbers = {each["finding_id"] for each in measured.findings}
    return (*measured.findings, *(o for o in measured.open_now or () if o["finding_id"] not in numbers))


def _by_job(findings: "Iterable[FindingsRow]") -> "dict[str, list[FindingsRow]]":
    by_job: dict[str, list[FindingsRow]] = {}
    for each in findings:
        if each["job"] is not None:
            by_job.setdefault(str(each["job"]), []).append(each)
    return by_job


def _place(
    row: "JobsRow | None", *, is_open: bool, is_asked: bool, is_put_off: bool, newest: str | None
) -> Place:
    """``is_open``: a finding is; ``is_asked``: something is advised, or a plan waits."""
    if not is_open and (row is None or not is_running(row, (), newest)):
        return Place.OVER
    if is_put_off:
        return Place.PUT_OFF
    return Place.NOW if is_open or is_asked else Place.NO_FINDING


def _put_off(
    replies: "Sequence[SpokenRow]", plans: "Sequence[Plan]", now: datetime
) -> dict[str, tuple[datetime, str]]:
    """Until when, and by whom, jobs are kept, or plans about them not made again; the later of the two."""
    words = [
        (str(each["job"]), each["until_ms"], f"kept by {each['by_user'] or 'somebody'}")
        for each in replies
        if each["until_ms"] is not None
    ]
    words += [
        (step.job, plan.snoozed_ms, f"turned down by {plan.settled_by or 'somebody'}")
        for plan in plans
        if plan.snoozed_ms is not None
        for step in plan.steps
    ]
    by_item: dict[str, tuple[datetime, str]] = {}
    for job, until_ms, whose in words:
        until = datetime.fromtimestamp(int(until_ms or 0) / 1000, UTC)
        if until > now and (job not in by_item or until > by_item[job][0]):
            by_item[job] = until, whose
    return by_item


def _waste(item: Item, measured: Measured) -> Waste | None:
    """The job as the table of a range's waste has it; ``None`` where it wasted nothing."""
    if item.ledger is None or item.job is None:
        return None
    open_now = [each for each in item.findings if each["closed_at"] is None]
    rows = waste_table(
        "job",
        [item.ledger],
        [item.job],
        item.findings,
        (),
        newest=measured.newest,
        is_judged=measured.is_judged,
        open_now=open_now,
        unjudged=measured.unjudged,
        pasts=measured.pasts,
    )
    return rows[0] if rows else None


def _remedy(item: Item, waste: Waste | None) -> str | None:
    """What helps: of what is found now, by the kind that says most; of a job that is over, to talk."""
    if item.place is Place.OVER:
        return f"it is over: {TALK}"
    if waste is not None and waste.live_reason is not None:
        return waste.remedy
    for each in item.findings:
        words = words_of_kind(each["kind"])
        if each["closed_at"] is None and words is not None:
            return words.remedy_for(each["job_kind"], each["evidence"]).replace("JOB", item.id)
    return None if waste is None else waste.remedy


def _why_not(item: Item, advising: Advising) -> str | None:
    """Why nothing is advised about a job that holds a GPU, by the policy that would give it back first."""
    if item.place is Place.OVER:
        return None
    reasons = [
        (each["class"], each["reason"], each["would_change"])
        for each in advising.abstained
        if each["job"] == item.id
    ]
    reasons += [
        (each.action, each.reason, each.would_change) for each in advising.refused if each.job == item.id
    ]
    if not reasons:
        return None
    _, reason, change = min(reasons, key=lambda each: each[0] != ActionClass.RECLAIM)
    return f"{reason}; would change with {change}" if change else reason
