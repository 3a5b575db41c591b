"""To do: a card for each job, what it cost in the range, why, and what to do; then faults and the unknown.

Findings and advice were two pages, whose addresses lead here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary.actions import label_of_action
from analytics.vocabulary.findings import KINDS
from analytics.vocabulary.states import GpuState
from service import wording
from service.charts.job_strip import Step, steps_of
from service.errors import ClientError
from service.pages.data import jobs, queries
from service.pages.parts import freshness, to_do_card
from service.pages.parts.advised import advice_box, head_sentence, left_alone, recurring
from service.pages.parts.context import PageContext, Site, Stage, current_view, drawn, go, stage_of
from service.pages.parts.finding_cards import finding_box
from service.pages.parts.finding_messages import messages
from service.pages.parts.kill_switch import read_switch, switch_banner
from service.pages.parts.open_alerts import alerts
from service.pages.parts.range_waste import beside, wasted
from service.pages.parts.rests_on import show_rests_on
from service.pages.parts.unknown import unjudged, unknowns
from service.pages.parts.url_state import address
from service.pages.parts.waiting_plans import all_plans, anchor_of, waiting_plans
from service.pages.parts.widgets import keys, kind_label, plain, spoken, striped, swatch
from service.schemas.advice import AdviceRow
from service.summaries.finding_groups import is_own_doing
from service.summaries.frames import known_records
from service.summaries.to_do import Advising, Item, Measured, Place, card, listed
from service.summaries.unjudged_pasts import not_judged_yet
from service.usecases.advised import Advised

PER_PAGE = 8
"""Cards on a page: more are not read at once, and each takes a browser 30 ms."""
MOST_FAULTS, MOST_OTHER = 6, 8
MOVED = "moved-to-do"
PLACES: Mapping[Place, str] = {
    Place.NOW: "Now",
    Place.NO_FINDING: "No finding",
    Place.PUT_OFF: "Put off",
    Place.OVER: "Ended",
}
CLOSED: Mapping[str | None, Place] = {
    "yes": Place.OVER,
    "put-off": Place.PUT_OFF,
    "no-finding": Place.NO_FINDING,
}
"""What the address has for a place; ``closed=yes`` is as the page *Findings* had it."""
FURTHER_BACK = "`fallow waste` with `--since 30d` looks further back."


def show(site: Site) -> None:
    """Draw the page."""
    if (came := st.session_state.pop(MOVED, None)) is not None:
        st.info(f"*{came}* is part of this page now.", icon=":material/move_down:")
    drawn(site, _body)


def moved(site: Site, title: str) -> None:
    """Lead from the address of a page that was, to this one, with all that was chosen there."""
    st.session_state[MOVED] = title
    st.switch_page(site["to-do"], query_params=address(current_view()))


def _body(scene: PageContext) -> None:
    queries.begin("waste", **scene.asked_until_now)
    stage = stage_of(scene.site)
    jobs.say_what_came()
    found, why = _advised_now()
    plans = all_plans()
    filters = tuple(sorted(scene.view.filters.items()))
    measured = queries.to_do(scene.window.from_ts, scene.window.to_ts, filters)
    advising = Advising(
        advice=found.advice, abstained=found.abstained, refused=found.refused, plans=plans or ()
    )
    items = listed(measured, advising, datetime.now(UTC))
    place = CLOSED.get(scene.view.closed, Place.NOW)
    shown = [each for each in items if each.place is place and scene.view.kind in (None, *each.kinds)]
    _head(scene, items, queries.ask_if_kept("waste", **scene.asked_until_now))
    waiting = tuple(each for each in plans or () if each.state == "waiting")
    if why is None:
        links = " ".join(f"[Open plan {each.plan}](#{anchor_of(each.plan)})" for each in waiting)
        st.caption(f"{head_sentence(_advice_in_view(scene, items, found), waiting)}. {links}")
    if plans is not None:
        switch_banner(stage, read_switch())
    _choices(scene, items, place)
    freshness.lateness(scene)
    if past := not_judged_yet(measured.pasts, (scene.window.from_ts, scene.window.to_ts)):
        st.caption(wording.localized(past, scene.zone))
    if why is not None:
        st.caption(f"Nothing can be advised now: {plain(why)}")
    if shown:
        _cards(scene, shown, measured, advising, found)
    else:
        _nothing(scene, items, place)
    waiting_plans(stage, waiting, found)
    _faults(scene, place)
    _more(scene, stage, found, items)


def _advised_now() -> tuple[Advised, str | None]:
    """What is advised; where nothing can be, why."""
    try:
        return queries.advised(), None
    except ClientError as error:
        return Advised(as_of=datetime.now(UTC), rules_from=""), str(error)


def _head(scene: PageContext, items: Sequence[Item], waste: pd.DataFrame | None) -> None:
    st.header(sentence(items, waste, calm=freshness.calm()), anchor=False)
    if waste is not None and not waste.empty:
        st.caption(beside(waste))
    show_rests_on(scene)


def sentence(items: Sequence[Item], waste: pd.DataFrame | None, *, calm: str) -> str:
    """How many jobs there is something to do about now, and the range's waste, which is the ledger's sum."""
    now = sum(1 for each in items if each.place is Place.NOW)
    head = f"{text.many(now, 'job')} to do something about" if now else calm
    return f"{head}{wasted(waste, open_only=True)}"


def _advice_in_view(scene: PageContext, items: Sequence[Item], found: Advised) -> list[AdviceRow]:
    """What is advised about what the filters leave."""
    if not scene.view.filtered:
        return list(found.advice)
    return [each for item in items for each in item.advice]


def _choices(scene: PageContext, items: Sequence[Item], place: Place) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        _places(items, place)
        _kinds(scene, [each for each in items if each.place is place])


def _places(items: Sequence[Item], place: Place) -> None:
    counts = Counter(each.place for each in items)
    options = [each for each in Place if counts[each] or each in (place, Place.NOW)]
    st.session_state["to-do-place"] = place
    st.segmented_control(
        "Which jobs",
        options,
        key="to-do-place",
        format_func=lambda each: f"{PLACES[each]} {counts[each]}",
        label_visibility="collapsed",
        required=True,
        on_change=_place_chosen,
    )


def _place_chosen() -> None:
    chosen = st.session_state["to-do-place"]
    closed = next((name for name, each in CLOSED.items() if each is chosen), None)
    go(replace(current_view(), closed=closed, kind=None))


def _kinds(scene: PageContext, items: Sequence[Item]) -> None:
    counts = Counter(kind for each in items for kind in each.kinds)
    options = sorted(counts, key=lambda kind: (kind not in KINDS, -counts[kind], kind))
    if scene.view.kind is not None and scene.view.kind not in options:
        options.append(scene.view.kind)
    if not options:
        return
    st.session_state["kind"] = scene.view.kind
    st.pills(
        "Kind of finding or advice",
        options,
        key="kind",
        format_func=lambda kind: f"{_titled(kind)} {counts[kind]}",
        label_visibility="collapsed",
        on_change=lambda: go(replace(current_view(), kind=st.session_state["kind"])),
    )


def _titled(kind: str) -> str:
    return kind_label(kind) if kind in KINDS else label_of_action(kind)


def _cards(
    scene: PageContext,
    items: Sequence[Item],
    measured: Measured,
    advising: Advising,
    found: Advised,
) -> None:
    stage = stage_of(scene.site)
    with st.container(horizontal=True, vertical_alignment="center"):
        _legend(scene)
        pages = -(-len(items) // PER_PAGE)
        at = st.pagination(pages, key="to-do-page", width="content") - 1 if pages > 1 else 0
    page = items[at * PER_PAGE : (at + 1) * PER_PAGE]
    strip = steps_of(scene.window)
    use = queries.ask_if_kept("use_of_jobs", jobs=tuple(each.id for each in page), **strip.steps)
    steps = _steps(use)
    for item in page:
        one = card(item, measured, advising)
        picture = to_do_card.picture_of(steps.get(item.id, []), strip, scene.colours)
        to_do_card.draw(scene, stage, one, picture, found)


def _legend(scene: PageContext) -> None:
    colours = scene.colours
    keys(
        (
            (swatch(colours.used), "used", None),
            (swatch("transparent", outline=colours.allocated), "memory", None),
            (swatch(colours.states[GpuState.HELD_IDLE]), "wasted", None),
            (swatch(striped(colours.paper, colours.stripe)), "not measured", None),
        )
    )


def _steps(use: pd.DataFrame | None) -> dict[str, list[Step]]:
    made: dict[str, list[Step]] = {}
    for row in known_records(use) if use is not None else ():
        made.setdefault(str(row["job"]), []).append(
            Step(
                ts=row["ts"].to_pydatetime(),
                utilization=row["utilization_ratio"],
                memory=row["memory_used_max_ratio"],
                wasted=row["wasted_ratio"],
            )
        )
    return made


def _nothing(scene: PageContext, items: Sequence[Item], place: Place) -> None:
    """What an empty list means, and one command."""
    if scene.view.kind is not None:
        st.caption("No job of this kind here.")
    elif items:
        st.caption("No such job here; the others are beside it.")
    else:
        st.markdown(spoken(f"No job wasted anything in this time, as far as it was measured. {FURTHER_BACK}"))


def _faults(scene: PageContext, place: Place) -> None:
    """What is no job's own doing: faults of GPUs, strangers on them, GPUs of nobody's job."""
    if place not in (Place.NOW, Place.OVER):
        return
    found = queries.ask("findings", open=place is Place.NOW, **scene.asked_until_now)
    if found.empty:
        return
    own = [is_own_doing(str(kind)) for kind in found["kind"]]
    others = found[[not mine or text.missing(job) for mine, job in zip(own, found["job"], strict=True)]]
    if scene.view.kind is not None:
        others = others[others["kind"] == scene.view.kind]
    groups = messages(others)
    if not groups:
        return
    st.subheader(f"Faults and strangers: {len(groups)}", anchor=False)
    pages = -(-len(groups) // MOST_FAULTS)
    at = st.pagination(pages, key="faults-page") - 1 if pages > 1 else 0
    for group in groups[at * MOST_FAULTS : (at + 1) * MOST_FAULTS]:
        finding_box(scene, group)


def _more(scene: PageContext, stage: Stage, found: Advised, items: Sequence[Item]) -> None:
    """What else belongs to it, each drawn once somebody opens it."""
    listed_ids = {each.id for each in items}
    of_none = [] if scene.view.filtered else [row for row in found.advice if row["job"] not in listed_ids]
    folded: list[tuple[str, Callable[[], None]]] = [
        ("Alerts", lambda: alerts(scene)),
        ("What recurs in this time", lambda: recurring(stage, found)),
        ("Left alone, and why", lambda: left_alone(found)),
        ("Not judged, not measured", lambda: _unknown(scene)),
    ]
    if of_none:
        folded.insert(0, (f"Other advice: {len(of_none)}", lambda: _other_advice(stage, found, of_none)))
    for label, draw in folded:
        box = st.expander(label, key=f"more-{label.partition(':')[0]}", on_change="rerun")
        if box.open:
            with box:
                draw()


def _other_advice(stage: Stage, found: Advised, rows: Sequence[AdviceRow]) -> None:
    for each in rows[:MOST_OTHER]:
        advice_box(stage, found, each)
    if len(rows) > MOST_OTHER:
        st.caption(f"And {len(rows) - MOST_OTHER} more: `fallow advise`.")


def _unknown(scene: PageContext) -> None:
    unjudged(scene)
    unknowns(scene)
