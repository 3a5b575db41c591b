"""Where a launcher keeps things, as the user who runs it: logs of detached jobs, and sockets of running ones.

    $XDG_STATE_HOME/fallow/jobs/JOB/log, job.json  (~/.local/state without that variable)
    PLACE/fallow-XXXX/control, saved, job-N        (gone when the launcher is)

PLACE outlives a logout, as a job may: never $XDG_RUNTIME_DIR, which goes with its user's last session. A
detached job's is $XDG_STATE_HOME/fallow, another's $TMPDIR; where no socket can be made there (its path must
be short, 107 bytes, unix(7)), it is the next of /tmp and /var/tmp.
"""

import errno
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.jobs.model import Launcher
from collector.model import JobId
from service.data_folder import Nowhere, user_state
from service.errors import FallowError
from service.trust.believed import way_fault

ABOUT = "job.json"
# Tried at once with the longest name that a socket of the job can get: Unix limits a path to 107 bytes.
LAST_WORKER = 9999
_SAFE = re.compile(r"[A-Za-z0-9_.-]")


class NoFolder(FallowError):
    """A folder can't be made or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Whose log it is: the submission's nonce and its launcher's process; ``None`` where it doesn't say."""

    nonce: str | None
    launcher: Launcher | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDir:
    """The short-lived folder of one launcher (mode 0700): where it and its job meet."""

    path: Path

    @property
    def control(self) -> Path:
        """An elastic training's controller listens here."""
        return self.path / "control"

    @property
    def saved(self) -> Path:
        """The job touches this file when what it was asked to save is saved."""
        return self.path / "saved"

    def job(self, worker: int) -> Path:
        """The library in a worker listens here."""
        return self.path / f"job-{worker}"

    def clear(self) -> None:
        """Remove what an earlier launch left. Raises ``OSError``."""
        self.mend()
        for each in self.path.iterdir():
            _remove(each)

    def await_saved(self) -> None:
        """Have the job say anew that it has saved itself. Raises ``OSError``."""
        self.mend()
        _remove(self.saved)
        if self.saved.exists():
            raise FileExistsError(errno.EEXIST, "it cannot be removed", str(self.saved))

    def mend(self) -> None:
        """Make it again where it was cleaned away. Raises ``OSError``, so where it is another user's now."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's now", str(self.path))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def meeting(*, detached: bool) -> StateDir:
    """A new one, in the first place where a socket can be made. Raises ``NoFolder``."""
    whys = []
    for place in _places(detached):
        try:
            return _meeting_in(place)
        except OSError as error:
            whys.append(f"{place}: {error.strerror or error}")
    raise NoFolder(
        f"cannot make a folder for the job's sockets ({'; '.join(whys)}); set TMPDIR to one with room"
    )


def log_file(job: JobId) -> Path:
    """Where a detached job's output goes."""
    return _jobs() / folder_name(job) / "log"


def make_log(job: JobId, nonce: str) -> Path:
    """The log of a new detached job, empty; one of another service's job of that name is put aside.

    Raises ``NoFolder``.
    """
    log = log_file(job)
    folder, about = log.parent, log.parent / ABOUT
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _must_be_ours(folder)
        if folder.is_dir() and _nonce(about) != nonce:
            folder.rename(_aside(folder))
        folder.mkdir(exist_ok=True, mode=0o700)
        _write(about, {"job": job, "nonce": nonce})
        log.touch(mode=0o600)
    except OSError as error:
        raise NoFolder(f"cannot keep the job's log in {folder}: {error}; set XDG_STATE_HOME") from error
    return log


def check_logs() -> None:
    """Raises ``NoFolder`` where no log can be kept now: before a job is submitted that is to have one."""
    jobs = _jobs()
    try:
        jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
        _must_be_ours(jobs / "any")
        with tempfile.TemporaryFile(dir=jobs) as file:
            file.write(b"room")
    except OSError as error:
        raise NoFolder(f"cannot keep the job's log in {jobs}: {error}; set XDG_STATE_HOME") from error


def _must_be_ours(folder: Path) -> None:
    """Raises ``NoFolder`` where somebody else could lay a link in a job's folder, which would be written
    through: root's in the state of whoever typed ``sudo -E``, for one. OSError where it isn't there."""
    if (fault := way_fault(folder)) is not None:
        raise NoFolder(f"no job's log is kept in {folder.parent}: {fault}; or set XDG_STATE_HOME")


def sign_log(log: Path, launcher: Launcher) -> None:
    """Say beside a detached job's log which process runs it. Raises ``NoFolder``."""
    about = log.parent / ABOUT
    try:
        _write(about, _read(about) | {"launcher": asdict(launcher)})
    except OSError as error:
        raise NoFolder(f"cannot say beside {log} who writes it: {error}") from error


def about_log(log: Path) -> About:
    """What is said beside a log."""
    record = _read(log.parent / ABOUT)
    try:
        launcher = Launcher(**record["launcher"])
    except (KeyError, TypeError):
        launcher = None
    return About(nonce=record.get("nonce") or None, launcher=launcher)


def take_along(old: JobId, new: JobId, nonce: str) -> None:
    """Have what a detached job printed lie under its new id; nothing for one with a terminal.

    Raises ``NoFolder``.
    """
    to = log_file(new).parent
    try:
        folders = [each for each in _jobs().glob(f"{folder_name(old)}*") if _nonce(each / ABOUT) == nonce]
        if not folders or folders[0] == to:
            return
        if to.is_dir():
            to.rename(_aside(to))
        folders[0].rename(to)
        _write(to / ABOUT, _read(to / ABOUT) | {"job": new})
    except OSError as error:
        raise NoFolder(f"cannot move the job's log to {to}: {error}") from error


def folder_name(job: JobId) -> str:
    """A job's id as the name of a folder: nothing in it can lead anywhere else."""
    return "".join(each if _SAFE.fullmatch(each) else "-" for each in job).lstrip(".") or "-"


def _jobs() -> Path:
    return _state() / "jobs"


def _state() -> Path:
    try:
        return user_state()
    except Nowhere as error:
        raise NoFolder(f"there is no place to keep a job's log: {error}") from error


def _places(detached: bool) -> tuple[Path, ...]:
    """Where a meeting can be, the best first."""
    if detached:
        return _state(), Path("/var/tmp"), Path("/tmp")
    return Path(os.environ.get("TMPDIR") or "/tmp"), Path("/tmp"), Path("/var/tmp")


def _meeting_in(place: Path) -> StateDir:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (
        fault := way_fault(place / "any")
    ) is not None:  # else somebody could put a job of theirs in its place
        raise PermissionError(errno.EPERM, fault)
    state_dir = StateDir(path=Path(tempfile.mkdtemp(prefix="fallow-", dir=place)))
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.bind(str(state_dir.job(LAST_WORKER)))
        state_dir.clear()
    except OSError:
        state_dir.remove()
        raise
    return state_dir


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _nonce(about: Path) -> str | None:
    return _read(about).get("nonce") or None


def _read(about: Path) -> dict[str, Any]:
    """What it says; nothing where it cannot be read."""
    try:
        record = json.loads(about.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write(about: Path, record: Mapping[str, object]) -> None:
    draft = about.with_name(f".{about.name}.writing")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(about)


def _aside(folder: Path) -> Path:
    number = 1
    while (other := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    return other
