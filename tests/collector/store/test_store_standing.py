"""When a GPU stops being installed, and when it must not."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import to_table
from collector.model import (
    Gap,
    Gpu,
    GpuSample,
    NodeName,
    Unavailable,
)
from collector.reading import Tick
from collector.store.database import Store
from collector.store.standing import BOARD_GONE_MS, CHECK_MS, NODE_GONE_MS
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, gpu, history, sample, tick, uuid
from tests.stores import open_store

PART = gpu(7, parent_uuid=uuid(0), mig_profile="1g.10gb", share_of_device=1 / 7)
GONE = "SELECT uuid, epoch_ms(installed_to) FROM gpus WHERE installed_to IS NOT NULL ORDER BY uuid"
DAY_MS, HOUR_MS = 86_400_000, 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def listing(at_ms: int, gpus: Iterable[Gpu], gaps: Iterable[Gap] = (), source: str = "test") -> Tick:
    """A tick at which these GPUs are listed and measured."""
    told = tuple(gpus)
    made = tick(at_ms, [replace(sample(0, at_ms), uuid=each.uuid) for each in told], gpus=told, source=source)
    (reading,) = made.outcomes
    return replace(made, outcomes=(replace(reading, gaps=tuple(gaps)),))  # type: ignore[type-var]


def play(store: Store, from_ms: int, to_ms: int, gpus: Iterable[Gpu], **told: object) -> None:
    """Ticks in ``(from_ms, to_ms]``."""
    shown = tuple(gpus)
    for at_ms in range(from_ms + TICK_MS, to_ms + 1, TICK_MS):
        store.write_tick(listing(at_ms, shown, **told))  # type: ignore[arg-type]


def test_destroyed_instance_ends_with_its_last_sample(store: Store) -> None:
    play(store, T0, T0 + 100_000, [gpu(0), gpu(1), PART])
    play(store, T0 + 100_000, T0 + 250_000, [gpu(0), gpu(1)])
    assert ask(store, GONE) == [(PART.uuid, T0 + 100_000)]


@pytest.mark.slow
def test_ledger_counts_it_for_as_long_as_it_was_there(store: Store) -> None:
    play(store, T0, T0 + 600_000, [gpu(0), PART])
    play(store, T0 + 600_000, T0 + 1_800_000, [gpu(0)])
    start = datetime.fromtimestamp(T0 / 1000, UTC)
    with store.reader() as reader:
        window = {"from_ts": start, "to_ts": start + timedelta(minutes=30)}
        rows = {row["key"]: row for row in run(reader, "ledger_by_gpu", window).to_pylist()}
        (now,) = run(reader, "cluster_now").to_pylist()
    assert rows[PART.uuid]["gpu_hours"] == pytest.approx(10 / 60 / 7)
    assert rows[PART.uuid]["unknown_gpu_hours"] == 0.0
    assert rows[uuid(0)]["gpu_hours"] == pytest.approx(0.5)
    assert now["gpus"] == 1.0


def test_instance_that_is_missing_for_a_moment_stays(store: Store) -> None:
    play(store, T0, T0 + 100_000, [gpu(0), PART])
    play(store, T0 + 100_000, T0 + 130_000, [gpu(0)])
    play(store, T0 + 130_000, T0 + 300_000, [gpu(0), PART])
    assert ask(store, GONE) == []
    assert ask(store, "SELECT count(unlisted_from) FROM gpus") == [(0,)]


def test_instance_that_comes_back_is_installed_again(store: Store) -> None:
    play(store, T0, T0 + 100_000, [gpu(0), PART])
    play(store, T0 + 100_000, T0 + 300_000, [gpu(0)])
    assert len(ask(store, GONE)) == 1
    play(store, T0 + 300_000, T0 + 340_000, [gpu(0), PART])
    assert ask(store, GONE) == []


def test_instances_of_a_board_that_is_not_listed_stay_with_it(store: Store) -> None:
    play(store, T0, T0 + 100_000, [gpu(0), gpu(1), PART])
    play(store, T0 + 100_000, T0 + 400_000, [gpu(1)])
    assert ask(store, GONE) == []


def test_board_is_gone_after_seven_days_and_no_sum_of_the_past_changes(store: Store) -> None:
    store.write_tick(listing(T0, [gpu(0), gpu(1)]))
    first_ms = T0 + CHECK_MS
    for at_ms in (first_ms, first_ms + DAY_MS, first_ms + BOARD_GONE_MS - CHECK_MS):
        store.write_tick(listing(at_ms, [gpu(0)]))
    assert ask(store, GONE) == [], "it may have fallen off the bus"
    store.write_tick(listing(first_ms + BOARD_GONE_MS, [gpu(0)]))
    assert ask(store, GONE) == [(uuid(1), first_ms + BOARD_GONE_MS)]


def test_patience_survives_a_restart(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as first:
        first.write_tick(listing(T0, [gpu(0), gpu(1)]))
        first.write_tick(listing(T0 + CHECK_MS, [gpu(0)]))
    with open_store(at_path(tmp_path)) as second:
        second.write_tick(listing(T0 + CHECK_MS + BOARD_GONE_MS, [gpu(0)]))
        assert [row[0] for row in ask(second, GONE)] == [uuid(1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("why", "gaps"),
    [
        (
            "it is said to be there and lost",
            [Gap(source="test", from_ms=0, to_ms=1, reason="r", uuid=uuid(1))],
        ),
        ("its node is blind", [Gap(source="test", from_ms=0, to_ms=1, reason="r", node=NodeName("n1"))]),
        (
            "a GPU of its node has no name",
            [Gap(source="test", from_ms=0, to_ms=1, reason="r", node=gpu(0).node)],
        ),
        ("some endpoint is blind", [Gap(source="test", from_ms=0, to_ms=1, reason="r")]),
    ],
)
def test_gpu_whose_absence_the_source_explains_stays(store: Store, why: str, gaps: list[Gap]) -> None:
    other = gpu(1, node=gaps[0].node or NodeName("n1"))
    store.write_tick(listing(T0, [gpu(0), other]))
    for day in range(1, 20):
        store.write_tick(listing(T0 + day * DAY_MS, [gpu(0)], gaps))
    assert ask(store, GONE) == [], why


@pytest.mark.slow
def test_gpus_of_a_source_that_cannot_be_read_stay(store: Store) -> None:
    store.write_tick(listing(T0, [gpu(1)], source="far"))
    for day in range(1, 20):
        at_ms = T0 + day * DAY_MS
        near = listing(at_ms, [gpu(0)])
        deaf = Unavailable(source="far", at_ms=at_ms, reason="no answer")
        store.write_tick(replace(near, outcomes=(*near.outcomes, deaf)))
    assert ask(store, GONE) == []


@pytest.mark.slow
def test_gpus_that_another_source_took_over_stay_while_that_one_is_blind(store: Store) -> None:
    """A past is imported from Prometheus; it goes on with the exporters, and a node of theirs is down."""
    far = gpu(1, node=NodeName("n1"))
    store.write_tick(listing(T0, [far], source="prometheus"))
    store.write_tick(listing(T0 + CHECK_MS, [gpu(0), far], source="dcgm"))
    for day in range(1, 20):
        gap = Gap(source="dcgm", from_ms=0, to_ms=1, reason="r", node=far.node)
        store.write_tick(listing(T0 + day * DAY_MS, [gpu(0)], [gap], source="dcgm"))
    assert ask(store, GONE) == []


def test_gpus_of_a_source_that_is_read_no_more_are_gone_after_seven_days(store: Store) -> None:
    store.write_tick(listing(T0, [gpu(1)], source="dcgm"))
    store.write_tick(listing(T0 + CHECK_MS, [gpu(0)]))
    store.write_tick(listing(T0 + CHECK_MS + BOARD_GONE_MS, [gpu(0)]))
    assert [row[0] for row in ask(store, GONE)] == [uuid(1)]


def test_node_that_an_autoscaler_took_back_ends_with_its_last_sample(store: Store) -> None:
    spot = gpu(1, node=NodeName("spot"))
    play(store, T0, T0 + 100_000, [gpu(0), spot])
    left_ms = T0 + 100_000
    play(store, left_ms, left_ms + 60_000, [gpu(0)])
    store.write_tick(listing(left_ms + NODE_GONE_MS // 2, [gpu(0)]))
    assert ask(store, GONE) == [], "it may be rebooting"
    store.write_tick(listing(left_ms + NODE_GONE_MS + CHECK_MS * 2, [gpu(0)]))
    assert ask(store, GONE) == [(spot.uuid, left_ms)]
    store.write_tick(listing(left_ms + NODE_GONE_MS + CHECK_MS * 4, [gpu(0), spot]))
    assert ask(store, GONE) == [], "what is listed again is installed again"


def test_node_whose_source_is_configured_no_more_keeps_its_seven_days(store: Store) -> None:
    store.write_tick(listing(T0, [gpu(1, node=NodeName("far"))], source="dcgm"))
    for at_ms in (T0 + CHECK_MS, T0 + CHECK_MS + 2 * NODE_GONE_MS):
        store.write_tick(listing(at_ms, [gpu(0)]))
    assert ask(store, GONE) == []


@pytest.mark.slow
def test_a_tick_without_any_gpu_says_nothing(store: Store) -> None:
    store.write_tick(listing(T0, [gpu(0)]))
    for day in range(1, 20):
        store.write_tick(listing(T0 + day * DAY_MS, []))
    assert ask(store, GONE) == []


SWAP_MS = 120_000
"""So long the node was off."""


def test_board_in_whose_place_another_came_ends_with_its_last_sample_and_its_instances_with_it(
    store: Store,
) -> None:
    old, new, beside = gpu(0), gpu(9, index=0), gpu(1)
    play(store, T0, T0 + 100_000, [old, beside, PART])
    back = T0 + 100_000 + SWAP_MS
    play(store, back, back + 100_000, [new, beside])
    assert ask(store, GONE) == [(old.uuid, T0 + 100_000), (PART.uuid, T0 + 100_000)]
    play(store, back + 100_000, back + 200_000, [new, beside, replace(old, index=2)])
    assert [row[0] for row in ask(store, GONE)] == [PART.uuid], "it is in another place now"


def test_board_whose_index_another_has_since_the_driver_counted_anew_stays(store: Store) -> None:
    """GPU 0 fell off the bus: GPU 1, known before, is number 0 now. A new one came, in another place."""
    play(store, T0, T0 + 100_000, [gpu(0), gpu(1)])
    play(store, T0 + 100_000, T0 + 400_000, [gpu(1, index=0), gpu(9, index=1)])
    assert ask(store, GONE) == []


def test_board_of_another_node_or_cluster_replaces_nobody(store: Store) -> None:
    others = [gpu(8, index=0, node=NodeName("n1")), gpu(9, index=0, node=NodeName("n0"), cluster="b")]
    play(store, T0, T0 + 100_000, [gpu(0, cluster="a"), gpu(1, cluster="a")])
    play(store, T0 + 100_000, T0 + 400_000, [gpu(1, cluster="a"), *others])
    assert ask(store, GONE) == []


@pytest.mark.slow
def test_board_of_a_past_in_whose_place_another_came_ends_too_whichever_is_imported_first(
    tmp_path: Path,
) -> None:
    """Two boards after each other as number 0; then the first is measured once more, so it had not gone."""
    end = T0 + HOUR_MS
    first = [sample(0, at) for at in range(T0 + 60_000, end + 1, 60_000)]
    then = [sample(9, at) for at in range(end + SWAP_MS, end + HOUR_MS, 60_000)]

    def write(store: Store, number: int, rows: list[GpuSample]) -> None:
        told = replace(history(rows), gpus=(gpu(number, index=0),), samples=to_table(rows))
        store.write_history(told)

    for order in (((0, first), (9, then)), ((9, then), (0, first))):
        with open_store(at_path(tmp_path / str(order[0][0]))) as store:
            for number, rows in order:
                write(store, number, rows)
            assert ask(store, GONE) == [(uuid(0), end)]
            write(store, 0, [sample(0, end + 2 * HOUR_MS)])
            assert ask(store, GONE) == []
