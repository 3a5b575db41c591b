"""History in and telemetry out: ``fallow import`` and ``fallow export``.

What is imported is months of dcgm-exporter's history, or of Slurm's accounting: resumable, and safe to
repeat. What is exported lies in open files, which ``--source replay=FILE`` takes back.
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from analytics import text
from service.cli import credentials, import_jobs
from service.cli.asking import asked
from service.cli.screen import Column, console, table
from service.client import Client, ImportFailed, NoData, connect
from service.config.flags import Settings, settle
from service.durations import window
from service.errors import FallowError
from service.usecases.imports import of_two_clusters, without_uuid

if TYPE_CHECKING:
    from collector.sources.prometheus.import_history import Progress as Read
    from collector.store.database import Store
    from service.schemas.service import ImportPlan


POLL_S = 0.5
DAY_MS = 86_400_000


def run_import(flags: argparse.Namespace) -> int:
    """Say what would be read; with --yes read it."""
    if flags.origin == "jobs":
        return import_jobs.run(flags)
    if not flags.url:
        raise ImportFailed("samples are imported from a Prometheus server: name it with --url")
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    order: dict[str, object] = {
        "url": flags.url if "://" in flags.url else f"http://{flags.url}",
        "from_ms": round(start.timestamp() * 1000),
        "to_ms": round(end.timestamp() * 1000),
        "match": flags.match,
        **credentials.wanted(flags, os.environ),
    }
    settings = settle(flags)
    with connect(settings.data) as client:
        if client.mode == "service":
            return _through_service(client, order, yes=flags.yes)
    return _by_itself(settings, order, yes=flags.yes)


def _through_service(client: Client, order: dict[str, object], *, yes: bool) -> int:
    screen = console()
    planned = client.plan_import(order)
    if not _worth_doing(screen, planned, yes=yes):
        return 0
    client.begin_import(order)
    with _bar(screen) as bar:
        task = bar.add_task("importing", total=planned.todo_ms, added=0)
        try:
            while (state := client.import_state()).state == "running":
                _show(bar, task, state.done_ms, state.rows_added)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            screen.print("The service goes on importing; it stops when the service does.")
            raise
        if state.state == "done":
            _show(bar, task, planned.todo_ms, state.rows_added)
    if state.state != "done":
        raise ImportFailed(state.message)
    screen.print(state.message)
    screen.print("The service judges the jobs that have ended in it within minutes.")
    return 0


def _by_itself(settings: Settings, order: dict[str, object], *, yes: bool) -> int:
    from service.server.startup import make_data_dir
    from service.store.open import own_store
    from service.usecases import imports

    screen = console()
    make_data_dir(settings.data)
    import_order = imports.ImportOrder(**{key: value for key, value in order.items() if value is not None})  # type: ignore[arg-type]
    with own_store(settings.data, settings.effective.config) as store:
        planned = imports.plan(store, import_order)
        if not _worth_doing(screen, planned, yes=yes):
            if yes:
                _judge(settings, store, screen)  # an import that was stopped while it judged is made whole
            return 0
        with _bar(screen) as bar:
            task = bar.add_task("importing", total=planned.todo_ms, added=0)
            done = imports.run(store, import_order, _noting(bar, task))
        _judge(settings, store, screen)
    screen.print(done)
    return 0


def _judge(settings: Settings, store: "Store", screen: Console) -> None:
    """Judge what these rules have not judged of all that was imported, and how things stand at its end."""
    from service.usecases import judge

    with _bar(screen, counts="") as bar:
        task = bar.add_task("judging the jobs that have ended in it", total=1.0)
        judge.judge_pasts(
            settings.effective.config, store, tell=lambda part: bar.update(task, completed=part)
        )
    judge.judge_imported(settings.effective.config, store)


def _noting(bar: Progress, task: TaskID) -> "Callable[[Read], None]":
    return lambda read: _show(bar, task, read.done_ms, read.rows_added)


def _worth_doing(screen: Console, planned: "ImportPlan", *, yes: bool) -> bool:
    todo = text.length(planned.todo_ms / 1000)
    if not planned.todo_ms:
        screen.print("All of it was imported before; nothing to do.")
        return False
    screen.print(
        f"{planned.origin}: {todo} to read, {len(planned.metrics)} metrics, "
        f"up to {text.count(planned.series)} series of each at a time, a sample every {_steps(planned)}."
    )
    if planned.unnamed:
        screen.print(without_uuid(planned.unnamed))
    if planned.shared_nodes:
        screen.print(f"{of_two_clusters(planned.shared_nodes)}.")
    if not yes:
        screen.print("Nothing was imported; add --yes to do it. It can be stopped and repeated at any time.")
    return yes


def _steps(planned: "ImportPlan") -> str:
    """The time between two samples, of the fastest and of the slowest target."""
    fastest = f"{planned.step_ms / 1000:g}"
    slower = planned.slowest_ms > planned.step_ms
    return f"{fastest} to {planned.slowest_ms / 1000:g} s, by target" if slower else f"{fastest} s"


def _bar(screen: Console, counts: str = "  {task.fields[added]:,} samples") -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%" + counts),
        TimeRemainingColumn(),
        console=screen,
        disable=not screen.is_terminal,
    )


def _show(bar: Progress, task: TaskID, done_ms: int, added: int) -> None:
    bar.update(task, completed=done_ms, added=added)


class ExportFailed(FallowError):
    """The files could not be written."""


def run_export(flags: argparse.Namespace) -> int:
    """Write the files, and say what they are."""
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    with asked(flags) as client:
        try:
            files = client.export(flags.out, kind=flags.format, from_ts=start, to_ts=end)
        except OSError as error:
            raise ExportFailed(f"cannot write to {flags.out}: {error.strerror or error}") from error
    if not files:
        raise NoData(f"nothing was measured since {flags.since}")
    columns = [Column(title="file"), Column(title="rows", right=True), Column(title="size", right=True)]
    lines = [[str(path), text.count(rows), text.size(path.stat().st_size)] for path, rows in files]
    console().print(table(columns, lines))
    return 0
