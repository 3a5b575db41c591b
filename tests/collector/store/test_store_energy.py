"""Energy in the roll-ups: by state and holder, adding up to the board's, and unknown where no meter is."""

from pathlib import Path
from typing import Any

import pytest

from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.store.database import Store
from tests.collector.store.store_parts import GIB, T0, ask, at_path, empty, held, history, sample, uuid
from tests.stores import open_store

BIN_MS = 30_000
BINS = 40
"""Twenty minutes."""
NODE = NodeName("n")
HOLD = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
LAST = T0 + BINS * BIN_MS


def totals(store: Store, *columns: str) -> tuple[Any, ...]:
    sums = ", ".join(f"sum({column})" for column in columns)
    (row,) = ask(store, f"SELECT {sums} FROM rollup_1m WHERE ts < epoch_ms(?::BIGINT)", LAST)
    return row


def busy_and_idle(power_idle: int | None) -> list[Any]:
    """A bin at 400 W and one with a process that does nothing, in turn: both in each minute."""
    rows = []
    for n in range(1, BINS + 1):
        works = n % 2 == 1
        power = 400_000 if works else power_idle
        rows.append(
            sample(
                0, T0 + n * BIN_MS, 0.8 if works else 0.0, width_ms=BIN_MS, power_mw=power, process_count=1
            )
        )
    return [*rows, sample(0, LAST + 180_000, 0.0)]


def test_energy_is_in_the_state_of_its_own_bin_even_within_a_minute(tmp_path: Path) -> None:
    # 20 bins of 30 s at 400 W are 240 kJ, 20 at 60 W are 36 kJ.
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(busy_and_idle(60_000), [HOLD]))
        assert totals(store, "energy_mj", "good_energy_mj", "held_idle_energy_mj", "free_energy_mj") == (
            276_000_000,
            240_000_000,
            36_000_000,
            None,
        )
        assert totals(store, "energy_ms", "state_energy_ms", "wasted_energy_ms") == (
            BINS * BIN_MS,
            BINS * BIN_MS,
            BINS * BIN_MS // 2,
        )


def test_where_no_meter_is_energy_is_unknown_and_the_time_of_it_is_told(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(busy_and_idle(None), [HOLD]))
        assert totals(store, "energy_mj", "held_idle_energy_mj", "energy_ms", "wasted_energy_ms") == (
            240_000_000,
            None,
            BINS * BIN_MS // 2,
            0,
        )


def test_hours_have_what_their_minutes_have(tmp_path: Path) -> None:
    names = "energy_mj, good_energy_mj, held_idle_energy_mj, energy_ms, state_energy_ms, wasted_energy_ms"
    sums = ", ".join(f"sum({name})" for name in names.split(", "))
    with open_store(at_path(tmp_path)) as store:
        later = sample(0, T0 + 2 * 3_600_000, 0.0)
        store.write_history(history([*busy_and_idle(60_000), later], [HOLD]))
        (hour,) = ask(store, f"SELECT {sums} FROM rollup_1h WHERE ts = epoch_ms(?::BIGINT)", T0)
        (minutes,) = ask(
            store, f"SELECT {sums} FROM rollup_1m WHERE ts < epoch_ms(?::BIGINT)", T0 + 3_600_000
        )
    assert hour == minutes


