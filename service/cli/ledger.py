"""``fallow ledger``: GPU-hours given out, used and wasted, by whatever key; they add up to the hardware."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from analytics import text
from collector.model import GpuState
from service import energy
from service.cli import accounted, freshness, words
from service.cli.asking import asked
from service.cli.screen import Column, console, place, print_json, state_text, table, which_fit
from service.client import Client
from service.durations import window
from service.energy import WASTED
from service.wording import at_most, is_bound, upper_bound

if TYPE_CHECKING:
    from service.schemas.rows import ChargedAlikeRow

HARDWARE_KEYS = ("node", "gpu", "model", "hour", "day")
TITLES = {"day": "day (UTC)", "gpu": "UUID"}
BAR_WIDTH = 24
"""So that states, hours, energy and cost stand on a line of 80."""
NO_ROOM = "Left out for want of room: {}; --json has them."
LEAST_SAID_HOURS = 0.05
"""Less shows as 0.0."""
OF_MEASURED = "use is of the time that was measured; the other columns are hours of all time."
NOBODY, NOT_KNOWN = "(nobody)", "(not known)"
Row = dict[str, object]
"""A row of the query of its key: each has columns of its own beside those that all have."""


def _text(row: Row, column: str) -> str | None:
    value = row[column]
    return None if value is None else str(value)


def _number(row: Row, column: str) -> float | None:
    return text.known(row.get(column))


def run_ledger(flags: argparse.Namespace) -> int:
    """Print one ledger."""
    start, end = window(flags.since, flags.until, datetime.now(UTC))
    filters = {name: getattr(flags, name) for name in ("node", "project", "user", "model")}
    with asked(flags) as client:
        rows = client.rows(f"ledger_by_{flags.by}", from_ts=start, to_ts=end, **filters)
        parameters = {"from_ts": start, "to_ts": end, **filters}
        alike = [] if flags.json else client.rows_if_kept("charged_alike", **parameters) or []
        names = {} if flags.json else _names(client, flags.by, (start, end))
        if flags.json:
            print_json(rows, flags)
            return 0
        local = (f"{at.astimezone():%Y-%m-%d %H:%M}" for at in (start, end))
        console().print(
            f"GPU-hours by {flags.by}, {' to '.join(local)} ({text.length((end - start).total_seconds())})",
            style="bold",
        )
        part = freshness.rests_on(client, (start, end), filters)
        for line in filter(None, (part, freshness.silent_end(client, start, end))):
            console().print(line, style="yellow")
        _draw(rows, flags.by, names, alike)
        accounted.draw(client, flags.by, (start, end), filters)
    return 0


def _draw(rows: Sequence[Row], by: str, names: dict[str, str], alike: "Sequence[ChargedAlikeRow]") -> None:
    screen = console()
    if not rows:
        screen.print("Nothing was measured in this time; see `fallow status` and `fallow doctor`.")
        return
    if by == "state":
        screen.print(_states(rows))
        _say_bound(rows, "bound_gpu_hours", "low-saturation, moderate and good")
        _say_measured(energy.used(rows), energy.used(row for row in rows if row["state"] in WASTED))
        _say_alike(alike)
        return
    shown = _named(rows, by, names)
    if by in ("hour", "day"):
        shown = [row for row in shown if row["gpu_hours"]]  # before anything was installed
    screen.print(_keys(shown, by))
    screen.print(OF_MEASURED, style="bright_black")
    _say_bound(shown, "bound_used_gpu_hours", "the use")
    _say_measured(energy.used(shown), energy.wasted(shown))
    _say_alike(alike)


def _say_bound(rows: Sequence[Row], column: str, of: str) -> None:
    """How many hours rest on GPU utilization alone; an older service tells none."""
    hours = sum(_number(row, column) or 0.0 for row in rows)
    if is_bound(hours):
        console().print(upper_bound(hours, of), style="bright_black")


def _say_alike(rows: "Sequence[ChargedAlikeRow]") -> None:
    """Hours of which nobody tells whose the use was: the columns of people and jobs are shares there."""
    if not rows:  # of an older service
        return
    (alike,) = rows
    if alike["alike_gpu_hours"] >= LEAST_SAID_HOURS:
        console().print(
            f"{text.hours(alike['alike_gpu_hours'])} GPU-hours are of GPUs that several held at once, and "
            "nobody tells whose the use was: all who held them are charged alike, by their shares.",
            style="bright_black",
        )
    if alike["unclear_gpu_hours"] >= LEAST_SAID_HOURS:
        console().print(
            f"Of {text.hours(alike['unclear_gpu_hours'])} more it is not kept whether it was told.",
            style="bright_black",
        )


def _say_measured(used: energy.Energy, wasted: energy.Energy) -> None:
    """A sum of energy is of the time in which it was measured: how much that is, where it is not all."""
    part, of_wasted = text.percent(used.partly_of), text.percent(wasted.partly_of)
    if not used.kwh:
        return
    if used.partly_of is not None or wasted.partly_of is not None:
        extent = part if used.partly_of is not None else "all"
        also = f", of the wasted ones in {of_wasted}" if wasted.partly_of is not None else ""
        console().print(f"Energy was measured in {extent} of the hours{also}.", style="bright_black")


def _names(client: Client, by: str, span: tuple[datetime, datetime]) -> dict[str, str]:
    """What people call a key that is a number: a GPU by its place, a job by its name and owner."""
    if by == "gpu":
        gpus = client.rows("gpu_names", from_ts=span[0], to_ts=span[1])
        return {row["uuid"]: place(row) + _until(row["to_ts"]) for row in gpus}
    if by == "job":
        jobs = client.rows("jobs", from_ts=span[0], to_ts=span[1])
        return {
            row["job"]: " ".join(filter(None, (row["job_name"], f"({row['user_name'] or 'unknown'})")))
            for row in jobs
        }
    return {}


def _until(to_ts: str | None) -> str:
    """Until when a GPU was there that is gone or was cut anew: its place may be another's now."""
    return "" if to_ts is None else f" until {words.clock_time(to_ts)}"


