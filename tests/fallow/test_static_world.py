"""The workers of torchrun, without a controller: what they find, whom they wait for, how they end."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from tests.fallow import noisy_train  # noqa: E402
from tests.fallow.test_noisy_training import assert_equal, seen  # noqa: E402

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def torchrun(workers: int, script: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={workers}",
            script,
        ],
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.long
def test_under_torchrun_the_same_script_gives_the_same_bits_as_alone(tmp_path: Path) -> None:
    script = Path(noisy_train.__file__)
    together, alone = tmp_path / "together", tmp_path / "alone"
    done = torchrun(3, script, OUT=str(together), LOADERS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    subprocess.run(
        [sys.executable, script],
        env={**ENVIRONMENT, "OUT": str(alone), "LOADERS": "0"},
        check=True,
        timeout=100,
    )
    losses = {step: loss for step, loss, _ in seen(alone)}
    lines = seen(together)
    assert len(lines) == 3 * noisy_train.STEPS
    assert all(world == 3 and loss == losses[step] for step, loss, world in lines)
    assert_equal(torch.load(f"{together}.pt"), torch.load(f"{alone}.pt"))


DYING = """
import os, sys, torch, fallow
from torch.utils.data import TensorDataset
model = torch.nn.Linear(4, 1)
trainer = fallow.connect().elastic(
    model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=8, max_micro_batch=4
)
for step, batches in trainer.steps(TensorDataset(torch.randn(64, 4)), total_steps=50):
    for (x,) in batches:
        trainer.backward(model(x).square().mean())
    if step == 3 and trainer.rank == 1:
        os._exit(7)
    trainer.step()
"""


def test_when_one_dies_the_others_end_with_a_reason_instead_of_waiting(tmp_path: Path) -> None:
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    done = torchrun(2, script)
    assert done.returncode != 0
    assert "GroupBroken" in done.stderr or "exitcode  : 7" in done.stderr, done.stderr[-3000:]


UNSEEDED = """
import os, torch, fallow
from torch.utils.data import TensorDataset
torch.manual_seed(int(os.environ["RANK"]))  # a script that forgot to build the same model everywhere
model = torch.nn.Linear(4, 1)
trainer = fallow.connect().elastic(
    model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=8, max_micro_batch=4
)
for _, batches in trainer.steps(TensorDataset(torch.arange(256.0).view(64, 4) / 256), total_steps=3):
    for (x,) in batches:
        trainer.backward(model(x).square().mean())
    trainer.step()
torch.save(model.state_dict(), os.environ["OUT"] + os.environ["RANK"])
again = fallow.connect()  # a second time, and with torch's own group beside it
torch.distributed.init_process_group("gloo")
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


def test_all_start_from_the_first_workers_model(tmp_path: Path) -> None:
    script = tmp_path / "unseeded.py"
    script.write_text(UNSEEDED)
    done = torchrun(3, script, OUT=str(tmp_path / "end"))
    assert done.returncode == 0, done.stderr[-3000:]
    ends = [torch.load(tmp_path / f"end{rank}") for rank in range(3)]
    assert_equal(ends[1], ends[0])
    assert_equal(ends[2], ends[0])


LISTENING = """
import os, fallow
from pathlib import Path
job = fallow.connect()
own = set()
for each in Path("/proc/self/fd").iterdir():
    try:
        own.add(os.readlink(each)[8:-1])
    except OSError:
        continue  # the one that lists them
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in own:
            print("listens", fields[1].split(":")[0], flush=True)
fallow.connect()  # the second time the store is there already
print("twice", flush=True)
"""


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
def test_where_all_workers_are_here_nothing_listens_beyond_loopback(tmp_path: Path) -> None:
    """Started as srun and mpirun do: rank 0 hosts the store."""
    script = tmp_path / "listening.py"
    script.write_text(LISTENING)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, script],
            env={**ENVIRONMENT, **given, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [rank.communicate(timeout=100)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert all("twice" in each for each in told)
    listening = {line.split()[1] for each in told for line in each.splitlines() if line.startswith("listens")}
    assert listening == {"0100007F"}, "127.0.0.1, as the kernel's tables write it here"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"},
            "MASTER_PORT=0 is any free port",
        ),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "but MASTER_ADDR and MASTER_PORT not"),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}, "which cannot be"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "RANK='zero' is no number"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "x"},
            "MASTER_PORT='x' is no number",
        ),
    ],
)
def test_variables_that_make_no_sense_are_said(variables: dict[str, str], message: str) -> None:
    with pytest.raises(Mistake, match=message):
        fallow.connect(environment=variables)


@pytest.mark.parametrize(
    "variables", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "3"}, {"WORLD_SIZE": "2"}]
)
def test_a_world_of_one_is_alone(variables: dict[str, str]) -> None:
    job: Any = fallow.connect(environment=variables)
    assert not job.driven
    model = torch.nn.Linear(2, 2)
    trainer = job.elastic(
        model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=4, max_micro_batch=4
    )
    assert (trainer.rank, trainer.world_size) == (0, 1)
