"""A worker ends with the exit code that it meant, whatever its group's threads are at just then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
WORKER = """
import os, sys, time
import torch, torch.distributed as dist
from fallow.process_group import group as groups

class Slow:
    def __del__(self):  # while the interpreter is taken down
        time.sleep(2.0)

rank, meeting = int(sys.argv[1]), sys.argv[2]
group = groups.connect(dist.FileStore(meeting, 2), rank, 2, torch.device("cpu"))
group.all_reduce([torch.ones(8)])
if rank == 1:
    time.sleep(1.0)
    os._exit(0)
sys.modules["slow"] = Slow()
if sys.argv[3] == "amid a sum":
    group.start_all_reduce(torch.ones(8))  # its tensor is the group's alone; the other is gone while we end
else:
    group.retire()
    try:
        group.all_reduce([torch.ones(8)])
    except groups.GroupBroken:
        group.abort()
sys.exit(7)
"""


@pytest.mark.parametrize("when", ["amid a sum", "while its group retires"])
def test_a_worker_that_ends_is_not_aborted(when: str, tmp_path: Path) -> None:
    """Gloo's thread lets go of the tensor, and would come to Python for that while Python is taken down."""
    command = [sys.executable, "-c", WORKER]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meeting"), when],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        _, said = started[0].communicate(timeout=DEADLINE_S)
        assert (started[0].returncode, "terminate called" in said) == (7, False), said
    finally:
        for each in started:
            each.kill()
            each.communicate()
