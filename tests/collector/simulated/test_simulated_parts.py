"""What the simulated cluster is made of: stateless noise, people's hours, what each behaviour promises."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.sources.simulated import behaviours
from collector.sources.simulated.behaviours import GRAIN_MS, Assignment
from collector.sources.simulated.hardware import A100, GIB
from collector.sources.simulated.labels import KINDS, LabelKind, findings_together
from collector.sources.simulated.people import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    TOWN_OFFSET_MS,
    desk_hours,
    people_of,
)
from collector.sources.simulated.timeline import Stretches, bell, draw_from, drift, key_of, uniform
from collector.sources.simulated.workload import slots_of

MONDAY_MS = 1_795_392_000_000 // (7 * DAY_MS) * 7 * DAY_MS + 4 * DAY_MS
FILLS = (
    behaviours.notebook,
    behaviours.small_model,
    behaviours.large_training,
    behaviours.saturated_training,
    behaviours.starting_up,
    behaviours.batch,
    behaviours.tensorflow_hog,
    behaviours.jax_preallocation,
    behaviours.held_empty,
    behaviours.keep_warm,
    behaviours.inference,
    behaviours.forgotten_service,
    behaviours.zombie_memory,
    behaviours.stuck_counter,
    behaviours.lost,
)


def keys(count: int) -> np.ndarray:
    return np.full(count, key_of("test"), np.uint64)


def test_uniform_noise_is_even_and_a_function_of_its_place() -> None:
    place = np.arange(20_000, dtype=np.int64)
    values = uniform(keys(len(place)), place, 1)
    assert values.min() >= 0.0 and values.max() < 1.0
    assert np.histogram(values, bins=10)[0].min() > 1800
    assert (uniform(keys(3), place[7:10], 1) == values[7:10]).all()
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.03
    assert abs(np.corrcoef(values, uniform(keys(len(place)), place, 2))[0, 1]) < 0.03


def test_bell_noise_has_mean_zero_and_deviation_one() -> None:
    values = bell(keys(20_000), np.arange(20_000, dtype=np.int64), 3)
    assert values.mean() == pytest.approx(0.0, abs=0.03)
    assert values.std() == pytest.approx(1.0, abs=0.03)


def test_drift_is_continuous() -> None:
    at_ms = np.arange(0, 3_600_000, 1000, dtype=np.int64)
    values = drift(keys(len(at_ms)), at_ms, 420_000, 2)
    assert np.abs(np.diff(values)).max() < 0.03
    assert values.std() > 0.3


def test_people_work_by_day_eat_at_noon_and_mostly_keep_their_weekends() -> None:
    for person in people_of(0):
        hours = desk_hours(person, draw_from("hours", person.user), MONDAY_MS, MONDAY_MS + 140 * DAY_MS)
        assert all(a < b for a, b in hours)
        assert all(b <= c for (_, b), (c, _) in pairwise(hours))
        local = [
            ((a + TOWN_OFFSET_MS) % DAY_MS / HOUR_MS, (b + TOWN_OFFSET_MS) % DAY_MS / HOUR_MS)
            for a, b in hours
        ]
        assert all(7.0 < a < b < 23.0 for a, b in local)
        weekend = sum((a + TOWN_OFFSET_MS - MONDAY_MS) // DAY_MS % 7 >= 5 for a, _ in hours) / len(hours)
        assert weekend < 0.2
        assert 150 < len(hours) < 260


def test_a_cell_has_a_dozen_people_in_four_projects_and_cells_differ() -> None:
    assert len(people_of(0)) == 12
    assert len({person.project for person in people_of(0)}) == 4
    assert not {p.user for p in people_of(0)} & {p.user for p in people_of(1)}


def test_the_slots_of_a_node_share_out_its_gpus_exactly() -> None:
    for node in range(4):
        for gpus in (1, 3, 8, 16):
            given_away = sorted(gpu for slot in slots_of(node, gpus) for gpu in slot.gpus)
            assert given_away == list(range(gpus))


def test_a_shared_gpu_shows_only_what_all_its_holders_show() -> None:
    away, working = LabelKind.NOTEBOOK_AWAY, LabelKind.NOTEBOOK_SESSION
    assert findings_together(frozenset({away, working})) == frozenset()
    assert findings_together(frozenset({away, LabelKind.FREE})) == findings_together(frozenset({away}))
    assert findings_together(frozenset({LabelKind.FREE})) == frozenset()


@settings(max_examples=120, deadline=None)
@given(
    fill=st.sampled_from(FILLS),
    seed=st.integers(0, 2**32),
    person=st.integers(0, 11),
    begins=st.integers(0, 7 * 24 * 60),
    minutes=st.integers(30, 10 * 24 * 60),
)
def test_behaviours_keep_what_their_labels_promise(
    fill: Callable[[Assignment], Stretches], seed: int, person: int, begins: int, minutes: int
) -> None:
    from_ms = MONDAY_MS + begins * MINUTE_MS
    to_ms = from_ms + minutes * MINUTE_MS
    rows = fill(
        Assignment(
            person=people_of(0)[person],
            draw=draw_from(seed),
            from_ms=from_ms,
            to_ms=to_ms,
            memory_bytes=A100.usable_bytes,
        )
    )
    starts = rows["start_ms"]
    assert starts[0] == from_ms and starts[-1] < to_ms
    assert (np.diff(starts) >= 0).all() and (starts % GRAIN_MS == 0).all()
    assert (rows["memory_bytes"] >= 0).all() and (rows["memory_bytes"] <= A100.usable_bytes).all()
    for name in ("sm", "util", "duty", "controller", "tensor", "occupancy"):
        assert (rows[name] >= 0).all() and (rows[name] <= 1).all(), name
    assert (rows["util"] >= rows["sm"]).all()
    for kind in {KINDS[place] for place in rows["kind"]}:
        _keeps(kind, rows[rows["kind"] == KINDS.index(kind)], starts, to_ms)


def _keeps(kind: LabelKind, rows: Stretches, starts: np.ndarray, to_ms: int) -> None:
    match kind:
        case LabelKind.STARTING_UP:
            assert not rows["sm"].any() and (rows["run"] == 0).all()
            lasting = np.append(starts, to_ms)[1] - starts[0]
            assert lasting <= 210 * MINUTE_MS or len(starts) == 1
        case LabelKind.NOTEBOOK_SESSION:
            idle = rows["sm"] == 0
            assert (rows["sm"][~idle] >= 0.4).all()
            lengths = np.diff(rows["start_ms"])
            assert (lengths[idle[:-1]][lengths[idle[:-1]] < 20 * MINUTE_MS] <= 12 * MINUTE_MS).all()
        case LabelKind.SMALL_MODEL | LabelKind.TENSORFLOW_HOG | LabelKind.INFERENCE | LabelKind.KEEP_WARM:
            assert (rows["sm"] > 0.015).all() and (rows["sm"] < 0.18).all()
        case LabelKind.LARGE_TRAINING | LabelKind.SATURATED_TRAINING | LabelKind.BATCH:
            assert (rows["sm"] >= 0.3).all()
        case LabelKind.JAX_PREALLOCATION:
            assert (rows["sm"] >= 0.4).all() and (rows["memory_bytes"] > 0.7 * A100.memory_bytes).all()
        case LabelKind.ZOMBIE_MEMORY:
            assert (rows["memory_bytes"] > 8 * GIB).all() and (rows["run"] == -1).all()
        case LabelKind.STUCK_COUNTER:
            assert (rows["util"] == 1).all() and not rows["sm"].any() and (rows["run"] == -1).all()
        case LabelKind.HELD_EMPTY | LabelKind.BETWEEN_RUNS_EMPTY | LabelKind.LOST:
            assert (rows["run"] == -1).all() and not rows["memory_bytes"].any() and not rows["util"].any()
        case LabelKind.NOTEBOOK_AWAY | LabelKind.BETWEEN_RUNS | LabelKind.FORGOTTEN_SERVICE:
            assert (rows["run"] >= 0).all() and not rows["util"].any()
        case _:
            raise AssertionError(f"no behaviour fills {kind}")
