"""``fallow job JOB``: what one job was given and made of it, a verdict, and each GPU's row below.

Of any job that held a GPU in the window, running or ended, and of any that Slurm has shown; ``fallow jobs
JOB`` is about one that was submitted here, with its settings and what was done to it.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from analytics import text
from analytics.vocabulary.jobs import bare_id, is_called, told_id
from service import energy, wording
from service.cli import accounted, manager_job, words
from service.cli.asking import asked
from service.cli.job_words import job_id
from service.cli.screen import Column, console, place, print_json, table
from service.durations import window
from service.errors import FallowError
from service.summaries.finding_groups import by_kind, grouped, others
from service.usecases.harvests import sentences

if TYPE_CHECKING:
    from service.schemas.rows import (
        AccountedRunsRow,
        FindingsRow,
        HarvestsRow,
        JobGpusRow,
        JobsRow,
        ManagerRunsRow,
    )

COLUMNS = (
    Column(title="GPU"),
    Column(title="given", right=True),
    Column(title="used", right=True),
    Column(title="wasted", right=True),
    Column(title="unknown", right=True),
    Column(title="use", right=True),
    Column(title="kWh", right=True),
    Column(title="memory", right=True),
    Column(title="found", below=True),
)


class NoSuchJob(FallowError):
    """No job of that name held a GPU in the window."""


def run_job(flags: argparse.Namespace) -> int:
    """Print one job's efficiency, verdict and GPUs."""
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    span = {"from_ts": start, "to_ts": end}
    with asked(flags) as client:
        runs = manager_job.runs(client, flags.job)
        every = accounted.all_runs(client, manager_job.id_of(flags.job))
        past = accounted.runs_of(manager_job.id_of(flags.job), every)
        gaps = client.rows("harvests", from_ts=start)
        # A background job never held a GPU of its own: its stays in others' idle gaps are all there is.
        if any(each["job"] in (flags.job, job_id(flags.job)) for each in gaps):
            return _in_gaps(flags, gaps)
        rows = client.rows("jobs", **span)
        row = _named(rows, flags, [*runs, *past])
        if row is None:
            return _from_manager(flags, runs, past, accounted.counted(client, past))
        gpus = client.rows("job_gpus", job=row["job"], **span)
        findings = client.rows("findings", **span)
    of_job = [each for each in findings if each["job"] == row["job"]]
    if flags.json:
        gaps_beside = [each for each in gaps if each["foreground"] == row["job"]]
        more = {"runs": runs} if runs else {}
        print_json(
            [_record(row, gpus, of_job) | more | ({"idle_gaps": gaps_beside} if gaps_beside else {})], flags
        )
        return 0
    _draw(row, gpus, of_job, start, runs)
    for line in _others_of(row, rows, every):
        console().print(line, style="bright_black", markup=False)
    for line in sentences(gaps, row["job"]):
        console().print(line, markup=False)
    return 0


def _in_gaps(flags: argparse.Namespace, gaps: "list[HarvestsRow]") -> int:
    own = [each for each in gaps if each["job"] in (flags.job, job_id(flags.job))]
    if flags.json:
        print_json([{"job": own[0]["job"], "in_idle_gaps": own}], flags)
        return 0
    screen = console()
    screen.print(f"{own[0]['job']} · a background job: it holds no GPU", style="bold")
    for line in sentences(gaps, own[0]["job"]):
        screen.print(f"  {line}", markup=False)
    return 0


def _from_manager(
    flags: argparse.Namespace,
    runs: "list[ManagerRunsRow]",
    past: "list[AccountedRunsRow]",
    counted: str | None,
) -> int:
    """A job of which only its workload manager knows: it waits, or held no GPU that is measured here."""
    if flags.json:
        first = (runs or past)[0]
        print_json([{"job": first["job"], "runs": runs} | ({"accounted": past} if past else {})], flags)
        return 0
    screen = console()
    screen.print(manager_job.header(runs[0]) if runs else accounted.header(past[0]), style="bold")
    for line in (
        *(manager_job.lines(runs) if runs else ()),
        *(accounted.lines(past) if past else ()),
        *((counted,) if counted else ()),
    ):
        screen.print(f"  {line}", markup=False)
    if not past and runs[0]["state"] != "pending":
        screen.print("  it held no GPU that is measured here in this time", style="bright_black")
    return 0


def _others_of(row: "JobsRow", rows: "list[JobsRow]", runs: "Sequence[AccountedRunsRow]") -> list[str]:
    """A line for each job of another person or cluster that had the same id in this time, and for each
    person and cluster of which the accounting alone has one."""
    bare = bare_id(row["job"])
    twins = [each for each in rows if each["job"] != row["job"] and bare_id(each["job"]) == bare]
    return [
        f"{each['user_name'] or 'somebody else'} had a job of this id too, from {words.began(each)}"
        f"{_to(each)}: `fallow job {each['job']}`"
        for each in twins
    ] + [
        accounted.other(run)
        for run in accounted.elsewhere(runs, (row["job"], *(each["job"] for each in twins)))
    ]


def _to(row: "JobsRow") -> str:
    return "" if row["to_ts"] is None else f" to {words.clock_time(row['to_ts'])}"


