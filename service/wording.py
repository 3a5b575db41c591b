"""How numbers, times and amounts are written on screens: one format for each kind, everywhere.

Percent exists only here; ``None`` and NaN are written as a dash, never as 0. A space that does
not break parts a number from its unit, a thin one groups thousands.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

import pandas as pd

from service.energy import Energy, used, wasted
from service.schemas.values import as_text

THIN = "\u202f"
GAP = "\u00a0"
DASH = "\u2013"
GIB = 1024**3
DOUBTS: Mapping[str, str] = {
    "uses-of-another-namespace": "The driver told of use by pids that are not listed here, as it does in a "
    "container: no process has a share of the GPU's time.",
    "uses-by-mps-server": "CUDA's multi-process service runs these: the driver tells of its server's use "
    "alone, so its clients have no share of the GPU's time.",
    "pids-of-another-namespace": "The driver lists processes of another pid namespace: they are counted, and "
    "named nobody.",
    "gone-process-listed": "One of the processes that the driver listed exists no more; it is left out.",
    "process-shares-scaled": "The driver's shares added up to more than the GPU did; they are scaled down.",
    "processes-by-mig-instance": "A MIG instance tells no process's share of its time.",
}
"""What a collector's flags about processes mean to a reader; docs/measuring.md says what is made of each."""
SHORT_UUID = 12
"""So much of a UUID tells GPUs apart and fits a cell."""
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")


def percent(ratio: float | None, *, digits: int | None = None) -> str:
    """A ratio as percent: one digit under 10 %, none above, unless told; 0.004 is "0.4 %"."""
    if missing(ratio):
        return DASH
    value = float(ratio or 0.0) * 100
    shown = digits if digits is not None else (1 if 0 < abs(value) < 9.95 else 0)
    return f"{value:.{shown}f}{THIN}%"


def coverage(ratio: float | None) -> str:
    """How much was measured, as percent with one digit: under 95 % is not judged, so the last count."""
    return percent(ratio, digits=1)


def hours(value: float | None) -> str:
    """GPU-hours, with as many digits as mean something."""
    return DASH if missing(value) else f"{amount(value)}{GAP}GPU-h"


def kwh(value: float | None) -> str:
    """Energy; megawatt-hours from 10,000 kWh."""
    if missing(value):
        return DASH
    number = float(value or 0.0)
    return f"{amount(number / 1000)}{GAP}MWh" if number >= 10_000 else f"{amount(number)}{GAP}kWh"


def energy(told: Energy) -> str:
    """Energy with the part of the hours that was measured, where it is not all of them."""
    part = told.partly_of
    return f"{kwh(told.kwh)}{'' if part is None else f', of {percent(part)} of the hours'}"


def measured_part(what: str, told: Energy) -> str:
    """What an energy is called where it stands alone, with the part of its hours that was measured."""
    part = told.partly_of
    return what if part is None else f"{what}, of {percent(part)} of hours"


def held_now(row: Any) -> str:
    """The GPUs at the newest tick in a sentence, from the row of ``cluster_now``."""
    told = f"{gpus(row['held_gpus'])} of {gpus(row['gpus'])} GPUs are held now, {gpus(row['idle_held_gpus'])}"
    withheld = row.get("withheld_gpus") or 0
    more = f"; {gpus(withheld)} {'is' if withheld == 1 else 'are'} withheld" if withheld else ""
    return f"{told} of them do nothing{more}"


def energy_measured(rows: Sequence[Mapping[Any, Any]]) -> str:
    """Behind a table with energy: of how much of the time it is known, where that is not all of it."""
    parts = [
        f"{percent(each.partly_of)} of the {which}"
        for each, which in ((used(rows), "hours"), (wasted(rows), "wasted ones"))
        if each.partly_of is not None
    ]
    return f" Energy was measured in {' and in '.join(parts)}." if parts else ""


def amount(value: float | None) -> str:
    """A bare quantity: two digits under 1, one under 100, whole above, thousands grouped."""
    if missing(value):
        return DASH
    number = float(value or 0.0)
    digits = 0 if number == 0 or abs(number) >= 99.95 else (1 if abs(number) >= 0.995 else 2)
    return f"{number:,.{digits}f}".replace(",", THIN)


