"""A finding's evidence as words: each number by the unit its name ends with. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from service.pages import wording

WRITERS: Mapping[str, Callable[[Any], str]] = {
    "ratio": wording.percent,
    "bytes": wording.gibibytes,
    "hours": wording.hours,
    "s": wording.span,
    "min": lambda minutes: wording.span(minutes * 60),
    "mw": lambda power: wording.watts(power / 1000),
    "w": wording.watts,
    "ms": lambda length: _moment(length) if length > AN_INSTANT_MS else wording.span(length / 1000),
}
AN_INSTANT_MS = 10**11
"""No length is this long (three years), and no time of ours this early."""


def told(evidence: object) -> list[tuple[str, str]]:
    """(what, how much) for each number, in the order given; ``evidence`` is JSON text or what it held."""
    held = _loaded(evidence)
    return [written(name, value) for name, value in _pairs(held)]


def written(name: str, value: object) -> tuple[str, str]:
    """One number: ``idle_ratio`` 0.97 is ("idle", "97 %"); an unlisted unit leaves the name as it is."""
    words = name.split("_")
    unit = words[-1]
    match value:
        case None:
            return " ".join(words), "not measured"
        case bool():
            return " ".join(words), "yes" if value else "no"
        case int() | float() if unit in WRITERS and len(words) > 1:
            shown = words[:-2] if unit == "hours" and words[-2:-1] == ["gpu"] else words[:-1]
            return " ".join(shown) or name, WRITERS[unit](value)
        case int() | float():
            return " ".join(words), wording.amount(value) if isinstance(value, float) else wording.count(
                value
            )
        case _:
            return " ".join(words), str(value)


def _moment(ms: float) -> str:
    return f"{wording.moment(datetime.fromtimestamp(ms / 1000, UTC))} UTC"


def _loaded(evidence: object) -> object:
    if not isinstance(evidence, str):
        return evidence
    try:
        return json.loads(evidence)
    except ValueError:
        return {"evidence": evidence}


def _pairs(held: object) -> Iterator[tuple[str, object]]:
    match held:
        case Mapping():
            yield from ((str(name), value) for name, value in held.items())
        case list():
            for each in held:
                if isinstance(each, Mapping) and "name" in each:
                    yield str(each["name"]), each.get("value")
        case _:
            return
