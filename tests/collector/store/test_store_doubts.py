"""Intrusions and unclear claims as intervals: they open, last and end with what ticks say."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.arrow import History, IntrudedInterval
from collector.model import (
    Intrusion,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.retention import Retention
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, gpu, held, history, sample, uuid
from tests.stores import open_store

KEY = ProcessKey(node=NodeName("n0"), pid=71, started_ms=T0)
OTHER = ProcessKey(node=NodeName("n0"), pid=72, started_ms=T0)
ROWS = (
    "SELECT p.pid, g.uuid, epoch_ms(from_ts), epoch_ms(to_ts) FROM intrusions "
    "JOIN processes AS p USING (process_id) JOIN gpus AS g USING (gpu_id) ORDER BY ALL"
)
UNREAD = (
    "SELECT pid, reason, epoch_ms(from_ts), epoch_ms(to_ts) FROM unclear_claims "
    "JOIN processes USING (process_id)"
)
DAY_MS = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def tick(
    number: int, intruding: Iterable[ProcessKey] = (), unclear: Iterable[tuple[ProcessKey, str]] = ()
) -> Tick:
    at = T0 + number * TICK_MS
    keys = (KEY, OTHER)
    reading = Reading(
        source="test",
        at_ms=at,
        gpus=(gpu(0),),
        samples=(sample(0, at),),
        processes=tuple(Process(key=key, user="ben", name="python") for key in keys),
        process_samples=tuple(
            ProcessSample(uuid=uuid(0), key=key, at_ms=at, width_ms=TICK_MS) for key in keys
        ),
    )
    return Tick(
        at_ms=at,
        width_ms=TICK_MS,
        outcomes=(reading,),
        allocations=(held(0, "a"),),
        intrusions=tuple(Intrusion(key=key, uuid=uuid(0)) for key in intruding),
        unclear=tuple(unclear),
    )


def test_an_intrusion_lasts_from_the_first_tick_that_tells_of_it_to_the_last(store: Store) -> None:
    for number, keys in enumerate([(), (KEY,), (KEY, OTHER), (OTHER,)], start=1):
        store.write_tick(tick(number, keys))
    assert ask(store, ROWS) == [
        (71, uuid(0), T0 + TICK_MS, T0 + 3 * TICK_MS),
        (72, uuid(0), T0 + 2 * TICK_MS, None),
    ]
    assert ask(store, "SELECT user_name FROM processes WHERE pid = 71") == [("ben",)], "nothing is forgotten"


def test_an_unclear_claim_keeps_its_reason_while_it_lasts(store: Store) -> None:
    store.write_tick(tick(1, unclear=[(KEY, "why")]))
    store.write_tick(tick(2, unclear=[(KEY, "why")]))
    assert ask(store, UNREAD) == [(71, "why", T0, None)]
    store.write_tick(tick(3, unclear=[(KEY, "another")]))
    assert sorted(ask(store, UNREAD)) == [
        (71, "another", T0 + 2 * TICK_MS, None),
        (71, "why", T0, T0 + 2 * TICK_MS),
    ]


def test_a_tick_at_which_nobody_looked_changes_nothing(store: Store) -> None:
    store.write_tick(tick(1, [KEY]))
    store.write_tick(replace(tick(2), allocations=None))
    assert [row[3] for row in ask(store, ROWS)] == [None]


def test_a_restart_goes_on_and_a_long_pause_does_not(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as first:
        first.write_tick(tick(1, [KEY], [(KEY, "why")]))
    with open_store(at_path(tmp_path)) as second:
        second.write_tick(tick(2, [KEY], [(KEY, "why")]))
        assert ask(second, ROWS) == [(71, uuid(0), T0, None)]
    with open_store(at_path(tmp_path)) as third:
        third.write_tick(tick(100, [KEY], [(KEY, "why")]))
        expected = [(T0, T0 + 2 * TICK_MS), (T0 + 99 * TICK_MS, None)]
        assert [row[2:] for row in ask(third, ROWS)] == expected
        assert sorted((row[2:] for row in ask(third, UNREAD)), key=str) == expected


def test_a_failed_tick_leaves_no_doubt_behind(store: Store) -> None:
    store.write_tick(tick(1))
    with store.reader() as breaker:
        breaker.execute("ALTER TABLE intrusions RENAME TO hidden")
    with pytest.raises(Exception, match="intrusions"):
        store.write_tick(tick(2, [KEY]))
    with store.reader() as breaker:
        breaker.execute("ALTER TABLE hidden RENAME TO intrusions")
    store.write_tick(tick(3, [KEY]))
    assert ask(store, ROWS) == [(71, uuid(0), T0 + TICK_MS, None)]


def test_what_ended_long_ago_is_let_go_of(store: Store) -> None:
    for number, keys in enumerate([(KEY, OTHER), (KEY,)], start=1):
        store.write_tick(tick(number, keys, [(key, "why") for key in keys]))
    store.apply_retention(Retention(process_samples_days=1), T0 + 3 * DAY_MS)
    assert [row[0] for row in ask(store, ROWS)] == [71]
    assert [row[0] for row in ask(store, UNREAD)] == [71]


def test_a_past_that_is_told_twice_or_in_pieces_is_one_intrusion_and_goes_on_live(store: Store) -> None:
    def past(from_ms: int, to_ms: int | None) -> History:
        rows = (sample(0, from_ms + TICK_MS),)
        told = IntrudedInterval(intrusion=Intrusion(key=KEY, uuid=uuid(0)), from_ms=from_ms, to_ms=to_ms)
        return replace(history(rows), intruded=(told,))

    for span in ((T0 - 500_000, T0 - 200_000), (T0 - 200_000, None), (T0 - 200_000, None)):
        store.write_history(past(*span))
    assert [row[2:] for row in ask(store, ROWS)] == [(T0 - 500_000, None)]
    store.write_tick(tick(1, [KEY]))
    store.write_tick(tick(2))
    assert [row[2:] for row in ask(store, ROWS)] == [(T0 - 500_000, T0 + TICK_MS)]
