"""The folder where a launcher and its job meet: it outlives a logout, and what cleans up after people."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.launcher.folder import NoFolder, StateDir, check_logs, meeting

pytestmark = pytest.mark.quick


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
