"""Ids by natural key: the same for ever, while memory holds only those who were named lately."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.model import Holder, JobId, NodeName, Process, ProcessKey
from collector.store.database import Store
from collector.store.registry import FORGET_MS, Registry
from tests.stores import open_store

AT_MS = 1_780_000_000_000
STAYS = Holder(job=JobId("stays"), user="ann")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "fallow.duckdb") as opened:
        yield opened


def process(number: int) -> Process:
    return Process(key=ProcessKey(node=NodeName("here"), pid=number, started_ms=AT_MS), user="ann")


def remembered(registry: Registry) -> int:
    halves = registry._holders, registry._older_holders, registry._processes, registry._older_processes
    return sum(len(half) for half in halves)


def test_who_comes_again_has_its_old_id_and_who_went_is_not_kept_in_memory(store: Store) -> None:
    with store.writing("a test") as connection:
        registry = Registry(connection)
        first = registry.holder_ids([STAYS, Holder(job=JobId("goes"))], AT_MS)
        ids = registry.process_ids([process(1)], AT_MS)
        for hour in range(1, 50):
            at_ms = AT_MS + hour * FORGET_MS
            passing = Holder(job=JobId(f"passes-{hour}"))
            assert registry.holder_ids([STAYS, passing], at_ms)["stays"] == first["stays"]
            registry.process_ids([process(100 + hour)], at_ms)
            assert remembered(registry) <= 8, "two hours of a few, not fifty"
        again = registry.holder_ids([Holder(job=JobId("goes"))], AT_MS + 50 * FORGET_MS)
        assert again["goes"] == first["goes"]
        assert registry.process_ids([process(1)], AT_MS + 50 * FORGET_MS) == ids
        ((rows,),) = connection.execute("SELECT count(*) FROM holders WHERE job = 'goes'").fetchall()
        assert rows == 1


def test_owners_of_the_last_hour_are_known_right_after_a_turn(store: Store) -> None:
    key = process(1).key
    with store.writing("a test") as connection:
        registry = Registry(connection)
        registry.holder_ids([STAYS], AT_MS)
        registry.process_ids([process(1)], AT_MS)
        before = registry.owned_ids({key: STAYS.job})
        registry.process_ids([process(1)], AT_MS + FORGET_MS)
        assert registry.owned_ids({key: STAYS.job}) == before != {}


def test_a_new_process_of_a_holder_that_has_been_there_for_long_is_its_own(store: Store) -> None:
    """Holders are named when allocations change, and a job may run for weeks."""
    with store.writing("a test") as connection:
        registry = Registry(connection)
        (holder,) = registry.holder_ids([STAYS], AT_MS).values()
        for hour in range(1, 5):
            (number,) = registry.process_ids([process(hour)], AT_MS + hour * FORGET_MS).values()
        assert registry.owned_ids({process(4).key: STAYS.job}) == {process(4).key: (number, holder)}
        assert registry.owned_ids({process(9).key: STAYS.job, process(4).key: JobId("nobody")}) == {}


def test_what_was_learnt_before_a_turn_is_not_learnt_again_and_nothing_is_lost(store: Store) -> None:
    with store.writing("a test") as connection:
        registry = Registry(connection)
        registry.holder_ids([STAYS], AT_MS)
        registry.holder_ids([Holder(job=STAYS.job, project="vision")], AT_MS + FORGET_MS)
        registry.holder_ids([STAYS], AT_MS + 5 * FORGET_MS)
        ((user, project),) = connection.execute("SELECT user_name, project FROM holders").fetchall()
        assert (user, project) == ("ann", "vision")


def test_a_past_that_is_filled_in_forgets_nothing_of_now(store: Store) -> None:
    with store.writing("a test") as connection:
        registry = Registry(connection)
        registry.holder_ids([STAYS], AT_MS)
        for _ in range(4):
            registry.holder_ids([Holder(job=JobId("old"))], AT_MS - 100 * FORGET_MS)
        assert STAYS.job in registry._holders
