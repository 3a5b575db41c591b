"""Whom a verb asks, and what is said first of the answers: on every screen that they are invented, if so.

Names in the answers are made fit for a terminal here, before any verb lays out a line with them.

Each verb that shows what a store or a service holds comes through here, so that none can forget it
(tests/service/test_cli_simulated.py goes through all verbs).
"""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO

from service.client import Client, connect
from service.client.jobs import ActingClient, connect_acting

SIMULATED = "SIMULATED: these GPUs, people and jobs are invented"
MARK = "simulated"
"""The key of a row in JSON, where its values are invented; rows of real GPUs don't have it."""
FILTERS = ("node", "project", "user", "model")
"""The flags that narrow an answer down, as the query `options` calls them."""
ACCOUNTED = ("node", "project", "user")
"""Those of them that accounting tells of."""
NEAREST = 3
"""So many near names are a choice; more are a list."""


def asked(flags: argparse.Namespace, aside: IO[str] | None = None) -> Client:
    """A client of the store that the flags name. Blocks. Raises ``ClientError``.

    Where its data is simulated, the first line says so: on standard output, or on ``aside`` where that is
    for programs. With ``--json`` and ``--csv`` the rows say it instead (``marked``).
    """
    client = connect(flags.data)
    _prepare(client, flags, aside)
    for line in unknown_names(flags, client):
        print(line, file=sys.stderr)
    return client


def unknown_names(flags: argparse.Namespace, client: Client) -> list[str]:
    """A line for each filter whose value nothing recorded has, with the nearest that are. Blocks.

    An answer of nothing is right of it, and would read as if there were nothing to see.
    """
    names = {name: value for name in FILTERS if isinstance(value := getattr(flags, name, None), str)}
    rows = (client.rows_if_kept("options") or ()) if names else ()
    lines = []
    for name, value in names.items():
        values = [str(row["value"]) for row in rows if row["dimension"] == name]
        if values and value not in values:
            near = [each for each in values if value.casefold() in each.casefold()][:NEAREST]
            near = near or difflib.get_close_matches(value, values, n=NEAREST, cutoff=0.5)
            nearest = f"; nearest: {', '.join(near)}" if near else ""
            lines.append(
                f"Only imported accounting knows the {name} {value!r}; no sample does."
                if _is_accounted(client, name, value)
                else f"No {name} {value!r} is recorded here{nearest}."
            )
    return lines


def _is_accounted(client: Client, name: str, value: str) -> bool:
    """Whether imported accounting has it, at any time. Blocks."""
    if name not in ACCOUNTED:
        return False
    ever = {"from_ts": datetime.fromtimestamp(0, UTC), "to_ts": datetime.now(UTC)}
    return bool(client.rows_if_kept("accounted_use", **ever, **{name: value}, by="all"))


def asked_to_act(flags: argparse.Namespace, aside: IO[str] | None = None) -> ActingClient:
    """A client of the service's acting half, in the same manner. Blocks. Raises ``ClientError``."""
    client = connect_acting(flags.data)
    _prepare(client, flags, aside)
    return client


def say_simulated(flags: argparse.Namespace) -> None:
    """Say it of what the verb found in another way: its own sources."""
    _say(flags, None, simulated=True)


def marked(rows: Sequence[Mapping[str, object]], flags: argparse.Namespace) -> list[Mapping[str, object]]:
    """The rows as JSON has them: with ``"simulated": true`` in each, where they are invented."""
    return [{**row, MARK: True} for row in rows] if is_simulated(flags) else list(rows)


def is_simulated(flags: argparse.Namespace) -> bool:
    """Whether what was asked so far is invented."""
    return bool(getattr(flags, MARK, False))


def _prepare(client: Client | ActingClient, flags: argparse.Namespace, aside: IO[str] | None) -> None:
    if not _is_for_programs(flags):
        client.for_people()
    if not hasattr(flags, MARK):  # else another client of this verb has said it
        _say(flags, aside, simulated=client.is_simulated())


def _say(flags: argparse.Namespace, aside: IO[str] | None, *, simulated: bool) -> None:
    setattr(flags, MARK, simulated)
    if simulated and not _is_for_programs(flags):
        print(SIMULATED, file=sys.stdout if aside is None else aside, flush=True)


def _is_for_programs(flags: argparse.Namespace) -> bool:
    return any(getattr(flags, name, False) for name in ("json", "csv"))  # not every verb has them
