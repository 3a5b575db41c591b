"""All steps of the first half hour on a GPU, played on the pretend device and the stand-in drivers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.table import DRY_BUDGET_S, NAMES

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # a minute of processor time, which the slow lane of trainings has not
@pytest.mark.timeout(700)
def test_all_steps_are_played_dry_and_none_breaks(tmp_path: Path) -> None:
    """A slip in the script costs a whole run: play it before one. NCCL and a second GPU are stood in for."""
    pytest.importorskip("torch", reason="torch is not installed")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) for the stand-in drivers; on Debian: apt-get install gcc")
    command = [sys.executable, "-m", "tests.gpu.run", "--dry", "--out", str(tmp_path), "--budget", "600"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "gpu.json").read_text())["steps"]}
    assert tuple(rows) == NAMES
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == dict.fromkeys(NAMES, "held"), [
        (row.get("tail"), [figure for figure in row.get("figures", ()) if figure["held"] is False])
        for row in rows.values()
        if row["verdict"] == "broke"
    ]
    assert not any("left_bytes" in row for row in rows.values())
    print(
        f"seconds: {sum(row['seconds'] for row in rows.values()):.0f}, of {DRY_BUDGET_S} on a quiet machine"
    )
