"""Advice: what waits for a yes, what is advised and what it rests on, and what is left alone and why.

What is advised is of now; what recurs is of the time range, ended jobs included, beside all that was wasted
in it.

Plans that wait for a yes: their steps, to approve, reject with a reason, or snooze. Effects: it draws.
"""

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
from service.client.jobs import ActingClient
from service.errors import ClientError
from service.pages.data import jobs, queries
from service.pages.parts import submit_form
from service.pages.parts.charted import grid
from service.pages.parts.context import Site, Stage, linked, staged
from service.pages.parts.evidence import Judged, class_of, evidence_box
from service.pages.parts.kill_switch import read_switch, switch_banner
from service.pages.parts.messages import explain_acting
from service.pages.parts.url_state import window
from service.pages.parts.widgets import facts, plain, tag
from service.pages.sign_in import May, may_order
from service.schemas.advice import AdviceRow
from service.schemas.control import Gain, Plan, PlanStep, Refused
from service.schemas.records import instant
from service.usecases.advised import Advised
from service.usecases.recurring import GAIN_UNKNOWN, gain_unknown, known_gain, told, told_past

SNOOZES: Mapping[str, float] = {"4 h": 4.0, "1 day": 24.0, "1 week": 168.0}
AGAIN = "until it changes"


def waiting_plans(stage: Stage, plans: Sequence[Plan], found: Advised) -> None:
    """Each plan in a box; nothing where none waits. ``found`` has the thresholds that charts draw."""
    for plan in plans:
        with st.container(border=True, key=f"plan-{plan.plan}", gap="small"):
            _plan(stage, plan, found)


def gain_told(gain: Gain | None) -> str | None:
    """An expected gain in words; ``None`` where there is none, or it is not known."""
    if gain is None or not gain.gpu_hours:
        return None
    within = f" within {text.length(gain.horizon_s)}" if gain.horizon_s is not None else ""
    return f"{text.gpu_hours(gain.gpu_hours)}{within}"


def _plan(stage: Stage, plan: Plan, found: Advised) -> None:
    many = len(plan.steps)
    st.subheader(f"Plan {plan.plan} waits for a yes: {many} {'step' if many == 1 else 'steps'}", anchor=False)
    chosen = [each for each in plan.steps if _step(stage, plan, each, found)]
    if plan.refused:
        _refused(plan.refused)
    facts([("made", stage.when(instant(plan.as_of_ms))), ("plan", str(plan.plan))])
    may = _may(plan)
    with st.container(horizontal=True, gap="small"):
        _approve(plan, chosen, may)
        _reject(plan, may)
    if not may.may:
        st.caption(may.why)


def _may(plan: Plan) -> May:
    """The owner of all jobs of a plan settles it, and an operator any."""
    ruled = [may_order(owner=step.user) for step in plan.steps] or [may_order()]
    return next((may for may in ruled if not may.may), ruled[0])


