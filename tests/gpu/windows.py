"""Loads of ``tests.gpu.loads.beside``, started together, and what they report of a while side by side."""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping

from fallow.idle_gaps.page import LONGEST_GAP_S, Page
from tests.gpu import place
from tests.gpu.answers import Figure, Missing

OVER_S, LET_IN_S = (0.3, 0.1) if place.dry else (3.0, 0.8)
LOOK_S = 0.001
READY_S = 45.0
GATED_STEPS, WARM_S = 10, 20.0
"""Steps of the gated training before anything is measured: its pieces' lengths are known by then."""
TRAIN, SERVE, BEHIND, GATED, THIRTY = "training", "server", "behind", "behind a gate", "behind, 30%"

Loads = Mapping[str, place.Load]
Rows = dict[str, dict[str, float]]


@contextlib.contextmanager
def started(wanted: Mapping[str, tuple[str, dict[str, str]]], page: Page | None = None) -> Iterator[Loads]:
    """These loads, side by side, but for those that fail to start, which is printed.

    At the end a gate is opened: who waits there would not end.
    """
    made = {}
    try:
        for name, (kind, environment) in wanted.items():
            made[name] = place.Load("beside", kind, environment=environment, wait=False)
        until_s, ready = time.monotonic() + READY_S, {}
        for name, load in made.items():
            try:
                load.await_ready(max(1.0, until_s - time.monotonic()))
                ready[name] = load
            except (RuntimeError, TimeoutError, Missing) as error:
                print(f"{name}: not here: {error}", file=sys.stderr, flush=True)
        yield ready
    finally:
        for name in sorted(made, key=lambda name: name == GATED):
            if page is not None and name == GATED:
                _open(page)
            made[name].end()


def _open(page: Page) -> None:
    page.allow(is_allowed=True)
    page.end_step(alone_s=None, recent_s=None, share=1.0)
    page.open_gap(LONGEST_GAP_S)


def warm(loads: Loads, page: Page) -> list[Figure]:
    """The gated training learns how long its pieces take while nobody is in front."""
    loads[GATED].ask("go")
    until_s = time.monotonic() + WARM_S
    while page.steps[1] < GATED_STEPS:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{page.steps[1]} steps with an open gate in {WARM_S:g} s")
        _open(page)
        time.sleep(0.05)
    page.allow(is_allowed=False)
    return []


def window(loads: Loads, *names: str) -> Rows:
    """What these report of a while side by side."""
    chosen = {name: loads[name] for name in names}
    for load in chosen.values():
        load.ask("go")
    time.sleep(LET_IN_S)
    for load in chosen.values():
        load.ask("go")
    time.sleep(OVER_S)
    rows = {name: load.ask("report") for name, load in chosen.items()}
    for load in chosen.values():
        load.ask("rest")
    return rows


def gated(loads: Loads, page: Page, front: str) -> Rows:
    """The one behind is let in by the page, which also counts its steps: at its gate it answers nobody."""
    if GATED not in loads:
        raise Missing("the training with a gate did not start")
    loads[front].ask("go")
    page.allow(is_allowed=True)
    try:
        time.sleep(2 * LET_IN_S)
        loads[front].ask("go")
        before, begun_s = page.steps[1], time.monotonic()
        announced = []
        while (now_s := time.monotonic()) < begun_s + OVER_S:
            announced.append(page.gap > now_s * 1e9)
            time.sleep(LOOK_S)
        rows: Rows = {front: loads[front].ask("report")}
        rows[GATED] = {"rate": (page.steps[1] - before) / (time.monotonic() - begun_s)}
        rows[GATED] |= {"open": statistics.mean(announced)}
        if page.slowdown is not None:
            rows[GATED]["guard"] = page.slowdown
    finally:
        page.allow(is_allowed=False)
        loads[front].ask("rest")
    return rows
