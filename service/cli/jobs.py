"""Submitted jobs: ``fallow jobs``; ``pause``, ``resume``, ``resize``, ``cancel``, ``keep`` for one of them.

``keep`` has any job left alone for a while, launched by Fallow or not.
"""

import argparse
from datetime import datetime

from rich.padding import Padding

from analytics import text
from service.cli.asking import asked_to_act
from service.cli.job_words import job_id, ordered, say_what_is_left
from service.cli.screen import Column, console, print_json, table
from service.durations import parse_span
from service.schemas.records import Job, JobDetail

COLUMNS = (
    Column(title="job"),
    Column(title="name", least=8),
    Column(title="user"),
    Column(title="project"),
    Column(title="stands"),
    Column(title="GPUs", right=True),
    Column(title="since", right=True),
    Column(title="command", below=True),
    Column(title="why", below=True),
)
ENDED = "ended"


def run_jobs(flags: argparse.Namespace) -> int:
    """Print them."""
    client = asked_to_act(flags)
    if flags.job is not None:
        return _show(client.job(job_id(flags.job)), flags)
    listed = client.jobs_listed(
        state=flags.state,
        ended=None if flags.all or flags.state is not None else False,
        user=flags.user,
        project=flags.project,
        limit=flags.limit,
    )
    rows = listed.rows
    if flags.json:
        print_json(listed.sent, flags)
        say_what_is_left(listed, "--user, --project or --state")
        return 0
    screen = console()
    if not rows:
        screen.print(
            "No submitted jobs." if flags.all else "No submitted jobs now; --all shows those that ended."
        )
        return 0
    now_ms = client.now_ms()
    screen.print(table(COLUMNS, [_line(row, now_ms) for row in rows]))
    say_what_is_left(listed, "--user, --project or --state")
    return 0


def _line(row: Job, now_ms: int) -> tuple[str, ...]:
    submission = row.submission
    return (
        row.job,
        submission.name or text.NOTHING,
        str(submission.user),
        str(submission.project),
        _stands(row),
        f"{_gpus(row)}",
        text.length_cell(_since_s(row, now_ms)),
        " ".join(submission.command),
        row.message,
    )


def _show(row: JobDetail, flags: argparse.Namespace) -> int:
    if flags.json:
        print_json([row.sent], flags)
        return 0
    screen, submission = console(), row.submission
    name = f" {submission.name}" if submission.name else ""
    screen.print(f"{row.job}{name} · {submission.user} · {submission.project} · {_stands(row)}", style="bold")
    screen.print(Padding(" ".join(submission.command), (0, 0, 0, 2), expand=False))
    for line in row.explain:
        screen.print(Padding(line, (0, 0, 0, 2), expand=False))
    if row.gpus:
        screen.print(Padding(f"on {', '.join(row.gpus)}", (0, 0, 0, 2), expand=False))
    for action in row.actions:
        at = datetime.fromtimestamp((action.at_ms or 0) / 1000).astimezone()
        why = f": {action.reason}" if action.reason else ""
        outcome = action.outcome or "under way"
        screen.print(f"  {at:%Y-%m-%d %H:%M} {action.verb} by {action.actor} ({outcome}){why}")
    return 0


def _stands(row: Job) -> str:
    ending = row.exit_reason
    if row.state != ENDED or ending is None:
        return row.state
    code = row.exit_code
    return f"{ending} ({code})" if ending == "failed" and code is not None else ending


def _gpus(row: Job) -> str:
    submission = row.submission
    part = "" if submission.share == 1 else f"x{submission.share:g}"
    if submission.background:
        return "gaps"
    if row.gpus:
        return f"{len(row.gpus)}{part}"
    least, most = submission.min_gpus, submission.max_gpus
    return f"{least}{part}" if least == most else f"{least}-{most}{part}"


def _since_s(row: Job, now_ms: int) -> float | None:
    """How long it stands so, by the service's calendar: in a rehearsal that is not the machine's clock."""
    since_ms = row.ended_ms or row.started_ms or row.submitted_ms
    return None if since_ms is None else (now_ms - since_ms) / 1000


def run_pause(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.pause(job, because=flags.because))


def run_resume(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.resume(job, because=flags.because))


def run_resize(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.resize(job, flags.gpus, because=flags.because))


def run_cancel(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    return ordered(flags, lambda client, job: client.cancel(job, because=flags.because, force=flags.force))


HOUR_S = 3600.0


def run_keep(flags: argparse.Namespace) -> int:
    """Order it, and say what came of it."""
    if (alone := flags.alone) is not None:
        return ordered(flags, lambda client, job: client.keep_alone(job, flags.because, alone=alone))
    hours = flags.hours
    if hours is None:
        hours = parse_span(flags.span).total_seconds() / HOUR_S
    return ordered(flags, lambda client, job: client.keep(job, hours, because=flags.because))