def _named(rows: Sequence[Row], by: str, names: dict[str, str]) -> list[Row]:
    named = [{**row, "name": names.get(_text(row, "key") or "", "")} for row in rows]
    if by == "gpu":
        return sorted(named, key=lambda row: str(row["name"]))
    return sorted(named, key=lambda row: row["key"] is None)


def _states(rows: Sequence[Row]) -> RenderableType:
    rows = [row for row in rows if row["state"] != GpuState.WITHHELD or row["gpu_hours"]]
    priced = any(row["cost"] is not None for row in rows)
    metered = any(row.get("energy_kwh") for row in rows)
    columns = [
        Column(title="state"),
        Column(title="GPU-hours", right=True),
        Column(title="share", right=True),
    ]
    columns += [
        Column(title=""),
        *([Column(title="kWh", right=True)] if metered else []),
        *([Column(title="cost", right=True)] if priced else []),
    ]
    hours = sum(_number(row, "gpu_hours") or 0.0 for row in rows)
    cost = sum(_number(row, "cost") or 0.0 for row in rows)
    currency = next((str(row["currency"]) for row in rows if row["currency"]), None)
    lines: list[list[str | Text]] = [
        [
            state_text(str(row["state"])),
            text.hours(_number(row, "gpu_hours")),
            text.percent(_number(row, "share_ratio")),
            Text(
                words.bar(_number(row, "share_ratio"), BAR_WIDTH), style=state_text(str(row["state"])).style
            ),
            *([text.kwh(_number(row, "energy_kwh"))] if metered else []),
            *([text.money(_number(row, "cost"), _text(row, "currency"))] if priced else []),
        ]
        for row in rows
    ]
    sums = [
        text.hours(hours),
        "",
        "",
        *([text.kwh(energy.used(rows).kwh)] if metered else []),
        *([text.money(cost, currency)] if priced else []),
    ]
    lines.append([Text("all", style="bold"), *sums])
    return table(columns, lines)


