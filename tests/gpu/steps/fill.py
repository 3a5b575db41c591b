"""What a training behind costs a foreground that idles half of its time, by every way to share a GPU.

In front a training that waits for its data, then a server of short requests that come at random; behind a
fine-tuning: by time slices, in the gaps by Fallow's gate, under MPS. Stream priorities are no way: they
order the work of one process.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fallow.idle_gaps.announce import ENV_PAGE as OWN
from fallow.idle_gaps.gate import ENV_PAGE as FILLED
from fallow.idle_gaps.page import Page, create
from tests.gpu import place
from tests.gpu.answers import Figure, at_least, at_most, told
from tests.gpu.mps import APART, daemon
from tests.gpu.parts import apart
from tests.gpu.windows import BEHIND, GATED, SERVE, THIRTY, TRAIN, Loads, Rows, gated, started, warm, window

MPS_BY_S, LAST_BY_S = 68.0, 98.0
"""Later MPS isn't begun, for its loads and windows take 36 s of the step's 110; nor a window of it."""
TOLD = {"guard": "its step by its guard, over alone", "open": "part of the time that a gap was announced"}
MEDIAN, TAIL, JOINT = 1.03, 1.10, 1.5
"""Bars of the gate: a training's step, a server's slowest hundredth, and both rates where half is idle."""


class Own:
    """What each is by itself: a front before and after it had somebody behind, and those behind."""

    def __init__(self) -> None:
        self.fronts: dict[str, list[Rows]] = {TRAIN: [], SERVE: []}
        self.behind, self.pace = 0.0, dict[str, float]()

    def of(self, front: str, figure: str) -> float:
        return statistics.mean(rows[front][figure] for rows in self.fronts[front])


def main() -> dict[str, Any]:
    """Time slices and the gate, then MPS."""
    begun_s, own = time.monotonic(), Own()
    figures = [told("a stream of low priority", "not possible across processes")]
    figures += apart("by time slices and by the gate", lambda: _sliced(own))
    lacking = place.lacking("mps")
    if lacking is None and (not own.pace or not own.behind):
        lacking = "nothing is known of each by itself"
    if lacking is None and time.monotonic() - begun_s > MPS_BY_S:
        lacking = "the time that was left did not suffice"
    if lacking is not None:
        return {"figures": [*figures, told("MPS", f"not tried: {lacking}")]}
    return {"figures": [*figures, *apart("under MPS", lambda: _by_mps(own, begun_s + LAST_BY_S))]}


def _sliced(own: Own) -> list[Figure]:
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        path = Path(folder, "page")
        with create(path) as page:
            ahead, gaps = {**APART, OWN: str(path)}, {**APART, FILLED: str(path)}
            wanted = {TRAIN: ("train", ahead), SERVE: ("serve", ahead), BEHIND: ("behind", APART)}
            with started(wanted | {GATED: ("behind", gaps)}, page) as loads:
                figures = apart("the gate, warm", lambda: warm(loads, page))
                figures += apart("behind", lambda: _alone(own, loads))
                for name in (TRAIN, SERVE):
                    figures += apart(name, lambda name=name: _in_turn(own, loads, page, name))
    return figures


def _alone(own: Own, loads: Loads) -> list[Figure]:
    own.behind = window(loads, BEHIND)[BEHIND]["rate"]
    return [told("behind, alone", own.behind, "steps/s")]


def _in_turn(own: Own, loads: Loads, page: Page, front: str) -> list[Figure]:
    """By itself, with somebody behind in two ways, and by itself again: a GPU that gets warm slows down."""
    found: dict[str, Rows] = {}

    def measured(mode: str, measure: Callable[[], Rows]) -> list[Figure]:
        found[mode] = measure()
        return []

    own.pace[front] = loads[front].ask("pace")["pace"]
    own.fronts[front].append(window(loads, front))
    figures = apart(f"gate, {front}", lambda: measured("gate", lambda: gated(loads, page, front)))
    figures += apart(
        f"time slices, {front}", lambda: measured("time slices", lambda: window(loads, front, BEHIND))
    )
    own.fronts[front].append(window(loads, front))
    for name, unit, times in (("p50", "ms", 1000), ("p99", "ms", 1000), ("rate", "/s", 1)):
        figures.append(told(f"{front}, alone: {name}", own.of(front, name) * times, unit))
    for mode, rows in found.items():
        figures += _compared(own, mode, front, rows, GATED if mode == "gate" else BEHIND)
    for name, what in TOLD.items():
        if "gate" in found:
            figures.append(told(f"gate, {front}: {what}", found["gate"][GATED].get(name)))
    return figures


def _by_mps(own: Own, until_s: float) -> list[Figure]:
    figures: list[Figure] = []
    with daemon() as clients:
        third = {**clients, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"}
        wanted = {TRAIN: ("train", clients), BEHIND: ("behind", clients)}
        if not place.dry:
            wanted |= {SERVE: ("serve", clients), THIRTY: ("behind", third)}
        with started(wanted) as loads:
            for front in (front for front in own.pace if front in loads):
                loads[front].ask("pace", own.pace[front])
                for mode, behind in (("MPS", BEHIND), ("MPS, 30% behind", THIRTY)):
                    if behind not in loads or time.monotonic() > until_s:
                        figures.append(told(f"{mode}, {front}", "not tried: no such load, or no time left"))
                        continue
                    rows = window(loads, front, behind)
                    figures += _compared(own, mode, front, rows, behind)
    return figures


def _compared(own: Own, mode: str, front: str, rows: Rows, behind: str) -> list[Figure]:
    title = f"{mode}, {front}"
    if not own.behind:
        return [told(title, "nothing is known of the one behind by itself")]
    middle, tail = (rows[front][each] / own.of(front, each) for each in ("p50", "p99"))
    filled = rows[behind]["rate"] / own.behind
    joint = rows[front]["rate"] / own.of(front, "rate") + filled
    p50, p99, both = f"{title}: p50 over alone", f"{title}: p99 over alone", f"{title}: joint throughput"
    has_bar = mode == "gate" and not place.dry
    figures = [told(f"{title}: behind, of its own speed", filled)]
    figures.append(at_most(p50, middle, MEDIAN) if has_bar and front == TRAIN else told(p50, middle))
    figures.append(at_most(p99, tail, TAIL) if has_bar and front == SERVE else told(p99, tail))
    return [*figures, at_least(both, joint, JOINT) if has_bar else told(both, joint)]
