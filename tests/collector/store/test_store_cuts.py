"""A board that is cut anew keeps its past: hours of before weigh what they weighed then."""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analytics.query import run
from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Gpu,
    GpuUuid,
    Unavailable,
)
from collector.reading import Tick
from collector.store.database import Store
from tests.collector.store.store_parts import (
    T0,
    TICK_MS,
    ask,
    at_path,
    gpu,
    held,
    older_file,
    sample,
    tick,
    uuid,
)
from tests.searches import examples
from tests.stores import open_store

MINUTE_MS = 60_000
STEP_MS = 20_000
"""Not a whole number of them in a bin, and fewer than in a test of single ticks."""
WHOLE = gpu(0)
LAYOUTS: tuple[tuple[int, ...], ...] = ((), (7,), (3, 3), (3, 4), (1, 2, 4), (1,), (2, 2, 3), (1, 1))
LEDGERS = ("gpu", "user", "node", "hour", "project")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        yield opened


def part(number: int, slices: int) -> Gpu:
    """An instance of board 0 with so many sevenths of it."""
    return replace(
        gpu(0),
        uuid=GpuUuid(f"MIG-{number:08d}"),
        parent_uuid=uuid(0),
        mig_profile=f"{slices}g.{slices * 10}gb",
        share_of_device=slices / 7,
        gpu_instance=number,
    )


def cut_into(*parts: Gpu) -> tuple[Gpu, ...]:
    """The board with what its instances leave of it, and they."""
    left = 1.0 - sum(each.share_of_device for each in parts)
    return (gpu(0, share_of_device=max(0.0, left)), *parts)


def listing(at_ms: int, gpus: Iterable[Gpu], source: str = "test", width_ms: int = STEP_MS) -> Tick:
    told = tuple(gpus)
    rows = [replace(sample(0, at_ms, width_ms=width_ms), uuid=each.uuid) for each in told]
    return tick(at_ms, rows, [held(0, "a")], gpus=told, source=source, width_ms=width_ms)


def play(store: Store, from_ms: int, minutes: float, gpus: Iterable[Gpu], **told: object) -> int:
    """Ticks in the minutes after ``from_ms``; when the last of them was."""
    shown = tuple(gpus)
    to_ms = from_ms + round(minutes * MINUTE_MS)
    for at_ms in range(from_ms + STEP_MS, to_ms + 1, STEP_MS):
        store.write_tick(listing(at_ms, shown, **told))  # type: ignore[arg-type]
    return to_ms


def ledger(store: Store, from_ms: int, to_ms: int) -> dict[str, dict[str, float]]:
    """Hours of the span by each key of each ledger; a board is one key, however often it was cut."""
    found: dict[str, dict[str, float]] = {by: defaultdict(float) for by in LEDGERS}
    with store.reader() as reader:
        for by, hours in found.items():
            for row in run(reader, f"ledger_by_{by}", {"from_ts": from_ms, "to_ts": to_ms}).to_pylist():
                hours[str(row["key"]).split("@")[0]] += row["gpu_hours"]
    return {by: {key: round(sum_, 9) for key, sum_ in hours.items()} for by, hours in found.items()}


def board_hours(store: Store, from_ms: int, to_ms: int) -> float:
    with store.reader() as reader:
        rows = run(reader, "ledger_by_gpu", {"from_ts": from_ms, "to_ts": to_ms}).to_pylist()
    return float(sum(row["gpu_hours"] for row in rows))


def rows_of_gpus(store: Store) -> list[tuple[object, ...]]:
    return ask(
        store, "SELECT uuid, round(share_of_device, 3), installed_to IS NULL FROM gpus ORDER BY gpu_id"
    )


@pytest.mark.slow
def test_cutting_a_board_leaves_the_hours_before_as_they_were(store: Store) -> None:
    end = play(store, T0, 4, [WHOLE])
    before = ledger(store, T0, T0 + 3 * MINUTE_MS)
    assert before["user"] == pytest.approx({"user-a": 3 / 60})
    end = play(store, end, 4, cut_into(part(1, 3), part(2, 4)))
    assert ledger(store, T0, T0 + 3 * MINUTE_MS) == before
    assert board_hours(store, T0, T0 + 7 * MINUTE_MS) == pytest.approx(7 / 60)
    with store.reader() as reader:
        span = {"from_ts": T0, "to_ts": T0 + 7 * MINUTE_MS}
        drawn = run(reader, "heatmap", {**span, "step_s": 60}).to_pylist()
        names = run(reader, "gpu_names", span).to_pylist()
    assert [row["ts"].minute for row in drawn if row["uuid"] == uuid(0)] == list(range(7))
    assert {row["uuid"] for row in drawn} == {uuid(0), part(1, 3).uuid, part(2, 4).uuid}
    assert [(row["gpu_place"], row["to_ts"] is None) for row in names] == [
        ("0", True),
        ("0", False),
        ("0/3g.30gb#1", True),
        ("0/4g.40gb#2", True),
    ]


