"""``fallow actions``, ``apply``, ``reject``, ``undo``, ``stop-acting``, ``start-acting``: what Fallow does.

Acting is stopped in two ways at the same time, and either is enough: a file in the DATA folder, which the
service looks for before every step and which needs no service that answers, and the service itself. It starts
again through the service or, where none runs, in its store.
"""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from collector.procfs.owners import whose_uid
from service import data_folder as client_place
from service.cli.asking import asked_to_act
from service.cli.job_words import job_id
from service.cli.plan_lines import at, plan_lines
from service.cli.screen import Column, console, print_json, table
from service.client.jobs import connect_acting
from service.config.flags import settle
from service.durations import parse_point, parse_span
from service.errors import ClientError, FallowError, ServiceDown
from service.schemas.control import Plan
from service.schemas.records import Action

COLUMNS = (
    Column(title="action", right=True),
    Column(title="when"),
    Column(title="job"),
    Column(title="what"),
    Column(title="by"),
    Column(title="outcome"),
    Column(title="why", below=True),
    Column(title="undo", below=True),
)
STYLES = {"done": "green", "failed": "red", "unknown": "bold red", "stale": "yellow"}


def run_actions(flags: argparse.Namespace) -> int:
    """Print it."""
    since = parse_point(flags.since, datetime.now(UTC))
    job = None if flags.job is None else job_id(flags.job)
    client = asked_to_act(flags)
    rows = client.actions(since_ms=max(0, round(since.timestamp() * 1000)), job=job)
    if flags.json:
        print_json([row.sent for row in rows], flags)
        return 0
    screen = console()
    switch = client.acting()
    if not switch.acting:
        why = f": {switch.because}" if switch.because else ""
        screen.print(f"Acting is stopped by {switch.by or 'somebody'}{why}.", style="bold red")
    if not rows:
        screen.print("Nothing was done.")
        return 0
    screen.print(table(COLUMNS, [_line(row) for row in rows]))
    return 0


def _line(row: Action) -> tuple[str | Text, ...]:
    outcome = row.outcome or "under way"
    undone = row.undone_by
    undo = f"undone by {undone}" if undone is not None else row.undo or f"({row.no_undo or 'none'})"
    result = row.found
    why = row.reason
    return (
        str(row.action),
        at(row.at_ms),
        row.job,
        row.verb.replace("-", " "),
        row.actor,
        Text(outcome, style=STYLES.get(outcome, "")),
        f"{why} [{result}]" if result and outcome != "done" else why,
        undo,
    )


class NoSuchPlan(FallowError):
    """No plan has this number, or it does not wait."""


def run_apply(flags: argparse.Namespace) -> int:
    """Do it and say what came of each step: status 0, or 1 when not all of it was done."""
    client = asked_to_act(flags)
    if not flags.yes:
        return _show(client.plans(), flags)
    came = client.apply(flags.plan, flags.step)
    screen = console()
    for each in came.steps:
        number = "" if each.action is None else f" (action {each.action})"
        reason = f": {each.message}" if each.message else ""
        screen.print(f"step {each.n}{number}: {each.outcome or 'not begun'}{reason}", highlight=False)
    screen.print(f"plan {flags.plan}: {came.outcome}", style="bold")
    is_complete = all(each.outcome == "done" for each in came.steps)
    return 0 if came.outcome == "under way" or (came.outcome == "done" and is_complete) else 1


def _show(plans: list[Plan], flags: argparse.Namespace) -> int:
    result = next((plan for plan in plans if plan.plan == flags.plan), None)
    if result is None:
        raise NoSuchPlan(f"there is no plan {flags.plan}; `fallow plan` lists those that wait")
    screen = console()
    for line in plan_lines(result):
        screen.print(line)
    if result.state == "waiting":
        screen.print("Nothing was done; add --yes to do it, or `fallow reject` it with --because.")
    return 0


def run_reject(flags: argparse.Namespace) -> int:
    """Turn it down, and say until when the same is not proposed again."""
    hours = None if flags.snooze is None else parse_span(flags.snooze).total_seconds() / 3600
    came = asked_to_act(flags).reject(flags.plan, flags.because, hours)
    print(came.message)
    return 0


def run_undo(flags: argparse.Namespace) -> int:
    """Undo it: status 0, or 1 when that was tried and did not work."""
    came = asked_to_act(flags).undo(flags.action)
    well = came.outcome in ("done", "under way")
    message = came.message or came.outcome
    number = "" if came.action is None else f" by action {came.action}"
    print(f"action {flags.action}{number}: {message}", file=sys.stdout if well else sys.stderr)
    return 0 if well else 1


ANSWER_S = 5.0


class NotStopped(FallowError):
    """Neither way worked."""


def run_stop_acting(flags: argparse.Namespace) -> int:
    """Stop it, by file and by service, and say which of them worked."""
    data = client_place.data_dir(flags.data)
    by_file, file_trouble = _by_file(data, flags.because)
    try:
        connect_acting(flags.data, timeout_s=ANSWER_S).stop_acting(flags.because)
    except ClientError as error:
        if by_file is None:
            raise NotStopped(f"acting goes on: the service says: {error}; and {file_trouble}") from error
        print(f"Acting is stopped by {by_file}. The service itself was not told: {error}")
        return 0
    print("Acting is stopped, now and after a restart. `fallow start-acting` lets it go on.")
    return 0


def whoami() -> str:
    """Who runs this, as the service would call them."""
    return whose_uid(os.getuid())


def _by_file(data: Path, reason: str) -> tuple[Path | None, str]:
    from advisor.journal.kill_switch import Setting, write_file

    if not client_place.store_file(data).exists():
        return None, f"there is no store in {data}; name the service's folder with --data"
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    try:
        return write_file(data, Setting(acting=False, by=whoami(), at_ms=now_ms, because=reason)), ""
    except OSError as error:
        return None, f"{data} cannot be written ({error.strerror})"


def run_start_acting(flags: argparse.Namespace) -> int:
    """Start it, and say so."""
    try:
        connect_acting(flags.data).start_acting()
    except ServiceDown:
        if not client_place.store_file(client_place.data_dir(flags.data)).exists():
            raise
        from advisor.journal.kill_switch import KillSwitch
        from service.store.open import own_store

        settings = settle(flags)
        now_ms = round(datetime.now(UTC).timestamp() * 1000)
        with own_store(settings.data, settings.effective.config) as store:
            KillSwitch(store, settings.data).start(whoami(), now_ms)
    print("Fallow acts again, as far as its modes let it; `fallow config` prints them.")
    return 0
