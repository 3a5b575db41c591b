"""The three figures that the overview begins with: parts of one whole, each beside the range before. Pure."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from analytics import text
from service.pages.parts.widgets import Figure
from service.summaries.headline import SAME, Headline, change
from service.wording import at_most


class Part(NamedTuple):
    """A part of the installed GPU-hours: what it is called, what it is, and how much of it there was."""

    label: str
    told: str
    gpu_hours: Callable[[Headline], float]
    mark: Callable[[Headline], str] = lambda head: ""


PARTS = (
    Part(
        "Given out", "GPU-hours in which a GPU was given to somebody.", lambda head: head.allocated_gpu_hours
    ),
    Part(
        "Used",
        "What those who were given GPUs used of them, on the best measure each GPU has.",
        lambda head: head.held_used_gpu_hours,
        lambda head: at_most("", head.bound_used_gpu_hours),
    ),
    Part(
        "Wasted outright",
        "Held with no process on it, or with one that did nothing: at most 1 % busy.",
        lambda head: head.wasted_gpu_hours,
    ),
)


def leading(head: Headline, before: Headline, seconds: float, of_whom: str | None) -> list[Figure]:
    """The figures; ``before`` is the range of the same ``seconds`` that ended where this one begins."""
    of_what = f"held by {of_whom}" if of_whom else "installed"
    return [
        Figure(
            label=part.label,
            much=f"{part.mark(head)}{text.gpu_hours(part.gpu_hours(head))}",
            beside=" · ".join(_beside(head, before, part, f"{text.length(seconds)} before", of_what)),
            told=f"{part.told} Parts are of all GPU-hours that were {of_what}, measured or not.",
        )
        for part in PARTS
    ]


def _beside(head: Headline, before: Headline, part: Part, earlier: str, of_what: str) -> Iterator[str]:
    hours = part.gpu_hours(head)
    yield f"{text.percent(head.of_installed(hours))} of {text.gpu_hours(head.installed_gpu_hours)} {of_what}"
    changed = change(head, before, part.gpu_hours)
    if changed is None:
        return
    if abs(changed) < SAME:
        yield f"as in the {earlier}"
        return
    points = text.many(round(abs(changed) * 100), "point")
    yield f"{points} {'more' if changed > 0 else 'less'} than in the {earlier}"
