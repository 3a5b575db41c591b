"""What a step says: figures with their bars, facts, or what it misses. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Figure = dict[str, Any]
VERDICTS = ("held", "broke", "missing", "no time")


class Missing(Exception):
    """What this step needs is not here; the message says what, and what to do."""


def near(name: str, value: float | None, wanted: float, within: float, unit: str = "") -> Figure:
    """A figure that should lie so near to what is right; one that was not measured does not."""
    held = value is not None and abs(value - wanted) <= within
    return _figure(name, value, unit, f"{_short(wanted)} ±{_short(within)}", held)


def at_most(name: str, value: float | None, bar: float, unit: str = "") -> Figure:
    """A figure with an upper bound."""
    return _figure(name, value, unit, f"at most {_short(bar)}", value is not None and value <= bar)


def at_least(name: str, value: float | None, bar: float, unit: str = "") -> Figure:
    """A figure with a lower bound."""
    return _figure(name, value, unit, f"at least {_short(bar)}", value is not None and value >= bar)


def is_so(name: str, value: object, wanted: object) -> Figure:
    """Something that is so or not."""
    return _figure(name, value, "", f"{wanted}", value == wanted)


def told(name: str, value: object, unit: str = "") -> Figure:
    """A figure without a bar: it settles a constant, or is for the next decision."""
    return _figure(name, value, unit, "", None)


def verdict_of(figures: Sequence[Mapping[str, Any]]) -> str:
    """``broke`` when a bar was not met."""
    return "broke" if any(figure["held"] is False for figure in figures) else "held"


def shown(value: object) -> str:
    """A value as a reader gets it: four digits of a number, ``-`` for what was not measured."""
    if value is None:
        return "-"
    return _short(value) if isinstance(value, float) else str(value)


def _figure(name: str, value: object, unit: str, bar: str, held: bool | None) -> Figure:
    return {"name": name, "value": value, "unit": unit, "bar": bar, "held": held}


def _short(number: float) -> str:
    return f"{number:.4g}"