def _named(
    rows: "list[JobsRow]", flags: argparse.Namespace, runs: "Sequence[ManagerRunsRow | AccountedRunsRow]"
) -> "JobsRow | None":
    """The job's row, by its id, or by its name where only one has it; ``None`` where only its manager knows
    it. Who used an id again is found by it where its first holder is not in the window. Raises ``NoSuchJob``.
    """
    names = manager_job.ids_of(flags.job)
    own = [row for row in rows if row["job"] in names]
    own = own or [row for row in rows if row["job"] in {run["job"] for run in runs}]
    own = own or [row for row in rows if told_id(row["job"]) in names]
    own = own or [row for row in rows if is_called(row["job"], row["job_name"], names)]
    if len(own) == 1:
        return own[0]
    if own:
        ids = ", ".join(sorted(row["job"] for row in own)[:8])
        raise NoSuchJob(f"{len(own)} jobs are called {flags.job!r}; name one by its id: {ids}")
    if runs:
        return None
    raise NoSuchJob(
        f"no job {flags.job!r} held a GPU in this time; `fallow ledger --by job --since {flags.since}` lists "
        "those that did, and --since goes further back"
    )


def _record(row: "JobsRow", gpus: "list[JobGpusRow]", rows: "list[FindingsRow]") -> dict[str, object]:
    from analytics.job_verdict import verdict

    findings = [
        {
            "kind": each["kind"],
            "uuid": each["uuid"],
            "sentence": each["sentence"],
            "closed_at": each["closed_at"],
        }
        for each in rows
    ]
    return {**row, "verdict": verdict(row), "on": gpus, "findings": findings}


def _draw(
    row: "JobsRow",
    gpus: "list[JobGpusRow]",
    findings: "list[FindingsRow]",
    start: datetime,
    runs: "list[ManagerRunsRow]",
) -> None:
    from analytics.job_verdict import efficiency, is_upper_bound, verdict

    screen = console()
    who = " · ".join(str(each) for each in (row["user_name"], row["project"], row["kind"]) if each)
    name = f" {row['job_name']}" if row["job_name"] else ""
    screen.print(f"{row['job']}{name}{f' · {who}' if who else ''}", style="bold")
    screen.print(f"  {efficiency(row)}")
    screen.print(f"  {verdict(row)}", style="bold")
    screen.print(f"  {_when(row, start)}", style="bright_black")
    if row.get("energy_kwh") is not None:
        screen.print(f"  {_energy(row)}", style="bright_black")
    for line in manager_job.lines(runs) if runs else ():
        screen.print(f"  {line}")
    screen.print(table(COLUMNS, [_line(each) for each in gpus]))
    screen.print("utilization is of the time that was measured, hours are of all time", style="bright_black")
    if any(is_upper_bound(each) for each in gpus):
        screen.print(wording.upper_bound(), style="bright_black")
    if alike := [place(each) for each in gpus if each.get("is_told_apart") is False]:
        screen.print(
            f"{', '.join(alike)}: shared with other jobs, and nobody tells whose the use was: "
            "all who held it are charged alike, by their shares",
            style="bright_black",
        )
    lost = (each for each in gpus if each.get("shared_with") and each.get("is_told_apart") is None)
    if forgotten := [place(each) for each in lost]:
        screen.print(
            f"{', '.join(forgotten)}: shared with other jobs; what single processes did is not kept that "
            "long, so whether each is charged for its own use cannot be seen any more",
            style="bright_black",
        )
    for group in grouped(findings, lambda each: (each["kind"], row["job"], each["closed_at"] is None)):
        for part in by_kind(group, lambda each: str(each["kind"]), is_open=group[0]["closed_at"] is None):
            screen.print(_findings(part))


def _findings(group: "list[FindingsRow]") -> Group:
    """One message a kind: the first GPU's sentence, and on which others it is the same."""
    first, *more = group
    over = "" if first["closed_at"] is None else " (over)"
    same = others([place(each) for each in more if each["uuid"] != first["uuid"]])
    same = " ".join(filter(None, (same, words.found_again(group))))
    sentence = f"{words.localized(first['sentence'])}{f' {same}' if same else ''}"
    return Group(Text(f"{first['kind']}{over}", style="bold"), Padding(sentence, (0, 0, 0, 2), expand=False))


def _energy(row: "JobsRow") -> str:
    """What it used of energy, and how much of that while it did nothing."""
    used, wasted = energy.used([row]), energy.wasted([row])
    while_idle = f", {text.kwh(wasted.kwh)} of it while idle or empty" if wasted.kwh else ""
    part = used.partly_of
    measured = "" if part is None else f"; measured in {text.percent(part)} of its hours"
    return f"{text.kwh(used.kwh)} kWh{while_idle}{measured}"


def _when(row: "JobsRow", start: datetime) -> str:
    last = None if row["measured_to"] is None else words.moment(row["measured_to"])
    until = (
        words.clock_time(row["to_ts"])
        if row["to_ts"] is not None
        else wording.so_far(last, datetime.now(UTC), words.minute)
    )
    began = row["from_ts"]
    part = (
        ""
        if began is not None and words.moment(began) >= start
        else f"; hours are of the time since {start.astimezone():%Y-%m-%d %H:%M}"
    )
    return f"held {words.began(row)} to {until}{part}"


def _line(row: "JobGpusRow") -> tuple[str, ...]:
    from analytics.job_verdict import is_upper_bound, is_use_known

    bound = wording.AT_MOST if is_upper_bound(row) else ""
    return (
        place(row),
        text.hours(row["gpu_hours"]),
        f"{bound}{text.hours(row['used_gpu_hours'])}" if is_use_known(row) else text.NOTHING,
        text.hours(row["wasted_gpu_hours"]),
        text.hours(row["unknown_gpu_hours"]),
        f"{bound}{text.percent(row['utilization_ratio'])}" if row["rung"] else text.NOTHING,
        text.kwh(row.get("energy_kwh")),
        text.memory(row["memory_used_max_bytes"], row["memory_total_bytes"]),
        row["found"] or "",
    )
