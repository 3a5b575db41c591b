"""How long what was taken away is installed, where only an imported past tells of it.

As by hand: a spot node that lived two hours has two hours, a board that was taken out a week more.
"""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from collector.arrow import History
from collector.model import Gap, Gpu, NodeName
from collector.reading import Tick
from collector.store.database import Store
from tests.collector.store.store_parts import T0, ask, at_path, gpu, history, sample, tick
from tests.stores import open_store

pytestmark = pytest.mark.slow
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
STEP_MS = HOUR_MS
DAYS = 20
INSTALLED = (
    "SELECT uuid, CAST((epoch_ms(installed_to) - epoch_ms(installed_from)) / 3600000 AS INTEGER) FROM gpus "
    "WHERE installed_to IS NOT NULL ORDER BY uuid"
)

STAYS, SPOT, BOARD, LATELY, AGAIN, UNSEEN = (gpu(n, node=f"n{n}") for n in range(6))
TWO = tuple(gpu(n, node=BOARD.node) for n in (10, 11))
"""What stays on the nodes whose other boards are taken out."""
LATE = gpu(11, node=BOARD.node)
LIVED: dict[Gpu, tuple[tuple[float, float], ...]] = {  # in days
    STAYS: ((0, DAYS),),
    SPOT: ((5, 5 + 2 / 24),),
    BOARD: ((0, 8),),
    TWO[0]: ((0, DAYS),),
    LATE: ((0, 15),),  # for five days only: it may come back from repair
    AGAIN: ((0, 3), (12, DAYS)),  # its node was away for nine days
    UNSEEN: ((0, 6),),  # its exporter has been down since
}


def past(from_day: float, to_day: float, source: str = "prometheus:a") -> History:
    """What that Prometheus has of these days, a row each hour."""
    rows, named = [], []
    for each, spans in LIVED.items():
        for begin, end in spans:
            first = max(from_day, begin)
            times = range(int(first * DAY_MS) + STEP_MS, int(min(to_day, end) * DAY_MS) + 1, STEP_MS)
            rows += [replace(sample(0, T0 + at, 0.5, width_ms=STEP_MS), uuid=each.uuid) for at in times]
            named += [each] if times else []
    gap = Gap(
        source=source,
        from_ms=T0 + 6 * DAY_MS,
        to_ms=T0 + int(to_day * DAY_MS),
        reason="down",
        node=UNSEEN.node,
    )
    gaps = (gap,) if to_day > 6 else ()
    made = history(rows)
    return replace(made, source=source, gpus=tuple(dict.fromkeys(named)), gaps=gaps)


def hours(store: Store) -> dict[str, int]:
    return dict(ask(store, INSTALLED))


EXPECTED = {SPOT.uuid: 2, BOARD.uuid: (8 + 7) * 24}


@pytest.mark.parametrize("pieces", [(0, 20), (0, 7, 20), (0, 5, 5.5, 10, 13, 20), (13, 20, 0, 13)])
def test_what_was_taken_away_long_ago_is_installed_for_as_long_as_it_was_there(
    tmp_path: Path, pieces: tuple[float, ...]
) -> None:
    bounds = [(0, 13), (13, 20)] if pieces[0] else list(pairwise(pieces))
    with open_store(at_path(tmp_path)) as store:
        for from_day, to_day in reversed(bounds) if pieces[0] else bounds:
            store.write_history(past(from_day, to_day))
        assert hours(store) == EXPECTED


def test_a_tick_after_the_import_changes_nothing_of_what_had_gone(tmp_path: Path) -> None:
    now_ms = T0 + DAYS * DAY_MS + 60_000
    there = (STAYS, TWO[0], AGAIN)
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past(0, DAYS))
        for at_ms in range(now_ms, now_ms + 5 * 60_000, 30_000):
            rows = [replace(sample(0, at_ms), uuid=each.uuid) for each in there]
            made: Tick = tick(at_ms, rows, gpus=there, source="prometheus:live")
            store.write_tick(made)
        assert hours(store) == EXPECTED


def test_a_board_that_is_back_in_a_later_piece_is_installed_all_the_time(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(past(0, 11))
        assert AGAIN.uuid in hours(store)
        store.write_history(past(11, DAYS))
        assert AGAIN.uuid not in hours(store)


def test_another_source_says_nothing_of_what_this_one_named(tmp_path: Path) -> None:
    alone = gpu(20, node=NodeName("far"))
    row = [replace(sample(0, T0 + HOUR_MS, 0.5, width_ms=STEP_MS), uuid=alone.uuid)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(replace(history(row), source="prometheus:b", gpus=(alone,)))
        store.write_history(past(0, DAYS))
        assert alone.uuid not in hours(store)
