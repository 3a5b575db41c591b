"""``fallow explain JOB|GPU|ADVICE``: why, why not, and what would change it.

Of a job that was submitted the service says besides why it stands where it stands, on which terms it holds
its GPUs, and with which settings its workers were started. Of any job, which runs its processes say they are;
of one that has ended, what is known of it (``ended``).
"""

import argparse
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rich.padding import Padding

from analytics import text
from analytics.vocabulary.jobs import is_called, is_submitted
from service.cli import advice_lines, manager_job, words
from service.cli.asking import asked, asked_to_act
from service.cli.job_words import job_id
from service.cli.screen import console, print_json
from service.client import Client, ClientError
from service.config.flags import settle
from service.errors import FallowError
from service.summaries.run_links import runs_of, told_runs
from service.usecases.advice import AdviceContext, consult
from service.usecases.advice_rows import advice_row, step_row

if TYPE_CHECKING:
    from advisor.explain import Explanation
    from service.schemas.rows import JobsRow

_CLUSTER = re.compile(r"@[^@:]*(?=:)")
"""Of a GPU's place, the cluster of its node: ``gpu-1@a:0``."""


PAST = timedelta(days=30)
"""As far back as decisions look."""


def ended(client: Client, name: str, as_of_ms: int) -> tuple[str, ...]:
    """Who held what and until when, what the job made of it, and what was found.

    Nothing where no job of the last 30 days has that id, or id's end. Blocks. Raises ``ClientError``.
    """
    from service.summaries.job_verdicts import efficiency, verdict

    until = datetime.fromtimestamp(as_of_ms / 1000, UTC).replace(second=0, microsecond=0) + timedelta(
        minutes=1
    )
    span = {"from_ts": until - PAST, "to_ts": until}
    rows = [
        row
        for row in client.rows("jobs", **span)
        if name == row["job"].split(":")[-1] or is_called(row["job"], None, (name,))
    ]
    if len(rows) != 1:
        return ()
    row = rows[0]
    findings = [each for each in client.rows("findings", **span) if each["job"] == row["job"]]
    line, sentence = efficiency(row), verdict(row)
    return (
        _who(row),
        *(() if line is None else (f"{line}.",)),
        *(() if sentence is None else (f"Its verdict: {sentence}.",)),
        *(
            f"Found {words.clock_time(each['opened_at'])}: {words.localized(each['sentence'])}"
            for each in findings
        ),
    )


def _who(row: "JobsRow") -> str:
    """That it has ended, or that it holds something of which no decision is made (a GPU that is gone)."""
    name = f" {row['job_name']}" if row["job_name"] else ""
    project = f" of project {row['project']}" if row["project"] else ""
    whose = f"{row['user_name']}'s" if row["user_name"] else "somebody's"
    began = words.began(row)
    if row["to_ts"] is None:
        return f"{row['job']} is {whose} job{name}{project}; it holds GPUs that are gone, since {began}."
    gpus = text.many(row["gpus"], "GPU")
    return (
        f"{row['job']} was {whose} job{name}{project}, and has ended: it held {gpus} "
        f"from {began} to {words.clock_time(row['to_ts'])}."
    )


class NothingOfThatName(FallowError):
    """No job, GPU or advice is called so."""