def shared(folder: Path, shares: dict[str, float], uses: dict[str, float]) -> dict[str, int]:
    """Energy in kJ by person, of a GPU at 400 W for 20 minutes that draws 100 W when idle: 480 kJ."""
    start_ms = T0 + BINS * BIN_MS
    keys = {name: ProcessKey(node=NODE, pid=70 + n, started_ms=start_ms) for n, name in enumerate(uses)}
    idle = [empty(0, T0 + n * BIN_MS, width_ms=BIN_MS) for n in range(1, BINS + 1)]
    ends = [start_ms + n * BIN_MS for n in range(1, BINS + 1)]
    busy = [sample(0, at, 0.8, width_ms=BIN_MS, power_mw=400_000) for at in ends]
    told = History(
        source="test",
        gpus=(Gpu(uuid=uuid(0), node=NODE, index=0, memory_total_bytes=80 * GIB),),
        samples=to_table([*idle, *busy, sample(0, ends[-1] + 180_000, 0.0)]),
        held=tuple(
            HeldInterval(
                allocation=Allocation(
                    uuid=GpuUuid(uuid(0)),
                    holder=Holder(job=JobId(f"slurm:{name}"), user=name),
                    share=share,
                    source=ClaimSource.SLURM,
                ),
                from_ms=start_ms,
                to_ms=None,
            )
            for name, share in shares.items()
        ),
        processes=tuple(Process(key=keys[name], user=name) for name in uses),
        process_samples=tuple(
            ProcessSample(
                uuid=GpuUuid(uuid(0)),
                key=keys[name],
                at_ms=at,
                width_ms=BIN_MS,
                memory_used_bytes=GIB,
                sm_ratio=use,
            )
            for at in ends
            for name, use in uses.items()
        ),
    )
    with open_store(at_path(folder)) as store:
        store.write_history(told)
        rows = ask(
            store,
            "SELECT user_name, sum(energy_mj) FROM rollup_1m JOIN holders USING (holder_id) "
            "WHERE ts >= epoch_ms(?::BIGINT) AND ts < epoch_ms(?::BIGINT) GROUP BY user_name",
            start_ms,
            ends[-1],
        )
    return {name: round(mj / 1e6) for name, mj in rows}


def test_energy_above_idle_is_whose_work_it_was_and_idle_energy_is_by_share(tmp_path: Path) -> None:
    # 70 W idle (the driver's parts say so) are 84 kJ, half each; 396 kJ above that are ann's alone.
    found = shared(tmp_path, {"ann": 0.5, "bob": 0.5}, {"ann": 0.9, "bob": 0.0})
    assert found == {"ann": 42 + 396, "bob": 42}


def test_energy_is_split_as_the_work_was(tmp_path: Path) -> None:
    found = shared(tmp_path, {"ann": 0.75, "bob": 0.25}, {"ann": 0.2, "bob": 0.6})
    assert found == {"ann": 63 + 99, "bob": 21 + 297}


def test_without_everybodys_use_energy_is_by_share(tmp_path: Path) -> None:
    assert shared(tmp_path, {"ann": 0.75, "bob": 0.25}, {}) == {"ann": 360, "bob": 120}


def test_what_an_unheld_gpu_draws_is_nobodys(tmp_path: Path) -> None:
    rows = [empty(0, T0 + n * BIN_MS, width_ms=BIN_MS) for n in range(1, BINS + 1)]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([*rows, empty(0, LAST + 180_000)]))
        assert totals(store, "energy_mj", "free_energy_mj", "wasted_energy_ms") == (84_000_000, 84_000_000, 0)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (3 / 7, 2 / 7)])
def test_the_energy_of_a_board_is_its_instances_and_its_own(
    tmp_path: Path, shares: tuple[float, ...]
) -> None:
    """A board at 300 W that is cut in two; 3/7 and 2/7 leave 2/7 to the board."""
    board = Gpu(uuid=uuid(0), node=NODE, index=0, share_of_device=1 - sum(shares))
    parts = tuple(
        Gpu(
            uuid=uuid(n),
            node=NODE,
            index=0,
            parent_uuid=uuid(0),
            mig_profile="1g.10gb",
            share_of_device=share,
            memory_total_bytes=10 * GIB,
        )
        for n, share in enumerate(shares, start=1)
    )
    ends = range(T0 + BIN_MS, LAST + 180_001, BIN_MS)
    rows = [sample(0, at, None, width_ms=BIN_MS, power_mw=300_000, process_count=None) for at in ends]
    rows += [
        sample(n, at, 0.8, width_ms=BIN_MS, power_mw=None) for at in ends for n in range(1, len(shares) + 1)
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(History(source="test", gpus=(board, *parts), samples=to_table(rows)))
        found = dict(
            ask(
                store,
                "SELECT uuid, sum(energy_mj)::BIGINT FROM rollup_1m JOIN gpus USING (gpu_id) "
                "WHERE ts < epoch_ms(?::BIGINT) GROUP BY uuid",
                LAST,
            )
        )
    assert sum(found.values()) == 360_000_000, "as the board measured"
    assert [found[uuid(n)] for n in range(1, len(shares) + 1)] == pytest.approx(
        [360_000_000 * share for share in shares], abs=BINS
    )
