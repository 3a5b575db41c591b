"""The buttons of a job: pause, resume, resize, keep, cancel, each with what it means and a confirmation.

Effects: it draws, and orders through ``acting.order``. A button that this visitor may not use says why, and
every one shows the command that does the same in a shell.

What may be done with a job, and by whose word: the owner's, the submission's, or the site's.

Shown to everybody, said by the owner alone (``fallow consent``); the service knows who that is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.actions import ActionClass
from service.client.jobs import ActingClient
from service.errors import ClientError
from service.pages.data import jobs
from service.pages.parts import submit_form
from service.pages.parts.charted import grid
from service.pages.parts.widgets import plain
from service.pages.sign_in import May, may_order
from service.schemas.control import Consent
from service.schemas.records import Job, Submission, instant

KEEP_HOURS = (4, 8, 24)
RESIZED = ("elastic", "checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One thing that can be ordered: its route, its words, and in which stands it makes sense."""

    route: str
    label: str
    icon: str
    meaning: str
    stands: tuple[str, ...]


PAUSE = Order(
    route="pause",
    label="Pause",
    icon=":material/pause:",
    meaning="Its GPUs are given back and nothing that it did is lost; it goes on when it is resumed.",
    stands=("pending", "running"),
)
HELD = "It is held in the queue, and not started until it is resumed."
RESUME = Order(
    route="resume",
    label="Resume",
    icon=":material/play_arrow:",
    meaning="It goes on as soon as there is room for it.",
    stands=("pending", "paused"),
)
RESIZE = Order(
    route="resize",
    label="Resize",
    icon=":material/open_in_full:",
    meaning="It goes on with so many GPUs; its global batch stays as it is.",
    stands=("running",),
)
KEEP = Order(
    route="keep",
    label="Keep",
    icon=":material/lock_clock:",
    meaning="Nobody takes its GPUs for this long, even if they do nothing.",
    stands=("starting", "running", "paused"),
)
CANCEL = Order(
    route="cancel",
    label="Cancel",
    icon=":material/close:",
    meaning="It is ended for good. What it did since its last checkpoint is lost.",
    stands=("pending", "starting", "running", "paused"),
)


def buttons(job: Job) -> None:
    """Every order that makes sense for the job as it stands."""
    may = may_order(owner=job.user)
    with st.container(horizontal=True, gap="small", key="orders"):
        for order in (PAUSE, RESUME, RESIZE, KEEP, CANCEL):
            if job.state in order.stands and (why := unfit(order, job)) is None:
                _button(order, job, may)
            elif job.state in order.stands:
                st.button(order.label, icon=order.icon, disabled=True, help=why, key=f"order-{order.route}")
    if not may.may and job.state != "ended":
        st.caption(may.why)


def keep_button(job: str, owner: str | None) -> None:
    """The one order that also works for a job that Fallow did not launch."""
    may = may_order(owner=owner)
    _button(KEEP, Job(job=job, state="running", user=owner, submission=Submission()), may)
    if not may.may:
        st.caption(may.why)


def keep_box(job: str, owner: str | None, name: str) -> None:
    """The same on a list of many jobs, for who may: what is in the box is drawn once somebody opens it."""
    may = may_order(owner=owner)
    if not may.may:
        return
    box = st.popover(KEEP.label, icon=KEEP.icon, type="tertiary", key=f"keep-box-{job}", on_change="rerun")
    if box.open:
        with box:
            _ordered(KEEP, Job(job=job, name=name, state="running", user=owner, submission=Submission()), may)


def unfit(order: Order, job: Job) -> str | None:
    """Why this order cannot be carried out on such a job; ``None`` where it can."""
    if order is RESUME and job.state == "pending" and not job.held_by_user:
        return "It is not held: it starts as soon as there is room."
    if order is PAUSE and job.state == "pending":
        return "It is held in the queue already." if job.held_by_user else None
    submission = job.submission
    if order in (PAUSE, RESIZE) and submission.mobility and submission.mobility not in RESIZED:
        return "It neither uses fallow nor says that it checkpoints, so it is only run and finished."
    if order is RESIZE and submission.share < 1:
        return "It has a share of a GPU; a share is chosen when it is submitted."
    if order is RESIZE and submission.min_gpus == submission.max_gpus:
        return (
            f"It was submitted for exactly {submission.min_gpus}; submit it with a range, such as --gpus 1-4."
        )
    return None


