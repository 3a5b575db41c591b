"""The real pods' bench on three invented pods: what is named, what is wrong, and what the rows add up to."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from bench.pods import ORIGIN_MS, STATES, WIDTH_S, by_rows, figures, highest, play

HOUR_MS = 3_600_000


def rows(pod: str, busy: list[float], memory: float = 20_000.0) -> pd.DataFrame:
    times = [WIDTH_S * at for at in range(len(busy))]
    return pd.DataFrame({"t_s": times, "pod": pod, "gpu_util_pct": busy, "gpu_mem_used_mib": memory})


def test_a_row_counts_for_its_own_width_once():
    own = rows("a", [0.0, 0.5, 10.0, 30.0, 90.0, None])
    first_ms, last_ms = ORIGIN_MS - WIDTH_S * 1000, ORIGIN_MS + 5 * WIDTH_S * 1000
    hours = by_rows(own, first_ms, last_ms)
    one = WIDTH_S / 3600
    assert hours == pytest.approx(
        {
            "allocated-empty": 0,
            "held-idle": 2 * one,
            "low-saturation": one,
            "moderate": one,
            "good": one,
            "unknown": one,
        }
    )
    assert sum(hours.values()) == pytest.approx((last_ms - first_ms) / HOUR_MS)


def test_rows_are_cut_at_the_ends_of_the_time():
    own = rows("a", [90.0, 90.0])
    assert by_rows(own, ORIGIN_MS - 10_000, ORIGIN_MS + 10_000)["good"] == pytest.approx(20 / 3600)


def test_the_highest_of_a_time_is_that_of_the_rows_that_end_in_it():
    own = rows("a", [50.0, 3.0, 7.0])
    assert highest(own, ORIGIN_MS, ORIGIN_MS + 3 * WIDTH_S * 1000) == 7.0
    assert highest(own, ORIGIN_MS + HOUR_MS, ORIGIN_MS + 2 * HOUR_MS) == 0.0


@pytest.mark.slow
def test_pods_are_replayed_and_held_against_their_rows(tmp_path: Path):
    hours = 3 * 3600 // WIDTH_S
    trace = tmp_path / "pods.csv.gz"
    table = pd.concat(
        [
            rows("busy", [60.0] * hours),
            rows("never", [0.3] * hours),
            rows("short", [0.0] * (hours // 3)),
        ]
    )
    with gzip.open(trace, "wt") as out:
        table.to_csv(out, index=False)
    found = play(trace)
    assert found.instants > 3
    assert set(found.never) == {"never", "short"}
    assert found.never["short"], "it is starting, at least"
    assert "busy" not in found.wrong
    shown = figures(found)
    assert shown["ledger: good"]["ok"] and shown["ledger: wasted"]["ok"]
    assert {f"ledger: {state}" for state in STATES} < shown.keys()
