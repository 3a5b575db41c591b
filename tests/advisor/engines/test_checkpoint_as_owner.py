"""The driver is asked in the owner's name: by that account, with nothing of root's, and not believed for it.

With real processes of made-up accounts, as root; skipped aloud elsewhere. The library alone is a stand-in.
"""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpoint import Deed
from advisor.engines.cuda_checkpoint_child import checked
from advisor.engines.cuda_checkpointer import CHILD
from advisor.engines.owners_driver import MOST_STARTS
from advisor.serialize import from_text
from collector.procfs.checkpoint_blockers import owner
from service.units import BECOMING, LOOKING
from tests.advisor.engines.owned_parts import (
    GROUP,
    OTHER,
    OWNER,
    OwnedCuda,
    as_owner,
    compiled,
    job,
    owned,
)
from tests.advisor.engines.standin_parts import driver, held, over
from tests.conftest import program
from tests.driver.driver import GIB, Driver

__all__ = ("driver", "job", "owned")

pytestmark = pytest.mark.slow
Job = "subprocess.Popen[bytes]"
RUNNING, CHECKPOINTED = 0, 2
BY_THE_OWNER = (OWNER, OWNER, 0, False)


def begun_ms(pid: int) -> int:
    found = owner(pid)
    assert found is not None
    return found.started_ms


def with_the_powers_of_the_unit(*words: str) -> Deed:
    """What a root that has the unit's capabilities and no more gets for an answer."""
    names = [name.removeprefix("CAP_").lower() for name in f"{LOOKING} {BECOMING}".split()]
    kept = "-all," + ",".join(f"+{name}" for name in names)
    few = [program("setpriv", "util-linux"), f"--bounding-set={kept}", "--no-new-privs"]
    become = f"import os, sys; os.execv({few[0]!r}, [*{few!r}, sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", become, "-P", "-m", CHILD, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    deed: Deed = from_text(Deed, done.stdout)
    return deed


def test_what_a_root_of_few_powers_is_refused_the_owners_account_gets(owned: OwnedCuda, job: Job) -> None:
    refused = with_the_powers_of_the_unit("pause", "1000", "{}", f"{job.pid}")
    assert not refused.ok and "CUDA_ERROR_OPERATING_SYSTEM" in refused.found
    assert owned.state(job.pid) == RUNNING
    assert owned.asked()[-1][0] == 0
    (owned.folder / "asked.log").unlink()  # root's, and the owner's account writes the next one
    paused = with_the_powers_of_the_unit("pause", "1000", "{}", f"{job.pid}@{begun_ms(job.pid)}")
    assert paused.ok, paused.found
    assert owned.state(job.pid) == CHECKPOINTED
    assert owned.asked()[-1] == BY_THE_OWNER


def test_there_and_back_by_a_child_that_holds_nothing(
    owned: OwnedCuda, job: Job, driver: Driver, tmp_path: Path
) -> None:
    at_ms = {job.pid: begun_ms(job.pid)}
    assert over(as_owner().pause([job.pid], held(driver, job.pid), at_ms)).ok
    assert as_owner().look([job.pid], at_ms).states == {str(job.pid): "checkpointed"}
    with (tmp_path / "gpu-lock").open("w") as lock:
        resumed = over(as_owner().resume([job.pid], held(driver, job.pid), [lock.fileno()], at_ms))
    assert resumed.ok, resumed.found
    assert owned.state(job.pid) == RUNNING
    assert owned.calls()[0] == f"lock {job.pid} 7500"
    assert set(owned.asked()) == {BY_THE_OWNER}


@pytest.mark.parametrize(
    ("become", "why"),
    [
        ("os.setresuid(0, 0, 0)", "root's"),
        (f"os.setresuid({OWNER}, {OTHER}, {OTHER})", "two accounts"),
        (f"os.setresgid({OWNER}, {OTHER}, {OTHER}); os.setresuid({OWNER}, {OWNER}, {OWNER})", "two accounts"),
    ],
)
def test_in_nobodys_name_nothing_is_asked(owned: OwnedCuda, become: str, why: str) -> None:
    code = f"import os; {become}; print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None and process.stdout.readline()
        owned.put(process.pid, RUNNING)
        deed = over(as_owner().pause([process.pid], {}, {process.pid: begun_ms(process.pid)}))
        process.communicate(b"\n")
    assert not deed.ok and deed.undone and why in deed.found
    assert owned.calls() == [] and owned.asked() == []


def test_another_process_of_that_pid_is_left_alone(owned: OwnedCuda, job: Job) -> None:
    deed = over(as_owner().pause([job.pid], {}, {job.pid: begun_ms(job.pid) - 60_000}))
    assert not deed.ok and deed.undone and "another one by now" in deed.found
    assert owned.asked() == []


