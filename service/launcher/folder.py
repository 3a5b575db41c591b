"""Where a launcher keeps things, as the user who runs it: logs of detached jobs, and sockets of running ones.

    $XDG_STATE_HOME/fallow/jobs/JOB/log, job.json       (~/.local/state without that variable)
    $XDG_RUNTIME_DIR/fallow-XXXX/control, saved, job-N  (/tmp without it; gone when the launcher is)

Sockets have a folder of their own because their paths must be short (107 bytes, unix(7)).
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from advisor.register.model import Launcher
from collector.model import JobId
from service.trouble import Trouble

ABOUT = "job.json"
LONGEST_SOCKET = 107
_SAFE = re.compile(r"[A-Za-z0-9_.-]")


class NoFolder(Trouble):
    """A folder can't be made or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Whose log it is: the submission's nonce and its launcher's process; ``None`` where it doesn't say."""

    nonce: str | None
    launcher: Launcher | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
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
        """Remove what an earlier launch left."""
        for each in self.path.iterdir():
            each.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def meeting() -> Meeting:
    """A new one. Raises ``NoFolder``."""
    root = os.environ.get("XDG_RUNTIME_DIR") or None
    if root is not None and (len(root) > LONGEST_SOCKET // 2 or not os.access(root, os.W_OK)):
        root = None
    try:
        made = Path(tempfile.mkdtemp(prefix="fallow-", dir=root))
    except OSError as error:
        raise NoFolder(f"cannot make a folder for the job's sockets: {error}; set XDG_RUNTIME_DIR") from error
    if len(str(made)) + len("/control") > LONGEST_SOCKET:
        made.rmdir()
        made = Path(tempfile.mkdtemp(prefix="fallow-", dir="/tmp"))
    return Meeting(path=made)


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
        if folder.is_dir() and _nonce(about) != nonce:
            folder.rename(_aside(folder))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(about, {"job": job, "nonce": nonce})
        log.touch(mode=0o600)
    except OSError as error:
        raise NoFolder(f"cannot keep the job's log in {folder}: {error}; set XDG_STATE_HOME") from error
    return log


def sign_log(log: Path, launcher: Launcher) -> None:
    """Say beside a detached job's log which process runs it. Raises ``NoFolder``."""
    about = log.parent / ABOUT
    try:
        _write(about, _read(about) | {"launcher": asdict(launcher)})
    except OSError as error:
        raise NoFolder(f"cannot say beside {log} who writes it: {error}") from error


def about_log(log: Path) -> About:
    """What is said beside a log."""
    said = _read(log.parent / ABOUT)
    try:
        launcher = Launcher(**said["launcher"])
    except (KeyError, TypeError):
        launcher = None
    return About(nonce=said.get("nonce") or None, launcher=launcher)


def take_along(old: JobId, new: JobId, nonce: str) -> None:
    """Have what a detached job printed lie under its new id; nothing for one with a terminal.

    Raises ``NoFolder``.
    """
    to = log_file(new).parent
    try:
        held = [each for each in _jobs().glob(f"{folder_name(old)}*") if _nonce(each / ABOUT) == nonce]
        if not held or held[0] == to:
            return
        if to.is_dir():
            to.rename(_aside(to))
        held[0].rename(to)
        _write(to / ABOUT, _read(to / ABOUT) | {"job": new})
    except OSError as error:
        raise NoFolder(f"cannot move the job's log to {to}: {error}") from error


def folder_name(job: JobId) -> str:
    """A job's id as the name of a folder: nothing in it can lead anywhere else."""
    return "".join(each if _SAFE.fullmatch(each) else "-" for each in job).lstrip(".") or "-"


def _jobs() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(root).expanduser() / "fallow" / "jobs"


def _nonce(about: Path) -> str | None:
    return _read(about).get("nonce") or None


def _read(about: Path) -> dict[str, Any]:
    """What it says; nothing where it cannot be read."""
    try:
        said = json.loads(about.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _write(about: Path, said: Mapping[str, object]) -> None:
    draft = about.with_name(f".{about.name}.writing")
    draft.write_text(json.dumps(said), encoding="utf-8")
    draft.replace(about)


def _aside(folder: Path) -> Path:
    number = 1
    while (other := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    return other
