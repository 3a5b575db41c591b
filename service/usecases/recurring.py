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
                job=each.job,
                kind=None if each.kind is None else each.kind.value,
                times=each.times,
                days=each.days,
                jobs=each.jobs,
                idle_gpu_hours=each.idle_gpu_hours,
                limit_s=each.limit_s,
                gives_back_gpu_hours=each.gives_back_gpu_hours,
                ended_jobs=each.ended_jobs,
                ended_gpu_hours=each.ended_gpu_hours,
            )
            for each in habits
        ),
    )


def told(habit: HabitRow) -> str:
    """One habit in a sentence: whose, how much, how often, and what a limit gives back."""
    what, user = _kind(habit), habit["user"]
    if user is None:
        return _habit_sentence(f"{habit['job']}, nobody knows whose, was", habit)
    return _habit_sentence(f"{user}'s {what} were", habit)


def told_to_owner(habit: HabitRow) -> str:
    """The same to the face of whose it is."""
    return _habit_sentence(f"Your {_kind(habit)} were", habit)


def _kind(habit: HabitRow) -> str:
    kind = habit["kind"]
    return "jobs of unknown kind" if kind is None else KINDS.get(str(kind), f"{kind} jobs")


def _habit_sentence(who_was: str, habit: HabitRow) -> str:
    days = "one day" if habit["days"] == 1 else f"{habit['days']} days"
    return (
        f"{who_was} idle {habit['times']} times on {days}, {text.gpu_hours(habit['idle_gpu_hours'])} in "
        f"all; a limit of {text.length(habit['limit_s'])} idle would have {_limited(habit)}."
    )


def _limited(habit: HabitRow) -> str:
    """What a limit gives back, and how many jobs it would have ended that worked again."""
    gives = f"given back {text.hours(habit['gives_back_gpu_hours'])} of them"
    if not habit["ended_jobs"]:
        return gives
    jobs, past = text.many(habit["ended_jobs"], "job"), text.hours(habit["ended_gpu_hours"])
    ended = f"ended {jobs} that worked again later"
    if not habit["gives_back_gpu_hours"]:
        return f"{ended}: what lies past it, {past}, is no gain"
    return f"{gives}, and {ended} ({past} more, not counted)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGain:
    """What pieces of advice bring, as far as something recorded speaks for it; ``unknown`` have nothing.

    ``coming`` is expected within the next ``horizon_s``, ``past`` is of hours that the jobs have held
    already: what smaller requests would have left to others. An hour that is over and one that comes are
    never added. ``None``: no piece of that kind. Of several pieces for one job's coming hours the largest
    counts, as an hour is given back once; ``overlapping`` are left out for that.
    """

    coming_gpu_hours: float | None
    coming_money: float | None
    horizon_s: float | None
    past_gpu_hours: float | None
    past_money: float | None
    unknown: int
    overlapping: int


def known_gain(rows: Sequence[AdviceRow]) -> KnownGain:
    """The sums of the gains that something recorded speaks for, past and coming ones apart."""
    rows_with_gain = [row for row in rows if row["gain_gpu_hours"] is not None]
    past = [row for row in rows_with_gain if row["gain_is_past"]]
    ahead = [row for row in rows_with_gain if not row["gain_is_past"]]
    largest: dict[str, AdviceRow] = {}
    for row in ahead:
        key = row["job"] or row["id"]
        if key not in largest or _gain(row) > _gain(largest[key]):
            largest[key] = row
    coming = list(largest.values())
    return KnownGain(
        coming_gpu_hours=sum(map(_gain, coming)) if coming else None,
        coming_money=_money(coming),
        horizon_s=max((row["horizon_s"] or 0.0 for row in coming), default=0.0) or None,
        past_gpu_hours=sum(map(_gain, past)) if past else None,
        past_money=_money(past),
        unknown=len(rows) - len(rows_with_gain),
        overlapping=sum(_gain(row) > 0 for row in ahead) - sum(_gain(row) > 0 for row in coming),
    )


def gain_unknown(count: int) -> str:
    """That of none of so many pieces of advice the gain is known."""
    return f"{GAIN_UNKNOWN} {'it' if count == 1 else 'they'} would give back"


def told_gain(rows: Sequence[AdviceRow]) -> str:
    """What these pieces of advice bring, in words: what is expected, and apart from it what is past."""
    gain = known_gain(rows)
    if gain.unknown == len(rows):
        return gain_unknown(gain.unknown)
    currency = next((row["currency"] for row in rows if row["currency"]), None)
    sentences = [*_expected_gain(gain, currency), *told_past(gain, currency)]
    return "; ".join([*sentences, *([f"of {gain.unknown} {GAIN_UNKNOWN}"] if gain.unknown else [])])


def told_past(gain: KnownGain, currency: str | None) -> list[str]:
    """What smaller requests would have left, in words; nothing where none is advised."""
    if gain.past_gpu_hours is None:
        return []
    sentence = f"{text.gpu_hours(gain.past_gpu_hours)}{_priced(gain.past_money, currency)}"
    return [f"of what the jobs have held so far smaller requests would have left {sentence}"]


def _expected_gain(gain: KnownGain, currency: str | None) -> list[str]:
    if gain.coming_gpu_hours is None:
        return []
    within = f" within {text.length(gain.horizon_s)}" if gain.horizon_s else ""
    once = ", each job's largest alone" if gain.overlapping else ""
    hours = f"{text.hours(gain.coming_gpu_hours)} GPU-hours{_priced(gain.coming_money, currency)}"
    return [f"{hours}{within}, if all were followed{once}"]


def _priced(money: float | None, currency: str | None) -> str:
    return f", {text.money(money, currency)}" if money and currency else ""


def _gain(row: AdviceRow) -> float:
    return row["gain_gpu_hours"] or 0.0


def _money(rows: Sequence[AdviceRow]) -> float | None:
    """The worth of all of them; ``None`` as soon as one has no price, or where there is none."""
    worth = [row["gain_money"] for row in rows if _gain(row) > 0]
    values = [each for each in worth if each is not None]
    return sum(values) if values and len(values) == len(worth) else None