def _step(stage: Stage, plan: Plan, step: PlanStep, found: Advised) -> bool:
    with st.container(gap="xsmall", key=f"step-{plan.plan}-{step.n}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            sentence = step.sentence or f"{step.verb} {step.job}"
            if len(plan.steps) > 1:
                taken = st.checkbox(plain(sentence), value=True, key=f"take-{plan.plan}-{step.n}")
            else:
                st.markdown(f"**{plain(sentence)}**", width="content")
                taken = True
            st.space("stretch")
            linked(stage, step.job)
        if step.why:
            st.markdown(plain(wording.localized(step.why, stage.zone)))
        items = [("reason", step.reason)] if step.reason else []
        items += [("expected gain", gain)] if (gain := gain_told(step.expected_gain)) else []
        items += [("risk", step.risk)] if step.risk else []
        facts([*items, ("mode", step.mode)])
        if step.evidence:
            row: Judged = {"class": class_of(step.evidence), "job": step.job, "evidence": step.evidence}
            as_of = instant(plan.as_of_ms) or found.as_of
            evidence_box(stage, row, lines=found.lines, as_of=as_of, key=f"{plan.plan}-{step.n}")
    return taken


def _approve(plan: Plan, chosen: Sequence[PlanStep], may: May) -> None:
    whole = len(chosen) == len(plan.steps)
    steps = None if whole else [each.n for each in chosen]
    words = [str(plan.plan), "--yes"] + [w for n in steps or () for w in ("--step", str(n))]
    label = "Approve" if whole else f"Approve {len(chosen)} of {len(plan.steps)}"
    with st.popover(label, icon=":material/check:", key=f"approve-{plan.plan}", disabled=not chosen):
        st.markdown(
            f"**{label}?** Every precondition is read again first; what is no longer so is not done, and "
            "says why."
        )
        st.button(
            "Do it",
            key=f"do-approve-{plan.plan}",
            type="primary",
            disabled=not may.may,
            on_click=jobs.order,
            args=("apply", f"approve plan {plan.plan}", plan.plan),
            kwargs={"steps": steps},
        )
        st.caption("Or in a shell:")
        st.code(submit_form.command("apply", *words), language="shell")


def _reject(plan: Plan, may: May) -> None:
    with st.popover("Reject", icon=":material/block:", key=f"reject-{plan.plan}"):
        because = st.text_input("Because", key=f"reject-because-{plan.plan}").strip()
        chosen = st.segmented_control(
            "Do not ask again",
            [AGAIN, *SNOOZES],
            default=AGAIN,
            key=f"snooze-{plan.plan}",
            required=True,
            help="The same suggestion comes back once this is over, or once what it rests on has changed.",
        )
        hours = SNOOZES.get(chosen or AGAIN)
        words = ["--because", because or "..."] + ([] if hours is None else ["--snooze", f"{hours:g}h"])
        st.button(
            "Reject it",
            key=f"do-reject-{plan.plan}",
            type="primary",
            disabled=not may.may or not because,
            on_click=jobs.order,
            args=("reject", f"reject plan {plan.plan}", plan.plan),
            kwargs={"because": because, "snooze_hours": hours},
        )
        st.caption("A reason is needed: whoever asks next reads it." if not because else "Or in a shell:")
        st.code(submit_form.command("reject", str(plan.plan), *words), language="shell")


def _refused(refused: Sequence[Refused]) -> None:
    with st.expander(f"Not in this plan: {len(refused)}", icon=":material/shield:"):
        for each in refused:
            change = f" Would change with {plain(each.would_change)}." if each.would_change else ""
            st.markdown(
                f"**{plain(each.action)} of {plain(each.job)}**, refused by {plain(each.rule)}: "
                f"{plain(each.reason)}.{change}"
            )


PER_PAGE = 8
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


def show(site: Site) -> None:
    """Draw the page."""
    staged(site, _body)


def _body(stage: Stage) -> None:
    found = queries.advised()
    plans = _plans(stage)
    rows = [each for each in found.advice if stage.view.kind in (None, each["class"])]
    st.header(head_sentence(rows, plans), anchor=False)
    if plans is not None:
        switch_banner(stage, read_switch())
        waiting_plans(stage, plans, found)
    _recurring(stage, found)
    _advised(stage, found, rows)
    _left_alone(found)


def _plans(stage: Stage) -> tuple[Plan, ...] | None:
    """The plans that wait; ``None``, and a line that says why, where no service answers for them."""
    try:
        rows: list[Plan] = jobs.ask(ActingClient.plans)
    except ClientError as error:
        notice = explain_acting(error)
        st.info(
            f"**Nothing waits for a yes here.** {notice.title}: {plain(str(error))}", icon=":material/info:"
        )
        return None
    return tuple(each for each in rows if each.state == "waiting")


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


def _recurring(stage: Stage, found: Advised) -> None:
    """All that was wasted in the range, and the habits in it that a limit would help against."""
    shown = window(stage.view, found.as_of.astimezone(UTC).replace(tzinfo=None))
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


def _advised(stage: Stage, found: Advised, rows: Sequence[AdviceRow]) -> None:
    facts(
        [
            ("as of", stage.when(found.as_of)),
            ("rules from", found.rules_from),
            ("left alone", text.count(len(found.abstained))),
        ]
    )
    pages = -(-len(rows) // PER_PAGE)
    at = st.pagination(pages, key="advice-page") - 1 if pages > 1 else 0
    for row in rows[at * PER_PAGE : (at + 1) * PER_PAGE]:
        _one(stage, found, row)


def _one(stage: Stage, found: Advised, row: AdviceRow) -> None:
    name = str(row["id"])
    label, ground = label_of_action(str(row["class"])), _ground(stage, str(row["class"]))
    with st.container(border=True, key=f"advice-{name}", gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(tag(label, ground, readable(ground)), width="content")
            st.markdown(f"**{plain(row['what'])}**", width="content")
            st.space("stretch")
            linked(stage, str(row["job"] or ""))
        st.markdown(plain(wording.localized(str(row["why"]), stage.zone)))
        facts(_facts(found, row))
        evidence_box(stage, row, lines=found.lines, as_of=found.as_of, key=name)


def _facts(found: Advised, row: AdviceRow) -> list[tuple[str, str]]:
    items = []
    if row["gain_gpu_hours"] is None or row["gain_gpu_hours"]:
        items.append(("would have left" if row["gain_is_past"] else "expected gain", expected(row)))
    if row["gain_money"]:
        items.append(("worth", text.money(row["gain_money"], row["currency"])))
    if row["horizon_s"] and row["gain_gpu_hours"]:
        items.append(("of the last" if row["gain_is_past"] else "within", text.length(row["horizon_s"])))
    items.append(("sure", sure(row)))
    who = ", ".join(row["risk_to"])
    items.append(("risk", f"{row['risk']}{f' ({who})' if who else ''}" if row["risk"] else "none"))
    items.append(("mode", found.modes.get(str(row["class"]), "advise")))
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
    held = row.get("evidence") or {}
    low, high, mid = (text.known(held.get(f"expected_{which}_s")) for which in ("low", "high", "idle"))
    if low is None or high is None or not mid:
        return f"{text.gpu_hours(gain)} (too little recorded for an error)"
    gpus = gain * 3600 / mid  # that are given back: a share of one is less than one
    return (
        f"{text.gpu_hours(gain)} (four of five times between {text.hours(low * gpus / 3600)} and "
        f"{text.hours(high * gpus / 3600)})"
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
                "Job": each.job,
                "What": each.action,
                "Rule": each.rule,
                "Why": each.reason,
                "Would change with": each.would_change,
            }
            for each in found.refused
        ]
        grid(
            pd.DataFrame(rows), hide_index=True, placeholder=text.NOTHING, alt="What a rule refuses, and why"
        )
    counted = Counter((each["class"], each["reason"], each["would_change"]) for each in found.abstained)
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
