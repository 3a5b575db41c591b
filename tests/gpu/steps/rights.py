"""Which account may take whose process off a GPU; and that ``fallow-hand`` can, in the owner's name."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.engines.cuda_checkpoint import DriverRefused, ProcessState
from advisor.engines.cuda_checkpoint_child import LibraryDriver
from service.units import BECOMING, LOOKING
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
UNTRACEABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
"""PR_SET_DUMPABLE 0: its owner could neither look into it nor steer it (decision 0079)."""
OWN = "by its own account"
WAYS = {
    OWN: (THEIRS, ["--bounding-set=-all"], CHILD),
    f"{OWN}, that it cannot trace": (THEIRS, ["--bounding-set=-all"], UNTRACEABLE + CHILD),
    "by another account with CAP_SYS_PTRACE alone": (OURS, ALONE, CHILD),
    "by another account without a capability": (OURS, ["--bounding-set=-all"], CHILD),
}
HAND = """
import json, sys
from advisor.engines.cuda_checkpointer import LocalCheckpointer
local = LocalCheckpointer(lambda: None, 5.0, as_owner=True)
pid, held = int(sys.argv[1]), json.loads(sys.argv[2])
for act in (local.pause, local.resume):
    deed = act([pid], {pid: held}).ended(30)
    if deed is None or not deed.ok:
        sys.exit("no answer" if deed is None else deed.found)
print("done")
"""
BY_THE_HAND = "by fallow-hand, with the powers of its unit"
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def main() -> dict[str, Any]:
    """A process of one account, taken off and brought back by each."""
    if not place.dry and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        raise Missing("needs root and setpriv, to be two other accounts")
    figures: list[Figure] = []
    driver = LibraryDriver()
    load = place.Load("work", "hold", HELD_MIB, environment={"HOME": "/tmp"}, prefix=_become(THEIRS, []))
    try:
        before = load.ask("sum")["sum"]
        for title, (uid, rights, code) in WAYS.items():
            found = _asked([*_become(uid, rights), sys.executable, "-c", code, str(load.pid)])
            figure = is_so(title, found, "done") if title == OWN else told(title, found)
            figures += [figure, is_so(f"{title}: it runs afterwards", _runs(driver, load.pid), True)]
            place.so_far(figures)
        if place.dry:  # all is one account's here, root's perhaps, and the hand leaves that alone
            figures.append(told(BY_THE_HAND, "not tried on a pretend device"))
        else:
            figures += [
                is_so(BY_THE_HAND, _by_the_hand(load.pid), "done"),
                is_so(f"{BY_THE_HAND}: it runs afterwards", _runs(driver, load.pid), True),
            ]
        figures.append(told("kernel.yama.ptrace_scope", _yama()))
        figures.append(is_so("the same numbers", load.ask("sum")["sum"], before))
    finally:
        load.end()
    return {"figures": figures}


def _become(uid: int, rights: list[str]) -> tuple[str, ...]:
    return () if place.dry else ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *rights)


def _by_the_hand(pid: int) -> str:
    """What comes of a pause and a resume by a root that has the powers of the hand's unit and no more."""
    names = [name.removeprefix("CAP_").lower() for name in f"{LOOKING} {BECOMING}".split()]
    few = ["setpriv", "--no-new-privs", "--bounding-set=-all," + ",".join(f"+{name}" for name in names)]
    held = json.dumps({place.uuid(): place.held_bytes(pid)})
    with _installed() as python:
        return _asked([*few, python, "-P", "-c", HAND, str(pid), held])


@contextlib.contextmanager
def _installed() -> Iterator[str]:
    """An interpreter that finds Fallow without a variable, as where it is installed: the child takes none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        venv.create(folder / "env", symlinks=True)
        (packages,) = (folder / "env").glob("lib/python*/site-packages")
        places = [str(place.ROOT), *(each for each in sys.path if Path(each).is_dir())]
        (packages / "fallow.pth").write_text("\n".join(places) + "\n")
        yield str(folder / "env" / "bin" / "python")


def _yama() -> str:
    return YAMA.read_text().strip() if YAMA.exists() else "none"


def _asked(command: list[str]) -> str:
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
