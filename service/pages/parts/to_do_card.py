"""A job of *To do*: whose, what it cost, its use, what was found, what to do, the buttons. Effects: it draws.

What stands on a card is one piece of HTML, in which every name is escaped. Whoever looks copies a message;
the other buttons are drawn for who may use them.
"""

from base64 import b64encode
from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from analytics import text
from service import wording
from service.charts.job_strip import Step, described, drawn
from service.charts.theme import Theme
from service.charts.window import Window
from service.pages.parts.advised import gains, sure
from service.pages.parts.context import PageContext, Stage
from service.pages.parts.evidence import draw_evidence, told
from service.pages.parts.job_buttons import keep_box
from service.pages.parts.url_state import address, shared
from service.pages.parts.waiting_plans import anchor_of
from service.pages.parts.widgets import commands, escape, facts, kind_label, tag_of_kind
from service.printable import in_lines
from service.schemas.advice import AdviceRow
from service.summaries.message_to_owner import message
from service.summaries.to_do import Card, Place
from service.usecases.advised import Advised


def draw(scene: PageContext, stage: Stage, card: Card, picture: str, found: Advised) -> None:
    """The card in a box; ``picture`` is what ``picture_of`` made."""
    with st.container(border=True, key=f"todo-{card.item.id}", gap="xsmall"):
        st.html(html(scene, card, picture))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if card.said:
                _message(scene, card)
            if card.item.place is not Place.OVER:
                keep_box(card.item.id, card.user, card.name)
            for plan in card.waiting:
                st.html(
                    f'<a class="to-plan" href="#{anchor_of(plan)}" target="_self">Open plan {plan}</a>',
                    width="content",
                )
        _evidence(stage, card, found)


def _evidence(stage: Stage, card: Card, found: Advised) -> None:
    """A box with the numbers behind what is found and advised, drawn once somebody opens it."""
    if not card.item.findings and not card.item.advice:
        return
    key = f"evidence-{card.item.id}"
    box = st.expander("Evidence", icon=":material/query_stats:", type="compact", key=key, on_change="rerun")
    if not box.open:
        return
    with box:
        for advice in card.item.advice:
            draw_evidence(stage, advice, lines=found.lines, as_of=found.as_of, key=str(advice["id"]))
        for each in card.item.findings:
            facts(
                [
                    ("found", f"{kind_label(each['kind'])}, {stage.when(each['opened_at'])}"),
                    ("on", wording.short_gpu(each["node"], each["gpu_place"], each["uuid"])),
                    ("judged on", f"{stage.when(each['window_from'])} to {stage.when(each['window_to'])}"),
                    ("covered", text.percent(each["coverage"])),
                    *(() if each["closed_at"] is None else (("over since", stage.when(each["closed_at"])),)),
                    *told(each["evidence"]),
                ]
            )


def picture_of(steps: Sequence[Step], strip: Window, colours: Theme) -> str:
    """The job's use over the range as an image with its words; a line of text where none is kept."""
    if not steps:
        return '<p class="quiet">No use of it is kept for this time.</p>'
    drawing = b64encode(drawn(steps, strip, colours).encode()).decode("ascii")
    return f'<img src="data:image/svg+xml;base64,{drawing}" alt="{escape(described(steps))}">'


def html(scene: PageContext, card: Card, picture: str) -> str:
    """What is written on a card. Every name in it is escaped."""
    item = card.item
    link = f"jobs?{urlencode({**address(shared(scene.view)), 'job': item.id})}"
    who = " in ".join(part for part in (card.user, card.project) if part) or "whose it is, is not known"
    state = f": {escape(card.state)}" if card.state else ""
    tags = "".join(tag_of_kind(kind, kind_label(kind), scene.colours) for kind in card.kinds)
    tags += f'<span class="quiet">{escape(card.not_found)}</span>' if card.not_found else ""
    put_off = ""
    if item.put_off_until is not None:
        until, whose = item.put_off_until
        put_off = f'<p class="quiet">Put off until {escape(scene.when(until))}, {escape(whose)}.</p>'
    window = scene.window
    ends = f"<span>{escape(scene.when(window.from_ts))}</span><span>{escape(scene.when(window.to_ts))}</span>"
    return (
        '<article class="todo"><div>'
        f'<h3><a href="{escape(link)}" target="_self">{escape(card.name)}</a>{state}</h3>'
        f'<p class="who">{escape(who)} {tags}</p>{_cost(card)}{put_off}{_found(scene, card)}'
        f"{_what_to_do(scene, card)}</div>"
        f'<div class="strip">{picture}<p class="ends">{ends}</p></div></article>'
    )


def _cost(card: Card) -> str:
    """What it wasted in the range, of what it held, and what lies beside it."""
    row = card.item.ledger
    if row is None:
        return '<p class="cost quiet">It held no GPU in this time.</p>'
    money = ""
    if row["wasted_cost"]:
        money = f" · <b>{escape(text.money(row['wasted_cost'], row['currency']))}</b>"
    held = text.gpu_hours(row["held_gpu_hours"])
    low = card.low_saturation_gpu_hours
    beside = f", {escape(text.gpu_hours(low))} at low saturation" if low else ""
    return (
        f'<p class="cost"><b>{escape(text.gpu_hours(card.item.wasted_gpu_hours))}</b>{money} '
        f'<span class="quiet">wasted of {escape(held)} held{beside}</span></p>'
    )


def _found(scene: PageContext, card: Card) -> str:
    """What was found; what an advice begins with is said there alone."""
    whys = " ".join(str(each["why"]) for each in card.item.advice)
    told = zip(card.sentences, card.rests, strict=True)
    said = (wording.localized(f"{each}{rest}", scene.zone) for each, rest in told if each not in whys)
    return "".join(f"<p>{escape(each)}</p>" for each in said)


def _what_to_do(scene: PageContext, card: Card) -> str:
    """What is advised, each with what it would give; else what helps, and why nothing is advised."""
    if card.item.advice:
        return "".join(_advised(scene, each) for each in card.item.advice)
    lines = []
    if card.remedy:
        lines.append(
            f'<p class="do"><b>To do:</b> {commands(wording.localized(card.remedy, scene.zone))}.</p>'
        )
    if card.why_not:
        lines.append(f'<p class="quiet">Fallow advises nothing itself: {escape(card.why_not)}.</p>')
    return "".join(lines)


def _advised(scene: PageContext, row: AdviceRow) -> str:
    items = [*gains(row), ("sure", sure(row)), ("risk", row["risk"] or "none")]
    shown = "".join(f"<span>{escape(what)} <b>{escape(much)}</b></span>" for what, much in items)
    why = escape(wording.localized(str(row["why"]), scene.zone))
    return (
        f'<p class="do"><b>To do:</b> {escape(row["what"])}.</p><p class="quiet">{why}</p>'
        f'<div class="facts">{shown}</div>'
    )


def _message(scene: PageContext, card: Card) -> None:
    """What to write to the job's owner, to be copied: the same as ``fallow tell``."""
    key = f"message-{card.item.id}"
    box = st.popover("Message", type="tertiary", icon=":material/mail:", key=key, on_change="rerun")
    if not box.open:
        return
    with box:
        st.caption("To copy into a mail or a chat; nothing is sent from here.")
        written = message(card.user, card.item.id, card.name, card.said, job_kind=card.job_kind)
        st.code(in_lines(wording.localized(written, scene.zone)), language=None, wrap_lines=True)