def gpus(value: float | None) -> str:
    """A number of GPUs, which may be a mean: whole where it is whole to a twentieth."""
    if missing(value):
        return DASH
    number = float(value or 0.0)
    return count(number) if abs(number - round(number)) < 0.05 else amount(number)


def count(value: float | None) -> str:
    """A whole number, thousands grouped."""
    return DASH if missing(value) else f"{round(float(value or 0)):,}".replace(",", THIN)


def many(number: float | None, one: str, more: str | None = None) -> str:
    """So many of something: "1 job", "2 jobs"; ``more`` is the word for several where it isn't ``one``'s."""
    shown = count(number)
    return f"{shown} {one}" if shown == "1" else f"{shown} {more or f'{one}s'}"


def money(value: float | None, currency: str | None) -> str:
    """An amount of money, whole above 100; a dash where nothing has a price."""
    if missing(value):
        return DASH
    number = float(value or 0.0)
    shown = f"{number:,.0f}" if abs(number) >= 100 else f"{number:,.2f}"
    return f"{shown.replace(',', THIN)}{GAP}{currency or ''}".rstrip(GAP)


def gibibytes(value: float | None) -> str:
    """Bytes as GiB."""
    return DASH if missing(value) else f"{amount(float(value or 0.0) / GIB)}{GAP}GiB"


def watts(value: float | None) -> str:
    """Power; kilowatts from 10,000 W."""
    if missing(value):
        return DASH
    number = float(value or 0.0)
    return f"{amount(number / 1000)}{GAP}kW" if number >= 10_000 else f"{count(number)}{GAP}W"


def span(seconds: float | None) -> str:
    """A length of time in its two largest units: "3 d 4 h", "12 min", "8 s"."""
    if missing(seconds):
        return DASH
    left = max(0, round(float(seconds or 0.0)))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        whole, left = divmod(left, size)
        if whole or parts:
            parts.append(f"{whole}{GAP}{unit}" if whole else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or f"0{GAP}s"


def moment(at: datetime | None, zone: tzinfo = UTC) -> str:
    """A point in time in ``zone``: "21 Nov 09:30"; times without a zone are UTC."""
    if missing(at) or at is None:
        return DASH
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return aware.astimezone(zone).strftime("%d %b %H:%M").lstrip("0")


def localized(sentence: str, zone: tzinfo = UTC) -> str:
    """A stored sentence, which speaks in UTC, with its times as the rest of the screen writes them."""

    def moved(found: "re.Match[str]") -> str:
        try:
            return moment(datetime.fromisoformat(f"{found[1]}+00:00"), zone)
        except (ValueError, OverflowError):  # in a job's name anything may stand
            return found[0]

    return _STAMP.sub(moved, sentence)


def in_a_spreadsheet(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is marked as text (CSV injection, OWASP)."""
    return as_text(value) if isinstance(value, str) else value


def missing(value: object) -> bool:
    """Whether a cell holds no measurement: ``None``, NaN or NaT."""
    return value is None or bool(pd.isna(value))  # type: ignore[call-overload]


def short_gpu(node: str | None, place: str | None, uuid: str | None) -> str:
    """A GPU as people say it: "node03 · GPU 5", "node03 · GPU 0/1g.10gb#7"; by UUID where it has no index.

    ``place`` is what it is called on its node, the column ``gpu_place``.
    """
    if missing(place):
        return f"{node or 'unknown node'} · {(uuid or '')[:SHORT_UUID]}"
    return f"{node or 'unknown node'} · GPU{GAP}{place}"


def doubts(flags: object) -> tuple[str, ...]:
    """Sentences for what was odd when a GPU's processes were looked at; what readers need no word for is left
    out. ``flags`` as `processes_now` has them, comma-separated or missing."""
    said = () if missing(flags) else tuple(each.strip() for each in str(flags).split(","))
    return tuple(DOUBTS[each] for each in said if each in DOUBTS)
