"""A request to stop arrives at any moment of the controller's round, as signals do, and is not lost."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.controller import controller as module  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.membership import Phase, Worker  # noqa: E402
from fallow.protocol import MemberId  # noqa: E402

pytestmark = pytest.mark.quick
FIRST = MemberId("w0")


class Computing:
    """A worker's process that goes on."""

    pid = None

    def poll(self) -> int | None:
        return None

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        return 0


def training() -> Controller:
    """One whose only worker computes, and of which another could be had."""
    controller = Controller(lambda environment: Computing(), workers=1, maximum=4, room=lambda: 3)  # type: ignore[arg-type, return-value]
    worker = Worker(phase=Phase.MEMBER, since_ms=0, founder=True)
    controller.view = replace(controller.view, generation=1, members=(FIRST,), workers={FIRST: worker})
    controller.processes[FIRST] = Computing()  # type: ignore[assignment]
    return controller


def at_line(wanted: int, act: Callable[[], None]) -> tuple[Callable[..., Any], list[int]]:
    """A trace that acts before the ``wanted``-th line of the controller's module, once, and counts them."""
    lines = [0]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == wanted:
                act()
        return trace

    return trace, lines


def stepped(controller: Controller, wanted: int, times: int = 1) -> int:
    """A round, at whose ``wanted``-th line so many signals come; how many lines it has."""

    def act() -> None:
        for _ in range(times):
            controller.ask_to_stop("SIGTERM")

    trace, lines = at_line(wanted, act)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        controller.step()
    finally:
        sys.settrace(before)
    return lines[0]


def test_a_request_to_stop_is_kept_at_whatever_line_of_a_round_it_comes() -> None:
    lost, count = [], stepped(training(), -1)
    assert count > 40
    for line in range(1, count + 1):
        controller = training()
        stepped(controller, line)
        controller.step()
        if not (
            controller.view.stopping and controller.stopped == "SIGTERM" and controller.exit_reason is None
        ):
            lost.append(line)
    assert lost == []


def test_a_second_request_in_the_same_round_ends_the_training_at_once() -> None:
    controller = training()
    stepped(controller, 20, times=2)
    controller.step()
    assert controller.exit_reason == "SIGTERM"


def test_nothing_is_written_or_told_amid_another_line_of_the_controller() -> None:
    """A handler that prints while its process prints raises RuntimeError, wherever that was."""
    controller = training()
    view, journal = controller.view, list(controller.journal)
    controller.ask_to_stop("SIGTERM")
    assert (controller.view, controller.journal) == (view, journal)
    controller.step()
    assert controller.view.stopping
    assert any("SIGTERM; stopping" in line or "stopping" in line for line in controller.journal)


def test_before_the_first_group_a_request_to_stop_ends_it_and_nobody_is_started_any_more() -> None:
    started: list[Any] = []

    def spawn(environment: Any) -> Any:
        started.append(environment)
        return Computing()

    controller = Controller(spawn, workers=1)
    controller.ask_to_stop("SIGTERM")
    assert controller.run() == 1
    assert controller.exit_reason == "SIGTERM"
    assert started == []
