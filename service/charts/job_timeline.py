"""A launched job's life: where it stood, and on how many GPUs, from submission to its end or now. Pure.

It is read off the directives that its launcher carried out, so it shows what was done, not what was wished.
"""

from collections.abc import Mapping
from datetime import datetime

import altair as alt
import pandas as pd

from analytics import text
from analytics.vocabulary.states import GpuState
from service.charts.frame import Layered, styled, unchecked
from service.charts.theme import Theme, ink_on
from service.schemas.records import GivenCommand, JobDetail, instant

STANDS: Mapping[str, str] = {
    "pending": "waits",
    "starting": "starts",
    "running": "runs",
    "paused": "paused",
    "ended": "ended",
}
"""The words for where a job stands."""

DAY_S, SHORT_S = 86_400, 900
MOST_TICKS = 8
_GOES_ON = ("start", "resume", "reallocate")
_GIVES_BACK: Mapping[str, str] = {"pause": "paused", "requeue": "pending", "cancel": "ended"}


def life_of(job: JobDetail, now: datetime) -> pd.DataFrame:
    """One row a stretch: ``ts, end, stand, gpus`` (devices, each a share if the job has one) and ``why``.

    Empty where the submission's time is not known.
    """
    submitted, ended = instant(job.submitted_ms), instant(job.ended_ms)
    if submitted is None:
        return pd.DataFrame({"ts": [], "end": [], "state": [], "gpus": [], "why": []})
    turns: list[tuple[datetime, str, int, str]] = [(submitted, "pending", 0, job.message)]
    for command in sorted(job.directives, key=lambda each: each.number):
        at = instant(command.acknowledged_ms or (command.given_ms if command is job.directives[-1] else None))
        if at is None or command.failed:
            continue
        if (turn := _turn(command, turns[-1][2])) is not None:
            turns.append((at, *turn, reason_of(command)))
    end = ended or now
    if ended is not None:
        turns = [turn for turn in turns if turn[0] <= ended and turn[1] != "ended"] or turns[:1]
    starts = [turn[0] for turn in turns]
    ends = [*starts[1:], max(end, starts[-1])]
    frame = pd.DataFrame(turns, columns=["ts", "state", "gpus", "why"]).assign(end=ends)
    for name in ("ts", "end"):
        frame[name] = pd.to_datetime(frame[name], utc=True).dt.as_unit("us")
    return frame[["ts", "end", "state", "gpus", "why"]]


def gpu_hours(life: pd.DataFrame, share: float) -> float:
    """GPU-hours that the job held, by its directives."""
    if life.empty:
        return 0.0
    hours = (life["end"] - life["ts"]).dt.total_seconds() / 3600
    return float((hours * life["gpus"]).sum() * share)


@unchecked
def life_chart(life: pd.DataFrame, colours: Theme, *, utc: bool, height: int = 150) -> Layered:
    """A strip of where it stood, above the world over time as a stepped area."""
    stands = stand_colours(colours)
    most = float(life["gpus"].max() or 1.0)
    span_s = max(1.0, (life["end"].max() - life["ts"].min()).total_seconds())
    fills = [stands.get(stand, colours.muted) for stand in life["state"]]
    room = [(end - ts).total_seconds() / span_s for ts, end in zip(life["ts"], life["end"], strict=True)]
    words = [STANDS.get(stand, stand) for stand in life["state"]]
    frame = life.assign(
        fill=fills,
        ink=[ink_on(fill) for fill in fills],
        word=words,
        label=[label if part * 120 > len(label) else "" for label, part in zip(words, room, strict=True)],
        world=[text.count(gpus) for gpus in life["gpus"]],
        low=most * 1.12,
        high=most * 1.42,
        middle=most * 1.27,
        zero=0.0,
        lasted=[text.length(part * span_s) for part in room],
    )
    scale = alt.Scale(type="utc") if utc else alt.Scale(type="time")
    time_format = "%d %b %H:%M" if span_s > DAY_S else "%H:%M" if span_s > SHORT_S else "%H:%M:%S"
    x_axis = alt.Axis(title=None, grid=False, format=time_format, tickCount=8, labelOverlap=True)
    x = alt.X("ts:T", scale=scale, axis=x_axis)
    few = list(range(int(most) + 1)) if most <= MOST_TICKS else alt.Undefined
    axis = alt.Axis(title="GPUs", format="d", tickMinStep=1, values=few)
    y = alt.Y("zero:Q", scale=alt.Scale(domain=[0, most * 1.45], nice=False), axis=axis)
    tooltip = [
        alt.Tooltip("word:N", title="Stands"),
        alt.Tooltip("world:N", title="GPUs"),
        alt.Tooltip("lasted:N", title="For"),
        alt.Tooltip("why:N", title="Why"),
    ]
    base = alt.Chart(frame).encode(x=x, x2="end:T", tooltip=tooltip)
    world = base.mark_rect(color=colours.used, opacity=0.88).encode(y=y, y2="gpus:Q")
    strip = base.mark_rect(cornerRadius=2).encode(
        y=alt.Y("low:Q"), y2="high:Q", color=alt.Color("fill:N", scale=None)
    )
    labels = (
        alt.Chart(frame)
        .mark_text(align="left", dx=6, fontSize=12)
        .encode(x=x, y="middle:Q", text="label:N", color=alt.Color("ink:N", scale=None))
    )
    return styled(alt.layer(world, strip, labels), colours, height=height)


def stand_colours(colours: Theme) -> dict[str, str]:
    """A colour for each stand, from those that states have: what works is blue, what waits is pale."""
    return {
        "pending": colours.states[GpuState.FREE],
        "starting": colours.states[GpuState.LOW_SATURATION],
        "running": colours.states[GpuState.GOOD],
        "paused": colours.states[GpuState.HELD_IDLE],
        "ended": colours.states[GpuState.UNKNOWN],
    }


def gpus_of(command: GivenCommand) -> tuple[str, ...]:
    """The GPUs that a directive gives; a background job is given none, only told of one."""
    directive = command.directive
    return () if directive is None or directive.beside is not None else directive.gpus


def reason_of(command: GivenCommand) -> str:
    """Why it was given, or what it says."""
    return "" if command.directive is None else command.directive.reason or command.directive.message


def _turn(command: GivenCommand, gpus: int) -> tuple[str, int] | None:
    """Where the job stands once this was carried out; ``None`` where it changes nothing."""
    if command.verb in _GOES_ON:
        return "running", len(gpus_of(command)) or gpus
    if command.verb in _GIVES_BACK:
        return _GIVES_BACK[command.verb], 0
    return None
