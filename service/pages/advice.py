"""Advice: what waits for a yes, what is advised and what it rests on, and what is left alone and why.

What is advised is of now; what recurs is of the time range, ended jobs included, beside all that was wasted
in it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import pandas as pd
import streamlit as st

from service.client.advising import Advised
from service.client.errors import ClientError
from service.client.recurring import known_gain, told
from service.pages import acting, feed, wording
from service.pages.evidence_drawn import evidence_box
from service.pages.notice import explain_acting
from service.pages.pieces import facts, plain, tag
from service.pages.pieces import ink_on as readable
from service.pages.plans import waiting_plans
from service.pages.records import PlanRow, plan_of
from service.pages.scene import Site
from service.pages.stage import Stage, linked, staged
from service.pages.switch import read_switch, switch_banner
from service.pages.tabled import grid
from service.pages.view import window

PER_PAGE = 8
MOST_REASONS = 8
MOST_HABITS = 6
CLASSES: Mapping[str, tuple[str, str]] = {
    "reclaim": ("Give back", "held-idle"),
    "cap-memory": ("Cap memory", "moderate"),
    "pack": ("Pack", "low-saturation"),
    "consolidate": ("Consolidate", "low-saturation"),
    "right-size": ("Right-size", "good"),
    "resize": ("Resize", "good"),
    "fair-share": ("Fair share", "suspect"),
    "schedule": ("Schedule", "free"),
    "terminate": ("End", "allocated-empty"),
}
"""A class of action: its words, and the state whose colour it bears."""


def show(site: Site) -> None:
    """Draw the page."""
    staged(site, _body)


def _body(stage: Stage) -> None:
    found = feed.advised()
    plans = _plans(stage)
    st.header(_sentence(found, plans), anchor=False)
    if plans is not None:
        switch_banner(stage, read_switch())
        waiting_plans(stage, plans, found)
    _recurring(stage, found)
    _advised(stage, found)
    _left_alone(found)


def _plans(stage: Stage) -> tuple[PlanRow, ...] | None:
    """The plans that wait; ``None``, and a line that says why, where no service answers for them."""
    try:
        rows = [plan_of(each) for each in acting.ask("plans")]
    except ClientError as error:
        notice = explain_acting(error)
        st.info(
            f"**Nothing waits for a yes here.** {notice.title}: {plain(str(error))}", icon=":material/info:"
        )
        return None
    return tuple(each for each in rows if each.state == "waiting")


def _sentence(found: Advised, plans: Sequence[PlanRow] | None) -> str:
    hours, unknown = known_gain(found.advice)
    many = len(found.advice)
    waits = sum(len(each.steps) for each in plans or ())
    asks = f"; {waits} {'step waits' if waits == 1 else 'steps wait'} for a yes" if waits else ""
    if not many:
        return f"Nothing is advised now{asks}"
    worth = f", worth {wording.hours(hours)} soon" if hours else ""
    worth += f", of {unknown} nothing recorded says how much" if unknown else ""
    return f"{many} {'advice' if many == 1 else 'pieces of advice'}{worth}{asks}"


def _recurring(stage: Stage, found: Advised) -> None:
    """All that was wasted in the range, and the habits in it that a limit would help against."""
    shown = window(stage.view, found.as_of.astimezone(UTC).replace(tzinfo=None))
    recurred = feed.recurred(shown.from_ts, shown.to_ts)
    if recurred is None:
        return
    st.subheader("In this time range", anchor=False)
    cost = recurred.wasted_cost
    worth = "" if cost is None else f", {wording.money(cost, recurred.currency)},"
    recurs = "." if recurred.habits else "; nothing of it recurs so that a limit would help."
    st.markdown(
        plain(f"{wording.hours(recurred.wasted_gpu_hours)}{worth} were wasted, ended jobs included{recurs}")
    )
    if recurred.habits:
        st.markdown("\n".join(f"- {plain(told(each))}" for each in recurred.habits[:MOST_HABITS]))
    if len(recurred.habits) > MOST_HABITS:
        st.caption(f"And {len(recurred.habits) - MOST_HABITS} more: `fallow advise --recurring`.")


def _advised(stage: Stage, found: Advised) -> None:
    rows = [each for each in found.advice if stage.view.kind in (None, each["class"])]
    facts(
        [
            ("as of", stage.when(found.as_of)),
            ("rules from", found.rules_from),
            ("left alone", wording.count(len(found.abstained))),
        ]
    )
    pages = -(-len(rows) // PER_PAGE)
    at = st.pagination(pages, key="advice-page") - 1 if pages > 1 else 0
    for row in rows[at * PER_PAGE : (at + 1) * PER_PAGE]:
        _one(stage, found, row)


def _one(stage: Stage, found: Advised, row: Mapping[str, Any]) -> None:
    name = str(row["id"])
    label, like = CLASSES.get(str(row["class"]), (str(row["class"]), "free"))
    ground = stage.colours.states[like]
    with st.container(border=True, key=f"advice-{name}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(tag(label, ground, readable(ground)), width="content")
            st.markdown(f"**{plain(row['what'])}**", width="content")
            st.space("stretch")
            linked(stage, str(row["job"] or ""))
        st.markdown(plain(wording.localized(str(row["why"]), stage.zone)))
        facts(_facts(found, row))
        evidence_box(stage, row, lines=found.lines, as_of=found.as_of, key=name)


def _facts(found: Advised, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    items = []
    if row["gain_gpu_hours"]:
        items.append(("expected gain", expected(row)))
    if row["gain_money"]:
        items.append(("worth", wording.money(row["gain_money"], row["currency"])))
    if row["horizon_s"]:
        items.append(("within", wording.span(row["horizon_s"])))
    items.append(("sure", wording.percent(row["confidence"])))
    who = ", ".join(row["risk_to"])
    items.append(("risk", f"{row['risk']}{f' ({who})' if who else ''}" if row["risk"] else "none"))
    items.append(("mode", found.modes.get(str(row["class"]), "advise")))
    return items


def expected(row: Mapping[str, Any]) -> str:
    """The expected gain with the band that the evidence gives it; without one, that none was earned."""
    gain = float(row["gain_gpu_hours"])
    held = row.get("evidence") or {}
    low, high, mid = (held.get(f"expected_{which}_s") for which in ("low", "high", "idle"))
    if low is None or high is None or not mid:
        return f"{wording.hours(gain)} (too little recorded for an error)"
    gpus = gain * 3600 / mid  # that are given back: a share of one is less than one
    return (
        f"{wording.hours(gain)} (four of five times between {wording.amount(low * gpus / 3600)} and "
        f"{wording.amount(high * gpus / 3600)})"
    )


def _left_alone(found: Advised) -> None:
    st.subheader("Left alone, and why", anchor=False)
    if not found.abstained and not found.refused:
        st.caption("Nothing was held back.")
        return
    if found.refused:
        st.markdown("**Refused by a rule**")
        rows = [
            {
                "Job": each["job"],
                "What": each["action"],
                "Rule": each["rule"],
                "Why": each["reason"],
                "Would change with": each["would_change"],
            }
            for each in found.refused
        ]
        grid(
            pd.DataFrame(rows), hide_index=True, placeholder=wording.DASH, alt="What a rule refuses, and why"
        )
    counted = Counter((each["class"], each["reason"], each["would_change"]) for each in found.abstained)
    if counted:
        st.markdown("**Not advised**")
        rows = [
            {"What": CLASSES.get(what, (what, ""))[0], "Why": why, "Would change with": change, "Jobs": many}
            for (what, why, change), many in counted.most_common(MOST_REASONS * 4)
        ]
        grid(
            pd.DataFrame(rows), hide_index=True, placeholder=wording.DASH, alt="What is not advised, and why"
        )
