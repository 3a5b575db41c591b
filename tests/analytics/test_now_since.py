"""Since when a GPU is idle: since its last minute of work, not since the last hour that was mostly work.

Each world lasts eight hours, a sample a minute; what is expected was counted by hand.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

MINUTE_MS = 60_000
LAST = 8 * 60
BEGIN = datetime.fromtimestamp(T0 / 1000, UTC).replace(tzinfo=None)


def cells(minute: int) -> float | None:
    """A notebook: two minutes in 25 for five hours, the last of them ends at 277; then 203 of nothing."""
    return 0.4 if minute <= 300 and (minute - 1) % 25 < 2 else 0.0


def after_a_gap(minute: int) -> float | None:
    """The last work ends at 370; 40 minutes without samples, and 30 of nothing since 450."""
    return None if 410 < minute <= 450 else 0.4 if minute <= 370 else 0.0


def with_a_lost_minute(minute: int) -> float | None:
    """The last work ends at 300, and one of the 180 minutes since then was lost: 99% were measured."""
    return None if minute == 400 else 0.4 if minute <= 300 else 0.0


def after_a_long_gap(minute: int) -> float | None:
    """Idle since 60, without samples from 100 to 220, whole hours among them, and nothing since."""
    return None if 100 < minute <= 220 else 0.4 if minute <= 60 else 0.0


def never(minute: int) -> float | None:
    return 0.0


def samples(
    number: int, level: Callable[[int], float | None], empty_from: int = LAST + 1
) -> Iterator[GpuSample]:
    for minute in range(1, LAST + 1):
        busy = level(minute)
        if busy is not None:
            at_ms = T0 + minute * MINUTE_MS
            yield sample(number, at_ms, busy, width_ms=MINUTE_MS, process_count=int(minute < empty_from))


WORLDS: tuple[tuple[Callable[[int], float | None], str, int, bool], ...] = (
    (cells, "held-idle", 277, False),
    (after_a_gap, "held-idle", 450, True),
    (with_a_lost_minute, "held-idle", 300, False),
    (after_a_long_gap, "held-idle", 220, True),
    (never, "held-idle", 430, False),  # the second holder's own 50 minutes, and not the first one's
    (never, "held-idle", 0, True),  # as long as its records
    (lambda minute: 0.4 if minute <= 90 else 0.0, "allocated-empty", 200, False),  # its process left at 200
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, object]]]:
    claims = [
        HeldInterval(allocation=held(number, str(number)), from_ms=T0, to_ms=None)
        for number in range(len(WORLDS))
        if number != 4
    ]
    turn_ms = T0 + 430 * MINUTE_MS
    claims += [
        HeldInterval(allocation=held(4, "first"), from_ms=T0, to_ms=turn_ms),
        HeldInterval(allocation=held(4, "second"), from_ms=turn_ms, to_ms=None),
    ]
    told = [
        row
        for number, (level, state, _, _) in enumerate(WORLDS)
        for row in samples(number, level, 201 if state == "allocated-empty" else LAST + 1)
    ]
    with open_store(at_path(tmp_path_factory.mktemp("since"))) as store:
        store.write_history(history(told, claims))
        with store.reader() as reader:
            yield run(reader, "gpus_now", {}).to_pylist()


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_a_gpu_is_idle_since_its_last_minute_of_work(rows: list[dict[str, object]], number: int) -> None:
    _, state, minute, is_bound = WORLDS[number]
    row = rows[number]
    assert isinstance(row["state_since"], datetime)
    since = (row["state_since"] - BEGIN).total_seconds() / 60
    assert (row["state"], since, row["state_since_is_bound"]) == (state, minute, is_bound)
