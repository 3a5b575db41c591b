"""One person on the People page: what they held, what they used, and what to change.

The judgement and its words are ``service.pages.changes``, as in the report my-week, so both say the same of
the same time. Said to somebody's face only where they signed in as themselves; where visitors sign in, what
to change is for the person and for operators, as that report is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import streamlit as st

from service.client import ClientError
from service.client.recurring import told, told_to_owner
from service.pages import acting, feed, wording
from service.pages.changes import Changes, Held, changes, held_of, measured_of, told_held
from service.pages.headline import headline
from service.pages.pieces import facts, plain
from service.pages.scene import PageContext
from service.pages.sign_in import may_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Whom the section is about; ``you``: they signed in as themselves."""

    name: str
    you: bool

    @property
    def spoken_of(self) -> str | None:
        """The name where somebody else reads; ``None`` to their face."""
        return None if self.you else self.name


def about_whom(scene: PageContext) -> Person | None:
    """Who is chosen, else who signed in; ``None``: nobody."""
    signed = acting.visitor()
    own = None if signed is None else signed.caller.name
    name = scene.view.user or own
    return None if name is None else Person(name=name, you=name == own)


def held(scene: PageContext, who: Person) -> list[dict[Any, Any]]:
    """Draw what they held and used; the jobs that it was. Blocks while it asks. Raises ``ClientError``."""
    asked = _asked(scene, who)
    jobs = feed.ask("jobs", **asked).to_dict("records")
    head = headline(
        feed.ask("usage_over_time", **asked, step_s=scene.window.step_s),
        feed.ask("ledger_by_state", **asked),
        scene.window,
    )
    sums = held_of(jobs, utilization=head.utilization_ratio, measured=head.measured_ratio)
    whose, they = ("you", "you") if who.you else (plain(who.name), "they")
    st.subheader(f"What {whose} held, what {they} used, what to change", anchor=False)
    st.markdown(plain(told_held(sums, who.spoken_of)))
    if jobs:
        facts(_figures(sums))
    return jobs


def to_change(scene: PageContext, who: Person, jobs: list[dict[Any, Any]]) -> None:
    """Draw what to change about these jobs, for whom it may be shown. Blocks: every policy is asked.

    Raises ``ClientError``, but for what is advised, of which it is said.
    """
    may = may_read(who.name)
    if not may.may:
        st.caption(f"What to change: {may.why}")
        return
    said, unsaid = _advised()
    asked = _asked(scene, who)
    findings = feed.ask("findings", **asked).to_dict("records")
    measured = measured_of(feed.ask("ledger_by_job", **asked).to_dict("records"))
    recurs = feed.recurred(scene.window.from_ts, scene.window.to_ts)
    own = [] if recurs is None else [each for each in recurs.habits if each["user"] == who.name]
    habits = [told_to_owner(each) if who.you else told(each) for each in own]
    found = changes(jobs, said, findings, measured, name=who.spoken_of, habits=habits)
    _changes(scene, found, unsaid)
    st.caption(f"The same as a mail or a page: `fallow report my-week --user {_for_code(who.name)}`.")


def _asked(scene: PageContext, who: Person) -> dict[str, Any]:
    return {**scene.asked, "user": who.name}


def _figures(sums: Held) -> list[tuple[str, str]]:
    return [
        ("held", wording.hours(sums.held_gpu_hours)),
        ("used", wording.hours(sums.used_gpu_hours)),
        ("did nothing", wording.hours(sums.wasted_gpu_hours)),
        ("utilization", wording.percent(sums.utilization_ratio)),
        ("measured", wording.percent(sums.measured_ratio)),
        *_energy(sums),
    ]


def _energy(sums: Held) -> list[tuple[str, str]]:
    if not sums.energy.kwh:
        return []
    return [
        ("energy", wording.energy(sums.energy)),
        ("of it while nothing was done", wording.energy(sums.wasted_energy)),
    ]


def _advised() -> tuple[Sequence[Mapping[Any, Any]], tuple[str, ...]]:
    """What is advised now, of everybody; else why nothing is."""
    try:
        return feed.advised().advice, ()
    except ClientError as error:
        return (), (f"Nothing could be advised about what runs now: {error}",)


def _changes(scene: PageContext, found: Changes, first: Sequence[str]) -> None:
    st.markdown("**What to change**")
    lines = (*first, *found.sentences)
    st.markdown("\n".join(f"- {plain(wording.localized(line, scene.zone))}" for line in lines))
    if found.commands:
        st.code("\n".join(found.commands), language="shell")


def _for_code(name: str) -> str:
    """A name as a shell takes it, within a line of code, which no backtick may end."""
    return quote(name).replace("`", "'")
