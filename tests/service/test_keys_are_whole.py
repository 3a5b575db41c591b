"""What tells one row from another is never cut: GPUs, users, jobs, on a narrow terminal as in a pipe."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from collector.gpu_place import node_place, short_uuid
from service.cli.findings import PATTERN_COLUMNS
from service.cli.screen import table
from service.cli.status import gpus_table
from service.wording import short_gpu


def printed(shown: RenderableType, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(shown)
    return out.getvalue()


NOW = datetime(2026, 11, 26, 20, tzinfo=UTC)
USERS = ("a-person-with-a-long-name-1", "a-person-with-a-long-name-2")
JOBS = ("pod:research/p-training-run-alpha-0", "pod:research/p-training-run-alpha-1")


def now_row(number: int) -> Any:
    return {
        "uuid": f"pod-training-run-alpha-{number}",
        "node": "k1",
        "gpu_place": None,
        "state": "held-idle",
        "state_since": "2026-11-26T03:00:00Z",
        "state_since_is_bound": False,
        "state_reason": None,
        "user_name": USERS[number],
        "job": JOBS[number],
        "job_name": None,
        "utilization_ratio": 0.0,
        "engines_ratio": None,
        "rung": 3,
        "memory_used_bytes": 40 << 30,
        "memory_total_bytes": 80 << 30,
        "power_w": 70.0,
    }


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_status_tells_two_of_almost_one_name_apart(width: int) -> None:
    shown = printed(gpus_table([now_row(0), now_row(1)], NOW, width=width), width)
    for number in range(2):
        for key in (f"k1:pod-training-run-alpha-{number}", USERS[number], JOBS[number]):
            assert key in shown, f"{key} at {width} columns:\n{shown}"
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_patterns_tell_two_of_almost_one_name_apart(width: int) -> None:
    rows = [[USERS[n], JOBS[n], "steady", "100%", "43%", "62%", "12", "3 h", "25 min"] for n in range(2)]
    shown = printed(table(PATTERN_COLUMNS, rows, width=width), width)
    assert all(key in shown for key in (*USERS, *JOBS)) and "…" not in shown


def test_only_a_drivers_own_uuid_is_known_by_its_start() -> None:
    drivers = "GPU-5c2ab1f0-1d2c-4b7e-9f53-0a1b2c3d4e5f"
    assert short_uuid(drivers) == "GPU-5c2ab1f0"
    assert short_uuid(drivers.replace("GPU", "MIG")) == "MIG-5c2ab1f0"
    for other in ("pod-training-run-alpha-1", "GPU-03-nightly", "node7/0000:3b:00.0", "MIG-GPU-5c2ab1f0/7/0"):
        assert short_uuid(other) == other
    assert node_place("k1", None, "GPU-03-nightly") == "k1:GPU-03-nightly"
    assert short_gpu("k1", None, "GPU-03-nightly") == "k1 · GPU-03-nightly"
    assert short_gpu("k1", None, drivers) == "k1 · GPU-5c2ab1f0"
