"""When all was last judged, and so what it means that nothing was found.

How fresh the figures are: what the service said last, and whether it still speaks. Effects: it asks.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.states import GpuState
from service.charts.theme import Theme
from service.client import ClientError
from service.pages.data import queries
from service.pages.parts.context import PageContext

NEVER = "Nothing was judged yet"
NEVER_WHY = "What is measured is judged once a minute, the first time as soon as the first measurement is in."
CALM = "Nothing was found to complain about"
JUDGED_LATE = timedelta(minutes=5)
"""Five judgements that did not come."""


def calm() -> str:
    """What there is to say where no finding is open: that there is none, or that nobody has looked yet."""
    return CALM if _judged_at() is not None else NEVER


def lateness(scene: PageContext) -> None:
    """A line where nobody has looked for a while, or ever; else nothing."""
    at = _judged_at()
    if at is None:
        st.caption(NEVER_WHY)
    elif datetime.now(UTC) - at > JUDGED_LATE:
        st.caption(f"Judged last {scene.when(at)}, and not since: what was open then may be over.")


def _judged_at() -> datetime | None:
    """The newest judgement; an older store does not say, and is believed to be judged up to now."""
    judgement = queries.ask_if_kept("judgement")
    if judgement is None:
        return datetime.now(UTC)
    moments = [pd.Timestamp(at).to_pydatetime() for at in judgement["judged_at"].dropna()]
    return moments[0] if moments else None


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
    bad, warn = colours.states[GpuState.ALLOCATED_EMPTY], colours.states[GpuState.HELD_IDLE]
    try:
        last = queries.ask("span").iloc[0]["last_ts"]
        reads_file = queries.mode() == "file"
        remark = queries.remark()
    except ClientError:
        return Heard(word="", told="service not reached", colour=bad)
    if text.missing(last):
        return Heard(word="", told="waiting for the first sample", colour=warn)
    behind, invented = pd.Timestamp(datetime.now(UTC)) - last, _is_simulated()
    ago = f"newest sample {text.length(max(0.0, behind.total_seconds()))} ago"
    if reads_file:
        return Heard(word="not running", told=ago, colour=bad, last=last, simulated=invented)
    if behind > LATE and remark is not None:
        return Heard(word="recorded", told=remark, colour=warn, last=last, simulated=invented)
    if behind > LATE:
        return Heard(word="late", told=ago, colour=warn, last=last, simulated=invented)
    return Heard(
        word="live",
        told=f"newest sample {clock(last, zone)}",
        colour=colours.states[GpuState.MODERATE],
        last=last,
        simulated=invented,
    )


def _is_simulated() -> bool:
    try:
        origin = queries.ask_if_kept("data_origin")
    except ClientError:
        return False
    return origin is not None and "simulated" in set(origin["origin"])


def clock(at: pd.Timestamp, zone: tzinfo) -> str:
    """A time of day to the second; UTC is named."""
    return f"{at.tz_convert(zone):%H:%M:%S}" + (" UTC" if zone is UTC else "")
