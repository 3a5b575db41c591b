"""How a value reads wherever a person reads it: page, terminal, report, alert, finding. Pure.

Each kind of value has one formatter, here and nowhere else (``tests/test_house.py``). What was not measured
is a dash, never 0. A number and its unit are parted by a space, thousands by a comma; percent has no space.
A length of time has two: ``length`` in sentences, ``length_cell`` in the cells of tables, where a column of
one unit each is read down at a glance and 80 columns are few (docs/decisions/0067).
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import SupportsFloat

NOTHING = "\u2013"
"""What stands where nothing was measured."""
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")


def missing(value: object) -> bool:
    """Whether there is no measurement: ``None``, NaN, and what pandas has for them."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 what NaN alone is
    except TypeError:  # pandas.NA is neither equal to itself nor unequal
        return True


def known(value: object) -> float | None:
    """A number of a row, of JSON or a frame; ``None`` where none is known. Raises TypeError for any other."""
    if missing(value):
        return None
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"{value!r} stands where a number should")
    return float(value)


def length(seconds: float | None) -> str:
    """A length of time in a sentence, rounded down: ``45 s``, ``25 min``, ``3 h 10 min``, ``1 d 3 h``."""
    if seconds is None or missing(seconds):
        return NOTHING
    whole = max(0, math.floor(seconds))
    if whole < HOUR_S:
        return f"{whole} s" if whole < MINUTE_S else f"{whole // MINUTE_S} min"
    if whole < DAY_S:
        return _of_two(whole // HOUR_S, "h", whole % HOUR_S // MINUTE_S, "min")
    return _of_two(whole // DAY_S, "d", whole % DAY_S // HOUR_S, "h")


def length_cell(seconds: float | None) -> str:
    """A length of time in a cell, in one unit and rounded down: ``90 min``, ``3 h``, ``9 d``."""
    if seconds is None or missing(seconds):
        return NOTHING
    whole = max(0, math.floor(seconds))
    for unit, size, least in (
        ("d", DAY_S, 2 * DAY_S),
        ("h", HOUR_S, 2 * HOUR_S),
        ("min", MINUTE_S, MINUTE_S),
    ):
        if whole >= least:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def percent(ratio: float | None, *, signed: bool = False) -> str:
    """A part: ``43%``, with one digit under ten (``3.2%``); what is under a thousandth is ``<0.1%``."""
    if ratio is None or missing(ratio):
        return NOTHING
    value = float(ratio) * 100
    if 0 < value < 0.05:
        return "<0.1%"
    digits = 1 if 0 < abs(value) < 9.95 else 0
    return f"{value:{'+' if signed else ''}.{digits}f}%"


def part(ratio: float | None) -> str:
    """As ``percent``, but what is not all of it never reads as 100%: ``99.7%``."""
    return coverage(ratio) if ratio is not None and 0.99 < ratio < 1 else percent(ratio)


def coverage(ratio: float | None) -> str:
    """How much was measured, rounded down to a digit: what is under a limit never reads as the limit."""
    if ratio is None or missing(ratio):
        return NOTHING
    return f"{math.floor(ratio * 1000 + 1e-6) / 10:g}%"


def hours(value: float | None) -> str:
    """Hours for a column that names the unit: ``3.2``, ``285.1``, ``1,234``; a little is ``<0.1``."""
    if value is None or missing(value):
        return NOTHING
    if 0 < value < 0.05:
        return "<0.1"
    return f"{value:,.1f}" if abs(value) < 999.95 else f"{value:,.0f}"


def gpu_hours(value: float | None) -> str:
    """``3.2 GPU-hours``."""
    return NOTHING if missing(value) else f"{hours(value)} GPU-hours"


def kwh(value: float | None) -> str:
    """Kilowatt-hours for a column that names the unit, with as many digits as hours have."""
    return hours(value)


def energy(value: float | None) -> str:
    """``12.3 kWh``."""
    return NOTHING if missing(value) else f"{kwh(value)} kWh"


def money(value: float | None, currency: str | None) -> str:
    """``12.50 EUR``, ``1,234 EUR``; a dash where nothing has a price."""
    if value is None or missing(value) or not currency:
        return NOTHING
    return f"{value:,.2f} {currency}" if abs(value) < 99.995 else f"{value:,.0f} {currency}"


def count(value: float | None) -> str:
    """A number of things: ``2``, ``1,250``; parts of a GPU with up to two digits."""
    if value is None or missing(value):
        return NOTHING
    rounded = round(float(value), 2) + 0.0  # no -0 of what rounding left over
    return f"{rounded:,.0f}" if rounded.is_integer() else f"{rounded:,.2f}".rstrip("0")


def many(number: float | None, one: str, more: str | None = None) -> str:
    """So many of something: ``1 job``, ``2 jobs``; ``more`` where several aren't ``one`` with an s."""
    shown = count(number)
    return f"{shown} {one}" if shown == "1" else f"{shown} {more or f'{one}s'}"


def amount(value: float | None) -> str:
    """A measured quantity without a unit: two digits under 1, one under 100: ``0.33``, ``5.3``, ``120``."""
    if value is None or missing(value):
        return NOTHING
    size_of = abs(value)
    return f"{value:,.{0 if size_of == 0 or size_of >= 99.95 else 1 if size_of >= 0.995 else 2}f}"


def gpus(value: float | None) -> str:
    """A mean of GPUs over time: whole where it is whole to a twentieth."""
    if value is None or missing(value):
        return NOTHING
    return count(round(value)) if abs(value - round(value)) < 0.05 else amount(value)


def some_gpus(value: float | None) -> str:
    """A mean of GPUs with its noun: ``1 GPU``, ``5.3 GPUs``."""
    shown = gpus(value)
    return f"{shown} GPU" if shown == "1" else f"{shown} GPUs"


def gpus_were(value: float | None) -> str:
    """A mean of GPUs with its verb: ``1 was``, ``5.3 were``."""
    shown = gpus(value)
    return f"{shown} was" if shown == "1" else f"{shown} were"


def size(count_bytes: float | None) -> str:
    """Bytes: ``12.5 GiB``, ``80 GiB``, ``512 MiB``."""
    if count_bytes is None or missing(count_bytes):
        return NOTHING
    if count_bytes >= GIB:
        return f"{count_bytes / GIB:,.1f}".removesuffix(".0") + " GiB"
    if count_bytes >= MIB:
        return f"{count_bytes / MIB:.0f} MiB"
    return "<1 KiB" if 0 < count_bytes < KIB else f"{count_bytes / KIB:.0f} KiB"


def memory(used_bytes: float | None, total_bytes: float | None) -> str:
    """Memory in use of all there is, for a cell: ``34/80 GiB``, ``0.5/80 GiB``."""
    if used_bytes is None or missing(used_bytes):
        return NOTHING
    used = f"{used_bytes / GIB:.0f}" if used_bytes >= GIB else f"{used_bytes / GIB:.1f}"
    if total_bytes is None or missing(total_bytes):
        return f"{used} GiB"
    return f"{used}/{total_bytes / GIB:.0f} GiB"


def watts(value: float | None) -> str:
    """Power: ``310 W``, ``4.0 kW``."""
    if value is None or missing(value):
        return NOTHING
    return f"{value:.0f} W" if value < 999.5 else f"{value / 1000:,.1f} kW"


def celsius(value: float | None) -> str:
    """A temperature: ``61 °C``."""
    return NOTHING if value is None or missing(value) else f"{value:.0f} °C"


def megahertz(value: float | None) -> str:
    """A clock's rate: ``1,980 MHz``."""
    return NOTHING if value is None or missing(value) else f"{value:,.0f} MHz"


def clock(at_ms: int) -> str:
    """A point of time in a sentence that is stored: ``2026-11-03 14:05 UTC``."""
    return whole(datetime.fromtimestamp(at_ms / 1000, UTC)).strftime("%Y-%m-%d %H:%M UTC")


def aware(at: datetime) -> datetime:
    """A time that names no zone is UTC, as everywhere in the store."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def whole(at: datetime) -> datetime:
    """The nearest second of a time that is shown to the minute: what ends at 01:00 is stored a moment before,
    and would read as 00:59."""
    return at if at.year == MAXYEAR else (at + timedelta(milliseconds=500)).replace(microsecond=0)


def localized(sentence: str, written: Callable[[datetime], str]) -> str:
    """A stored sentence, which speaks in UTC, with its times as ``written`` writes them for its reader."""

    def moved(found: "re.Match[str]") -> str:
        try:
            return written(datetime.fromisoformat(f"{found[1]}+00:00"))
        except (ValueError, OverflowError):  # in a job's name anything may stand
            return found[0]

    return _STAMP.sub(moved, sentence)


def evidence(name: str, value: object) -> tuple[str, str]:
    """(what, how much) of a number of evidence, by the unit in its name: ``idle_ratio`` is ("idle", "97%").

    An unlisted unit leaves the name as it is.
    """
    words = name.split("_")
    match value:
        case None:
            return " ".join(words), "not measured"
        case bool():
            return " ".join(words), "yes" if value else "no"
        case int() | float() if words[-1] in WRITERS and len(words) > 1:
            stem = words[:-2] if words[-2:] == ["gpu", "hours"] else words[:-1]
            return " ".join(stem) or name, WRITERS[words[-1]](value)
        case int() | float():
            return " ".join(words), amount(value) if isinstance(value, float) else count(value)
        case _:
            return " ".join(words), str(value)


def _minutes(value: float | None) -> str:
    return length(None if value is None else value * MINUTE_S)


def _milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return clock(int(value)) if value > _AN_INSTANT_MS else length(value / 1000)


_AN_INSTANT_MS = 10**11
"""No length is this long (three years), and no time of ours this early."""
WRITERS: Mapping[str, Callable[[float | None], str]] = {
    "ratio": percent,
    "bytes": size,
    "hours": gpu_hours,
    "gpus": lambda value: many(value, "GPU"),
    "s": length,
    "min": _minutes,
    "minutes": _minutes,
    "ms": _milliseconds,
    "w": watts,
    "mw": lambda value: watts(None if value is None else value / 1000),
    "c": celsius,
    "mhz": megahertz,
}
"""How a value is written whose name ends with this unit."""


def _of_two(more: int, unit: str, less: int, smaller: str) -> str:
    return f"{more} {unit} {less} {smaller}" if less else f"{more} {unit}"
