"""The folder where a launcher and its job meet: it outlives a logout, and what cleans up after people."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.model import JobId
from service.launcher.folder import NoFolder, StateDir, check_logs, make_log, meeting

pytestmark = pytest.mark.quick
STRANGER = 4001


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder whose name is short enough for a socket in it, wherever pytest keeps its own."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What logind makes at a login and removes at the last logout."""
    found = tmp_path / "run"
    found.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(found))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return found


@pytest.mark.parametrize(("detached", "place"), [(True, "state/fallow"), (False, "tmp")])
def test_a_meeting_is_where_no_logout_reaches_it(
    session: Path, tmp_path: Path, detached: bool, place: str
) -> None:
    met = meeting(detached=detached)
    assert met.path.parent == tmp_path / place
    assert stat.S_IMODE(met.path.stat().st_mode) == 0o700
    assert list(met.path.iterdir()) == list(session.iterdir()) == []
    met.remove()
    assert not met.path.exists()


@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize("place", ["x" * 100, "a-file"])
def test_a_meeting_is_elsewhere_where_no_socket_can_be(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detached: bool, place: str
) -> None:
    (tmp_path / "a-file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / place))
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    met = meeting(detached=detached)
    assert met.path.parent in (Path("/tmp"), Path("/var/tmp"))
    met.remove()


@pytest.fixture
def met(session: Path) -> StateDir:
    return meeting(detached=True)


def test_a_meeting_that_was_cleaned_away_is_made_again(met: StateDir) -> None:
    for again in (met.clear, met.await_saved):
        shutil.rmtree(met.path.parent)
        again()
        assert stat.S_IMODE(met.path.stat().st_mode) == 0o700


def test_a_meeting_is_cleared_of_whatever_a_job_left_there(met: StateDir) -> None:
    (met.path / "folder" / "below").mkdir(parents=True)
    (met.path / "folder" / "below" / "file").touch()
    (met.path / "link").symlink_to(met.path.parent)
    met.saved.mkdir()
    met.await_saved()
    assert not met.saved.exists()
    met.clear()
    assert list(met.path.iterdir()) == []
    assert met.path.parent.exists()


def test_a_meeting_that_somebody_else_put_in_its_place_is_not_used(met: StateDir, tmp_path: Path) -> None:
    met.path.rmdir()
    met.path.symlink_to(tmp_path)
    with pytest.raises(OSError, match="another user"):
        met.clear()
    if os.geteuid() == 0:
        met.path.unlink()
        met.path.mkdir()
        os.chown(met.path, 4_123_456, 4_123_456)
        with pytest.raises(OSError, match="another user"):
            met.await_saved()


def test_logs_that_cannot_be_kept_are_noticed_beforehand(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_logs()
    assert list((tmp_path / "state" / "fallow" / "jobs").iterdir()) == []
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    with pytest.raises(NoFolder, match="set XDG_STATE_HOME"):
        check_logs()


def test_a_person_without_a_home_is_told_what_to_set(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", "~nobody-has-this-name/state")
    with pytest.raises(NoFolder, match="set XDG_STATE_HOME"):
        check_logs()


def test_no_log_is_kept_where_somebody_else_could_have_laid_a_link(session: Path, tmp_path: Path) -> None:
    """Root's ``sudo -E fallow run --detach`` has the state folder of whoever typed it."""
    if os.geteuid() != 0:
        pytest.skip("another account's folder needs root")
    job, precious = tmp_path / "state" / "fallow" / "jobs" / "fallow-1", tmp_path / "precious"
    job.mkdir(parents=True)
    precious.write_text("root's")
    (job / "job.json").write_text('{"nonce": "n"}')
    for name in (".job.json.writing", "log"):
        (job / name).symlink_to(precious)
    for each in (tmp_path / "state", *(tmp_path / "state").rglob("*")):
        os.chown(each, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(NoFolder, match="set XDG_STATE_HOME"):
        check_logs()
    with pytest.raises(NoFolder, match="only what belongs to root"):
        make_log(JobId("fallow:1"), "n")
    assert precious.read_text() == "root's"


def test_links_in_one_s_own_job_folder_are_one_s_own(session: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "state").symlink_to(moved)
    check_logs()
    assert make_log(JobId("fallow:1"), "n") == tmp_path / "state" / "fallow" / "jobs" / "fallow-1" / "log"
