"""What a workload manager says of one job: where it runs or why it waits, what it asked for, how it ended."""

import json
import re
from typing import TYPE_CHECKING, TypedDict

from analytics import text
from analytics.vocabulary.managers import is_imported
from service.cli import words
from service.cli.job_words import job_id
from service.client import Client
from service.summaries import waiting

if TYPE_CHECKING:
    from service.schemas.rows import ManagerRunsRow

_ID = re.compile(
    r"(?:slurm:)?(\d+(?:_(?:\d+|\[[\d,:%-]+\]|\*)|\+\d+)?(?:@[\w.-]+)?)"
    r"(?:\.(?:\d+(?:\+\d+)?|batch|extern|interactive))?"
)
"""What Slurm prints of a job: ``812``, a task of an array (``200_1``; those that wait: ``200_[3-5%2]``,
``200_*``), a part of a heterogeneous job (``200+1``), behind it perhaps a step, which is the job's. Sources:
squeue(1), ``%i`` and ``--steps``; sacct(1), ``JobID``. Labels may tell the cluster too (``812@a``)."""


KEPT = ("slurm:", "ray:")
"""Of whose jobs people type what the manager prints."""


def ids_of(name: str) -> tuple[str, ...]:
    """The ids of jobs that ``name`` may be: a number alone is first of all a job that was submitted here."""
    return tuple(dict.fromkeys((job_id(name), name, id_of(name))))


def meant(client: Client, name: str) -> tuple[str, ...]:
    """Those, and the ids of the manager's runs that are shown as ``name``. Blocks."""
    job = id_of(name)
    past = (client.rows_if_kept("accounted_runs", job=job) or []) if is_imported(job) else []
    return tuple(dict.fromkeys((*ids_of(name), *(run["job"] for run in (*runs(client, name), *past)))))


def runs(client: Client, name: str) -> "list[ManagerRunsRow]":
    """The runs of the job of that id, or as Slurm prints it; the newest first. Blocks."""
    job = id_of(name)
    return client.rows("manager_runs", job=job) if job.startswith(KEPT) else []


def id_of(name: str) -> str:
    """What Slurm prints of a job as the id of its job here, steps as their jobs'; other names as they are."""
    job = _ID.fullmatch(name)
    return name if job is None else f"slurm:{job[1]}"


def header(run: "ManagerRunsRow") -> str:
    """Its id, name, and whose it is."""
    who = " · ".join(str(run[each]) for each in ("user_name", "project", "kind") if run[each])
    name = f" {run['job_name']}" if run["job_name"] else ""
    return f"{run['job']}{name}{f' · {who}' if who else ''}"


def lines(runs: "list[ManagerRunsRow]") -> tuple[str, ...]:
    """Sentences about the newest run, and about those before it."""
    newest, *others = runs
    before = [run for run in others if run["state"] != "pending"]
    waits = [run for run in others if run["state"] == "pending"]
    sentence = text.many(newest["nodes"], "node")
    if newest["gpus"] is not None:
        sentence = f"{text.many(newest['gpus'], 'GPU')} on {sentence}"
    limit = "" if newest["limit_s"] is None else f", for at most {text.length(newest['limit_s'])}"
    where = " ".join(
        f"{label} {name}"
        for label, name in (
            ("partition", newest["partition"]),
            ("QOS", newest["qos"]),
            ("reservation", newest["reservation"]),
        )
        if name
    )
    again = (
        f"; {text.many(len(before), 'run')} before it, the last ended {_ended(before[0])}" if before else ""
    )
    return (
        f"At {waiting.manager_of(newest['job'])}, cluster {newest['cluster']}: {_stands(newest)}{again}",
        f"asked for {sentence}{limit}{f', in {where}' if where else ''}",
        *_allowed(newest.get("word") or ""),
        *(
            f"waits since {words.clock_time(run['submitted_at'])} for {text.many(run['gpus'] or 0, 'GPU')} "
            f"{'more' if newest['state'] != 'pending' else 'beside them'}: {waiting.why_of(run)}"
            for run in waits
        ),
    )


def _allowed(comment: str) -> tuple[str, ...]:
    """What its owner allows in its comment, or why that allows nothing; an older service has none."""
    from collector.managers.owner_word import word_of

    consent = word_of(comment)
    if consent is None:
        return ()
    if consent.problem:
        return (f"its comment {consent.text!r} allows nothing: {consent.problem}",)
    allowed = ["to put it back into Slurm's queue and hold it there"] if consent.pause else []
    if consent.max_gpus is not None:
        allowed.append(
            f"from {consent.min_gpus} to {consent.max_gpus} GPUs, by further jobs of its own launcher"
        )
    return (f"its comment {consent.text!r} allows {'; '.join(allowed)}",) if allowed else ()


def _stands(run: "ManagerRunsRow") -> str:
    match run["state"]:
        case "pending":
            why = waiting.why_of(run)
            return f"waits since {words.clock_time(run['submitted_at'])}: {why}"
        case "ended":
            return f"began {words.clock_time(run['started_at'])}, ended {_ended(run)}"
        case "paused":  # since when is not told, but when it began
            began = words.clock_time(run["started_at"])
            return f"suspended ({run['state_name']}), holding {_grants(run['given'])}; it began {began}"
        case state:
            return f"{state} since {words.clock_time(run['started_at'])} on {_grants(run['given'])}"


def _ended(run: "ManagerRunsRow") -> str:
    how = f" as {run['state_name']}" if run["state_name"] else ", nobody saw how"
    return f"{words.clock_time(run['ended_at'])}{how}"


class _Grant(TypedDict):
    """GPUs, or shards of one, that the manager gave on a node (the column ``given``)."""

    node: str
    indices: list[int]
    gpus: int
    is_shared: bool


def _grants(text: str | None) -> str:
    if text is None:
        return "GPUs of which nobody says the numbers"
    grants: list[_Grant] = json.loads(text)
    if not grants:
        return "no GPU"
    return ", ".join(f"{grant['node']}: {_gpus(grant)}" for grant in grants)


def _gpus(grant: "_Grant") -> str:
    numbers = ", ".join(map(str, grant["indices"]))
    if grant["is_shared"]:
        return f"{text.many(grant['gpus'], 'shard')} of GPU {numbers or '?'}"
    return f"GPU {numbers}" if numbers else text.many(grant["gpus"], "GPU")
