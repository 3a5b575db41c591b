"""Roll-ups: every bin in one state, and integers that add up whatever the samples and the holders."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.arrow import HeldInterval, History
from collector.model import Allocation, Basis, ClaimSource, GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import (
    GIB,
    T0,
    ask,
    at_path,
    empty,
    held,
    history,
    holder,
    sample,
    tick,
    uuid,
)
from tests.searches import examples
from tests.stores import open_store

BIN_MS = 30_000
STATES = (
    "free_ms",
    "allocated_empty_ms",
    "held_idle_ms",
    "low_saturation_ms",
    "moderate_ms",
    "good_ms",
    "suspect_ms",
    "withheld_ms",
    "unknown_ms",
)
TOTAL = " + ".join(STATES)


def whole(busy: float | None, **changes: Any) -> GpuSample:
    return sample(0, T0 + BIN_MS, busy, width_ms=BIN_MS, **changes)


NOTHING: dict[str, Any] = {"memory_used_bytes": 0, "process_count": 0, "power_mw": 70_000}
CASES: list[tuple[str, GpuSample, bool, int | None]] = [
    ("free", whole(0.0, **NOTHING), False, None),
    ("allocated_empty", whole(0.0, **NOTHING), True, None),
    ("suspect", whole(0.0, memory_used_bytes=5 * GIB, process_count=0), False, None),
    ("allocated_empty", whole(0.0, memory_used_bytes=5 * GIB, process_count=0), True, None),
    ("held_idle", whole(0.0, gpu_utilization_ratio=0.01), True, None),
    # GPU utilization of so little may be the reading itself; SMs that are active at all are at work.
    (
        "held_idle",
        whole(0.01, rung=Basis.GPU_UTILIZATION, gpu_utilization_ratio=0.01, sm_active_ratio=None),
        True,
        None,
    ),
    ("held_idle", whole(0.00004, gpu_utilization_ratio=0.0), True, None),
    ("low_saturation", whole(0.0001, gpu_utilization_ratio=0.0), True, None),
    ("low_saturation", whole(0.01, gpu_utilization_ratio=0.01), True, None),
    ("low_saturation", whole(0.0, gpu_utilization_ratio=0.02), True, None),
    ("low_saturation", whole(0.2499), True, None),
    ("moderate", whole(0.25), True, None),
    ("moderate", whole(0.4999), True, None),
    ("good", whole(0.5), True, None),
    ("good", whole(0.5), False, None),
    ("low_saturation", whole(0.1, process_count=0), True, None),
    ("held_idle", whole(0.0, process_count=None), True, None),
    ("suspect", whole(0.0, process_count=None), False, None),
    ("suspect", whole(0.01, gpu_utilization_ratio=0.01), False, None),
    ("free", whole(0.0, process_count=None, memory_used_bytes=GIB // 2), False, None),
    ("held_idle", whole(0.0, process_count=None, memory_used_bytes=None), True, None),
    ("unknown", whole(0.0, process_count=None, memory_used_bytes=None), False, None),
    ("unknown", whole(None), True, None),
    ("suspect", whole(0.99, gpu_utilization_ratio=1.0, process_count=0), True, None),
    ("suspect", whole(0.99, gpu_utilization_ratio=1.0, power_mw=76_000), True, 70_000),
    ("good", whole(0.99, gpu_utilization_ratio=1.0, power_mw=78_000), True, 70_000),
    ("suspect", whole(0.0, gpu_utilization_ratio=0.9, power_mw=350_000), True, None),
    ("low_saturation", whole(0.005, gpu_utilization_ratio=0.9, power_mw=350_000), True, None),
    ("suspect", whole(0.0, power_mw=350_000), True, 70_000),
    ("suspect", whole(0.0, power_mw=350_000, process_count=0), False, None),
    ("good", whole(0.0, gpu_utilization_ratio=0.9, encoder_ratio=0.6), True, None),
    # An engine beside the SMs is work.
    *(
        ("good", whole(0.0, **{f"{engine}_ratio": 0.6}), True, None)
        for engine in ("encoder", "decoder", "jpeg", "ofa")
    ),
    # A display server: counted, nobody's job, under the idle floor.
    ("free", whole(0.005, memory_used_bytes=GIB // 2, process_count=2), False, None),
]


@pytest.mark.parametrize("is_idle_power_known", [False, True])
def test_a_bin_is_in_the_state_the_table_says(tmp_path: Path, is_idle_power_known: bool) -> None:
    """Each case on a GPU of its own; what an idle board draws is known of all of them, or of none."""
    cases = [case for case in CASES if (case[3] is not None) is is_idle_power_known]
    rows: list[GpuSample] = []
    claims: list[HeldInterval] = []
    for number, (_, made, is_held, _) in enumerate(cases):
        before = [empty(number, T0 - BIN_MS, width_ms=BIN_MS)] if is_idle_power_known else []
        last = empty(number, T0 + 6 * BIN_MS, width_ms=BIN_MS)
        rows += [*before, replace(made, uuid=uuid(number)), last]
        if is_held:
            claims.append(HeldInterval(allocation=held(number, "a"), from_ms=T0, to_ms=T0 + BIN_MS))
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, claims))
        found = ask(
            store,
            f"SELECT uuid, {', '.join(STATES)} FROM rollup_1m JOIN gpus USING (gpu_id) "
            "WHERE ts = epoch_ms(?::BIGINT)",
            T0,
        )
    assert all(sorted(bins) == [0] * 8 + [BIN_MS] for _, *bins in found)
    states = {name: STATES[bins.index(BIN_MS)].removesuffix("_ms") for name, *bins in found}
    assert states == {uuid(number): state for number, (state, *_) in enumerate(cases)}


def test_a_bin_that_is_covered_by_less_than_half_is_unknown(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        rows = [sample(0, T0 + 14_000, 0.6, width_ms=14_000), sample(0, T0 + 45_000, 0.6, width_ms=15_000)]
        store.write_history(history([*rows, sample(0, T0 + 300_000, 0.6, width_ms=10)]))
        assert ask(store, "SELECT unknown_ms, good_ms, measured_ms FROM rollup_1m LIMIT 1") == [
            (BIN_MS, BIN_MS, BIN_MS)
        ]


def test_a_wide_sample_fills_all_bins_it_mostly_covers(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        rows = [sample(0, T0 + 300_000, 0.3, width_ms=300_000), sample(0, T0 + 600_000, 0.3, width_ms=10_000)]
        store.write_history(history(rows))
        found = ask(store, "SELECT count(*), sum(moderate_ms), sum(used_ms), sum(energy_mj) FROM rollup_1m")
        assert found == [(5, 300_000, 90_000, 90_000_000)]


def test_rows_of_57_seconds_are_in_the_states_that_they_measured(tmp_path: Path) -> None:
    # One row in seven is at 60%, the others do nothing: a seventh of the time is good and the rest is idle.
    # None of it is low saturation, as the mean of two rows would be at both ends of each busy one.
    rows = [
        sample(0, T0 + n * 57_000, 0.0 if n % 7 else 0.6, width_ms=57_000, process_count=1)
        for n in range(1, 281)
    ]
    claim = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
    mixed_states = "low_saturation_ms + moderate_ms + unknown_ms"
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([*rows, sample(0, T0 + 281 * 57_000 + 180_000, 0.0)], [claim]))
        ((good, idle, mixed),) = ask(
            store,
            f"SELECT sum(good_ms), sum(held_idle_ms), sum({mixed_states}) FROM rollup_1m "
            "WHERE ts < epoch_ms(?::BIGINT)",
            T0 + 280 * 57_000,
        )
    assert (good, mixed) == (40 * 57_000, 0)
    assert good + idle == 280 * 57_000


@pytest.mark.parametrize(
    ("memory_mib", "state"), [(400, "allocated_empty"), (700, "held_idle"), (1100, "held_idle")]
)
def test_memory_under_the_floor_is_no_proof_that_nobody_is_there(
    tmp_path: Path, memory_mib: int, state: str
) -> None:
    # Nobody counts processes; free, the board shows 380 MiB. A CUDA context takes a few hundred more.
    uncounted: dict[str, Any] = {"process_count": None, "power_mw": None}
    free = [
        sample(0, T0 - n * BIN_MS, 0.0, width_ms=BIN_MS, memory_used_bytes=380 << 20, **uncounted)
        for n in range(4)
    ]
    held_now = [
        sample(0, T0 + n * BIN_MS, 0.0, width_ms=BIN_MS, memory_used_bytes=memory_mib << 20, **uncounted)
        for n in range(1, 9)
    ]
    claim = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([*free, *held_now], [claim]))
        (row,) = ask(store, f"SELECT {', '.join(STATES)} FROM rollup_1m WHERE ts = epoch_ms(?::BIGINT)", T0)
    assert row[STATES.index(f"{state}_ms")] == 2 * BIN_MS


def test_energy_is_the_difference_of_the_counter_and_survives_a_reset(tmp_path: Path) -> None:
    counter = {1: 1_000_000, 2: 1_010_000, 3: 5_000, 4: 9_000}
    rows = [
        sample(0, T0 + n * BIN_MS, 0.5, width_ms=BIN_MS, energy_mj=value, power_mw=100)
        for n, value in counter.items()
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([*rows, sample(0, T0 + 600_000, 0.5)]))
        assert ask(store, "SELECT energy_mj FROM rollup_1m ORDER BY ts LIMIT 2") == [(13_000,), (7_000,)]


@pytest.mark.parametrize("counter", [True, False])
def test_energy_that_an_import_tells_again_is_used_once(tmp_path: Path, counter: bool) -> None:
    """300 W, live each 30 s and from a Prometheus each minute, a second later."""
    live = [
        sample(0, at, 0.5, width_ms=BIN_MS, power_mw=300_000, energy_mj=(at - T0) * 300 if counter else None)
        for at in range(T0, T0 + 10 * 2 * BIN_MS, BIN_MS)
    ]
    told = [
        sample(0, at + 1_000, 0.5, width_ms=2 * BIN_MS, power_mw=300_000, energy_mj=None)
        for at in range(T0 + 2 * BIN_MS, T0 + 10 * 2 * BIN_MS, 2 * BIN_MS)
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(live))
        alone = ask(store, "SELECT sum(energy_mj) FROM rollup_1m")
        store.write_history(history(told))
        both = ask(store, "SELECT sum(energy_mj) FROM rollup_1m")
    assert both[0][0] == pytest.approx(alone[0][0], rel=0.01)


def test_energy_is_of_one_gpu_however_many_rows_are_read_at_once(tmp_path: Path) -> None:
    bins, gpus = 2_600, 64
    number, step = np.tile(np.arange(gpus), bins), np.repeat(np.arange(1, bins + 1), gpus)
    columns = {
        "uuid": [uuid(n) for n in range(gpus)] * bins,
        "at_ms": T0 + step * BIN_MS,
        "width_ms": np.full(gpus * bins, BIN_MS, np.int32),
        "energy_mj": 10**12 * (gpus - number) + step * 1_000 * (number + 1),
        "power_mw": np.full(gpus * bins, 7, np.int32),
    }
    with open_store(at_path(tmp_path)) as store:
        store.write_history(History(source="test", gpus=(), samples=pa.table(columns)))
        found = ask(
            store,
            "SELECT uuid, min(energy_mj), max(energy_mj) FROM rollup_1m JOIN gpus USING (gpu_id) "
            "WHERE ts > epoch_ms(?::BIGINT) GROUP BY uuid",
            T0,
        )
    assert sorted(found) == sorted((uuid(n), 2_000 * (n + 1), 2_000 * (n + 1)) for n in range(gpus))


def test_a_late_sample_has_its_minute_and_hour_done_again(tmp_path: Path) -> None:
    early = [sample(0, T0 + n * BIN_MS, 0.6, width_ms=BIN_MS) for n in range(1, 125) if n not in (5, 6)]
    late = [sample(0, T0 + n * BIN_MS, 0.6, width_ms=BIN_MS) for n in (5, 6)]
    both = "SELECT * FROM rollup_1m UNION ALL SELECT * FROM rollup_1h ORDER BY ALL"
    with open_store(at_path(tmp_path / "a")) as one, open_store(at_path(tmp_path / "b")) as other:
        for at_once in (early, late):
            at = T0 + 125 * BIN_MS
            one.write_tick(tick(at, at_once, None))
        other.write_tick(tick(T0 + 125 * BIN_MS, sorted(early + late, key=lambda s: s.at_ms), None))
        assert ask(one, both) == ask(other, both)
        assert ask(one, "SELECT good_ms FROM rollup_1h") == [(3_600_000,)]


def test_the_same_sample_from_two_sources_counts_once(tmp_path: Path) -> None:
    at = T0 + 10_000
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(at, [sample(0, at), sample(0, at)]))
        store.write_tick(tick(at + 1, [sample(0, at)], source="other"))
        assert ask(store, "SELECT count(*) FROM samples") == [(1,)]


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[GpuSample], list[HeldInterval]]:
    """Ten minutes of two GPUs with any coverage, and any intervals of up to four holders."""
    samples = []
    for number in (0, 1):
        ends = draw(st.lists(st.integers(1_000, 600_000), max_size=25, unique=True))
        for end in ends:
            width = draw(st.sampled_from((1_000, 10_000, 30_000, 57_000, 60_000, 120_000)))
            busy = draw(st.one_of(st.none(), st.floats(0, 1), st.sampled_from((0.0, 0.0001, 0.004))))
            count = draw(st.sampled_from((None, 0, 1)))
            level: dict[str, Any] = {"width_ms": width, "process_count": count, "power_mw": 200_000}
            samples.append(sample(number, T0 + end, busy, **level))
    claims = []
    for _ in range(draw(st.integers(0, 8))):
        start, end = sorted(draw(st.tuples(st.integers(-60_000, 660_000), st.integers(-60_000, 660_000))))
        allocation = Allocation(
            uuid=uuid(draw(st.integers(0, 1))),
            holder=holder(draw(st.sampled_from("abcd"))),
            share=draw(st.sampled_from((0.1, 1 / 3, 0.5, 0.7, 1.0))),
            source=ClaimSource.SLURM,
        )
        claims.append(HeldInterval(allocation=allocation, from_ms=T0 + start, to_ms=T0 + end + 1))
    return samples, claims


@pytest.mark.slow
@settings(max_examples=examples(8, 20), deadline=None)
@given(story=stories())
def test_states_of_every_gpu_and_minute_add_up_exactly(
    tmp_path_factory: pytest.TempPathFactory, story: tuple[list[GpuSample], list[HeldInterval]]
) -> None:
    samples, claims = story
    closing = [sample(n, T0 + 900_000, 0.5, width_ms=10) for n in (0, 1)]
    with open_store(at_path(tmp_path_factory.mktemp("story"))) as store:
        store.write_history(history([*samples, *closing], claims))
        _assert_adds_up(store)
        used = ask(store, "SELECT min(used_ms), bool_and(used_ms <= measured_ms) FROM rollup_1m")[0]
        assert used in ((None, None),) or (used[0] >= 0 and used[1])


@pytest.mark.slow
@settings(max_examples=examples(6, 12), deadline=None)
@given(story=stories())
def test_roll_ups_are_what_a_plain_reading_of_the_rules_gives(
    tmp_path_factory: pytest.TempPathFactory, story: tuple[list[GpuSample], list[HeldInterval]]
) -> None:
    samples, claims = story
    closing = [sample(n, T0 + 900_000, 0.5, width_ms=10) for n in (0, 1)]
    with open_store(at_path(tmp_path_factory.mktemp("story"))) as store:
        store.write_history(history([*samples, *closing], claims))
        rows = ask(
            store,
            f"SELECT uuid, job, epoch_ms(ts), {', '.join(STATES)} FROM rollup_1m JOIN gpus USING (gpu_id) "
            "LEFT JOIN holders USING (holder_id) WHERE ts < epoch_ms(?::BIGINT) ORDER BY ALL",
            T0 + 780_000,
        )
    plain = plain_minutes(samples, claims)
    assert {(u, job, ts): tuple(ms) for u, job, ts, *ms in rows} == plain


def plain_minutes(samples: list[GpuSample], claims: list[HeldInterval]) -> dict[object, tuple[int, ...]]:
    """The rules of ``docs/store.md``, bin by bin, with fractions instead of SQL."""
    minutes: dict[object, list[int]] = {}
    order = list(dict.fromkeys(claim.allocation.holder.job for claim in claims))
    idle = {n for n in (0, 1) if any(is_idle(made) for made in samples if made.uuid == uuid(n))}
    for number in (0, 1):
        own = [made for made in samples if made.uuid == uuid(number)]
        installed_ms = min((made.at_ms - made.width_ms for made in own), default=T0 + 780_000)
        at_work: list[tuple[int, bool]] = []
        for start in range(T0 - 120_000, T0 + 780_000, BIN_MS):
            parts = [
                (plain_weight(made, start, overlap), made)
                for made in own
                if (overlap := min(made.at_ms, start + BIN_MS) - max(made.at_ms - made.width_ms, start)) > 0
            ]
            shares = plain_shares(number, start + BIN_MS // 2, claims)
            if not parts and (not shares or start < installed_ms):
                continue
            pieces = plain_pieces(parts, start)
            levels = [
                plain_mean([(ms, made.utilization_ratio) for ms, made in piece if ms]) for piece in pieces
            ]
            at_work += [(start, level >= 1) for level in levels if level is not None]
            lately = [active for at, active in at_work if at > start - 20 * BIN_MS]
            for piece, level in zip(pieces, levels, strict=True):
                long_ms = BIN_MS if len(pieces) == 1 else piece[0][0]
                state = plain_state(piece, long_ms, is_held=bool(shares), idle_power_is_known=number in idle)
                is_thin = level is not None and level >= 1 and 3 * sum(lately) >= len(lately)
                if shares and is_thin and state in ("held_idle_ms", "allocated_empty_ms"):
                    state = "low_saturation_ms"
                for job, ms in plain_split(shares, order, long_ms).items():
                    row = minutes.setdefault((uuid(number), job, start // 60_000 * 60_000), [0] * len(STATES))
                    row[STATES.index(state)] += ms
    return {key: tuple(row) for key, row in minutes.items()}


def plain_pieces(parts: list[tuple[int, GpuSample]], start: int) -> list[list[tuple[int, GpuSample]]]:
    """A bin that two wide samples share, one of them no multiple of it, is theirs by what each covers."""
    order = sorted((made for _, made in parts), key=lambda made: made.at_ms)
    if len(order) != 2 or min(made.width_ms for made in order) < BIN_MS:
        return [parts]
    (one, other), end = order, start + BIN_MS
    from_ms = max(other.at_ms - other.width_ms, one.at_ms)
    first, second = one.at_ms - start, end - from_ms
    is_multiple = one.width_ms % BIN_MS == other.width_ms % BIN_MS == 0
    begins_within = max(made.at_ms - made.width_ms for made in order) > start
    if is_multiple or one.at_ms >= end or not begins_within or first + second < BIN_MS // 2:
        return [parts]
    cut = int(Fraction(BIN_MS * first, first + second) + Fraction(1, 2))
    return [[(cut, one)], [(BIN_MS - cut, other)]]


def plain_weight(made: GpuSample, start: int, overlap: int) -> int:
    """What is as wide as a bin has the bins whose middle it covers to itself."""
    if made.width_ms < BIN_MS:
        return overlap
    return BIN_MS if made.at_ms - made.width_ms <= start + BIN_MS // 2 < made.at_ms else 0


def plain_shares(number: int, middle: int, claims: list[HeldInterval]) -> dict[str, Fraction]:
    """Every holder's shares at a moment; pieces of one claim that overlap or touch are one."""
    held_now: dict[str, set[float]] = {}
    for claim in claims:
        end = claim.to_ms
        assert end is not None
        if claim.allocation.uuid == uuid(number) and claim.from_ms <= middle < end:
            held_now.setdefault(claim.allocation.holder.job, set()).add(claim.allocation.share)
    return {job: sum(map(Fraction, shares), Fraction()) for job, shares in held_now.items()}


