"""The bench of many nodes runs to its end: all that its nodes measure is stored by a real head."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.process]

ROOT = Path(__file__).parents[2]


def test_a_few_nodes_push_and_an_outage_is_caught_up() -> None:
    command = [
        sys.executable,
        "bench/fleet.py",
        "--nodes",
        "3",
        "--ticks",
        "1",
        "--tick",
        "1",
        "--outage",
        "8",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "tick 0: all 3 pushed" in done.stdout
    assert "an outage of 8 ticks (24 in all) is stored" in done.stdout
