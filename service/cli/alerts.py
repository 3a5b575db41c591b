"""``fallow alerts``: the cases, whom a word reached, what happens next; or one message, to see it arrive."""

import argparse
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from analytics import text
from service.cli import words
from service.cli.asking import asked
from service.cli.colours import ALERT_STYLES, PLAIN
from service.cli.screen import console, print_json
from service.config.flags import settle
from service.durations import window
from service.errors import FallowError

if TYPE_CHECKING:
    from service.config.telling import DeliveryConfig
    from service.schemas.rows import AlertsRow

AHEAD = timedelta(days=3650)
"""In a rehearsal the calendar of the cases is ahead of this machine's."""


class NoReceiver(FallowError):
    """Nobody is known by what was typed."""


def run_alerts(flags: argparse.Namespace) -> int:
    """Print the cases, the open ones first; or send the test message."""
    if flags.test is not None:
        return _test(flags)
    start, end = window(flags.since, flags.until, datetime.now(UTC) + timedelta(minutes=1))
    end = end if flags.until else end + AHEAD
    filters = {name: getattr(flags, name) for name in ("node", "project", "user")}
    only_open = None if flags.all else True
    with asked(flags) as client:
        rows = client.rows("alerts", from_ts=start, to_ts=end, open=only_open, **filters)
    if flags.json:
        print_json(rows, flags)
        return 0
    screen = console()
    if not rows:
        screen.print("No open alerts." if only_open else f"No alerts in the last {flags.since}.")
        return 0
    still = sum(row["closed_at"] is None for row in rows)
    more = f", {len(rows) - still} that are over" if len(rows) > still else ""
    screen.print(f"{still} open {'alert' if still == 1 else 'alerts'}{more}", style="bold")
    now = datetime.now(UTC)
    for row in rows:
        screen.print(_draw(row, now))
    return 0


def _draw(row: "AlertsRow", now: datetime) -> RenderableType:
    over = row["closed_at"] is not None
    head = Text.assemble(
        (f"{row['number']} ", "bright_black"),
        (row["kind"], ALERT_STYLES.get(row["kind"], PLAIN)),
        f" · {row['rung']}  {row['title']}",
        (f" · for {text.length(words.since(row['since_ts'], now))}" if not over else "", "bright_black"),
    )
    lines = [Text(words.localized(row["says"]))]
    if over:
        lines.append(Text(f"over since {words.clock_time(row['closed_at'])}: {row['because']}"))
    else:
        lines.append(Text(f"next: {words.localized(row['next'])}"))
        if row["command"]:
            lines.append(Text(row["command"], style="cyan"))
    lines.append(Text(_receivers_text(row), style="bright_black"))
    return Group(head, *(Padding(each, (0, 0, 0, 2), expand=False) for each in lines))


def _receivers_text(row: "AlertsRow") -> str:
    """``user:ada`` is ada, as people say it."""
    groups = {"told": row["told"], "on its way to": row["waiting"], "did not reach": row["missed"]}
    parts = [f"{what} {_names(who)}" for what, who in groups.items() if who]
    return "; ".join(parts) or "nobody was sent a word"


def _names(receivers: str) -> str:
    return ", ".join(
        f"the head of {each.removeprefix('project:')}"
        if each.startswith("project:")
        else each.removeprefix("user:")
        for each in receivers.split(", ")
    )


class _Tried(TypedDict):
    to: str
    arrived: bool
    took_s: float
    found: str | None


def _test(flags: argparse.Namespace) -> int:
    """One message to each address of a receiver, now, by this process; 1 when one did not arrive."""
    from service.notify.message import Message, NoAddress, address_of, harmless, receivers
    from service.notify.sender import send

    delivery = settle(flags).effective.config.delivery
    rows: list[_Tried] = []
    for receiver in receivers(_route(flags.test, delivery), delivery):
        to = "an address" if "://" in flags.test else flags.test
        message = Message(
            key="test",
            to=receiver,
            title="[Fallow] A test",
            text=f"Somebody had Fallow send this to see whether messages to {to} arrive. Nothing is wrong.",
        )
        shown, began = receiver.partition("://")[0], time.monotonic()
        try:
            address = address_of(receiver, delivery)
            shown = f"{shown} ({harmless(address)})"
            with tempfile.TemporaryDirectory() as place:
                result = send(message, address, Path(place))
        except NoAddress as error:
            result = str(error)
        took_s = round(time.monotonic() - began, 1)
        rows.append({"to": shown, "arrived": not result, "took_s": took_s, "found": result or None})
    if flags.json:
        print_json(rows, flags)
    else:
        for row in rows:
            sentence = (
                f"taken after {row['took_s']:.1f} s" if row["arrived"] else f"not taken: {row['found']}"
            )
            console().print(f"{row['to']}: {sentence}", highlight=False, markup=False)
    return 0 if all(row["arrived"] for row in rows) else 1


def _route(name: str, delivery: "DeliveryConfig") -> str:
    """The route or address of a route's, project's or user's name, in that order."""
    from service.notify.message import receiver_of

    if name in delivery.routes or "://" in name:
        return name
    result = delivery.projects.get(name) or receiver_of(name, delivery)
    if result is None:
        choices = ", ".join((*delivery.routes, *delivery.projects, *delivery.people)) or "none is configured"
        raise NoReceiver(
            f"{name!r} is no route, project, person or address; known under [delivery]: {choices}"
        )
    return result
