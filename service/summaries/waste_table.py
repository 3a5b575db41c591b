"""Who wasted how much of a range, why, who was told, what to do: the table a head of group forwards. Pure.

Rows are those of the queries ``ledger_by_user``, ``ledger_by_project`` or ``ledger_by_job`` and of ``jobs``,
``findings`` (open and closed) and ``alerts`` over the same range. Hours and money are the ledger's alone
(docs/decisions/0049): findings and jobs only say why, and which job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from analytics.job_verdict import ENOUGH_MEASURED, unmeasured_hours
from analytics.vocabulary.findings import IDLENESS, WASTE_REASONS, title_of_kind, words_of_kind
from service.summaries.finding_groups import once_a_gpu
from service.summaries.unjudged_pasts import is_unjudged

if TYPE_CHECKING:
    from service.schemas.rows import (
        AlertsRow,
        FindingsRow,
        JobsRow,
        LedgerByJobRow,
        LedgerByProjectRow,
        LedgerByUserRow,
        UnjudgedPastsRow,
        UnjudgedRow,
    )

    Ledger = LedgerByUserRow | LedgerByProjectRow | LedgerByJobRow


OWNER_COLUMN = {"user": "user_name", "project": "project", "job": "job"}
"""Which column of jobs, findings and alerts has the ledger's key."""
UNJUDGED = "nothing was judged yet: ask again in a minute"
TALK = "talk before the next one"
NOT_FOUND = {
    (True, "idle"): "Idle at times",
    (True, "empty"): "No process at times",
    (False, "idle"): "Nothing computed",
    (False, "empty"): "No process",
}
"""What the ledger knows of hours of which nothing was found, by whether the job ever computed: no title of a
kind, as nobody has judged them to be that."""
MOST_REASONS = 2
"""More reasons than two are a list that nobody reads; ``fallow findings --all`` has them."""
NEWEST = timedelta(minutes=2)
"""Who held a GPU in the newest two minutes of an import holds it: its series end one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """One user, project or job of a range. ``key`` is ``None`` where who held the GPUs is not known.

    ``jobs`` counts those that wasted anything, ``running`` those of them that still hold a GPU. ``worst`` is
    the row of ``jobs`` that wasted most; ``reasons`` are what was found of it, the dearest first. ``live`` is
    the worst of those that still run, of which something is found now, else of all that still run;
    ``live_reason`` is what is found of it now, ``None``: nothing; ``live_evidence`` is the evidence of that;
    ``live_doubt`` is why nobody knows what it does now, in words, ``None``: that could be judged.
    ``told_at`` is when a message about the key last arrived, in the API's form, ``None``: none did in the
    range; ``told`` is who got it.
    Without ``is_judged`` nobody has looked for findings yet, so that none is open says nothing; without
    ``is_worst_judged`` nobody has in the past in which the worst had ended. Without
    ``reasons`` there was no finding of that job in the range, and ``found`` is the ledger's word for its
    hours, which blames nobody; ``is_mostly_empty``: in most of them no process was there.
    """

    key: str | None
    gpu_hours: float
    share_ratio: float | None
    cost: float | None
    currency: str | None
    jobs: int
    running: int
    reasons: tuple[str, ...]
    worst: "JobsRow | None"
    live: "JobsRow | None"
    live_reason: str | None
    told_at: str | None
    told: str | None
    live_doubt: str | None = None
    live_evidence: object = None
    is_judged: bool = True
    is_worst_judged: bool = True
    is_mostly_empty: bool = False

    @property
    def is_found(self) -> bool:
        """Whether anything was found of the job that wasted most."""
        return bool(self.reasons)

    @property
    def found(self) -> str:
        """What was found, in words: ``Held, idle · Memory hog``; else what the hours are."""
        if self.is_found:
            return " · ".join(title_of_kind(kind) for kind in self.reasons)
        worked = self.worst is None or self.worst.get("used_gpu_hours") != 0 or not _is_measured(self.worst)
        sentence = NOT_FOUND[worked, "empty" if self.is_mostly_empty else "idle"]
        runs = self.worst is not None and self.live is not None and self.live["job"] == self.worst["job"]
        yet = " yet" if not worked and runs else ""
        is_judged = self.is_judged and self.is_worst_judged
        return f"{sentence}{yet}, {'no finding' if is_judged else 'not judged yet'}"

    @property
    def remedy(self) -> str:
        """What to do now about the job of theirs that wastes most, in words; of one that is over, to talk."""
        if self.worst is None:
            return "find out whose they are: `fallow doctor` says which sources name holders"
        if self.live is None:
            return f"over: see `fallow job {self.worst['job']}`, and {TALK}"
        job, about = str(self.live["job"]), words_of_kind(self.live_reason or "")
        nothing = f"{self._why_nothing()}; see `fallow explain {job}`" if self.is_judged else UNJUDGED
        remedy = None if about is None else about.remedy_for(self.live.get("kind"), self.live_evidence)
        done = nothing if remedy is None else remedy.replace("JOB", job)
        return done if job == self.worst["job"] else f"{self.live['job_name'] or job}: {done}"

    def _why_nothing(self) -> str:
        """Why no idleness is found in a job that runs, as far as its hours tell."""
        live = self.live
        assert live is not None  # asked of a job that runs alone
        same = self.is_found and self.worst is not None and self.worst["job"] == live["job"]
        first = "what was found is over" if same else "no idleness is found"
        if self.live_doubt is not None:
            return f"{first}, and what it does is not known{self.live_doubt}"
        if live.get("used_gpu_hours") == 0 and not _is_measured(live):
            return f"{first}: it has not computed, as far as it was measured ({_unmeasured(live)} were not)"
        if live.get("used_gpu_hours") == 0:
            return f"{first}: it has not computed, so it counts as starting for its first hours"
        return (
            f"{first}: it works, or rests no longer than it may by the clock of its kind or its own usual "
            "silences"
        )


def _is_measured(job: "JobsRow") -> bool:
    """Whether enough of its hours was measured to say what it did in all of them, as for a verdict."""
    return unmeasured_hours(job) <= (1 - ENOUGH_MEASURED) * (job.get("gpu_hours") or 0.0)


def _unmeasured(job: "JobsRow") -> str:
    return f"{text.hours(unmeasured_hours(job))} of its {text.gpu_hours(job['gpu_hours'] or 0.0)}"


def waste_table(
    by: str,
    ledger: "Iterable[Ledger]",
    jobs: "Sequence[JobsRow]",
    findings: "Sequence[FindingsRow]",
    alerts: "Sequence[AlertsRow]",
    *,
    newest: str | None,
    is_judged: bool = True,
    open_now: "Sequence[FindingsRow] | None" = None,
    unjudged: "Sequence[UnjudgedRow]" = (),
    pasts: "Sequence[UnjudgedPastsRow]" = (),
) -> tuple[Waste, ...]:
    """Everybody who wasted anything, the largest first. ``by`` is ``user``, ``project`` or ``job``.

    ``newest`` is when anything was measured last, in the API's form; ``None``: never. ``is_judged``: somebody
    has looked for findings. ``open_now`` are the findings that are open now, ``None``: those of the range.
    ``unjudged`` is what could not be judged now, ``pasts`` what is not judged yet of what was imported.
    """
    now = [each for each in findings if each["closed_at"] is None] if open_now is None else open_now
    column = OWNER_COLUMN[by]
    rows = [(row, hours) for row in ledger if (hours := row["wasted_gpu_hours"])]
    total = sum(hours for _, hours in rows)
    wasteful = [job for job in jobs if job["wasted_gpu_hours"]]
    rows_of_table = [
        _waste(
            (row, hours),
            hours / total if total else None,
            [job for job in wasteful if _cell(job, column) == row["key"]],
            findings,
            [alert for alert in alerts if _cell(alert, column) == row["key"] is not None],
            newest=newest,
            is_judged=is_judged,
            open_now=now,
            unjudged=unjudged,
            pasts=pasts,
        )
        for row, hours in rows
    ]
    return tuple(sorted(rows_of_table, key=lambda each: (-each.gpu_hours, each.key or "")))


def _waste(
    of: "tuple[Ledger, float]",
    share: float | None,
    jobs: "Sequence[JobsRow]",
    findings: "Sequence[FindingsRow]",
    alerts: "Sequence[AlertsRow]",
    *,
    newest: str | None,
    is_judged: bool,
    open_now: "Sequence[FindingsRow]",
    unjudged: "Sequence[UnjudgedRow]",
    pasts: "Sequence[UnjudgedPastsRow]",
) -> Waste:
    row, hours = of
    worst = max(jobs, key=lambda job: job["wasted_gpu_hours"] or 0.0, default=None)
    running = [job for job in jobs if is_running(job, open_now, newest)]
    now = {str(job["job"]): _kinds_of_waste(job, open_now) for job in running}
    live = max(
        running, key=lambda job: (bool(now[str(job["job"])]), job["wasted_gpu_hours"] or 0.0), default=None
    )
    alert = max(
        (each for each in alerts if each.get("told_at")), key=lambda each: each["told_at"] or "", default=None
    )
    return Waste(
        key=row["key"],
        gpu_hours=hours,
        share_ratio=share,
        cost=row["wasted_cost"],
        currency=row["currency"],
        jobs=len({job["job"] for job in jobs}),
        running=len({job["job"] for job in running}),
        reasons=() if worst is None else tuple(_kinds_of_waste(worst, findings)[:MOST_REASONS]),
        is_mostly_empty=(row["allocated_empty_gpu_hours"] or 0.0) >= (row["held_idle_gpu_hours"] or 0.0),
        worst=worst,
        live=live,
        live_reason=next(iter(now[str(live["job"])]), None) if live is not None else None,
        live_evidence=_evidence(live, now, open_now),
        live_doubt=None if live is None else _doubt(live, unjudged),
        is_judged=is_judged,
        is_worst_judged=worst is None or worst in running or not is_unjudged(worst, pasts),
        told_at=None if alert is None else alert["told_at"],
        told=None if alert is None else alert["told"],
    )


def _cell(row: Mapping[str, object], column: str) -> object:
    return row[column]


def _doubt(job: "JobsRow", unjudged: "Sequence[UnjudgedRow]") -> str | None:
    """Why nobody knows whether a job rests now, and on how many of its GPUs; ``None``: it could be judged."""
    name = str(job["job"])
    rows = [
        each
        for each in unjudged
        if each["verdict"] == "unknown"
        and name in (each.get("held_by") or "").split(", ")
        and IDLENESS & set((each["kinds"] or "").split(", "))
    ]
    if not rows:
        return None
    gpus, uuids = len({each["uuid"] for each in rows}), job.get("gpus_at_once") or 1
    reasons = "; ".join(dict.fromkeys(str(each["reason"]) for each in rows))
    return f"{f' on {gpus} of its {uuids} GPUs' if uuids > 1 else ''}: {reasons}"


def _evidence(
    job: "JobsRow | None", now: Mapping[str, Sequence[str]], open_now: "Sequence[FindingsRow]"
) -> object:
    """The evidence of what is said first of a job that still runs."""
    kind = None if job is None else next(iter(now[str(job["job"])]), None)
    return next(
        (each["evidence"] for each in open_now if job and (each["job"], each["kind"]) == (job["job"], kind)),
        None,
    )


def is_running(job: "JobsRow", open_now: "Sequence[FindingsRow]", newest: str | None) -> bool:
    """Whether it holds a GPU: what is known of an import or a recording ends with its newest sample."""
    if job["to_ts"] is None or any(each["job"] == job["job"] for each in open_now):
        return True
    return (
        newest is not None and datetime.fromisoformat(job["to_ts"]) >= datetime.fromisoformat(newest) - NEWEST
    )


def _kinds_of_waste(job: "JobsRow", findings: "Sequence[FindingsRow]") -> list[str]:
    """The kinds of waste that were found of a job, the one with most of its hours first."""
    of_job = [each for each in findings if each["job"] == job["job"]]
    hours = {
        kind.value: once_a_gpu(
            (each["uuid"], each["wasted_gpu_hours"]) for each in of_job if each["kind"] == kind
        )
        or 0.0
        for kind in WASTE_REASONS
    }
    return [kind for kind in sorted(hours, key=lambda kind: -hours[kind]) if hours[kind]]
