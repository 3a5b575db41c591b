"""The simulated cluster holds its promises: one world, live and past; columns that agree; true labels."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.arrow import SAMPLE_SCHEMA, to_table
from collector.model import Unavailable
from collector.reading import Reading
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.labels import (
    HELD_BY_NOBODY,
    MEASURED_BY_NOBODY,
    FindingKind,
    LabelKind,
    findings_of,
)
from collector.sources.simulated.people import DAY_MS, HOUR_MS, MINUTE_MS

NOW_MS = 1_795_000_020_000
FORTNIGHT_MS = 14 * DAY_MS


@pytest.fixture(scope="module")
def cluster() -> SimulatedCluster:
    return SimulatedCluster(seed=0)


@pytest.fixture(scope="module")
def week(cluster: SimulatedCluster) -> pa.Table:
    parts = [h.samples for h in cluster.history(NOW_MS - 7 * DAY_MS, NOW_MS, 60_000)]
    return pa.concat_tables(parts).combine_chunks()


def without_width(table: pa.Table) -> list[dict[str, object]]:
    return table.drop_columns(["width_ms"]).sort_by("uuid").to_pylist()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    back=st.integers(0, FORTNIGHT_MS // 10_000),
    step_ms=st.sampled_from((10_000, 30_000, 60_000, 300_000)),
    tick_ms=st.sampled_from((1_000, 10_000, 60_000)),
)
def test_a_row_of_history_equals_the_live_reading_of_its_instant(
    cluster: SimulatedCluster, back: int, step_ms: int, tick_ms: int
) -> None:
    at_ms = (NOW_MS - back * 10_000) // step_ms * step_ms
    source = cluster.source()
    source.read(at_ms - tick_ms)
    live = source.read(at_ms)
    past = pa.concat_tables(h.samples for h in cluster.history(at_ms - 3 * step_ms, at_ms, step_ms))
    rows = past.filter(pc.equal(past["at_ms"], at_ms))
    if isinstance(live, Unavailable):
        assert rows.num_rows == 0
    else:
        assert without_width(rows) == without_width(to_table(live.samples))
        assert {s.width_ms for s in live.samples} <= {tick_ms}
        assert set(pc.unique(rows["width_ms"]).to_pylist()) <= {step_ms}


def test_two_clusters_of_one_seed_are_the_same_world_and_of_two_seeds_are_not() -> None:
    first, second, other = (SimulatedCluster(seed=s, nodes=2).source().read(NOW_MS) for s in (3, 3, 4))
    assert isinstance(first, Reading) and first == second
    assert isinstance(other, Reading) and other.samples != first.samples


def test_history_has_the_schema_and_one_row_a_gpu_and_step_where_it_was_measured(
    cluster: SimulatedCluster,
) -> None:
    from_ms = NOW_MS - 2 * DAY_MS
    histories = list(cluster.history(from_ms, NOW_MS, 60_000))
    table = pa.concat_tables(h.samples for h in histories)
    assert table.schema == SAMPLE_SCHEMA
    assert len(histories) == 3
    blind_ms: dict[str, int] = defaultdict(int)
    for gap in (gap for h in histories for gap in h.gaps):
        for gpu in cluster.gpus:
            if gap.uuid == gpu.uuid or (gap.uuid is None and gap.node in (None, gpu.node)):
                blind_ms[gpu.uuid] += gap.to_ms - gap.from_ms
    counts = {row["uuid"]: row["at_ms_count"] for row in _grouped(table, "count")}
    for gpu in cluster.gpus:
        assert counts[gpu.uuid] == 2 * DAY_MS // 60_000 - blind_ms[gpu.uuid] // 60_000
    assert len({(r["uuid"], r["at_ms"]) for r in table.select(["uuid", "at_ms"]).to_pylist()}) == len(table)


def test_truth_covers_every_gpu_and_moment_once(cluster: SimulatedCluster) -> None:
    from_ms, to_ms = NOW_MS - FORTNIGHT_MS, NOW_MS
    by_gpu = defaultdict(set)
    for truth in cluster.truth(from_ms, to_ms):
        by_gpu[truth.uuid].add((truth.from_ms, truth.to_ms))
    assert set(by_gpu) == {gpu.uuid for gpu in cluster.gpus}
    for spans in by_gpu.values():
        ordered = sorted(spans)
        assert ordered[0][0] == from_ms and ordered[-1][1] == to_ms
        assert all(a[1] == b[0] for a, b in pairwise(ordered))


@pytest.mark.parametrize("seed", range(4))
def test_everything_happens_within_a_fortnight(seed: int) -> None:
    truth = SimulatedCluster(seed=seed).truth(NOW_MS - FORTNIGHT_MS, NOW_MS)
    assert {t.kind for t in truth} >= set(LabelKind) - {LabelKind.MAINTENANCE, LabelKind.INTRUDER}
    assert any(FindingKind.INTRUDER in t.findings for t in truth), "an intruder is nobody's own truth"


@pytest.mark.parametrize("seed", range(3))
def test_a_gpu_is_never_given_away_twice(seed: int) -> None:
    cluster = SimulatedCluster(seed=seed)
    held = [i for h in cluster.history(NOW_MS - FORTNIGHT_MS, NOW_MS, HOUR_MS) for i in h.held]
    edges = defaultdict(list)
    for interval in held:
        end = NOW_MS if interval.to_ms is None else interval.to_ms
        assert NOW_MS - FORTNIGHT_MS <= interval.from_ms < end <= NOW_MS
        edges[interval.allocation.uuid] += [
            (interval.from_ms, interval.allocation.share),
            (end, -interval.allocation.share),
        ]
    assert len({(i.allocation.uuid, i.allocation.holder.job) for i in held}) == len(held)
    for steps in edges.values():
        shares = np.cumsum([share for _, share in sorted(steps)])
        assert shares.max() <= 1.0 and shares.min() >= 0.0


def test_somebody_shares_a_gpu(cluster: SimulatedCluster) -> None:
    shares = {i.allocation.share for h in cluster.history(NOW_MS - DAY_MS, NOW_MS, HOUR_MS) for i in h.held}
    assert shares == {0.5, 1.0}


def test_intervals_of_history_and_live_allocations_agree(cluster: SimulatedCluster) -> None:
    from_ms = NOW_MS - 3 * DAY_MS
    held = [i for h in cluster.history(from_ms, NOW_MS, HOUR_MS, ongoing=True) for i in h.held]
    assert any(i.to_ms is None for i in held)
    for at_ms in range(from_ms + HOUR_MS, NOW_MS, 5 * HOUR_MS):
        live = cluster.source().read(at_ms)
        if isinstance(live, Reading):
            then = {i.allocation for i in held if i.from_ms < at_ms and (i.to_ms is None or at_ms <= i.to_ms)}
            assert set(live.allocations or ()) == then


def test_columns_agree_with_each_other(week: pa.Table, cluster: SimulatedCluster) -> None:
    c = {name: week[name].to_numpy() for name in week.column_names if name != "flags"}
    assert (c["gpu_utilization_ratio"] >= c["sm_active_ratio"]).all()
    assert (c["gpu_utilization_max_ratio"] >= c["gpu_utilization_ratio"]).all()
    assert (c["gpu_busy_ratio"] >= c["gpu_utilization_ratio"] - 1e-3).all()
    assert (c["utilization_ratio"] == c["sm_active_ratio"]).all()
    for name in week.column_names:
        if name.endswith("_ratio"):
            assert c[name].min() >= 0.0 and c[name].max() <= 1.0, name
    assert (c["sm_active_ratio"][c["process_count"] == 0] == 0).all()
    limits = {gpu.uuid: gpu for gpu in cluster.gpus}
    total = np.array([limits[u].memory_total_bytes for u in c["uuid"]])
    assert (c["memory_used_bytes"] + c["memory_reserved_bytes"] <= total).all()
    assert (c["power_mw"] <= np.array([limits[u].power_limit_mw for u in c["uuid"]])).all()
    assert c["temperature_c"].min() >= 25 and c["temperature_c"].max() <= 80


def test_energy_is_the_sum_of_power_and_never_falls_between_reboots(week: pa.Table) -> None:
    for uuid in pc.unique(week["uuid"]).to_pylist():
        rows = week.filter(pc.equal(week["uuid"], uuid)).sort_by("at_ms")
        energy, power = rows["energy_mj"].to_numpy(), rows["power_mw"].to_numpy().astype(float)
        steps = np.diff(energy)
        elapsed = np.diff(rows["at_ms"].to_numpy())
        kept = (steps >= 0) & (elapsed == MINUTE_MS)
        assert (steps < 0).sum() <= 1
        spent, drawn = steps[kept].sum(), (power[1:][kept] * 60.0).sum()
        assert spent == pytest.approx(drawn, rel=0.05)


def test_what_nobody_holds_has_no_holder_and_what_somebody_does_has_one(cluster: SimulatedCluster) -> None:
    for truth in cluster.truth(NOW_MS - FORTNIGHT_MS, NOW_MS):
        assert (truth.holder is None) == (truth.kind in HELD_BY_NOBODY)
        assert truth.findings <= findings_of(truth.kind) or truth.findings == {FindingKind.INTRUDER}


def test_intruders_come_while_a_job_holds_the_gpu_and_are_somebody_else() -> None:
    cluster = SimulatedCluster(seed=1)
    histories = list(cluster.history(NOW_MS - FORTNIGHT_MS, NOW_MS, HOUR_MS))
    held = [i for h in histories for i in h.held]
    people = {p.key: p for h in histories for p in h.processes}
    visits = [i for h in histories for i in h.intruded]
    assert visits
    for visit in visits:
        assert visit.to_ms is not None
        owners = {
            i.allocation.holder.user
            for i in held
            if i.allocation.uuid == visit.intrusion.uuid
            and i.from_ms <= visit.from_ms
            and (i.to_ms is None or i.to_ms >= visit.to_ms)
        }
        assert len(owners) == 1
        assert people[visit.intrusion.key].user not in owners


@pytest.mark.parametrize("seed", range(3))
def test_every_fall_off_the_bus_is_told_once_wherever_looking_begins(seed: int) -> None:
    cluster = SimulatedCluster(seed=seed)
    falls = [t for t in cluster.truth(NOW_MS - FORTNIGHT_MS, NOW_MS) if t.kind is LabelKind.LOST]
    told = [e for h in cluster.history(NOW_MS - FORTNIGHT_MS, NOW_MS, HOUR_MS) for e in h.events]
    assert falls
    for kind in ("gpu-lost", "xid"):
        assert sorted(e.uuid for e in told if e.kind == kind) == sorted(t.uuid for t in falls)
    middle = falls[0].from_ms + (falls[0].to_ms - falls[0].from_ms) // 20_000 * 10_000
    source = cluster.source()
    outcomes = [source.read(middle + 10_000 * tick) for tick in range(60)]
    live = [e for o in outcomes if isinstance(o, Reading) for e in o.events if e.uuid == falls[0].uuid]
    assert [e.kind for e in live if e.at_ms <= middle] == ["xid", "gpu-lost"]
    assert all(
        s.uuid != falls[0].uuid
        for o in outcomes
        if isinstance(o, Reading) and o.at_ms <= falls[0].to_ms
        for s in o.samples
    )


def _grouped(table: pa.Table, how: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.group_by("uuid").aggregate([("at_ms", how)]).to_pylist()
    return rows


def test_truth_and_samples_tell_the_same_story(cluster: SimulatedCluster, week: pa.Table) -> None:
    """The label's own promise, read back from the rows of its time."""
    from_ms = NOW_MS - 7 * DAY_MS
    rows = {uuid: week.filter(pc.equal(week["uuid"], uuid)) for uuid in {g.uuid for g in cluster.gpus}}
    checked = set()
    for truth in cluster.truth(from_ms, NOW_MS):
        table = rows[truth.uuid]
        at = table["at_ms"].to_numpy()
        mine = table.filter(pa.array((at > truth.from_ms + MINUTE_MS) & (at <= truth.to_ms)))
        if truth.kind in MEASURED_BY_NOBODY:
            assert mine.num_rows == 0
        elif mine.num_rows >= 30 and truth.findings == findings_of(truth.kind):
            checked.add(truth.kind)
            _tells(truth.kind, {n: mine[n].to_numpy() for n in mine.column_names if n != "flags"})
    assert checked >= set(LabelKind) - MEASURED_BY_NOBODY - {
        LabelKind.INTRUDER,
        LabelKind.STARTING_UP,
        LabelKind.FORGOTTEN_SERVICE,
    }


