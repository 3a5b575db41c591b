"""What was not measured is neither 0 nor 1: a video engine at rest tells nothing; no use is all of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import GIB, T0, at_path, held, history, sample
from tests.stores import open_store

MINUTE_MS = 60_000
FIVE = 5 * MINUTE_MS
"""The world of each test: five whole minutes of one GPU, held by one job."""


def asked(folder: Path, name: str, busy: float | None, *, is_held: bool = True, **facts: Any) -> list[Any]:
    """The rows of a named query over five minutes in each of which the GPU told the same."""
    return asked_all(folder, (name,), busy, is_held=is_held, **facts)[0]


def asked_all(
    folder: Path, names: Sequence[str], busy: float | None, *, is_held: bool = True, **facts: Any
) -> list[list[Any]]:
    """The same of several queries, in their order."""
    rows = [
        sample(0, T0 + at, busy, **{"process_count": None, "power_mw": None, **facts})
        for at in range(10_000, FIVE + MINUTE_MS + 10_000, 10_000)
    ]
    claims = [HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)] if is_held else []
    window = {"from_ts": T0, "to_ts": T0 + FIVE}
    bins = {"bins_from": T0, "bins_to": T0 + FIVE, "as_of": T0 + FIVE}
    own: dict[str, dict[str, Any]] = {
        "assess_bins": bins,
        "decide_gpus": {"as_of": T0 + FIVE},
        "decide_jobs": {"as_of": T0 + FIVE, "from_ts": T0},
        "gpus_now": {},
        "job_gpus": window | {"job": "slurm:a"},
        "usage_over_time": window | {"step_s": 60},
    }
    with open_store(at_path(folder)) as store, store.reader() as reader:
        store.write_history(history(rows, claims))
        return [run(reader, name, own.get(name, window)).to_pylist() for name in names]


ENGINES = ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio")


@pytest.mark.parametrize(("level", "busiest"), [(0.0, None), (0.01, None), (0.3, 0.3)])
def test_an_engine_tells_of_activity_only_where_it_is_busy(
    tmp_path: Path, level: float, busiest: float | None
) -> None:
    rows = asked(tmp_path, "assess_bins", None, **dict.fromkeys(ENGINES, 0.0) | {"ofa_ratio": level})
    assert [row["busiest_ratio"] for row in rows] == [busiest and pytest.approx(busiest)] * 10
    assert rows[0]["video_ratio"] == pytest.approx(level)


def test_a_gpu_of_which_only_resting_engines_are_known_wastes_nothing(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "ledger_by_user", None, **dict.fromkeys(ENGINES, 0.0))
    assert row["unknown_gpu_hours"] == pytest.approx(5 / 60)
    assert (row["wasted_gpu_hours"], row["used_gpu_hours"]) == (0, 0)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_resting_engine_makes_no_state_of_now(tmp_path: Path, is_held: bool) -> None:
    (row,) = asked(tmp_path, "gpus_now", None, is_held=is_held, encoder_ratio=0.0, memory_used_bytes=20 * GIB)
    assert (row["state"], row["utilization_ratio"]) == ("unknown", None)


def test_the_power_of_work_beside_a_resting_engine_is_no_contradiction(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "ledger_by_user", None, encoder_ratio=0.0, power_mw=350_000)
    assert (row["suspect_gpu_hours"], row["wasted_gpu_hours"]) == (0, 0)


def test_an_adviser_does_not_take_a_resting_engine_for_an_idle_gpu(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "decide_gpus", None, encoder_ratio=0.0)
    assert row["is_busy"] is None


def test_where_compute_is_measured_a_resting_engine_changes_nothing(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "ledger_by_user", 0.0, encoder_ratio=0.0)
    assert (row["held_idle_gpu_hours"], row["unknown_gpu_hours"]) == (pytest.approx(5 / 60), 0)


def test_a_busy_engine_is_work_where_compute_is_not_measured(tmp_path: Path) -> None:
    (row,) = asked(tmp_path, "ledger_by_user", None, encoder_ratio=0.6)
    assert (row["good_gpu_hours"], row["used_gpu_hours"]) == (pytest.approx(5 / 60), pytest.approx(3 / 60))


KEYS = ("user", "gpu", "cluster", "day", "hour", "job", "model", "node", "project", "framework")
USES = (*(f"ledger_by_{key}" for key in KEYS), "people", "projects", "jobs", "usage_over_time", "job_gpus")
MEANS = ("decide_jobs", "past_jobs")


@pytest.mark.parametrize(("busy", "use"), [(None, None), (0.0, 0.0), (0.5, 0.5)])
def test_a_use_of_which_nothing_was_measured_is_not_told(
    tmp_path: Path, busy: float | None, use: float | None
) -> None:
    told = dict(zip(USES + MEANS, asked_all(tmp_path, USES + MEANS, busy, encoder_ratio=0.0), strict=True))
    assert all(told.values())
    uses = {name: {row["utilization_ratio"] for row in told[name]} for name in USES}
    uses |= {name: {row["utilization_mean_ratio"] for row in told[name]} for name in MEANS}
    assert uses == {name: {use} for name in USES + MEANS}