def _button(order: Order, job: Job, may: May) -> None:
    with st.popover(order.label, icon=order.icon, key=f"order-{order.route}"):
        _ordered(order, job, may)


def _ordered(order: Order, job: Job, may: May) -> None:
    """What is in an order's box: what it means, what it needs, the button, and the command."""
    name = plain(job.name or job.job)
    meaning = HELD if order is PAUSE and job.state == "pending" else order.meaning
    st.markdown(f"**{order.label} {name}?** {meaning}")
    rest, answer = _parameters(order, job)
    reason = ""
    if order is not KEEP:
        reason = st.text_input(
            "Because", key=f"because-{order.route}-{job.job}", placeholder="optional"
        ).strip()
    st.button(
        f"{order.label} it",
        key=f"do-{order.route}-{job.job}",
        type="primary",
        disabled=not may.may,
        on_click=jobs.order,
        args=(order.route, f"{order.route} {job.job}", job.job),
        kwargs={**answer, **({"because": reason} if reason else {})},
    )
    st.caption(may.why or "Or in a shell:")
    st.code(submit_form.command(order.route, job.job, *rest), language="shell")


def _parameters(order: Order, job: Job) -> tuple[tuple[str, ...], dict[str, object]]:
    """What else the order needs: as words of a command, and as parameters of the route."""
    if order is KEEP:
        hours = st.segmented_control(
            "For how long",
            KEEP_HOURS,
            default=KEEP_HOURS[0],
            format_func=lambda h: f"{h} h",
            key=f"keep-{job.job}",
            required=True,
        )
        return ("--hours", str(hours)), {"hours": hours}
    if order is RESIZE:
        low, high = job.submission.min_gpus, job.submission.max_gpus
        now = min(high, max(low, len(job.gpus)))
        gpus = st.number_input(f"GPUs, {low} to {high}", low, high, now, key=f"resize-{job.job}")
        return (str(gpus),), {"gpus": int(gpus)}
    return (), {}


When = Callable[[datetime | None], str]
"""Writes an instant in the viewer's zone."""

MEANING = {
    "pause": "Paused, nothing lost",
    "restart": "Restarted from its own checkpoint, or elsewhere",
    "resize": "Given more or fewer GPUs",
    "release": "Told to give cached memory back",
    "share": "Beside other people's jobs on one GPU",
    ActionClass.BACKGROUND.value: "Background jobs in its idle gaps",
}
WORD = {
    "owner": "its owner",
    "submission": "as submitted",
    "site": "the site's [consent]",
    "nobody": "nobody: so it is not done",
}


def allowed(when: When, job: str) -> None:
    """Draw what may be done with a job that runs or waits; nothing for one that has ended."""
    try:
        rows: list[Consent] = jobs.ask(ActingClient.consents, job=job)
    except ClientError:
        return
    if not rows:
        return
    st.subheader("What may be done with it", anchor=False)
    grid(
        _frame(when, rows),
        hide_index=True,
        placeholder=text.NOTHING,
        alt="What may be done with this job, and by whose word",
    )
    st.caption("Its owner allows or withdraws it; a no counts at once, whoever says yes beside it:")
    st.code(f"fallow consent --job {job} --allow pause,restart   # or --withdraw", language="shell")


def _frame(when: When, rows: list[Consent]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "May be": [MEANING.get(row.kind, row.kind) for row in rows],
            "Allowed": ["yes" if row.allowed else "no" for row in rows],
            "By whose word": [_whose(row) for row in rows],
            "Said": [_at(when, row.said_ms) for row in rows],
            "Until": [_at(when, row.until_ms) for row in rows],
        }
    )


def _whose(row: Consent) -> str:
    whose = WORD.get(row.origin, row.origin)
    return f"{whose}, of all own jobs" if row.for_all else whose


def _at(when: When, at_ms: int | None) -> str | None:
    return None if at_ms is None else when(instant(at_ms))