@pytest.mark.parametrize("then", [(part(4, 2), part(5, 2)), ()])
def test_board_counts_once_while_it_is_cut_anew(store: Store, then: tuple[Gpu, ...]) -> None:
    end = play(store, T0, 1, cut_into(part(1, 3), part(2, 1), part(3, 1)))
    for _ in range(9):
        end = play(store, end, STEP_MS / MINUTE_MS, cut_into(*then))
        with store.reader() as reader:
            (now,) = run(reader, "cluster_now", {}).to_pylist()
        assert now["gpus"] == pytest.approx(1)
        assert now["used_gpus"] + now["unknown_gpus"] / 2 <= 0.5 + 1e-9


@pytest.mark.slow
def test_board_made_whole_leaves_the_hours_before_as_they_were(store: Store) -> None:
    end = play(store, T0, 4, cut_into(part(1, 3), part(2, 3)))
    before = ledger(store, T0, T0 + 3 * MINUTE_MS)
    end = play(store, end, 4, [WHOLE])
    assert ledger(store, T0, T0 + 3 * MINUTE_MS) == before
    assert board_hours(store, T0, end - MINUTE_MS) == pytest.approx(7 / 60)
    assert [row[1:] for row in rows_of_gpus(store)] == [
        (pytest.approx(1 / 7, abs=1e-3), False),
        (pytest.approx(3 / 7, abs=1e-3), False),
        (pytest.approx(3 / 7, abs=1e-3), False),
        (1.0, True),
    ]


def test_instance_left_out_for_a_moment_cuts_nothing(store: Store) -> None:
    both, one = cut_into(part(1, 3), part(2, 3)), cut_into(part(1, 3))
    end = play(store, T0, 3, both)
    for _ in range(5):
        end = play(store, end, 0.5, one)
        end = play(store, end, 0.5, both)
    assert len(rows_of_gpus(store)) == 3


@pytest.mark.slow
@settings(
    max_examples=examples(3, 8),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    told=st.lists(st.tuples(st.sampled_from(LAYOUTS), st.integers(6, 9)), min_size=2, max_size=4),
    data=st.data(),
)
def test_any_history_of_cuts_keeps_each_past_and_sums_to_the_board(
    told: list[tuple[tuple[int, ...], int]], data: st.DataObject
) -> None:
    width_ms = data.draw(st.sampled_from([10_000, 17_000, 30_000, 45_000]))
    with tempfile.TemporaryDirectory() as folder, open_store(at_path(Path(folder))) as store:
        now_ms, seen, number = T0 - MINUTE_MS, [], 0
        for slices, minutes in told:
            parts = [part(number := number + 1, each) for each in slices]
            until_ms = now_ms + minutes * MINUTE_MS
            while now_ms + width_ms <= until_ms:
                now_ms += width_ms
                store.write_tick(listing(now_ms, cut_into(*parts), width_ms=width_ms))
            closed_ms = now_ms // MINUTE_MS * MINUTE_MS - 3 * MINUTE_MS
            for before_ms, hours in seen:
                assert ledger(store, T0, before_ms) == hours
            seen.append((closed_ms, ledger(store, T0, closed_ms)))
            for by, hours in seen[-1][1].items():
                # a bin in which one instance ended and another began is counted for both
                most = 0 if 30_000 % width_ms == 0 else 30_000 * (len(seen) - 1)
                assert -1 <= sum(hours.values()) * 3_600_000 - (closed_ms - T0) <= most + 1, by


@pytest.mark.slow
def test_number_of_an_instance_is_used_again_with_another_profile(store: Store) -> None:
    end = play(store, T0, 4, cut_into(part(1, 1), part(2, 3)))
    before = ledger(store, T0, T0 + 3 * MINUTE_MS)
    play(store, end, 4, cut_into(part(1, 4), part(2, 3)))
    assert ledger(store, T0, T0 + 3 * MINUTE_MS) == before
    assert board_hours(store, T0, T0 + 7 * MINUTE_MS) == pytest.approx(7 / 60)


def test_who_holds_it_goes_on(store: Store) -> None:
    end = play(store, T0, 4, [WHOLE])
    play(store, end, 4, cut_into(part(1, 3)))
    spans = "SELECT gpu_id, epoch_ms(from_ts), epoch_ms(to_ts) FROM allocations ORDER BY from_ts"
    assert ask(store, spans) == [(1, T0, end), (3, end, None)]
    assert ledger(store, end, end + 3 * MINUTE_MS)["user"] == pytest.approx(
        {"user-a": 3 / 60 * 4 / 7, "None": 3 / 60 * 3 / 7}
    )


