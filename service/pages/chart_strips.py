"""Strips of labelled stretches above a timeline: the states a GPU went through, and who held it. Pure."""

from collections.abc import Sequence

import pandas as pd

from service.pages import wording
from service.pages.chart_frame import rows, steps_of, utc, with_end
from service.pages.chart_lanes import Strip
from service.pages.palette import Theme, colour_of, label_of
from service.pages.pieces import ink_on
from service.pages.view import Window

ROOM = 0.055
"""The part of the window a stretch must fill before its label has room."""


def state_strip(timeline: pd.DataFrame, window: Window, colours: Theme) -> Strip:
    """The state of each step, neighbours of one state joined; a step without one is unknown."""
    whole = steps_of(window)
    known = timeline[["ts", "state"]].astype({"ts": whole["ts"].dtype})
    steps = with_end(whole.merge(known, on="ts", how="left"), window)
    states = steps["state"].astype(object).where(steps["state"].notna(), "unknown")
    runs = steps.assign(state=states, run=(states != states.shift()).cumsum())
    joined = runs.groupby("run", as_index=False).agg(
        ts=("ts", "min"), end=("end", "max"), state=("state", "first")
    )
    fills = [colour_of(state, colours, colours.muted) for state in joined["state"]]
    labels = [label_of(state) for state in joined["state"]]
    return Strip(title="State", stretches=_labelled(joined, fills, labels, labels, window))


def holder_strip(holders: pd.DataFrame, window: Window, colours: Theme) -> Strip:
    """Who held the GPU and when; each person keeps one shade within the strip."""
    start, stop = utc(window.from_ts), utc(window.to_ts)
    ends = holders["to_ts"].fillna(stop)
    frame = pd.DataFrame(
        {
            "ts": holders["from_ts"].where(holders["from_ts"] > start, start),
            "end": ends.where(ends < stop, stop),
        }
    )
    people = [_person(row) for row in rows(holders)]
    shades = shades_of(people, colours)
    told = [
        f"{who} · {row.job_name or row.job} · {row.source}"
        for who, row in zip(people, rows(holders), strict=True)
    ]
    labels = [
        f"{who} · {row.job_name}" if not wording.missing(row.job_name) else who
        for who, row in zip(people, rows(holders), strict=True)
    ]
    return Strip(title="Held by", stretches=_labelled(frame, shades, labels, told, window))


def shades_of(people: Sequence[str], colours: Theme) -> list[str]:
    """A shade for each, the same for the same person, from a ramp that differs in lightness."""
    ramp = (colours.ramp[3], colours.ramp[1], colours.ramp[4], colours.ramp[2])
    seen = list(dict.fromkeys(people))
    return [ramp[seen.index(who) % len(ramp)] for who in people]


def _labelled(
    frame: pd.DataFrame, fills: list[str], labels: list[str], told: list[str], window: Window
) -> pd.DataFrame:
    seconds = (frame["end"] - frame["ts"]).dt.total_seconds()
    room = [length / window.seconds for length in seconds]
    return frame[["ts", "end"]].assign(
        fill=fills,
        ink=[ink_on(fill) for fill in fills],
        text=[
            label if part > ROOM and part * 170 > len(label) else ""
            for label, part in zip(labels, room, strict=True)
        ],
        told=told,
    )


def _person(row: object) -> str:
    user = getattr(row, "user_name", None)
    return "unknown" if wording.missing(user) else str(user)
