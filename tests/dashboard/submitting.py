"""Jobs for the tests of pages and for their pictures: submitted as people do, by ``fallow run``."""

import signal
import subprocess
import sys
from pathlib import Path

from service.launcher.tree import catches
from tests.dashboard.conftest import ROOT, SIZES

SAVES = "import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0)); time.sleep(3000)"
ASKED = "archive"
"""The project whose jobs start when somebody says yes."""
ASKS = f'{SIZES}[modes]\nreclaim = "ask"\n[modes.{ASKED}]\nschedule = "ask"\n[dashboard]\nacting = true\n'


def submit(data: Path, home: Path, *flags: str) -> str:
    """A job that saves itself when it is asked to, run on without a terminal; its id."""
    command = [sys.executable, "-m", "service.cli", "run", "--data", str(data), *flags, "--detach", "--"]
    found = subprocess.run(
        [*command, "python3", "-c", SAVES],
        cwd=ROOT,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()[0]


def listens() -> bool:
    """Whether a job of ours has set its handler already: one that has only begun cannot be paused yet."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return any(_command(pid)[2:3] == [SAVES] and catches(pid, signal.SIGUSR1) for pid in pids)


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
