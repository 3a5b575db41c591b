"""What is advised now and why, what recurs in a range, what is left alone and why. Effects: it draws."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.actions import ActionClass, label_of_action
from analytics.vocabulary.states import GpuState
from service import wording
from service.charts.theme import ink_on as readable
from service.pages.data import queries
from service.pages.parts.charted import grid
from service.pages.parts.context import Stage, linked
from service.pages.parts.evidence import evidence_box
from service.pages.parts.url_state import window
from service.pages.parts.widgets import facts, plain, tag
from service.schemas.advice import AdviceRow
from service.schemas.control import Plan
from service.usecases.advised import Advised
from service.usecases.recurring import GAIN_UNKNOWN, gain_unknown, known_gain, told, told_past

MOST_REASONS = 8
MOST_HABITS = 6
LIKE: Mapping[ActionClass, GpuState] = {
    ActionClass.RECLAIM: GpuState.HELD_IDLE,
    ActionClass.CAP_MEMORY: GpuState.MODERATE,
    ActionClass.PACK: GpuState.LOW_SATURATION,
    ActionClass.CONSOLIDATE: GpuState.LOW_SATURATION,
    ActionClass.BACKGROUND: GpuState.LOW_SATURATION,
    ActionClass.RIGHT_SIZE: GpuState.GOOD,
    ActionClass.RESIZE: GpuState.GOOD,
    ActionClass.FAIR_SHARE: GpuState.SUSPECT,
    ActionClass.SCHEDULE: GpuState.FREE,
    ActionClass.TERMINATE: GpuState.ALLOCATED_EMPTY,
}
"""The state of a GPU whose colour a class of action bears."""


def head_sentence(rows: Sequence[AdviceRow], plans: Sequence[Plan] | None) -> str:
    """How much is advised in the rows below, what their known gains sum up to, and what waits for a yes.

    What is expected of coming hours and what is past are two sums.
    """
    gain = known_gain(rows)
    many = len(rows)
    waits = sum(len(each.steps) for each in plans or ())
    asks = f"; {waits} {'step waits' if waits == 1 else 'steps wait'} for a yes" if waits else ""
    if not many:
        return f"Nothing is advised now{asks}"
    within = f" within {text.length(gain.horizon_s)}" if gain.horizon_s else ""
    once = ", each job's largest alone" if gain.overlapping else ""
    coming = gain.coming_gpu_hours
    worth = f", worth {text.gpu_hours(coming)}{within}{once}" if coming else ""
    if gain.unknown == many:
        worth = f"; {gain_unknown(many)}"
    elif gain.unknown:
        worth += f", of {gain.unknown} {GAIN_UNKNOWN}"
    worth += "".join(f"; {each}" for each in told_past(gain, None))
    return f"{many} {'advice' if many == 1 else 'pieces of advice'}{worth}{asks}"


def recurring(stage: Stage, advised: Advised) -> None:
    """All that was wasted in the range, and the habits in it that a limit would help against."""
    shown = window(stage.view, advised.as_of.astimezone(UTC).replace(tzinfo=None))
    recurred = queries.recurred(shown.from_ts, shown.to_ts)
    if recurred is None:
        return
    st.subheader("In this time range", anchor=False)
    cost = recurred.wasted_cost
    worth = "" if cost is None else f", {text.money(cost, recurred.currency)},"
    recurs = "." if recurred.habits else "; nothing of it recurs so that a limit would help."
    st.markdown(
        plain(f"{text.gpu_hours(recurred.wasted_gpu_hours)}{worth} were wasted, ended jobs included{recurs}")
    )
    if recurred.habits:
        st.markdown("\n".join(f"- {plain(told(each))}" for each in recurred.habits[:MOST_HABITS]))
    if len(recurred.habits) > MOST_HABITS:
        st.caption(f"And {len(recurred.habits) - MOST_HABITS} more: `fallow advise --recurring`.")


def advice_box(stage: Stage, advised: Advised, row: AdviceRow) -> None:
    """One advice: what, why, what it would give, and its evidence."""
    name = str(row["id"])
    label, ground = label_of_action(str(row["class"])), _ground(stage, str(row["class"]))
    with st.container(border=True, key=f"advice-{name}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(tag(label, ground, readable(ground)), width="content")
            st.markdown(f"**{plain(row['what'])}**", width="content")
            st.space("stretch")
            linked(stage, str(row["job"] or ""))
        st.markdown(plain(wording.localized(str(row["why"]), stage.zone)))
        facts(_facts(advised, row))
        evidence_box(stage, row, lines=advised.lines, as_of=advised.as_of, key=name)


def _facts(advised: Advised, row: AdviceRow) -> list[tuple[str, str]]:
    items = gains(row)
    if row["horizon_s"] and row["gain_gpu_hours"]:
        items.append(("of the last" if row["gain_is_past"] else "within", text.length(row["horizon_s"])))
    items.append(("sure", sure(row)))
    who = ", ".join(row["risk_to"])
    items.append(("risk", f"{row['risk']}{f' ({who})' if who else ''}" if row["risk"] else "none"))
    items.append(("mode", advised.modes.get(str(row["class"]), "advise")))
    return items


def gains(row: AdviceRow) -> list[tuple[str, str]]:
    """What following it would give, in GPU-hours and money; nothing where that is nothing."""
    items = []
    if row["gain_gpu_hours"] is None or row["gain_gpu_hours"]:
        items.append(("would have left" if row["gain_is_past"] else "expected gain", expected(row)))
    if row["gain_money"]:
        items.append(("worth", text.money(row["gain_money"], row["currency"])))
    return items


def sure(row: AdviceRow) -> str:
    """How sure it is; "not known" where too few idle times were recorded to say."""
    return text.percent(row["confidence"]) if row["confidence_is_known"] else "not known"


def expected(row: AdviceRow) -> str:
    """The expected gain with the band that the evidence gives it; without one, that none was earned.

    What is past has no band: it is counted.
    """
    if row["gain_gpu_hours"] is None:
        return "not known"
    gain = float(row["gain_gpu_hours"])
    if row["gain_is_past"]:
        return text.gpu_hours(gain)
    evidence = row.get("evidence") or {}
    low, high, mid = (text.known(evidence.get(f"expected_{which}_s")) for which in ("low", "high", "idle"))
    if low is None or high is None or not mid:
        return f"{text.gpu_hours(gain)} (too little recorded for an error)"
    gpus = gain * 3600 / mid  # that are given back: a share of one is less than one
    return (
        f"{text.gpu_hours(gain)} (four of five times between {text.hours(low * gpus / 3600)} and "
        f"{text.hours(high * gpus / 3600)})"
    )


def left_alone(advised: Advised) -> None:
    """What a rule refuses, and what no policy advises, each with its reason."""
    st.subheader("Left alone, and why", anchor=False)
    if not advised.abstained and not advised.refused:
        st.caption("Nothing was held back.")
        return
    if advised.refused:
        st.markdown("**Refused by a rule**")
        rows = [
            {
                "Job": each.job,
                "What": each.action,
                "Rule": each.rule,
                "Why": each.reason,
                "Would change with": each.would_change,
            }
            for each in advised.refused
        ]
        grid(
            pd.DataFrame(rows), hide_index=True, placeholder=text.NOTHING, alt="What a rule refuses, and why"
        )
    counted = Counter((each["class"], each["reason"], each["would_change"]) for each in advised.abstained)
    if counted:
        st.markdown("**Not advised**")
        counts = [
            {"What": label_of_action(what), "Why": why, "Would change with": change, "Jobs": many}
            for (what, why, change), many in counted.most_common(MOST_REASONS * 4)
        ]
        grid(
            pd.DataFrame(counts),
            hide_index=True,
            placeholder=text.NOTHING,
            alt="What is not advised, and why",
        )


def _ground(stage: Stage, action: str) -> str:
    return stage.colours.states[LIKE[ActionClass(action)] if action in LIKE else GpuState.FREE]