def test_other_source_that_counts_otherwise_cuts_nothing(store: Store) -> None:
    end = play(store, T0, 3, cut_into(part(1, 1)), source="nvml")
    other = cut_into(replace(part(1, 1), share_of_device=3 / 7))
    for at_ms in range(end + STEP_MS, end + 5 * MINUTE_MS, STEP_MS):
        told = listing(at_ms, other, source="dcgm")
        silent = Unavailable(source="nvml", at_ms=at_ms, reason="hangs", duration_ms=1.0)
        store.write_tick(replace(told, outcomes=(silent, *told.outcomes)))
    assert len(rows_of_gpus(store)) == 2


@pytest.mark.slow
def test_board_cut_while_the_service_was_down_keeps_its_past(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        end = play(store, T0, 4, [WHOLE])
        before = ledger(store, T0, T0 + 3 * MINUTE_MS)
    with open_store(at_path(tmp_path)) as store:
        end = play(store, end + 10 * MINUTE_MS, 4, cut_into(part(1, 7)))
    with open_store(at_path(tmp_path)) as store:
        play(store, end, 3, cut_into(part(1, 7)))
        assert ledger(store, T0, T0 + 3 * MINUTE_MS) == before
        assert len(rows_of_gpus(store)) == 3


def test_late_sample_goes_to_the_board_as_it_was_then(store: Store) -> None:
    end = play(store, T0, 4, [WHOLE])
    end = play(store, end, 4, cut_into(part(1, 3)))
    late = replace(sample(0, T0 + 2 * MINUTE_MS + 3_000, width_ms=1_000))
    store.write_tick(tick(end + TICK_MS, [late], gpus=cut_into(part(1, 3))))
    at = "SELECT uuid <> ? FROM samples JOIN gpus USING (gpu_id) WHERE width_ms = 1000"
    assert ask(store, at, uuid(0)) == [(True,)]


def past(from_ms: int, minutes: int, gpus: Iterable[Gpu]) -> History:
    """What was imported of the minutes after ``from_ms``."""
    told = tuple(gpus)
    ends = range(from_ms + STEP_MS, from_ms + minutes * MINUTE_MS + 1, STEP_MS)
    rows = [replace(sample(0, at, width_ms=STEP_MS), uuid=each.uuid) for at in ends for each in told]
    interval = HeldInterval(allocation=held(0, "a"), from_ms=from_ms, to_ms=from_ms + minutes * MINUTE_MS)
    return History(source="prometheus", gpus=told, samples=to_table(rows), held=(interval,))


def test_board_cut_within_an_imported_past_keeps_the_hours_before(store: Store) -> None:
    store.write_history(past(T0, 30, [WHOLE]))
    before = ledger(store, T0, T0 + 28 * MINUTE_MS)
    store.write_history(past(T0 + 30 * MINUTE_MS, 30, cut_into(part(1, 3), part(2, 4))))
    assert ledger(store, T0, T0 + 28 * MINUTE_MS) == before
    assert board_hours(store, T0, T0 + 58 * MINUTE_MS) == pytest.approx(58 / 60)
    store.write_history(past(T0, 30, [WHOLE]))
    assert ledger(store, T0, T0 + 28 * MINUTE_MS) == before


@pytest.mark.slow
def test_past_in_which_the_board_was_another_is_imported_as_it_was(store: Store) -> None:
    begun = T0 + 60 * MINUTE_MS
    end = play(store, begun, 4, cut_into(part(1, 3)))
    since = ledger(store, begun, begun + 3 * MINUTE_MS)
    store.write_history(past(T0, 60, [WHOLE]))
    assert ledger(store, begun, begun + 3 * MINUTE_MS) == since
    assert ledger(store, T0, begun)["user"] == pytest.approx({"user-a": 1.0})
    play(store, end, 2, cut_into(part(1, 3)))
    assert len(rows_of_gpus(store)) == 3


def test_older_store_opens_and_keeps_its_gpus(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 56) as old:
        old.execute(
            "INSERT INTO gpus (uuid, node, gpu_index, share_of_device, source, installed_from) "
            "VALUES ('GPU-00000000', 'n0', 0, 0.25, 'test', '2026-01-01')"
        )
    with open_store(at_path(tmp_path)) as store:
        assert ask(store, "SELECT uuid, share_of_device, cut_of, cut_from FROM gpus") == [
            ("GPU-00000000", 0.25, None, None)
        ]
