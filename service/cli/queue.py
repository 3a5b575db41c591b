"""``fallow queue``: who waits, in order, and for what: at Fallow itself, and at a workload manager."""

import argparse
from datetime import datetime

from analytics import text
from service.cli import manager_queue
from service.cli.asking import asked, asked_to_act
from service.cli.job_words import say_what_is_left
from service.cli.screen import Column, console, print_json, table
from service.schemas.control import Waiting

COLUMNS = (
    Column(title="place", right=True),
    Column(title="job"),
    Column(title="name", least=8),
    Column(title="user"),
    Column(title="project"),
    Column(title="GPUs", right=True),
    Column(title="waits", right=True),
    Column(title="promised"),
    Column(title="for", below=True),
)


def run_queue(flags: argparse.Namespace) -> int:
    """Print them."""
    client = asked_to_act(flags)
    listed = client.queue_listed(flags.limit)
    rows = listed.rows
    with asked(flags) as reader:
        managed = manager_queue.read(reader)
        is_drawn = bool(managed) and not flags.json
        gpus = reader.rows("gpus_now") if is_drawn else []
        nodes = reader.rows("manager_nodes") if is_drawn else []
    if flags.json:
        print_json([*listed.sent, *manager_queue.as_json(managed[: flags.limit])], flags)
        say_what_is_left(listed)
        return 0
    screen = console()
    now_ms = client.now_ms()
    if rows:
        screen.print(table(COLUMNS, [_line(row, now_ms) for row in rows]))
        say_what_is_left(listed)
    if managed:
        manager_queue.draw(managed, gpus, nodes, flags.limit, now_ms)
    elif not rows:
        screen.print("Nobody waits.")
    return 0


def _line(row: Waiting, now_ms: int) -> tuple[str, ...]:
    promised = row.promised_ms
    return (
        str(row.place),
        row.job,
        row.name or text.NOTHING,
        str(row.user),
        str(row.project),
        text.count(row.gpus),
        text.length_cell(None if row.since_ms is None else (now_ms - row.since_ms) / 1000),
        text.NOTHING if promised is None else f"{datetime.fromtimestamp(promised / 1000).astimezone():%H:%M}",
        row.waits_for,
    )
