"""A tick in a real file: what it leaves in each table."""

from dataclasses import replace
from pathlib import Path

from collector.model import Unavailable
from collector.reading import Tick
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, empty, gpu, held, sample, tick
from tests.stores import open_store


def test_minutes_of_a_held_gpu_are_rolled_up_after_the_grace(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        for n in range(1, 13):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at, 0.6), empty(1, at)], [held(0, "a")]))
        rows = ask(
            store,
            "SELECT gpu_id, holder_id, good_ms, free_ms, held_ms, measured_ms, used_ms, energy_mj "
            "FROM rollup_1m ORDER BY 1",
        )
        assert rows == [
            (1, 1, 60_000, 0, 60_000, 60_000, 36_000, 18_000_000),
            (2, None, 0, 60_000, 0, 60_000, 0, 4_200_000),
        ]


def test_latest_has_one_row_a_gpu(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        for n in range(1, 4):
            at = T0 + n * TICK_MS
            store.write_tick(
                tick(at, [sample(0, at, n / 10), sample(1, at)] if n < 3 else [sample(0, at, n / 10)])
            )
        rows = ask(store, "SELECT gpu_id, epoch_ms(ts), utilization_e4 FROM latest ORDER BY 1")
        assert rows == [(1, T0 + 30_000, 3000), (2, T0 + 20_000, 5000)]


def test_handing_a_gpu_over_leaves_neither_hole_nor_overlap(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        for n in range(1, 7):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], [held(0, "a" if n < 4 else "b")]))
        rows = ask(
            store,
            "SELECT job, epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations JOIN holders "
            "USING (holder_id) ORDER BY 2",
        )
        assert rows == [("slurm:a", T0, T0 + 30_000), ("slurm:b", T0 + 30_000, None)]


def test_a_changed_driver_version_is_written_down(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        for n, driver in ((1, "570.1"), (2, None), (3, "575.2")):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], gpus=[gpu(0, driver_version=driver)]))
        found = ask(store, "SELECT driver_version, model FROM gpus")
        assert found == [("575.2", "H100")]


def test_of_two_sources_that_disagree_about_a_gpu_the_one_that_spoke_last_is_believed(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        for n, (source, driver) in enumerate((("a", "570.1"), ("b", "575.2"), ("a", "570.1")), start=1):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], gpus=[gpu(0, driver_version=driver)], source=source))
            assert ask(store, "SELECT driver_version FROM gpus") == [(driver,)]


def test_a_holder_is_last_seen_when_its_last_allocation_ends(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n in range(1, 7):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], [held(0, "a")] if n < 5 else []))
        seen = ask(store, "SELECT epoch_ms(first_seen), epoch_ms(last_seen) FROM holders")
        assert seen == [(T0 + TICK_MS, T0 + 4 * TICK_MS)]


def test_what_is_learnt_of_a_holder_later_is_written_down(tmp_path: Path) -> None:
    plain = held(0, "a")
    learnt = replace(plain, holder=replace(plain.holder, framework="torch", project=None))
    with open_store(at_path(tmp_path)) as store:
        for n, claim in enumerate((plain, plain, learnt, plain), start=1):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], [claim]))
        assert ask(store, "SELECT project, framework FROM holders") == [("p", "torch")]
        assert ask(store, "SELECT epoch_ms(from_ts), to_ts FROM allocations") == [(T0, None)]


def test_nobody_looking_leaves_allocations_open(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n, claims in enumerate(([held(0, "a")], None, None, [held(0, "a")]), start=1):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], claims))
        assert ask(store, "SELECT epoch_ms(from_ts), to_ts FROM allocations") == [(T0, None)]


def test_an_unreadable_source_leaves_one_gap_however_long_it_lasts(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for n in range(1, 9):
            at = T0 + n * TICK_MS
            blind = Unavailable(source="dcgm", at_ms=at, reason="refused")
            outcome = tick(at, [sample(0, at)], source="dcgm").outcomes if n in (1, 8) else (blind,)
            store.write_tick(Tick(at_ms=at, width_ms=TICK_MS, outcomes=outcome))
        gaps = ask(store, "SELECT source, epoch_ms(from_ts), epoch_ms(to_ts), reason FROM gaps")
        assert gaps == [("dcgm", T0 + TICK_MS, T0 + 7 * TICK_MS, "refused")]
        assert ask(store, "SELECT count(*) FROM ticks WHERE reason = 'refused'") == [(6,)]


def test_a_gpu_is_installed_from_the_start_of_its_first_sample_however_wide_and_late(tmp_path: Path) -> None:
    """An exporter's first sample covers 30 s of a tick of 10 s; a slow source's comes with a later tick."""
    at = T0 + 12_000
    wide, late = sample(0, at, width_ms=30_000), sample(1, at - 20_000)
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(at, [wide]))
        store.write_tick(tick(at + TICK_MS, [sample(1, at + TICK_MS)]))
        store.write_tick(tick(at + 2 * TICK_MS, [late]))
        since = ask(store, "SELECT epoch_ms(installed_from) FROM gpus ORDER BY gpu_id")
    assert since == [(at - 30_000,), (at - 30_000,)]


def test_what_was_held_ahead_of_a_clock_that_was_set_back_is_not_held_now(tmp_path: Path) -> None:
    """A booted an hour ahead and ended there; b goes on: neither is told by the hour that is yet to come."""
    ahead_ms = T0 + 3_600_000
    with open_store(at_path(tmp_path)) as store:
        for at in (ahead_ms, ahead_ms + TICK_MS):
            store.write_tick(tick(at, [sample(0, at), sample(1, at)], [held(0, "a"), held(1, "b")]))
        store.write_tick(tick(ahead_ms + 2 * TICK_MS, [], [held(1, "b")]))
        store.write_tick(tick(T0, [sample(0, T0), sample(1, T0)], [held(1, "b")]))
        rows = ask(
            store,
            "SELECT job, epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations JOIN holders USING (holder_id)",
        )
    assert rows == [("slurm:b", T0, None)]


def test_a_value_that_no_column_can_hold_is_not_measured_and_costs_no_other_gpu_its_tick(
    tmp_path: Path,
) -> None:
    mad = sample(0, T0, power_mw=10**15, temperature_c=10**6, sm_clock_mhz=2**32 - 1, energy_mj=2**64 - 1)
    hardware = [gpu(0, index=10**11, power_limit_mw=2**32 - 1), gpu(1)]
    with open_store(tmp_path / "fallow.duckdb") as store:
        store.write_tick(tick(T0, [mad, sample(1, T0)], gpus=hardware))
        store.write_tick(tick(T0 + TICK_MS, [replace(mad, at_ms=T0 + TICK_MS)], gpus=hardware))
        rows = ask(
            store,
            "SELECT gpu_index, power_limit_mw, utilization_e4, power_mw, temperature_c, sm_clock_mhz, "
            "energy_mj FROM gpus JOIN samples USING (gpu_id) ORDER BY gpu_id, ts",
        )
    nothing = (None, None, 5000, None, None, None, None)
    assert rows == [nothing, nothing, (1, None, 5000, 300_000, None, None, None)]