def _keys(rows: Sequence[Row], by: str) -> RenderableType:
    hardware = by in HARDWARE_KEYS
    priced = any(row["wasted_cost"] is not None for row in rows)
    metered = any(row.get("energy_kwh") for row in rows)
    withheld = hardware and any(row.get("withheld_gpu_hours") for row in rows)
    columns = [
        *([Column(title="gpu")] if by == "gpu" else []),
        Column(title=TITLES.get(by, by), spare=1 if by == "gpu" else None),
        *([Column(title="name", spare=7)] if by == "job" else []),
        Column(title="installed" if hardware else "GPU-hours", right=True),
        *([Column(title="held", right=True, spare=3)] if hardware else []),
        Column(title="used", right=True),
        Column(title="wasted", right=True),
        *([Column(title=GpuState.WITHHELD.value, right=True, spare=2)] if withheld else []),
        Column(title=GpuState.UNKNOWN.value, right=True, spare=4),
        Column(title="use", right=True),
        Column(title="", spare=1),
        *([Column(title="kWh", right=True, spare=5)] if metered else []),
        *([Column(title="wasted kWh", right=True, spare=6)] if metered else []),
        *([Column(title="wasted cost", right=True)] if priced else []),
    ]
    lines = [_key_line(row, by, withheld, metered, priced) for row in rows]
    columns_shown = which_fit(columns, lines, console().width)
    missing = [each.title for at, each in enumerate(columns) if at not in columns_shown and each.title]
    shown = table(columns, lines)
    return Group(shown, Text(NO_ROOM.format(", ".join(missing)), style="bright_black")) if missing else shown


def _key_line(row: Row, by: str, withheld: bool, metered: bool, priced: bool) -> list[str | Text]:
    hardware = by in HARDWARE_KEYS
    return [
        *([str(row["name"] or "?")] if by == "gpu" else []),
        _key(row, by, hardware),
        *([str(row["name"])] if by == "job" else []),
        text.hours(_number(row, "gpu_hours")),
        *([text.hours(_number(row, "held_gpu_hours"))] if hardware else []),
        _used(row),
        Text(text.hours(_number(row, "wasted_gpu_hours")), style="red" if row["wasted_gpu_hours"] else ""),
        *([text.hours(_number(row, "withheld_gpu_hours"))] if withheld else []),
        text.hours(_number(row, "unknown_gpu_hours")),
        at_most(text.percent(_number(row, "utilization_ratio")), _number(row, "bound_used_gpu_hours")),
        Text(words.bar(_number(row, "utilization_ratio"), 10), style="green"),
        *(
            [text.kwh(_number(row, "energy_kwh")), text.kwh(_number(row, "wasted_energy_kwh"))]
            if metered
            else []
        ),
        *([text.money(_number(row, "wasted_cost"), _text(row, "currency"))] if priced else []),
    ]


def _used(row: Row) -> str:
    """Hours of use; of who held GPUs and was never measured they are not known, which is not 0."""
    gpu_hours = _number(row, "held_gpu_hours" if "held_gpu_hours" in row else "gpu_hours")
    if gpu_hours and _number(row, "utilization_ratio") is None:
        return text.NOTHING
    return at_most(text.hours(_number(row, "used_gpu_hours")), _number(row, "bound_used_gpu_hours"))


def _key(row: Row, by: str, hardware: bool) -> str:
    """The key in words; without one, what nobody held is told from what somebody unnamed did."""
    key = _text(row, "key")
    if key is None:
        return NOBODY if not hardware and not row["held_gpu_hours"] else NOT_KNOWN
    match by:
        case "hour":
            return words.clock_time(key)
        case "day":
            return key[:10]
        case _:
            return key