def _tells(kind: LabelKind, c: dict[str, np.ndarray]) -> None:
    sm, util, memory, count = (
        c[n] for n in ("sm_active_ratio", "gpu_utilization_ratio", "memory_used_bytes", "process_count")
    )
    active = sm[sm > 0.01]
    match kind:
        case LabelKind.FREE:
            assert not util.any() and not memory.any() and not count.any()
        case LabelKind.NOTEBOOK_AWAY | LabelKind.BETWEEN_RUNS | LabelKind.FORGOTTEN_SERVICE:
            assert not util.any() and (count > 0).all()
        case LabelKind.STARTING_UP:
            assert not util.any() and (count > 0).all()
        case LabelKind.HELD_EMPTY | LabelKind.BETWEEN_RUNS_EMPTY:
            assert not util.any() and not count.any() and not memory.any()
        case LabelKind.SMALL_MODEL | LabelKind.INFERENCE | LabelKind.TENSORFLOW_HOG | LabelKind.KEEP_WARM:
            assert active.mean() < 0.22
        case LabelKind.SATURATED_TRAINING | LabelKind.LARGE_TRAINING | LabelKind.JAX_PREALLOCATION:
            assert active.mean() > 0.25 and util.mean() > 0.8
        case LabelKind.ZOMBIE_MEMORY:
            assert not count.any() and (memory > 1 << 30).all() and not util.any()
        case LabelKind.STUCK_COUNTER:
            assert (util == 1.0).all() and not count.any() and not sm.any()
        case LabelKind.NOTEBOOK_SESSION:
            assert sm.any() or len(sm) < 60
        case _:
            assert sm.mean() > 0.25
