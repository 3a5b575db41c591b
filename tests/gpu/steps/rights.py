"""Which account may take whose process off a GPU: what ``fallow-hand`` needs beside CAP_SYS_PTRACE."""

import contextlib
import os
import shutil
import subprocess
import sys
from typing import Any

from advisor.engines.cuda_checkpoint import DriverRefused, ProcessState
from advisor.engines.cuda_checkpoint_child import LibraryDriver
from tests.gpu import place
from tests.gpu.answers import Figure, Missing, is_so, told

HELD_MIB, ASK_S = 256, 40
THEIRS, OURS = 65534, 65533
"""Two accounts that own nothing; 65534 is nobody."""
CHILD = """
import sys
from advisor.engines.cuda_checkpoint_child import LibraryDriver
driver, pid = LibraryDriver(), int(sys.argv[1])
driver.lock(pid, 5000)
try:
    driver.checkpoint(pid)
    driver.restore(pid)
finally:
    driver.unlock(pid)
print("done")
"""
ALONE = [f"--{which}=-all,+sys_ptrace" for which in ("inh-caps", "ambient-caps", "bounding-set")]
WAYS = {
    "by its own account": (THEIRS, ["--bounding-set=-all"]),
    "by another account with CAP_SYS_PTRACE alone": (OURS, ALONE),
    "by another account without a capability": (OURS, ["--bounding-set=-all"]),
}
NEEDED = tuple(WAYS)[1]
"""As the unit of fallow-hand has it."""


def main() -> dict[str, Any]:
    """A process of one account, taken off and brought back by each."""
    if not place.dry and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        raise Missing("needs root and setpriv, to be two other accounts")
    figures: list[Figure] = []
    driver = LibraryDriver()
    load = place.Load("work", "hold", HELD_MIB, environment={"HOME": "/tmp"}, prefix=_become(THEIRS, []))
    try:
        before = load.ask("sum")["sum"]
        for title, (uid, rights) in WAYS.items():
            found = _asked(load.pid, _become(uid, rights))
            figure = is_so(title, found, "done") if title == NEEDED else told(title, found)
            figures += [figure, is_so(f"{title}: it runs afterwards", _runs(driver, load.pid), True)]
            place.so_far(figures)
        figures.append(is_so("the same numbers", load.ask("sum")["sum"], before))
    finally:
        load.end()
    return {"figures": figures}


def _become(uid: int, rights: list[str]) -> tuple[str, ...]:
    return () if place.dry else ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *rights)


def _asked(pid: int, become: tuple[str, ...]) -> str:
    command = [*become, sys.executable, "-c", CHILD, str(pid)]
    asked = subprocess.run(
        command, cwd=place.ROOT, capture_output=True, text=True, check=False, timeout=ASK_S
    )
    lines = (asked.stdout + asked.stderr).strip().splitlines()
    return lines[-1] if lines else f"status {asked.returncode}"


def _runs(driver: LibraryDriver, pid: int) -> bool:
    """Whether it runs; what another left behind is brought back first, by root."""
    if driver.state(pid) is ProcessState.RUNNING:
        return True
    with contextlib.suppress(DriverRefused):
        driver.restore(pid)
    with contextlib.suppress(DriverRefused):
        driver.unlock(pid)
    return False
