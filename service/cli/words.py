"""How values read on a screen: percent, GPU-hours, memory, money, spans. Pure; never part of an answer."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from service.durations import is_length
from service.energy import Energy

NOTHING = "-"
FULL, EMPTY = "█", "░"
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")
EIGHTHS = " ▏▎▍▌▋▊▉"


def percent(ratio: float | None) -> str:
    """``43%``; under 1% but not nothing is ``<1%``."""
    if ratio is None:
        return NOTHING
    return "<1%" if 0 < ratio < 0.005 else f"{ratio:.0%}"


def hours(value: float | None) -> str:
    """GPU-hours with as many digits as matter."""
    if value is None:
        return NOTHING
    if value and abs(value) < 0.05:
        return "<0.1"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def kwh(value: float | None) -> str:
    """Kilowatt-hours with as many digits as matter; nothing where none were measured."""
    return hours(value)


def energy(told: Energy) -> str:
    """``12.3 kWh``, with the part of the hours that was measured where it is not all of them."""
    part = told.partly_of
    return f"{kwh(told.kwh)} kWh{'' if part is None else f' (of {percent(part)} of the hours)'}"


def owner(row: Mapping[str, Any]) -> str:
    """Whose something is: a person, somebody where a job has it and no person is named, or nobody."""
    return str(row["user_name"] or ("nobody" if row["job"] is None else "somebody"))


def money(value: float | None, currency: str | None) -> str:
    """``1,234 USD``; nothing where the configuration has no price."""
    if value is None or currency is None:
        return NOTHING
    return f"{value:,.2f} {currency}" if abs(value) < 100 else f"{value:,.0f} {currency}"


def priced(value: float | None, currency: str | None) -> str:
    """What such hours cost, behind them: ``, 1,234 USD``; nothing where the configuration has no price."""
    cost = money(value, currency)
    return "" if cost == NOTHING else f", {cost}"


def in_range(since: str, until: str | None) -> str:
    """The range that the flags ask for, lengths or dates, as a sentence about it begins."""
    if until is not None:
        return f"{since} to {until}"
    return f"In the last {since}" if is_length(since) else f"Since {since}"


def count(value: float | None) -> str:
    """A number of things; fractions of a GPU keep one digit."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def memory(used_bytes: int | None, total_bytes: int | None) -> str:
    """``34/80 GiB``."""
    if used_bytes is None:
        return NOTHING
    used = f"{used_bytes / 2**30:.0f}" if used_bytes >= 2**30 else f"{used_bytes / 2**30:.1f}"
    return f"{used} GiB" if total_bytes is None else f"{used}/{total_bytes / 2**30:.0f} GiB"


def watts(value: float | None) -> str:
    """``310 W``, or ``6.1 kW`` from ten kilowatts' tenth on."""
    if value is None:
        return NOTHING
    return f"{value:.0f} W" if value < 1000 else f"{value / 1000:.1f} kW"


def span(seconds: float | None) -> str:
    """``3 s``, ``12 min``, ``5 h``, ``9 d``: one unit, rounded down."""
    if seconds is None:
        return NOTHING
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= length):
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0) // 1:.0f} s"


def since(text: str | None, now: datetime) -> float | None:
    """Seconds from a time as the API writes it to ``now``."""
    return None if text is None else (now - moment(text)).total_seconds()


def moment(text: str) -> datetime:
    """A time as the API writes it."""
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def clock_time(text: str | None) -> str:
    """A time in the reader's own zone, to the minute."""
    return NOTHING if text is None else f"{moment(text).astimezone():%Y-%m-%d %H:%M}"


def localized(sentence: str) -> str:
    """A stored sentence, which speaks in UTC, with its times in the reader's own zone."""

    def moved(found: "re.Match[str]") -> str:
        try:
            return clock_time(f"{found[1]}+00:00")
        except (ValueError, OverflowError):  # in a job's name anything may stand
            return found[0]

    return _STAMP.sub(moved, sentence)


def began(row: Mapping[str, Any]) -> str:
    """When somebody was first given a GPU; "or earlier" where the GPU's records only begin then."""
    return f"{clock_time(row['from_ts'])}{' or earlier' if row.get('from_is_bound') else ''}"


def many(number: int, one: str) -> str:
    """So many of something: ``1 job``, ``2 jobs``."""
    return f"{count(number)} {one}" if number == 1 else f"{count(number)} {one}s"


def bar(ratio: float | None, width: int) -> str:
    """A bar of so many cells, to an eighth of a cell; empty where nothing was measured."""
    if ratio is None:
        return " " * width
    eighths = round(max(0.0, min(1.0, ratio)) * width * 8)
    full, part = divmod(eighths, 8)
    drawn = FULL * full + (EIGHTHS[part] if part else "")
    return drawn.ljust(width)
