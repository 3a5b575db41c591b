"""A nursery's children: an order to one that is not there yet reaches it as soon as it is."""

import signal
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.workers.pool import WorkerPool

DEADLINE_S = 60


def test_who_is_killed_before_it_is_born_does_not_live(tmp_path: Path) -> None:
    """An order that is overtaken at once ends workers that were only just asked for."""
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(1000)\n")
    nursery = WorkerPool([str(script)], warm=False)
    try:
        child = nursery.spawn({})
        child.kill()
        assert child.wait(DEADLINE_S) == -signal.SIGKILL
    finally:
        nursery.close()
