"""Plans that wait for a yes: their steps, to approve, reject with a reason, or snooze. Effects: it draws."""

from collections.abc import Mapping, Sequence

import streamlit as st

from service.client.advising import Advised
from service.pages import acting, compose, wording
from service.pages.evidence_drawn import class_of, evidence_box
from service.pages.pieces import facts, plain
from service.pages.records import PlanRow, PlanStep, Refused
from service.pages.sign_in import May, may_order
from service.pages.stage import Stage, linked

SNOOZES: Mapping[str, float] = {"4 h": 4.0, "1 day": 24.0, "1 week": 168.0}
AGAIN = "until it changes"


def waiting_plans(stage: Stage, plans: Sequence[PlanRow], found: Advised) -> None:
    """Each plan in a box; nothing where none waits. ``found`` has the thresholds that charts draw."""
    for plan in plans:
        with st.container(border=True, key=f"plan-{plan.plan}", gap="small"):
            _plan(stage, plan, found)


def gain_told(gain: object) -> str | None:
    """An expected gain in words, whether it is bare GPU-hours or an object with its bounds."""
    match gain:
        case bool():
            return None
        case int() | float():
            return wording.hours(float(gain)) if gain else None
        case Mapping():
            hours = gain.get("gpu_hours")
            if not isinstance(hours, int | float):
                return None
            low, high = gain.get("low"), gain.get("high")
            if isinstance(low, int | float) and isinstance(high, int | float):
                return f"{wording.hours(hours)} ({wording.amount(low)} to {wording.amount(high)})"
            over = gain.get("horizon_s")
            within = f" within {wording.span(over)}" if isinstance(over, int | float) else ""
            return f"{wording.hours(hours)}{within}"
        case str():
            return gain or None
        case _:
            return None


def _plan(stage: Stage, plan: PlanRow, found: Advised) -> None:
    many = len(plan.steps)
    st.subheader(f"Plan {plan.plan} waits for a yes: {many} {'step' if many == 1 else 'steps'}", anchor=False)
    chosen = [each for each in plan.steps if _step(stage, plan, each, found)]
    if plan.refused:
        _refused(plan.refused)
    facts([("made", stage.when(plan.as_of)), ("plan", str(plan.plan))])
    may = _may(plan)
    with st.container(horizontal=True, gap="small"):
        _approve(plan, chosen, may)
        _reject(plan, may)
    if not may.may:
        st.caption(may.why)


def _may(plan: PlanRow) -> May:
    """The owner of all jobs of a plan settles it, and an operator any."""
    ruled = [may_order(owner=step.user) for step in plan.steps] or [may_order()]
    return next((may for may in ruled if not may.may), ruled[0])


def _step(stage: Stage, plan: PlanRow, step: PlanStep, found: Advised) -> bool:
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
            row = {"class": class_of(step.evidence), "job": step.job, "evidence": step.evidence}
            as_of = plan.as_of or found.as_of
            evidence_box(stage, row, lines=found.lines, as_of=as_of, key=f"{plan.plan}-{step.n}")
    return taken


def _approve(plan: PlanRow, chosen: Sequence[PlanStep], may: May) -> None:
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
            on_click=acting.order,
            args=("apply", f"approve plan {plan.plan}", plan.plan),
            kwargs={"steps": steps},
        )
        st.caption("Or in a shell:")
        st.code(compose.command("apply", *words), language="shell")


def _reject(plan: PlanRow, may: May) -> None:
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
            on_click=acting.order,
            args=("reject", f"reject plan {plan.plan}", plan.plan),
            kwargs={"because": because, "snooze_hours": hours},
        )
        st.caption("A reason is needed: whoever asks next reads it." if not because else "Or in a shell:")
        st.code(compose.command("reject", str(plan.plan), *words), language="shell")


def _refused(refused: Sequence[Refused]) -> None:
    with st.expander(f"Not in this plan: {len(refused)}", icon=":material/shield:"):
        for each in refused:
            change = f" Would change with {plain(each.would_change)}." if each.would_change else ""
            st.markdown(
                f"**{plain(each.action)} of {plain(each.job)}**, refused by {plain(each.rule)}: "
                f"{plain(each.reason)}.{change}"
            )
