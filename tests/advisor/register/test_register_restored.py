"""A register from an older backup, under launchers that went on: they are believed, and silence is no yes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.journal.journal import Order, StoreJournal
from advisor.register.life import attained_gpu_s, in_flight, leased
from advisor.register.model import Begin, Ending, Entry, Reshape, Stand, Stop, Suspend
from advisor.register.numbers import MOST_AHEAD
from advisor.register.register import Register, open_register
from collector.store.database import Store
from tests.advisor.register.register_world import GPUS, HandClock, acknowledge, opened, submission, word


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def kept(tmp_path: Path, clock: HandClock) -> Iterator[tuple[Store, Entry]]:
    """A store with a job that runs on the first GPU, as a backup has it."""
    store, register = opened(tmp_path, clock)
    entry, _ = register.submit(submission())
    yield store, acknowledge(register, register.give(entry.id, Begin(number=3, gpus=GPUS[:1])))
    store.close()


def reopened(store: Store, clock: HandClock) -> Register:
    clock.pass_s(600)
    return open_register(store, clock)


def test_a_job_stands_where_its_launcher_says_that_it_does(
    kept: tuple[Store, Entry], clock: HandClock
) -> None:
    store, entry = kept
    register = reopened(store, clock)
    register.met(entry.id, 9)
    moved = register.report(entry.id, word(Stand.RUNNING, 9, gpus=GPUS[2:4]))
    assert (moved.stand, moved.gpus, moved.handled) == (Stand.RUNNING, GPUS[2:4], 9)
    assert set(register.holders()) == set(GPUS[2:4])
    assert attained_gpu_s(moved, clock.now_ms()) == pytest.approx(600)
    paused = register.report(entry.id, word(Stand.PAUSED, 10))
    assert (paused.stand, paused.gpus, paused.paused_on) == (Stand.PAUSED, (), GPUS[2:4])
    assert register.holders() == {}


@pytest.mark.parametrize("known", [4, 5, 9])
def test_an_order_under_a_number_that_its_launcher_knows_is_not_taken_for_done(
    kept: tuple[Store, Entry], clock: HandClock, known: int
) -> None:
    """It would be believed off its GPUs, which somebody else would get."""
    store, entry = kept
    register = reopened(store, clock)
    register.give(entry.id, Suspend(number=4, reason="make room"))
    register.met(entry.id, known)
    found = register.report(entry.id, word(Stand.RUNNING, known, gpus=GPUS[:1]))
    assert (found.stand, leased(found), in_flight(found)) == (Stand.RUNNING, GPUS[:1], False)
    assert "older backup" in (found.failed or "")
    again = register.give(entry.id, Suspend(number=known + 1))
    assert acknowledge(register, again).stand is Stand.PAUSED


def test_a_report_that_comes_before_anybody_listens_acknowledges_nothing(
    kept: tuple[Store, Entry], clock: HandClock
) -> None:
    store, entry = kept
    register = reopened(store, clock)
    register.give(entry.id, Stop(number=4))
    found = register.report(entry.id, word(Stand.RUNNING, 4, gpus=GPUS[:1]))
    assert (found.stand, found.gpus) == (Stand.RUNNING, GPUS[:1])


def test_what_was_given_before_its_launcher_came_back_is_carried_out(
    kept: tuple[Store, Entry], clock: HandClock
) -> None:
    """After a mere restart nothing is given again."""
    store, entry = kept
    register = reopened(store, clock)
    told = register.give(entry.id, Suspend(number=4))
    register.met(entry.id, 3)
    assert acknowledge(register, told).stand is Stand.PAUSED


def test_a_job_that_came_since_is_not_believed_beyond_what_it_was_told(
    kept: tuple[Store, Entry], clock: HandClock
) -> None:
    store, _ = kept
    register = reopened(store, clock)
    entry, _ = register.submit(submission(nonce="new"))
    register.met(entry.id, 50)
    found = register.report(entry.id, word(Stand.RUNNING, 50, gpus=GPUS))
    assert (found.stand, found.gpus, register.newest_known()) == (Stand.PENDING, (), 3)


@pytest.mark.parametrize("gpus", [(), GPUS[:1] * 2, (*GPUS, GPUS[0] + "x")])
def test_a_stand_that_cannot_be_is_not_taken_over(
    kept: tuple[Store, Entry], clock: HandClock, gpus: tuple[str, ...]
) -> None:
    store, entry = kept
    register = reopened(store, clock)
    found = register.report(entry.id, word(Stand.RUNNING, 9, gpus=gpus))
    assert found.gpus == GPUS[:1]


def test_numbers_go_on_above_what_launchers_know(kept: tuple[Store, Entry], clock: HandClock) -> None:
    store, entry = kept
    register = reopened(store, clock)
    journal = StoreJournal(store, clock, above=register.newest_known)
    order = Order(job=entry.id, verb="hold", reason="", no_undo="none")
    assert journal.ordered(clock.now_ms(), order, "anna") == 4
    register.met(entry.id, 40)
    assert journal.ordered(clock.now_ms(), order, "anna") == 41
    register.met(entry.id, 41 + MOST_AHEAD)
    assert journal.ordered(clock.now_ms(), order, "anna") == 42


STANDS = st.sampled_from(
    [(Stand.PENDING, 0), (Stand.PAUSED, 0), (Stand.STARTING, 1), (Stand.RUNNING, 1), (Stand.RUNNING, 3)]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    begun=st.sampled_from([None, Suspend(number=4), Stop(number=4), Reshape(number=4, gpus=GPUS[1:3])]),
    words=st.lists(st.tuples(st.integers(3, 9), STANDS), min_size=1, max_size=4),
    met=st.booleans(),
)
def test_after_its_word_an_entry_holds_what_its_launcher_holds(
    tmp_path_factory: pytest.TempPathFactory,
    begun: Suspend | Stop | Reshape | None,
    words: list[tuple[int, tuple[Stand, int]]],
    met: bool,
) -> None:
    clock = HandClock()
    store, register = opened(tmp_path_factory.mktemp("restored"), clock)
    entry, _ = register.submit(submission())
    acknowledge(register, register.give(entry.id, Begin(number=3, gpus=GPUS[:1])))
    register = reopened(store, clock)
    if begun is not None:
        register.give(entry.id, begun)
    if met:
        register.met(entry.id, max(number for number, _ in words))
    last = 4
    for number, (stand, count) in sorted(words, key=lambda each: each[0]):
        found = register.report(entry.id, word(stand, number, gpus=GPUS[:count]))
        if number > last:
            assert (found.stand, leased(found)) == (stand, GPUS[:count])
            assert not in_flight(found)
            last = number
    ended = register.report(entry.id, word(Stand.ENDED, 9, ending=Ending.DONE, exit_code=0))
    assert (ended.stand, leased(ended), register.holders()) == (Stand.ENDED, (), {})
    store.close()
