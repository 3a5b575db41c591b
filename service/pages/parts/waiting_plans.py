"""Plans that wait for a yes: their steps, to approve, reject with a reason, or snooze. Effects: it draws."""

from collections.abc import Mapping, Sequence

import streamlit as st

from analytics import text
from service import wording
from service.client.jobs import ActingClient
from service.errors import ClientError
from service.pages.data import jobs
from service.pages.parts import submit_form
from service.pages.parts.context import Stage, linked
from service.pages.parts.evidence import Judged, class_of, evidence_box
from service.pages.parts.widgets import facts, plain
from service.pages.sign_in import May, may_order
from service.schemas.control import Gain, Plan, PlanStep, Refused
from service.schemas.records import instant
from service.usecases.advised import Advised

SNOOZES: Mapping[str, float] = {"4 h": 4.0, "1 day": 24.0, "1 week": 168.0}
AGAIN = "until it changes"


def waiting_plans(stage: Stage, plans: Sequence[Plan], advised: Advised) -> None:
    """Each plan in a box; nothing where none waits. ``advised`` has the thresholds that charts draw."""
    for plan in plans:
        with st.container(border=True, key=f"plan-{plan.plan}", gap="small"):
            steps = text.many(len(plan.steps), "step")
            st.subheader(f"Plan {plan.plan} waits for a yes: {steps}", anchor=anchor_of(plan.plan))
            chosen = [each for each in plan.steps if _step(stage, plan, each, advised)]
            if plan.refused:
                _refused(plan.refused)
            facts([("made", stage.when(instant(plan.as_of_ms))), ("plan", str(plan.plan))])
            # The owner of all jobs of a plan settles it, and an operator any.
            ruled = [may_order(owner=step.user) for step in plan.steps] or [may_order()]
            may = next((may for may in ruled if not may.may), ruled[0])
            with st.container(horizontal=True, gap="small"):
                _approve(plan, chosen, may)
                _reject(plan, may)
            if not may.may:
                st.caption(may.why)


def anchor_of(plan: int) -> str:
    """Where a page has the plan's box."""
    return f"plan-{plan}"


def gain_told(gain: Gain | None) -> str | None:
    """An expected gain in words; ``None`` where there is none, or it is not known."""
    if gain is None or not gain.gpu_hours:
        return None
    within = f" within {text.length(gain.horizon_s)}" if gain.horizon_s is not None else ""
    return f"{text.gpu_hours(gain.gpu_hours)}{within}"


def _step(stage: Stage, plan: Plan, step: PlanStep, advised: Advised) -> bool:
    with st.container(gap="xsmall", key=f"step-{plan.plan}-{step.n}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            sentence = step.sentence or f"{step.verb} {step.job}"
            if len(plan.steps) > 1:
                is_chosen = st.checkbox(plain(sentence), value=True, key=f"take-{plan.plan}-{step.n}")
            else:
                st.markdown(f"**{plain(sentence)}**", width="content")
                is_chosen = True
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
            as_of = instant(plan.as_of_ms) or advised.as_of
            evidence_box(stage, row, lines=advised.lines, as_of=as_of, key=f"{plan.plan}-{step.n}")
    return is_chosen


def _approve(plan: Plan, chosen: Sequence[PlanStep], may: May) -> None:
    is_all = len(chosen) == len(plan.steps)
    steps = None if is_all else [each.n for each in chosen]
    words = [str(plan.plan), "--yes"] + [w for n in steps or () for w in ("--step", str(n))]
    label = "Approve" if is_all else f"Approve {len(chosen)} of {len(plan.steps)}"
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
        reason = st.text_input("Because", key=f"reject-because-{plan.plan}").strip()
        chosen = st.segmented_control(
            "Do not ask again",
            [AGAIN, *SNOOZES],
            default=AGAIN,
            key=f"snooze-{plan.plan}",
            required=True,
            help="The same suggestion comes back once this is over, or once what it rests on has changed.",
        )
        hours = SNOOZES.get(chosen or AGAIN)
        words = ["--because", reason or "..."] + ([] if hours is None else ["--snooze", f"{hours:g}h"])
        st.button(
            "Reject it",
            key=f"do-reject-{plan.plan}",
            type="primary",
            disabled=not may.may or not reason,
            on_click=jobs.order,
            args=("reject", f"reject plan {plan.plan}", plan.plan),
            kwargs={"because": reason, "snooze_hours": hours},
        )
        st.caption("A reason is needed: whoever asks next reads it." if not reason else "Or in a shell:")
        st.code(submit_form.command("reject", str(plan.plan), *words), language="shell")


def _refused(refused: Sequence[Refused]) -> None:
    with st.expander(f"Not in this plan: {len(refused)}", icon=":material/shield:"):
        for each in refused:
            change = f" Would change with {plain(each.would_change)}." if each.would_change else ""
            st.markdown(
                f"**{plain(each.action)} of {plain(each.job)}**, refused by {plain(each.rule)}: "
                f"{plain(each.reason)}.{change}"
            )


def all_plans() -> tuple[Plan, ...] | None:
    """Plans that were made, those that wait and those that are settled; ``None`` where no service answers."""
    try:
        rows: list[Plan] = jobs.ask(ActingClient.plans)
    except ClientError:
        return None
    return tuple(rows)
