"""No share's programs are led to a meeting place of MPS that is somebody else's."""

import os
import pty
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from advisor.engines.mps import DAEMON, PID_FILE, find_mps
from advisor.jobs.gpu_sharing import NO_DAEMON_DIRECTORY, PIPE_DIRECTORY
from service.launcher.starting import without_strangers
from tests.service.trust.accounts import ANN, EVE, as_account, needs_root, owned

pytestmark = needs_root
OTHER = ("TF_FORCE_GPU_ALLOW_GROWTH", "true")
SU = Path("/bin/su")


@contextmanager
def waiting_at_a_prompt(folder: Path) -> Iterator[int]:
    """A set-uid program of root's that an account has started under the daemon's name."""
    (folder / DAEMON).symlink_to(SU)
    child, line = pty.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(EVE, EVE, EVE)
        os.setresuid(EVE, EVE, EVE)
        os.execve(folder / DAEMON, [str(folder / DAEMON), "root"], {PIPE_DIRECTORY: str(folder)})
    try:
        until_s = time.monotonic() + 20
        while b"assword" not in os.read(line, 100):
            assert time.monotonic() < until_s
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(line)


@pytest.mark.skipif(not SU.exists() or not SU.stat().st_mode & 0o4000, reason="no set-uid su to misuse")
def test_a_set_uid_program_under_the_daemons_name_is_no_daemon(there: Path) -> None:
    folder = owned(there / "eve", EVE)
    with waiting_at_a_prompt(folder) as pid:
        owned(folder / PID_FILE, EVE, 0o644, f"{pid}\n")
        owned(folder / "control", EVE, 0o666, "")
        assert Path(f"/proc/{pid}").stat().st_uid == 0, "it looks like root's"
        assert find_mps({PIPE_DIRECTORY: str(folder)}).pipe_directory is None
        assert find_mps({}).pipe_directory != str(folder)


@pytest.mark.parametrize(
    ("owner", "mode", "control", "says"),
    [
        (0, 0o755, 0, None),
        (ANN, 0o755, ANN, None),
        (0, 0o1777, 0, None),
        (EVE, 0o755, EVE, "belongs to eve"),
        (0, 0o777, 0, "can be written by everybody"),
        (0, 0o1777, EVE, "control belongs to eve"),
        (0, 0o1777, None, "there is no control"),
    ],
)
def test_a_lease_leads_to_roots_place_or_ones_own(
    there: Path, owner: int, mode: int, control: int | None, says: str | None
) -> None:
    place = owned(there / "mps", owner, mode)
    if control is not None:
        owned(place / "control", control, 0o666, "")
    settings, remark = as_account(
        ANN, lambda: without_strangers((OTHER, (PIPE_DIRECTORY, str(place))), {}), there
    )
    kept = str(place) if says is None else NO_DAEMON_DIRECTORY
    assert settings == (OTHER, (PIPE_DIRECTORY, kept))
    assert (remark is None) if says is None else (says in str(remark) and "runs without MPS" in str(remark))


def test_the_default_place_is_left_to_cuda_only_where_nobody_else_has_made_it(there: Path) -> None:
    place = there / "mps"

    def made(user: dict[str, str]) -> tuple[object, str | None]:
        return as_account(ANN, lambda: without_strangers((OTHER,), user, str(place)), there)

    assert made({}) == ((OTHER,), None)
    owned(place, EVE)
    assert made({}) == ((OTHER, (PIPE_DIRECTORY, NO_DAEMON_DIRECTORY)), None)
    assert made({PIPE_DIRECTORY: str(place)}) == ((OTHER,), None), "a user's own word"
    os.chown(place, 0, 0)
    assert made({}) == ((OTHER,), None)


def test_a_place_that_has_gone_since_it_was_leased_is_nobodys(there: Path) -> None:
    named = ((PIPE_DIRECTORY, str(there / "gone")),)
    settings, remark = as_account(ANN, lambda: without_strangers(named, {}), there)
    assert settings == ((PIPE_DIRECTORY, NO_DAEMON_DIRECTORY),)
    assert remark == f"the job runs without MPS: there is no {there}/gone any more"
