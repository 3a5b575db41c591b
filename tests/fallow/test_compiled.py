"""torch.compile with its own C++ kernels: compiled workers learn what one that isn't compiled learns."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from tests.fallow import compiled_train  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler: apt install g++"
)
@pytest.mark.long
def test_compiled_workers_learn_what_a_plain_model_learns(tmp_path: Path) -> None:
    plain = compiled_train.network()
    losses = compiled_train.train(plain, fallow.connect(environment={}))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("-m", "tests.fallow.compiled_train"),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "OUT": str(tmp_path / "end"),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),  # compiled here and now, not found
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert list((tmp_path / "cache").rglob("*.so")), "nothing was compiled"
    for rank in (0, 1):
        learned = torch.load(tmp_path / f"end.{rank}")
        assert learned["losses"] == pytest.approx(losses, rel=0, abs=1e-11)
        for name, value in plain.state_dict().items():
            torch.testing.assert_close(learned["model"][name], value, rtol=0, atol=1e-11, msg=name)
