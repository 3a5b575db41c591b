"""Each component's health: what it said, how old that is, and what silence means."""

import pytest

from service.health.components import ComponentState, HealthBoard
from tests.advisor.jobs.job_store_world import HandClock

OK, STARTING, FAILING, LATE = (
    ComponentState.OK,
    ComponentState.STARTING,
    ComponentState.FAILING,
    ComponentState.LATE,
)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def board(clock: HandClock) -> HealthBoard:
    made = HealthBoard(clock)
    made.expect("store", bound_s=30)
    made.expect("source:nvml", bound_s=30, first_s=60, patient=True)
    return made


def states(board: HealthBoard) -> dict[str, ComponentState]:
    return {each.name: each.state for each in board.components()}


def test_a_component_is_starting_until_its_first_success_is_overdue(
    board: HealthBoard, clock: HandClock
) -> None:
    assert states(board) == {"store": STARTING, "source:nvml": STARTING}
    clock.pass_s(31)
    assert states(board) == {"store": LATE, "source:nvml": STARTING}
    clock.pass_s(60)
    assert states(board)["source:nvml"] is LATE
    board.succeeded("store")
    assert states(board)["store"] is OK


def test_silence_beyond_the_bound_is_late_with_its_age(board: HealthBoard, clock: HandClock) -> None:
    board.succeeded("store")
    clock.pass_s(30)
    assert states(board)["store"] is OK
    clock.pass_s(45)
    store = board.components()[0]
    assert (store.state, store.age_s, store.bound_s) == (LATE, 75.0, 30.0)
    assert "nothing for 75 s" in store.sentence and "within 30 s" in store.sentence


def test_a_failure_is_told_at_once_or_with_patience_when_the_last_success_is_too_old(
    board: HealthBoard, clock: HandClock
) -> None:
    for name in ("store", "source:nvml"):
        board.succeeded(name)
        board.failed(name, "no answer")
    assert states(board) == {"store": FAILING, "source:nvml": OK}
    clock.pass_s(31)
    board.failed("source:nvml", "no answer")
    found = {each.name: each for each in board.components()}
    assert (found["source:nvml"].state, found["source:nvml"].reason) == (FAILING, "no answer")
    board.went("source:nvml", None)
    board.went("store", "no room")
    assert states(board) == {"store": FAILING, "source:nvml": OK}


def test_a_calendar_that_jumps_ages_nothing(board: HealthBoard, clock: HandClock) -> None:
    board.succeeded("store")
    clock.at_ms += 86_400_000
    assert states(board)["store"] is OK


def test_what_nobody_expects_is_not_shown(board: HealthBoard) -> None:
    board.succeeded("unheard-of")
    board.failed("unheard-of", "no")
    assert set(states(board)) == {"store", "source:nvml"}
