"""Words of the command line: whose something is, when it was, in the reader's own zone; a bar. Pure.

How a number with a unit reads is ``analytics.text``'s to say.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from analytics import text
from service.durations import is_length
from service.summaries.finding_groups import again

FULL, EMPTY = "█", "░"
EIGHTHS = " ▏▎▍▌▋▊▉"


def owner(row: Mapping[str, object]) -> str:
    """Whose something is: a person, somebody where a job has it and no person is named, or nobody."""
    return str(row["user_name"] or ("nobody" if row["job"] is None else "somebody"))


def priced(value: float | None, currency: str | None) -> str:
    """What such hours cost, behind them: ``, 1,234 USD``; nothing where the configuration has no price."""
    cost = text.money(value, currency)
    return "" if cost == text.NOTHING else f", {cost}"


def in_range(since: str, until: str | None) -> str:
    """The range that the flags ask for, lengths or dates, as a sentence about it begins."""
    if until is not None:
        return f"{since} to {until}"
    return f"In the last {since}" if is_length(since) else f"Since {since}"


def since(at: str | None, now: datetime) -> float | None:
    """Seconds from a time as the API writes it to ``now``."""
    return None if at is None else (now - moment(at)).total_seconds()


def moment(value: str) -> datetime:
    """A time as the API writes it."""
    return text.aware(datetime.fromisoformat(value))


def clock_time(at: str | None) -> str:
    """A time in the reader's own zone, to the minute."""
    return text.NOTHING if at is None else minute(moment(at))


def found_again(part: Sequence[Mapping[str, object]]) -> str:
    """When else the first of findings of one kind was so on its GPU and was over; nothing where never."""
    first, *more = part
    ends = [str(each["closed_at"]) for each in more if each["uuid"] == first["uuid"] and each["closed_at"]]
    return again([clock_time(end) for end in sorted(ends)])


def localized(sentence: str) -> str:
    """A stored sentence, which speaks in UTC, with its times in the reader's own zone."""
    return text.localized(sentence, minute)


def began(row: Mapping[str, object]) -> str:
    """When somebody was first given a GPU; "or earlier" where the GPU's records only begin then."""
    return f"{clock_time(str(row['from_ts']))}{' or earlier' if row.get('from_is_bound') else ''}"


def bar(ratio: float | None, width: int) -> str:
    """A bar of so many cells, to an eighth of a cell; empty where nothing was measured."""
    if ratio is None:
        return " " * width
    eighths = round(max(0.0, min(1.0, ratio)) * width * 8)
    full, part = divmod(eighths, 8)
    drawn = FULL * full + (EIGHTHS[part] if part else "")
    return drawn.ljust(width)


def minute(at: datetime) -> str:
    """A time in the reader's own zone."""
    return f"{text.whole(at).astimezone():%Y-%m-%d %H:%M}"