def test_a_pause_that_nvml_does_not_bear_out_is_none(
    owned: OwnedCuda, job: Job, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.engines.cuda_checkpoint_child.GONE_S", 0.0)
    said = Deed(ok=True, found="1 processes checkpointed")
    assert checked(said, [job.pid]) == said
    driver.gpu(0).process(job.pid, GIB)
    found = checked(said, [job.pid])
    assert not found.ok and not found.undone and "is on one" in found.found
    driver.fail("nvmlDeviceGetCount_v2", 999)
    assert "not known" in checked(said, [job.pid]).found


class Waiting:
    """A resume that stands in the driver's restore, and the child that asked for it; ``goes_on`` lets it."""

    def __init__(self, owned: OwnedCuda, driver: Driver, pid: int) -> None:
        self._file = owned.folder / "wait"
        owned.mark("wait")
        owned.put(pid, CHECKPOINTED)
        self.ongoing = as_owner().resume([pid], held(driver, pid), (), {pid: begun_ms(pid)})
        until = time.monotonic() + 30
        while not (owned.folder / "waiting").exists():
            assert time.monotonic() < until, "no restore was begun"
            time.sleep(0.02)
        (self.child,) = children_of_the_owner()

    def goes_on(self) -> Deed:
        self._file.unlink()
        return over(self.ongoing)


def children_of_the_owner() -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and b"cuda_driver_child" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


def test_the_child_is_its_owners_in_all_its_numbers(owned: OwnedCuda, job: Job, driver: Driver) -> None:
    """A site may open its GPUs to a group alone, so it has the groups of the process and none of root's."""
    waiting = Waiting(owned, driver, job.pid)
    status = Path(f"/proc/{waiting.child}/status").read_text()
    environment = Path(f"/proc/{waiting.child}/environ").read_bytes()
    assert waiting.goes_on().ok
    for name in ("Uid", "Gid"):
        assert f"{name}:" + 4 * f"\t{OWNER}" + "\n" in status
    assert f"Groups:\t{GROUP} \n" in status
    for name in ("CapPrm", "CapEff", "CapAmb"):
        assert f"{name}:\t{0:016x}\n" in status
    names = {each.partition(b"=")[0] for each in environment.split(b"\0") if each}
    assert names == {b"PATH", b"LANG", b"HOME", b"LD_LIBRARY_PATH"}


def test_an_owner_who_ends_the_child_amid_a_restore_leaves_the_job_paused(
    owned: OwnedCuda, job: Job, driver: Driver
) -> None:
    waiting = Waiting(owned, driver, job.pid)
    kill = [program("setpriv", "util-linux"), f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
    subprocess.run([*kill, "kill", "-KILL", str(waiting.child)], check=True)
    deed = waiting.goes_on()
    assert not deed.ok and f"status {-signal.SIGKILL}" in deed.found
    assert deed.states == {str(job.pid): "checkpointed"}, "another child is asked where it stands"
    again = over(as_owner().resume([job.pid], held(driver, job.pid), (), {job.pid: begun_ms(job.pid)}))
    assert again.ok and owned.state(job.pid) == RUNNING


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        (
            "int cuInit(unsigned flags) {",
            'int cuInit(unsigned flags) { puts("[]"); fflush(stdout);',
            "but noise",
        ),
        ("int cuInit(unsigned flags) {", "int cuInit(unsigned flags) { abort();", "status -6"),
        (
            "int cuInit(unsigned flags) {",
            "int cuInit(unsigned flags) { while (puts(folder()) > 0) {}",
            "but noise",
        ),
    ],
)
def test_a_child_that_talks_nonsense_has_done_nothing(
    owned: OwnedCuda, job: Job, was: str, now: str, why: str
) -> None:
    compiled(owned.folder, was, now)
    deed = over(as_owner().pause([job.pid], {}))
    assert not deed.ok and deed.undone and why in deed.found
    assert owned.state(job.pid) == RUNNING


def test_a_child_that_ends_in_the_midst_is_asked_after_by_another(owned: OwnedCuda, job: Job) -> None:
    was = "int cuCheckpointProcessCheckpoint(int pid, void *args) {"
    compiled(owned.folder, was, f"{was} _exit(9);")
    deed = over(as_owner().pause([job.pid], {}))
    assert not deed.ok and deed.undone and "status 9" in deed.found
    assert owned.state(job.pid) == RUNNING and owned.calls()[-1] == f"unlock {job.pid} 0"


def test_children_that_always_end_are_not_started_for_ever(owned: OwnedCuda, job: Job) -> None:
    was = "int cuCheckpointProcessGetState(int pid, int *state) {"
    compiled(owned.folder, was, f"{was} _exit(9);")
    with subprocess.Popen(["sleep", "600"], user=OWNER, group=OWNER, extra_groups=[GROUP]) as other:
        deed = over(as_owner().pause([job.pid, other.pid], {}))
        other.kill()
    assert not deed.ok and len(owned.asked()) == MOST_STARTS
    assert f"{MOST_STARTS} children of uid {OWNER}" in deed.states[str(other.pid)]
    assert owned.calls() == []


def test_nothing_of_the_environment_or_a_home_says_what_the_child_loads(
    owned: OwnedCuda, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = owned.folder / "planted"
    place.mkdir(mode=0o755)
    text = f"import os; open({str(owned.folder / 'loaded')!r} + str(os.geteuid()), 'w')\n"
    for name in ("sitecustomize.py", "usercustomize.py"):
        (place / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(place))
    monkeypatch.setenv("PYTHONUSERBASE", str(place))
    assert over(as_owner().pause([job.pid], {})).ok
    assert (owned.folder / "loaded0").exists(), "it would be loaded: root's own environment is root's word"
    assert not (owned.folder / f"loaded{OWNER}").exists()


def test_a_library_that_cannot_be_loaded_is_said(owned: OwnedCuda, job: Job) -> None:
    (owned.folder / "libcuda.so.1").write_bytes(b"not a library")
    deed = over(as_owner().pause([job.pid], {}))
    assert not deed.ok and deed.undone and "libcuda.so.1 could not be loaded" in deed.found
