"""A notebook that somebody started by hand, on a machine with a real service: told, kept, paused, resumed.

The terminal, the processes, the service and its HTTP are real; the NVIDIA driver and libcuda are stand-ins.
What is claimed is read from the owner's own screen, from libcuda's log of calls, and from the journal.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.demo.stage import Setting, Stage
from tests.conftest import program
from tests.end_to_end.conftest import ROOT

CUDA = ROOT / "tests" / "advisor" / "engines" / "standin_cuda.c"
SETTINGS = """
[modes]
reclaim = "auto"

[consent]
preemptible = ["*"]
checkpointable = ["*"]

[foreign]
checkpoint = {checkpoint}

[acting]
every_s = 1
"""
LONG_S = 120.0


@dataclass
class Notebook:
    """A toy notebook at a terminal of its own, started by hand; ``screen`` is all that came to it."""

    process: "subprocess.Popen[bytes]"
    keys: int
    path: Path
    screen: bytes = b""

    def copy(self) -> None:
        while True:
            try:
                text = os.read(self.keys, 4096)
            except OSError:
                return
            if not text:
                return
            self.screen += text

    def type(self, text: str) -> None:
        os.write(self.keys, text.encode())


class CudaStage(Stage):
    """A stage whose processes find the stand-in libcuda as well."""

    @property
    def environment(self) -> dict[str, str]:
        folder = str(self.folder.parent / "libcuda")
        before = Stage.environment.__get__(self)
        paths = os.pathsep.join(filter(None, [folder, before.get("LD_LIBRARY_PATH")]))
        return {**before, "LD_LIBRARY_PATH": paths, "STANDIN_CUDA": folder}


@pytest.fixture
def libcuda(tmp_path: Path) -> Path:
    """A folder with a stand-in libcuda; its calls are logged there."""
    folder = tmp_path / "libcuda"
    folder.mkdir()
    command = [program("cc", "gcc"), "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(CUDA)]
    subprocess.run(command, check=True)
    return folder


def by_hand(stage: Stage, folder: Path) -> Notebook:
    """What somebody does who types ``python -m examples.toys.notebook`` at a login of their own."""
    keys, terminal = os.openpty()
    path = Path(os.ttyname(terminal))
    path.chmod(0o620)
    toy = [sys.executable, "-m", "examples.toys.notebook", "--checkpoint", str(folder / "saved.json")]
    session = (
        "import fcntl, os, sys, termios; "
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.tcsetpgrp(0, os.getpgrp()); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", session, *toy],
        cwd=ROOT,
        env={**stage.environment, "CUDA_VISIBLE_DEVICES": stage.uuids[0]},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    notebook = Notebook(process, keys, path)
    threading.Thread(target=notebook.copy, daemon=True).start()
    return notebook


@pytest.fixture
def machine(
    request: pytest.FixtureRequest, compiled: None, libcuda: Path, tmp_path: Path
) -> Iterator[tuple[Stage, Notebook, str]]:
    """A service, a notebook that did one cell, and the notebook's job id as the service has it."""
    settings = SETTINGS.format(checkpoint="true" if request.param else "false")
    with CudaStage(tmp_path / "stage", Setting(settings=settings)) as stage:
        notebook = by_hand(stage, tmp_path)
        try:
            stage.until("its first cell is done", lambda: b"cell 1 done" in notebook.screen, LONG_S)
            rows = stage.until(
                "the service knows whose it is",
                lambda: [row for row in stage.rows("gpus_now") if (row["job"] or "").startswith("pid:")],
                LONG_S,
            )
            yield stage, notebook, str(rows[0]["job"])
        finally:
            notebook.process.kill()
            notebook.process.wait()
            os.close(notebook.keys)


@pytest.mark.long
@pytest.mark.parametrize("machine", [False], indirect=True)
def test_owner_reads_on_the_own_terminal_that_the_notebook_idles_and_keeps_it(
    machine: tuple[Stage, Notebook, str],
) -> None:
    stage, notebook, job = machine
    stage.until("the owner is told", lambda: b"Message from Fallow about pid:" in notebook.screen, LONG_S)
    assert b"without using" in notebook.screen
    assert f"fallow keep {job}".encode() in b" ".join(notebook.screen.split())
    said = stage.until("it is written down", lambda: stage.rows("spoken", from_ts=0), LONG_S)
    assert said[0]["job"] == job
    assert said[0]["reached"] == f"terminal {notebook.path.relative_to('/dev')}"
    assert "left alone until" in stage.order("keep", job, "--for", "4h")
    assert [row.verb for row in stage.actions() if row.job == job][:2] == ["notify", "keep"]
    done = stage.fallow("pause", job)
    assert done.returncode != 0 and "[foreign] checkpoint" in done.stderr
    assert notebook.process.poll() is None


@pytest.mark.parametrize("machine", [True], indirect=True)
def test_owner_pauses_and_resumes_a_notebook_that_fallow_did_not_launch(
    machine: tuple[Stage, Notebook, str], libcuda: Path
) -> None:
    stage, notebook, job = machine
    pid = notebook.process.pid
    (libcuda / str(pid)).write_text("0\n")
    paused = stage.fallow("pause", job)
    assert paused.returncode == 0, paused.stderr
    assert (libcuda / str(pid)).read_text().strip() == "2"
    again = stage.fallow("pause", job)
    assert again.returncode != 0 and "paused already" in again.stderr
    resumed = stage.fallow("resume", job)
    assert resumed.returncode == 0, resumed.stderr
    assert (libcuda / str(pid)).read_text().strip() == "0"
    calls = [line.split()[0] for line in (libcuda / "calls.log").read_text().splitlines()]
    assert calls == ["lock", "checkpoint", "restore", "unlock"]
    rows = [row for row in stage.actions() if row.job == job and row.verb in ("pause", "resume")]
    assert [(row.verb, row.outcome) for row in rows if row.outcome == "done"] == [
        ("pause", "done"),
        ("resume", "done"),
    ]
    assert json.dumps([row.sent for row in rows])
    assert notebook.process.poll() is None
