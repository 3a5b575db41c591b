"""What a range's waste came to, and the idle times in it that come again and again, with words for them.

The sum is the ledger's (query ``waste``), so that what is advised stands beside all that was wasted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from analytics import text
from service.schemas.advice import AdviceRow, HabitRow

if TYPE_CHECKING:
    from service.client.queries import Client

GAIN_UNKNOWN = "nothing recorded says how much"
KINDS = {"interactive": "terminals and notebooks", "batch": "batch jobs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurred:
    """A range's waste in GPU-hours and money, and what recurs in it, the largest gain first."""

    wasted_gpu_hours: float
    wasted_cost: float | None
    currency: str | None
    habits: tuple[HabitRow, ...]


def recurred(client: "Client", start: datetime, end: datetime) -> Recurred:
    """What was wasted in whole minutes and what recurs. Blocks. Raises ``ClientError``."""
    from advisor.live.snapshot import stretch_of
    from advisor.whatif.idle_clocks import with_clocks
    from advisor.whatif.recurring import recurring
    from service.usecases.advised import effective

    span = {"from_ts": start, "to_ts": end}
    (waste,) = client.rows("waste", **span)
    config = effective(client).config
    limit = {"start_limit_s": config.findings.start_limit_s}
    stretches = [stretch_of(row) for row in client.rows("idle_stretches", **span, **limit)]
    habits = recurring(with_clocks(stretches, config.findings), config.advice)
    return Recurred(
        wasted_gpu_hours=waste["wasted_gpu_hours"],
        wasted_cost=waste["wasted_cost"],
        currency=waste["currency"],
        habits=tuple(
            HabitRow(
                user=each.user,
                kind=None if each.kind is None else each.kind.value,
                times=each.times,
                days=each.days,
                jobs=each.jobs,
                idle_gpu_hours=each.idle_gpu_hours,
                limit_s=each.limit_s,
                gives_back_gpu_hours=each.gives_back_gpu_hours,
            )
            for each in habits
        ),
    )


def told(habit: HabitRow) -> str:
    """One habit in a sentence: whose, how much, how often, and what a limit gives back."""
    what, user = _kind(habit), habit["user"]
    return _told(f"{what.capitalize()} of unknown owners" if user is None else f"{user}'s {what}", habit)


def told_to_owner(habit: HabitRow) -> str:
    """The same to the face of whose it is."""
    return _told(f"Your {_kind(habit)}", habit)


def _kind(habit: HabitRow) -> str:
    kind = habit["kind"]
    return "jobs of unknown kind" if kind is None else KINDS.get(str(kind), f"{kind} jobs")


def _told(whose: str, habit: HabitRow) -> str:
    days = "one day" if habit["days"] == 1 else f"{habit['days']} days"
    return (
        f"{whose} were idle {habit['times']} times on {days}, {text.gpu_hours(habit['idle_gpu_hours'])} in "
        f"all; a limit of {text.length(habit['limit_s'])} idle would have given back "
        f"{text.hours(habit['gives_back_gpu_hours'])} of them."
    )


def known_gain(rows: Sequence[AdviceRow]) -> tuple[float, int]:
    """The sum of the gains that something recorded speaks for, and how many have none that does."""
    known = [float(row["gain_gpu_hours"]) for row in rows if row["gain_gpu_hours"] is not None]
    return sum(known), len(rows) - len(known)


def gain_unknown(count: int) -> str:
    """That of none of so many pieces of advice the gain is known."""
    return f"{GAIN_UNKNOWN} {'it' if count == 1 else 'they'} would give back"


def told_gain(rows: Sequence[AdviceRow]) -> str:
    """What these pieces of advice bring, in words: one sum of the gains that their rows show."""
    hours, unknown = known_gain(rows)
    if unknown == len(rows):
        return gain_unknown(unknown)
    money = sum(float(row["gain_money"] or 0.0) for row in rows)
    currency = next((row["currency"] for row in rows if row["currency"]), None)
    priced = f", {text.money(money, currency)}" if money and currency else ""
    more = f"; of {unknown} {GAIN_UNKNOWN}" if unknown else ""
    return f"{text.hours(hours)} GPU-hours{priced}, if all were followed{more}"
