"""People and projects: who wastes most, who uses best, the figures behind both, and what one could change.

The judgement and its words are ``service.summaries.recommendations``, as in the report my-week, so both
say the same of the same time. Said to somebody's face only where they signed in as themselves; where visitors
sign in, what to change is for the person and for operators, as that report is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from analytics import text
from service import energy, wording
from service.charts.bars import PARTS, best_used, most_wasted, part_colours, use_bars, waste_bars
from service.client import ClientError
from service.pages.data import jobs as acting
from service.pages.data import queries
from service.pages.parts.charted import charted, grid
from service.pages.parts.context import PageContext, Site, current_view, drawn, go, nothing_matches
from service.pages.parts.rests_on import show_rests_on
from service.pages.parts.widgets import definitions, facts, keys, plain, swatch
from service.pages.sign_in import may_read
from service.schemas.advice import AdviceRow
from service.summaries import accounted
from service.summaries.frames import records
from service.summaries.headline import headline
from service.summaries.holders import MANAGED, managed, named
from service.summaries.recommendations import (
    Changes,
    Held,
    changes,
    held_of,
    in_short,
    kinds_by,
    measured_of,
    patterns_by,
    told_held,
)
from service.usecases.recurring import told, told_to_owner

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.elements.lib.column_types import ColumnConfig

    from service.schemas.rows import JobsRecord


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


def held(scene: PageContext, who: Person) -> "list[JobsRecord]":
    """Draw what they held and used; the jobs that it was. Blocks while it asks. Raises ``ClientError``."""
    parameters = _asked(scene, who)
    jobs: list[JobsRecord] = records(queries.ask("jobs", **parameters))
    head = headline(
        queries.ask("usage_over_time", **parameters, step_s=scene.window.step_s),
        queries.ask("ledger_by_state", **parameters),
        scene.window,
    )
    sums = held_of(jobs, utilization=head.utilization_ratio, measured=head.measured_ratio)
    whose, they = ("you", "you") if who.you else (plain(who.name), "they")
    st.subheader(f"What {whose} held, what {they} used, what to change", anchor=False)
    st.markdown(plain(told_held(sums, who.spoken_of)))
    show_rests_on(scene)
    if jobs:
        facts(_figures(sums))
    return jobs


def to_change(scene: PageContext, who: Person, jobs: "list[JobsRecord]") -> None:
    """Draw what to change about these jobs, for whom it may be shown. Blocks: every policy is asked.

    Raises ``ClientError``, but for what is advised, of which it is said.
    """
    may = may_read(who.name)
    if not may.may:
        st.caption(f"What to change: {may.why}")
        return
    advice, unsaid = _advised()
    parameters = _asked(scene, who)
    findings = records(queries.ask("findings", **parameters))
    measured = measured_of(records(queries.ask("ledger_by_job", **parameters)))
    recurs = queries.recurred(scene.window.from_ts, scene.window.to_ts)
    own = [] if recurs is None else [each for each in recurs.habits if each["user"] == who.name]
    habits = [told_to_owner(each) if who.you else told(each) for each in own]
    recommendations = changes(jobs, advice, findings, measured, name=who.spoken_of, habits=habits)
    _changes(scene, recommendations, unsaid)
    st.caption(f"The same as a mail or a page: `fallow report my-week --user {_for_code(who.name)}`.")


def _asked(scene: PageContext, who: Person) -> dict[str, object]:
    return {**scene.asked, "user": who.name}


def _figures(sums: Held) -> list[tuple[str, str]]:
    return [
        ("held", text.gpu_hours(sums.held_gpu_hours)),
        ("used", f"{sums.mark}{text.gpu_hours(sums.used_gpu_hours)}"),
        ("did nothing", text.gpu_hours(sums.wasted_gpu_hours)),
        ("utilization", f"{sums.mark}{text.percent(sums.utilization_ratio)}"),
        ("measured", text.percent(sums.measured_ratio)),
        *_energy(sums),
    ]


def _energy(sums: Held) -> list[tuple[str, str]]:
    if not sums.energy.kwh:
        return []
    return [
        ("energy", energy.written(sums.energy)),
        ("of it while nothing was done", energy.written(sums.wasted_energy)),
    ]


def _advised() -> tuple[Sequence[AdviceRow], tuple[str, ...]]:
    """What is advised now, of everybody; else why nothing is."""
    try:
        return queries.advised().advice, ()
    except ClientError as error:
        return (), (f"Nothing could be advised about what runs now: {error}",)


def _changes(scene: PageContext, recommendations: Changes, first: Sequence[str]) -> None:
    st.markdown("**What to change**")
    lines = (*first, *recommendations.sentences)
    st.markdown("\n".join(f"- {plain(wording.localized(line, scene.zone))}" for line in lines))
    if recommendations.commands:
        st.code("\n".join(recommendations.commands), language="shell")


def _for_code(name: str) -> str:
    """A name as a shell takes it, within a line of code, which no backtick may end."""
    return quote(name).replace("`", "'")


TOP = 12
KINDS = {
    "people": "People",
    "projects": "Projects",
    "partition": "Partitions",
    "qos": "QOS",
    "account": "Accounts",
    "cluster": "Clusters",
}
COLUMNS = {
    "name": "Name",
    "project": "Project",
    "people": "People",
    "jobs": "Jobs",
    "gpu_hours": "Held",
    "used_gpu_hours": "Used",
    "wasted_gpu_hours": "Wasted",
    "wasted_share": "Wasted share",
    "utilization": "Utilization",
    "cost": "Cost",
    "wasted_cost": "Cost of waste",
    "energy_kwh": "kWh",
    "wasted_energy_kwh": "kWh wasted",
    "pattern": "How they work",
}
ENERGY = ("energy_kwh", "wasted_energy_kwh")
ONE = {"partition": "partition", "qos": "QOS", "account": "account", "cluster": "cluster"}
OF_HOLDERS = (
    "Hours are GPU-hours; how they work is of the last 24 hours. "
    "Choose a row to see only what they held, on every page."
)
OF_MANAGER = "Hours are GPU-hours, by what Slurm says of the job that held them."


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def _body(scene: PageContext) -> None:
    by = scene.view.by if scene.view.by in KINDS else "people"
    head, who = st.container(), about_whom(scene)
    jobs = [] if who is None else held(scene, who)
    advice = st.container()
    _ranked(scene, head, by)
    if who is not None and jobs:
        with advice:
            to_change(scene, who, jobs)


def _ranked(scene: PageContext, head: "DeltaGenerator", by: str) -> None:
    """Everybody in order, under a sentence at the ``head``."""
    if by in MANAGED:
        frame = managed(queries.ask(f"ledger_by_{by}", **scene.asked))
    else:
        frame = named(queries.ask(by, **scene.asked), by)
    if frame.empty:
        nothing_matches(scene)
        return
    with head:
        st.header(_sentence(frame, by), anchor=False)
    nodes = queries.ask_if_kept("manager_nodes")
    of_managers = nodes is not None and not nodes.empty
    st.session_state["by"] = by
    st.segmented_control(
        "Ranked by",
        [each for each in KINDS if each not in MANAGED or of_managers or each == by],
        key="by",
        format_func=lambda name: KINDS[name],
        label_visibility="collapsed",
        required=True,
        on_change=lambda: go(replace(current_view(), by=st.session_state["by"])),
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Most wasted GPU-hours", anchor=False)
        _legend(scene)
        wasted = most_wasted(frame, top=TOP)
        if wasted.empty:
            st.caption("Nobody wasted anything in this time.")
        else:
            title = f"{KINDS[by]} by wasted GPU-hours, the most first"
            charted(waste_bars(wasted, scene.colours), title, wasted, f"most-wasted-{by}", numbers=title)
    with right:
        st.subheader("Best use", anchor=False)
        _legend(scene)
        title, best = f"{KINDS[by]} by utilization, the best first", best_used(frame, top=TOP)
        charted(use_bars(best, scene.colours), title, best, f"best-use-{by}", numbers=title)
    _table(scene, frame, by)
    _accounted(scene, by)


def _sentence(frame: pd.DataFrame, by: str) -> str:
    wasted, gpu_hours = frame["wasted_gpu_hours"].sum(), frame["gpu_hours"].sum()
    who = told_who(frame, by)
    if not gpu_hours or not wasted:
        return f"{plain(who)} held {text.gpu_hours(gpu_hours)} and wasted nothing outright"
    top = frame.nlargest(3, "wasted_gpu_hours")["wasted_gpu_hours"].sum()
    share = text.percent(wasted / gpu_hours)
    more = f"; three of them {text.percent(top / wasted)} of that" if len(frame) > 3 else ""
    return f"{plain(who)} held {text.gpu_hours(gpu_hours)} and wasted {share} of them{more}"


def told_who(frame: pd.DataFrame, by: str) -> str:
    """How many they are; who is not known is nobody to be counted."""
    if len(frame) == 1:
        return str(frame["name"].iloc[0])
    if by in MANAGED:
        count = int(frame["key"].notna().sum())
        count_text = text.many(count, ONE[by], KINDS[by] if by == "qos" else KINDS[by].lower())
        return f"{count_text} and some unknown" if count < len(frame) else count_text
    column, one = ("user_name", "person") if by == "people" else ("project", "project")
    many = frame[column].nunique()
    count_text = text.many(many, one, by)
    return f"{count_text} and some unknown" if frame[column].isna().any() else count_text


def _legend(scene: PageContext) -> None:
    keys([(swatch(c), part, None) for part, c in zip(PARTS, part_colours(scene.colours), strict=True)])


def _table(scene: PageContext, frame: pd.DataFrame, by: str) -> None:
    st.subheader("All figures", anchor=False)
    priced = frame["cost"].notna().any()
    metered = "energy_kwh" in frame and frame["energy_kwh"].gt(0).any()
    columns = [
        column
        for column in COLUMNS
        if (column in frame or column in ("wasted_share", "utilization", "pattern"))
        and (priced or column not in ("cost", "wasted_cost"))
        and (metered or column not in ENERGY)
        and not (by == "projects" and column == "project")
        and not (by in MANAGED and column == "pattern")
    ]
    patterns = None if by in MANAGED else queries.ask_if_kept("patterns", **_filters(scene))
    shown = frame.assign(
        name=frame["user_name"] if by == "people" else frame["name"],
        wasted_share=frame["wasted_gpu_hours"] / frame["gpu_hours"].where(frame["gpu_hours"] > 0) * 100,
        utilization=frame["utilization_ratio"] * 100,
        pattern=[in_short(kinds) or text.NOTHING for kinds in kinds_by(patterns, frame)],
    )
    picked = grid(
        shown[columns],
        hide_index=True,
        column_config=_columns(frame),
        placeholder=text.NOTHING,
        on_select="ignore" if by in MANAGED else "rerun",
        selection_mode="single-row",
        key=f"table-{by}",
        alt=f"{KINDS[by]}: GPU-hours held, used and wasted",
    )
    st.caption(
        (OF_MANAGER if by in MANAGED else OF_HOLDERS)
        + (wording.energy_measured(records(frame)) if metered else "")
        + wording.bounds(records(frame))
    )
    _habits(frame, patterns)
    chosen = [] if by in MANAGED else picked["selection"]["rows"]
    if chosen:
        _only(scene, records(frame)[chosen[0]], by)


def _accounted(scene: PageContext, by: str) -> None:
    """Hours that no ledger has as given, as imported accounting has them, by the same key."""
    if scene.asked.get("model"):
        return
    key = {"people": "user", "projects": "project"}.get(by, by)
    parameters = {name: scene.asked.get(name) for name in ("from_ts", "to_ts", "user", "project", "node")}
    imported = queries.ask_if_kept("accounted_use", **parameters, by=key)
    if imported is None or imported.empty:
        return
    st.subheader(accounted.HEADING, anchor=False)
    rows = records(imported)
    st.markdown(plain(accounted.told(rows)))
    shown = imported.assign(
        name=imported["key"].astype(object).where(imported["key"].notna(), "not known"),
        utilization=imported["utilization_ratio"] * 100,
    )
    columns = {
        "name": "Name",
        "runs": "Runs",
        "gpu_hours": st.column_config.NumberColumn("Given", format="%.1f"),
        "measured_gpu_hours": st.column_config.NumberColumn("With means", format="%.1f"),
        "utilization": st.column_config.ProgressColumn(
            "Mean use", format="%.0f %%", min_value=0, max_value=100
        ),
        "unused_gpu_hours": st.column_config.NumberColumn("Mean of 0", format="%.1f"),
    }
    grid(
        shown[list(columns)],
        hide_index=True,
        column_config=columns,
        placeholder=text.NOTHING,
        key=f"accounted-{by}",
        alt=f"{KINDS[by]}: GPU-hours given by imported accounting",
    )


def _habits(frame: pd.DataFrame, patterns: pd.DataFrame | None) -> None:
    """How each of those at the top of the table works, in full."""
    lines = [
        (str(n), words) for n, words in zip(frame["name"], patterns_by(patterns, frame), strict=True) if words
    ]
    if not lines:
        return
    st.subheader("How they work", anchor=False)
    definitions(lines[:TOP])
    if len(lines) > TOP:
        st.caption(f"And {len(lines) - TOP} more: choose one in the table, or a filter above.")


def _filters(scene: PageContext) -> dict[str, object]:
    return {name: scene.asked.get(name) for name in ("node", "project", "user", "model")}


def _only(scene: PageContext, row: Mapping[str, object], by: str) -> None:
    column, name = ("user_name", "user") if by == "people" else ("project", "project")
    if not text.missing(row[column]) and getattr(scene.view, name) != row[column]:
        go(scene.view.only(name, str(row[column])))
        st.rerun()


def _columns(frame: pd.DataFrame) -> "dict[str, ColumnConfig | str]":
    currency = next((str(c) for c in frame["currency"] if not text.missing(c)), "")
    hours = {
        name: st.column_config.NumberColumn(COLUMNS[name], format="%.1f")
        for name in COLUMNS
        if "gpu_hours" in name
    }
    bars = {
        name: st.column_config.ProgressColumn(COLUMNS[name], format="%.0f %%", min_value=0, max_value=100)
        for name in ("wasted_share", "utilization")
    }
    money = {
        name: st.column_config.NumberColumn(f"{COLUMNS[name]} ({currency})", format="%.0f")
        for name in ("cost", "wasted_cost")
    }
    energy = {name: st.column_config.NumberColumn(COLUMNS[name], format="%.1f") for name in ENERGY}
    return {**COLUMNS, **hours, **bars, **money, **energy}