def run_explain(flags: argparse.Namespace) -> int:
    """Print all that was decided about one job, GPU or advice."""
    from advisor.explain import Explanation, NoSuch, explain

    settings = settle(flags)
    launched = _launched(flags, job_id(flags.name))
    with asked(flags) as client:
        desk = consult(client, settings.effective.config)
        meant = manager_job.meant(client, flags.name)
        tried = [(each, explain(each, desk.said, desk.places)) for each in meant]
        if all(isinstance(answer, NoSuch) for _, answer in tried):
            tried = [
                (each, explain(each, desk.said, desk.places)) for each in _called(desk, flags.name, meant)
            ] or tried
        explanations = [
            (name, explanation) for name, explanation in tried if not isinstance(explanation, NoSuch)
        ]
        name, explanation = (explanations or tried)[0]
        job = name if isinstance(explanation, NoSuch) else explanation.name
        is_job = isinstance(explanation, NoSuch) or explanation.kind == "job"
        pages = settings.effective.config.dashboard.run_pages
        more = (*launched, *((*_waits(client, job), *_runs(client, job, pages)) if is_job else ()))
        names = () if explanations else tuple(name for name, _ in tried)
        past = next((end for each in names if (end := ended(client, each, desk.said.state.as_of_ms))), ())
    if isinstance(explanation, NoSuch) and (past or more):
        explanation = Explanation(kind="job", name=name, facts=(*past, *more))
    elif not isinstance(explanation, NoSuch):
        explanation = replace(explanation, facts=(*explanation.facts, *more))
    if isinstance(explanation, NoSuch):
        near = f"; nearest: {', '.join(explanation.near)}" if explanation.near else ""
        raise NothingOfThatName(
            f"no running job, GPU or advice is called {flags.name!r}{near}, and no job that ended in "
            "the last 30 days; `fallow status`, `fallow advise` and `fallow ledger --by job` list them"
        )
    if flags.json:
        print_json([_row(explanation, desk)], flags)
        return 0
    _draw(explanation, desk)
    return 0


def _called(desk: AdviceContext, typed: str, meant: tuple[str, ...]) -> tuple[str, ...]:
    """The job that has one of ``meant`` as its name, or as its id in its own cluster; none: nothing.

    Raises ``NothingOfThatName`` where several have, or GPUs of several clusters.
    """
    jobs = desk.said.state.jobs
    namesakes = sorted(job for job in jobs if is_called(job, jobs[job].name, meant))
    if len(namesakes) > 1:
        raise NothingOfThatName(
            f"{len(namesakes)} jobs are called {typed!r}; name one by its id: {', '.join(namesakes[:8])}"
        )
    gpus = sorted(place for place in desk.places if _CLUSTER.sub("", place) in meant)
    if gpus and not namesakes:
        raise NothingOfThatName(
            f"nodes of several clusters have this name; name the GPU with its cluster: {', '.join(gpus[:8])}"
        )
    return tuple(namesakes)


def _launched(flags: argparse.Namespace, name: str) -> tuple[str, ...]:
    """What the service says of a submitted job; nothing of others, and where none runs to be asked."""
    if not is_submitted(name):
        return ()
    try:
        return asked_to_act(flags).job(name).explain
    except ClientError:
        return ()


def _waits(client: Client, job: str) -> tuple[str, ...]:
    """Why a job waits at its workload manager; nothing of one that doesn't."""
    runs = manager_job.runs(client, job)
    return manager_job.lines(runs) if runs and runs[0]["state"] == "pending" else ()


def _runs(client: Client, job: str, pages: Mapping[str, str]) -> tuple[str, ...]:
    """The runs that a job's processes say they are; nothing where the service is older."""
    return told_runs(runs_of(client.rows_if_kept("run_ids", job=job) or (), pages))


def _draw(explanation: "Explanation", desk: AdviceContext) -> None:
    screen = console()
    screen.print(f"{explanation.kind} {explanation.name}", style="bold")
    for fact in explanation.facts:
        screen.print(Padding(words.localized(fact), (0, 0, 0, 2), expand=False))
    screen.print("Advised" if explanation.advice else "Nothing is advised", style="bold")
    for advice in explanation.advice:
        screen.print(Padding(advice_lines.draw_advice(advice, desk.currency), (0, 0, 0, 2), expand=False))
        for each in advice.evidence:
            if each.value is not None and each.name != "rungs_held_back":
                screen.print(f"    {each.name}: {each.value}", style="bright_black")
    if explanation.steps:
        screen.print("In the plan", style="bold")
    for step in explanation.steps:
        screen.print(f"  {advice_lines.step_line(step)}")
    if explanation.why_not:
        screen.print("Why nothing else", style="bold")
    for line in advice_lines.draw_why_not(explanation.why_not):
        screen.print(Padding(line, (0, 0, 0, 2), expand=False))


def _row(explanation: "Explanation", desk: AdviceContext) -> dict[str, object]:
    return {
        "kind": explanation.kind,
        "name": explanation.name,
        "facts": list(explanation.facts),
        "advice": [advice_row(each, desk.currency) for each in explanation.advice],
        "steps": [step_row(step) for step in explanation.steps],
        "why_not": [asdict(each) for each in explanation.why_not],
    }
