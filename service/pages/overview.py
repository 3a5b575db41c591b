"""Overview: allocated against used, where the hours went, who wastes most, and how much is known."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from analytics import text
from analytics.vocabulary import assumed_prices
from service import wording
from service.charts import bars
from service.charts import usage as chart_usage
from service.charts.bars import PARTS, most_wasted, part_colours, waste_bars
from service.charts.frame import Clock
from service.charts.theme import DARK, LIGHT
from service.charts.usage import allocated_and_used, gpus_by_state, ledger_bars
from service.charts.window import Window
from service.energy import Energy
from service.pages.data import queries
from service.pages.parts import freshness, largest_wastes
from service.pages.parts.charted import charted
from service.pages.parts.context import PageContext, Site, drawn, nothing_matches
from service.pages.parts.finding_messages import messages, say
from service.pages.parts.health import show_health
from service.pages.parts.leading_figures import leading
from service.pages.parts.rests_on import show_rests_on
from service.pages.parts.url_state import address
from service.pages.parts.widgets import Figure, figures, keys, plain, state_keys, striped, swatch
from service.summaries.headline import USED, Headline, headline, sentence

PRICES = '[prices]\ncurrency = "EUR"\nper_gpu_hour = { "*" = 2.10 }'
WASTERS = 8


def show(site: Site) -> None:
    """Draw the page."""
    drawn(site, _body)


def prepare() -> None:
    """Put the page's charts together as most will see them, and draw one with nobody looking."""
    for colours in (LIGHT, DARK):
        chart_usage.prepare(Clock(utc=False), colours)
        bars.prepare(WASTERS, colours)
    nothing = pd.DataFrame({"state": [], "gpu_hours": [], "share_ratio": []})
    charted(ledger_bars(nothing, LIGHT), "Nothing", nothing, "nothing", numbers="Nothing")


def _body(scene: PageContext) -> None:
    usage_over_time = queries.begin("usage_over_time", **scene.asked_steps)
    ledger_by_state = queries.begin("ledger_by_state", **scene.asked)
    findings = queries.begin("findings", open=True, **scene.asked_until_now)
    states_over_time = queries.begin("states_over_time", **scene.asked_steps)
    people = queries.begin("people", **scene.asked)
    before = _before(scene.window)
    answers_before = (
        queries.begin("usage_over_time", **scene.view.filters, **before.steps),
        queries.begin("ledger_by_state", **scene.view.filters, **before.span),
    )
    usage, ledger = usage_over_time(), ledger_by_state()
    if usage.empty or not usage["installed_gpus"].fillna(0).gt(0).any():
        nothing_matches(scene)
        return
    head = headline(usage, ledger, scene.window)
    st.header(sentence(head, scene.view.of_whom), anchor=False)
    show_rests_on(scene)
    _withheld(scene, head)
    earlier = headline(answers_before[0](), answers_before[1](), before)
    figures(leading(head, earlier, scene.window.seconds, scene.view.of_whom), leading=True)
    went = st.container()
    _hero(scene, usage, head)
    _figures(head)
    if head.wasted_cost is None:
        _assumed_prices(scene)
    if wording.is_bound(head.bound_used_gpu_hours):
        st.caption(wording.upper_bound(head.bound_used_gpu_hours))
    show_health()
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.subheader("What the GPUs were doing", anchor=False)
        state_keys(scene.colours, withheld=bool(head.withheld_gpu_hours))
        states = states_over_time()
        charted(
            gpus_by_state(states, scene.axis, scene.colours),
            "GPUs in each state over time",
            states,
            "states-over-time",
            numbers="GPU-hours in each state, step by step",
        )
    with right:
        st.subheader("GPU-hours by state", anchor=False)
        charted(
            ledger_bars(ledger, scene.colours),
            "GPU-hours in each state; they add up to the hardware",
            ledger,
            "ledger",
            numbers="GPU-hours in each state",
        )
    left, right = st.columns([3, 2], gap="large")
    with left:
        _wastes(scene, people())
    with right:
        _findings(scene, findings())
    with went:  # the dearest question, asked when the rest of the page stands
        _went(scene)


def _before(window: Window) -> Window:
    """The range of the same length that ends where the window begins."""
    return replace(window, from_ts=window.from_ts - (window.to_ts - window.from_ts), to_ts=window.from_ts)


def _went(scene: PageContext) -> None:
    st.subheader("Where it went", anchor=False)
    filters = tuple(sorted(scene.view.filters.items()))
    rows = queries.wasted("job", scene.window.from_ts, scene.window.to_ts, filters)
    if not rows:
        st.caption("Nobody wasted anything in this time, as far as it was measured.")
        return
    largest_wastes.draw(scene, rows)


def _withheld(scene: PageContext, head: Headline) -> None:
    """How many GPUs nobody may have now, and why; of a range that is over, how many hours it was."""
    if not head.withheld_gpu_hours:
        return
    now = queries.ask("cluster_now", **scene.view.filters) if scene.view.live else pd.DataFrame()
    many = float(now["withheld_gpus"].iloc[0]) if len(now) else 0.0
    if not many:
        st.caption(f"{text.gpu_hours(head.withheld_gpu_hours)} were withheld: drained, down or reserved.")
        return
    why = now["withheld_because"].iloc[0]
    st.caption(
        f"**{text.gpus(many)} {'GPU is' if many == 1 else 'GPUs are'} withheld now**: {plain(why)}; "
        f"{text.gpu_hours(head.withheld_gpu_hours)} in this time."
    )