def plain_split(shares: dict[str, Fraction], order: Sequence[str], long_ms: int) -> dict[str | None, int]:
    """The milliseconds of a bin or its piece by holder, in the order in which the store got to know them."""
    if not shares:
        return {None: long_ms}
    split: dict[str | None, int] = {}
    lower, total, running = 0, sum(shares.values()), Fraction()
    for job in sorted(shares, key=order.index):
        running += shares[job]
        upper = int(long_ms * running / total + Fraction(1, 2))
        split[job] = upper - lower
        lower = upper
    return split


def is_idle(made: GpuSample) -> bool:
    """Whether the GPU's idle power shows in this sample."""
    return made.process_count == 0 and e4_of(made.gpu_utilization_ratio) in range(101)


def plain_state(
    parts: list[tuple[int, GpuSample]], long_ms: int, *, is_held: bool, idle_power_is_known: bool
) -> str:
    """The state of a bin or its piece with memory above the floor, and the same power in all samples."""
    if sum(ms for ms, _ in parts) < long_ms // 2:
        return "unknown_ms"
    parts = [(ms, made) for ms, made in parts if ms]
    counts = [made.process_count for _, made in parts if made.process_count is not None]
    busy = plain_mean([(ms, made.utilization_ratio) for ms, made in parts])
    kernels = plain_mean([(ms, made.gpu_utilization_ratio) for ms, made in parts])
    if kernels is not None and kernels >= 9000 and (idle_power_is_known or (counts and max(counts) == 0)):
        return "suspect_ms"
    if busy is not None and kernels is not None and max(busy, kernels) > 100:
        return ("low_saturation_ms", "moderate_ms", "good_ms")[(busy >= 2500) + (busy >= 5000)]
    if not counts or max(counts) > 0:
        if busy is None:
            return "unknown_ms"
        return "held_idle_ms" if is_held else "suspect_ms"
    return "allocated_empty_ms" if is_held else "suspect_ms"


