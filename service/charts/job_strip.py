"""A job's use and memory over a range as a small picture beside what is said of it, with its words. Pure.

An image and no chart of Vega-Lite's: ten of those take a browser longer than all else on a page. It leads
nobody anywhere and answers no pointer; the job's page, to which its card leads, has the charts with numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from analytics import text
from analytics.vocabulary.states import GpuState
from service.charts.theme import Theme
from service.charts.window import Window, step_for

POINTS = 120
"""Steps over the whole width, of three pixels each."""
WIDTH, HEIGHT = 360, 60
"""In units of the picture, which is stretched to the room that there is."""
STRIP = 5
"""Of the height, what wasted time takes at the foot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the query ``use_of_jobs``; ratios, ``None``: not measured."""

    ts: datetime
    utilization: float | None
    memory: float | None
    wasted: float | None


def steps_of(window: Window) -> Window:
    """The same range in steps that the picture has room for."""
    return Window(from_ts=window.from_ts, to_ts=window.to_ts, step_s=step_for(window.seconds, points=POINTS))


def described(steps: Sequence[Step]) -> str:
    """What the picture shows, for whoever cannot see it: mean use, most memory, how much was wasted."""
    used = [each.utilization for each in steps if each.utilization is not None]
    memory = [each.memory for each in steps if each.memory is not None]
    wasted = [each.wasted for each in steps if each.wasted is not None]
    if not used:
        return "Its GPUs were not measured in this time."
    sentences = [
        f"Use of its GPUs over the range, from {text.percent(min(used))} to {text.percent(max(used))}",
        f"at most {text.percent(max(memory))} of the memory taken" if memory else "memory not measured",
    ]
    if any(wasted):
        many = sum(1 for each in wasted if each >= 0.5)
        sentences.append(f"wasted for most of {many} of {len(wasted)} steps")
    return f"{', '.join(sentences)}."


def drawn(steps: Sequence[Step], window: Window, colours: Theme) -> str:
    """The picture as SVG; ``window`` has the step that ``steps`` were asked with.

    The area is the use, the dashed line the memory, the strip at the foot wasted time. What was not measured
    is striped; where the job held no GPU there is nothing.
    """
    wide = WIDTH * window.step_s / max(window.seconds, 1)
    places = [(_place(each.ts, window), each) for each in steps]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">',
        '<defs><pattern id="s" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)">',
        f'<rect width="2.4" height="6" fill="{colours.stripe}"/></pattern></defs>',
    ]
    room = HEIGHT - STRIP - 1
    parts.append('<g shape-rendering="crispEdges">')
    for x, each in places:
        shown = min(wide, WIDTH - x)
        if each.utilization is None:
            parts.append(_rect((x, 0, shown, HEIGHT), "url(#s)", 0.55))
            continue
        high = min(1.0, each.utilization) * room
        parts.append(_rect((x, room - high, shown, high), colours.used, 0.75))
        if each.wasted:
            amber = colours.states[GpuState.HELD_IDLE]
            parts.append(_rect((x, HEIGHT - STRIP, shown, STRIP), amber, 0.25 + 0.75 * min(1.0, each.wasted)))
    parts.append("</g>")
    parts.append(_memory(places, wide, room, colours))
    parts.append(f'<path d="M0 {room}H{WIDTH}" stroke="{colours.rule}" vector-effect="non-scaling-stroke"/>')
    return "".join(parts) + "</svg>"


def _place(ts: datetime, window: Window) -> float:
    """Where a step begins; the first may begin before the window, and is cut there."""
    at = text.aware(ts) - text.aware(window.from_ts)
    return max(0.0, WIDTH * (at / timedelta(seconds=max(window.seconds, 1))))


def _rect(box: tuple[float, float, float, float], fill: str, opacity: float) -> str:
    """A rectangle; nothing where it has no height: 0 is drawn as 0."""
    x, y, wide, high = box
    if high <= 0 or wide <= 0:
        return ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{fill}" '
        f'opacity="{opacity:.2f}"/>'
    )


def _memory(places: Sequence[tuple[float, Step]], wide: float, room: float, colours: Theme) -> str:
    """The memory as a stepped line, left open where it was not measured."""
    path: list[str] = []
    end = -1.0
    for x, each in places:
        if each.memory is None:
            continue
        y = room - min(1.0, each.memory) * (room - 1)
        is_next = abs(x - end) < wide / 2
        path.append(f"{'L' if is_next else 'M'}{x:.1f} {y:.1f}H{min(x + wide, WIDTH):.1f}")
        end = x + wide
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="{colours.allocated}" stroke-width="1.6" '
        f'stroke-dasharray="4 3" vector-effect="non-scaling-stroke"/>'
    )
