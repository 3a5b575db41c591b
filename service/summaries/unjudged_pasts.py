"""What is not judged yet of pasts that were imported, recorded or made up; rows of ``unjudged_pasts``. Pure.

Of a job that had ended there nothing is found yet, which is not that there is nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from analytics import text

if TYPE_CHECKING:
    from service.schemas.rows import JobsRow, UnjudgedPastsRow


def is_unjudged(job: "JobsRow", pasts: "Sequence[UnjudgedPastsRow]") -> bool:
    """Whether a job had ended in what is not judged yet."""
    if job["to_ts"] is None:
        return False
    over = _moment(job["to_ts"])
    return any(_moment(each["judged_to"]) < over <= _moment(each["to_ts"]) for each in pasts)


def not_judged_yet(pasts: "Sequence[UnjudgedPastsRow]", span: tuple[datetime, datetime]) -> str | None:
    """What to say of a range: what of it is not judged, and how far that is; ``None``: all of it is."""
    rest = [(_moment(each["judged_to"]), _moment(each["to_ts"])) for each in pasts]
    shown = [each for each in rest if each[0] < text.aware(span[1]) and each[1] > text.aware(span[0])]
    if not shown:
        return None
    start, end = min(first for first, _ in shown), max(last for _, last in shown)
    whole = sum((_moment(each["to_ts"]) - _moment(each["from_ts"])).total_seconds() for each in pasts)
    left = sum((last - first).total_seconds() for first, last in rest)
    return (
        f"What had ended between {start:%Y-%m-%d %H:%M} UTC and {end:%Y-%m-%d %H:%M} UTC is not judged yet "
        f"({text.percent(1 - left / whole)} of that past is): nothing is found of it so far. "
        "A running service does it within minutes, `fallow import` at its end."
    )


def _moment(at: str) -> datetime:
    return text.aware(datetime.fromisoformat(at))
