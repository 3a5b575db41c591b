"""What a range's waste came to, and the idle times in it that come again and again, with words for them.

The sum is the ledger's (query ``waste``), so that what is advised stands beside all that was wasted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analytics import text

if TYPE_CHECKING:
    from service.client.queries import Client

KINDS = {"interactive": "terminals and notebooks", "batch": "batch jobs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurred:
    """A range's waste in GPU-hours and money, and what recurs in it, the largest gain first."""

    wasted_gpu_hours: float
    wasted_cost: float | None
    currency: str | None
    habits: tuple[dict[str, Any], ...]


def recurred(client: "Client", start: datetime, end: datetime) -> Recurred:
    """What was wasted in whole minutes and what recurs. Blocks. Raises ``ClientError``."""
    from advisor.live.snapshot import stretch_of
    from advisor.whatif.recurring import recurring
    from service.usecases.advised import effective

    span = {"from_ts": start, "to_ts": end}
    (waste,) = client.rows("waste", **span)
    stretches = [stretch_of(row) for row in client.rows("idle_stretches", **span)]
    habits = recurring(stretches, effective(client).config.advice)
    return Recurred(
        wasted_gpu_hours=waste["wasted_gpu_hours"],
        wasted_cost=waste["wasted_cost"],
        currency=waste["currency"],
        habits=tuple({**asdict(each), "kind": each.kind.value} for each in habits),
    )


def told(habit: Mapping[str, Any]) -> str:
    """One habit in a sentence: whose, how much, how often, and what a limit gives back."""
    what, user = _kind(habit), habit["user"]
    return _told(f"{what.capitalize()} of unknown owners" if user is None else f"{user}'s {what}", habit)


def told_to_owner(habit: Mapping[str, Any]) -> str:
    """The same to the face of whose it is."""
    return _told(f"Your {_kind(habit)}", habit)


def _kind(habit: Mapping[str, Any]) -> str:
    return KINDS.get(str(habit["kind"]), f"{habit['kind']} jobs")


def _told(whose: str, habit: Mapping[str, Any]) -> str:
    days = "one day" if habit["days"] == 1 else f"{habit['days']} days"
    return (
        f"{whose} were idle {habit['times']} times on {days}, {text.gpu_hours(habit['idle_gpu_hours'])} in "
        f"all; a limit of {text.length(habit['limit_s'])} idle would have given back "
        f"{text.hours(habit['gives_back_gpu_hours'])} of them."
    )


def known_gain(rows: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    """The sum of the gains that something recorded speaks for, and how many have none that does."""
    known = [row for row in rows if _is_known(row)]
    return sum(float(row["gain_gpu_hours"] or 0.0) for row in known), len(rows) - len(known)


def _is_known(row: Mapping[str, Any]) -> bool:
    """Of idle jobs, whether enough idle times were recorded to say how long this one goes on."""
    evidence = row.get("evidence") or {}
    return "expected_idle_s" not in evidence or evidence["expected_idle_s"] is not None