def _figures(head: Headline) -> None:
    """One share, which says of what it is; all else in a row is hours, energy or money."""
    figures(
        [
            Figure(
                label=USED,
                much=wording.at_most(text.percent(head.utilization_ratio), head.bound_used_gpu_hours),
                told="Used over measured time, on the best measure each GPU has.",
            ),
            Figure(
                label="Lay fallow",
                much=f"{wording.AT_LEAST if wording.is_bound(head.bound_used_gpu_hours) else ''}"
                f"{text.gpu_hours(head.fallow_gpu_hours)}",
                told="Allocated and not used, as far as it was measured: the area between the curves.",
            ),
            _money(head),
            *_energy(head),
            Figure(
                label="Unknown",
                much=text.gpu_hours(head.unknown_gpu_hours),
                told="Not measured, so not judged: "
                f"{text.coverage(head.measured_ratio)} of all that was installed was measured.",
            ),
        ]
    )


def _energy(head: Headline) -> list[Figure]:
    """The energy of all hours and of the wasted ones, where anybody measures it; of which part is said."""
    if not head.energy.kwh:
        return []
    return [
        Figure(
            label=wording.measured_part("Energy", head.energy),
            much=text.energy(head.energy.kwh),
            told="What the GPUs drew, whoever held them, by their own meters: without the machines around "
            f"them.{_of_part(head.energy)}",
        ),
        Figure(
            label=wording.measured_part("Energy wasted", head.wasted_energy),
            much=text.energy(head.wasted_energy.kwh),
            told=f"What they drew in the hours that were wasted outright.{_of_part(head.wasted_energy)}",
        ),
    ]


def _of_part(energy: Energy) -> str:
    part = energy.partly_of
    return "" if part is None else f" It was measured in {text.percent(part)} of these hours."


def _money(head: Headline) -> Figure:
    if head.wasted_cost is None:
        return Figure(
            label="Cost of the waste",
            much="no price",
            told="Not every GPU model has a price. Put prices into fallow.toml in the data folder, and start "
            "the service again:",
            code=PRICES,
        )
    return Figure(
        label="Cost of the waste",
        much=text.money(head.wasted_cost, head.currency),
        told="Wasted GPU-hours times the price of each model.",
    )


def _assumed_prices(scene: PageContext) -> None:
    """Prices that a site without its own can take by one click: what is copied is a configuration."""
    models = queries.ask("gpus_now", **scene.view.filters).get("model", pd.Series(dtype=object)).dropna()
    if models.empty:
        return
    with st.popover("Assumed prices of these GPUs", icon=":material/payments:"):
        st.markdown(
            f"**Assumed, and in no figure here:** {assumed_prices.SOURCE}, an instance's price divided by "
            "its GPUs. Copy it into `fallow.toml`, change what you pay, and start the service again."
        )
        st.code(assumed_prices.as_configuration(models), language="toml")


def _hero(scene: PageContext, usage: pd.DataFrame, head: Headline) -> None:
    colours = scene.colours
    st.subheader("Allocated against used", anchor=False)
    fallow = None
    if head.installed_gpus and head.allocated_gpus is not None and head.held_used_gpus is not None:
        fallow = head.fallow_gpus / head.installed_gpus
    keys(
        (
            (swatch(colours.used), "used", None),
            (
                swatch(striped(colours.fallow, colours.fallow_stripe)),
                "fallow: allocated, not used",
                text.percent(fallow),
            ),
            (swatch("transparent", outline=colours.allocated), "allocated", None),
            (swatch(striped(colours.paper, colours.stripe)), "not measured", None),
        )
    )
    held_only = scene.view.of_whom is not None
    charted(
        allocated_and_used(usage, scene.axis, colours, held_only=held_only),
        f"Allocated {'GPUs' if held_only else 'share'} and average utilization over time; the area between "
        "lies fallow",
        usage,
        "allocated-and-used",
        numbers="Allocated and used GPUs, step by step",
    )


def _wastes(scene: PageContext, people: pd.DataFrame) -> None:
    st.subheader("Most wasted GPU-hours", anchor=False)
    named = people.assign(
        name=[_who(u, p) for u, p in zip(people["user_name"], people["project"], strict=True)]
    )
    wasted = most_wasted(named, top=WASTERS)
    if wasted.empty:
        st.caption("Nobody wasted anything in this time.")
        return
    keys(
        [
            (swatch(colour), part, None)
            for part, colour in zip(PARTS, part_colours(scene.colours), strict=True)
        ]
    )
    title = "People by wasted GPU-hours, the most first"
    charted(waste_bars(wasted, scene.colours), title, wasted, "most-wasted", numbers=title)
    st.page_link(
        scene.site["people"],
        label="All people and projects",
        icon=":material/arrow_forward:",
        query_params=_carried(scene),
    )


MOST_FINDINGS = 5


def _findings(scene: PageContext, frame: pd.DataFrame) -> None:
    groups = messages(frame)
    st.subheader(f"Open findings: {len(groups)}", anchor=False)
    if frame.empty:
        st.caption(f"{freshness.calm()}.")
        return
    for group in groups[:MOST_FINDINGS]:
        say(scene, group)
    st.page_link(
        scene.site["to-do"],
        label="What to do about them",
        icon=":material/arrow_forward:",
        query_params=_carried(scene),
    )


def _carried(scene: PageContext) -> dict[str, str]:
    return address(scene.view)


def _who(user: object, project: object) -> str:
    who = "unknown" if text.missing(user) else str(user)
    return who if text.missing(project) else f"{who} · {project}"
