"""How fresh the figures are: what the service said last, and whether it still speaks. Effects: it asks."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import pandas as pd

from service.client import ClientError
from service.pages import feed, wording
from service.pages.palette import Theme

LATE = timedelta(seconds=45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """``word`` is how the service does, ``told`` how old the newest sample is, ``last`` its instant."""

    word: str
    told: str
    colour: str
    last: pd.Timestamp | None = None
    simulated: bool = False
    """Whether the figures are invented."""


def heard(colours: Theme, zone: tzinfo) -> Heard:
    """How fresh the figures are now. Blocks for a moment; never raises ``ClientError``."""
    bad, warn = colours.states["allocated-empty"], colours.states["held-idle"]
    try:
        last = feed.ask("span").iloc[0]["last_ts"]
        reads_file = feed.mode() == "file"
    except ClientError:
        return Heard(word="", told="service not reached", colour=bad)
    if wording.missing(last):
        return Heard(word="", told="waiting for the first sample", colour=warn)
    behind, invented = pd.Timestamp(datetime.now(UTC)) - last, _is_simulated()
    ago = f"newest sample {wording.span(max(0.0, behind.total_seconds()))} ago"
    if reads_file:
        return Heard(word="not running", told=ago, colour=bad, last=last, simulated=invented)
    if behind > LATE:
        return Heard(word="late", told=ago, colour=warn, last=last, simulated=invented)
    return Heard(
        word="live",
        told=f"newest sample {clock(last, zone)}",
        colour=colours.states["moderate"],
        last=last,
        simulated=invented,
    )


def _is_simulated() -> bool:
    try:
        origin = feed.ask_if_kept("data_origin")
    except ClientError:
        return False
    return origin is not None and "simulated" in set(origin["origin"])


def clock(at: pd.Timestamp, zone: tzinfo) -> str:
    """A time of day to the second; UTC is named."""
    return f"{at.tz_convert(zone):%H:%M:%S}" + (" UTC" if zone is UTC else "")