def plain_mean(parts: list[tuple[int, float | None]]) -> Fraction | None:
    """The mean in ten-thousandths, weighted by overlap."""
    known = [(ms, e4) for ms, ratio in parts if (e4 := e4_of(ratio)) is not None]
    return Fraction(sum(ms * e4 for ms, e4 in known), sum(ms for ms, _ in known)) if known else None


def e4_of(ratio: float | None) -> int | None:
    """A ratio as it is stored."""
    return None if ratio is None else round(float(np.float32(ratio) * np.float32(10_000)))


def _assert_adds_up(store: Store) -> None:
    """A minute's states are one or two whole bins; what is held is all or none of each bin."""
    totals = ask(store, f"SELECT sum({TOTAL}), sum(held_ms) FROM rollup_1m GROUP BY ts, gpu_id")
    for total, held_total in totals:
        assert total in (BIN_MS, 2 * BIN_MS)
        assert held_total in (0, BIN_MS, 2 * BIN_MS)
    mismatch = ask(
        store,
        "SELECT * FROM rollup_1m WHERE least(free_ms, allocated_empty_ms, held_idle_ms, low_saturation_ms, "
        "moderate_ms, good_ms, suspect_ms, unknown_ms, held_ms, measured_ms) < 0 "
        "OR (holder_id IS NULL AND (held_ms > 0 OR allocated_empty_ms > 0)) "
        "OR (holder_id IS NOT NULL AND free_ms > 0)",
    )
    assert mismatch == []
