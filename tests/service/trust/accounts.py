"""Several accounts on one machine, played by processes that become them; and an /etc of the test's own.

Needs root. None of the accounts is in the machine's own files.
"""

import ctypes
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pytest

import service.cli.config  # what children would import one by one
import service.cli.run
import service.config.file
import service.config.reference
import service.reports.sandbox  # noqa: F401
from service.cli import main

ANN, EVE, SERVICE = 54_321, 54_322, 54_323
NAMES = {0: "root", ANN: "ann", EVE: "eve", SERVICE: "fallow"}
CLONE_NEWNS, MS_BIND, MS_REC_PRIVATE = 0x0002_0000, 0x1000, 0x4_4000
T = TypeVar("T")
ROOT = Path(__file__).parents[3]
_LIBC = ctypes.CDLL(None, use_errno=True)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")


@contextmanager
def machine() -> Iterator[Path]:
    """A folder that every account may enter, with a home of each; pytest's own are the tester's alone."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-trust-"))
    folder.chmod(0o755)
    try:
        for uid, name in NAMES.items():
            given(folder / "home" / name, uid).mkdir(mode=0o700)
            os.chown(folder / "home" / name, uid, uid)
        etc = folder / "etc"
        etc.mkdir()
        (etc / "passwd").write_text("".join(f"{n}:x:{u}:{u}::/nowhere:/bin/sh\n" for u, n in NAMES.items()))
        (etc / "group").write_text("".join(f"{n}:x:{u}:\n" for u, n in NAMES.items()) + "staff:x:60000:eve\n")
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\n")
        yield folder
    finally:
        shutil.rmtree(folder)


def given(path: Path, uid: int) -> Path:
    """The path, whose folder is there and everybody's to enter."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    return path


def owned(path: Path, uid: int, mode: int = 0o755, text: str | None = None) -> Path:
    """A folder, or a file with a text, of an account; folders on the way to it are root's."""
    given(path, uid)
    if text is None:
        path.mkdir(exist_ok=True)
    else:
        path.write_text(text)
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


def as_account(uid: int, call: Callable[[], T], there: Path) -> T:
    """What ``call`` returns in a child that is this account, on a machine with ``there / "etc"`` for /etc."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _be(uid, there)
            answer: object = call()
        except BaseException as error:
            answer = error
        with os.fdopen(writer, "wb") as out:
            pickle.dump(answer, out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        told = source.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0 and told, f"the child that became {uid} ended with {status} and told {len(told)} bytes"
    answer = pickle.loads(told)
    if isinstance(answer, BaseException):
        raise answer
    return answer  # type: ignore[return-value]


def typed(*words: str, here: Path, there: Path, uid: int, **variables: str) -> tuple[int, str]:
    """The status of ``fallow WORDS``, typed by an account standing in a folder, and all that it printed."""

    def call() -> tuple[int, str]:
        os.chdir(here)
        said = StringIO()
        with patch.dict(os.environ, clear=True), redirect_stdout(said), redirect_stderr(said):
            os.environ |= {"HOME": str(there / "home" / NAMES[uid]), "PATH": os.defpath, "COLUMNS": "300"}
            os.environ |= variables
            try:
                status = main(words)
            except SystemExit as ended:
                status = int(ended.code or 0)
        return status, said.getvalue()

    return as_account(uid, call, there)


def _be(uid: int, there: Path) -> None:
    if _LIBC.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mount namespace of its own")
    _mount("", Path("/"), flags=MS_REC_PRIVATE)
    _open_up(Path(sys.base_prefix), Path(sys.prefix), ROOT)
    _mount(str(there / "etc"), Path("/etc"), flags=MS_BIND)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _open_up(*paths: Path) -> None:
    """Let every account read the interpreter and what is tested, though they lie in somebody's home."""
    held = {path: os.open(path, os.O_PATH) for path in paths}
    closed = {path: next(filter(_is_closed, reversed(path.parents)), None) for path in paths}
    for top in {each for each in closed.values() if each is not None}:
        _mount("tmpfs", top, kind="tmpfs", options="mode=755")
    for path, top in closed.items():
        if top is not None:
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{held[path]}", path, flags=MS_BIND)


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o001


def _mount(what: str, where: Path, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = [text.encode() or None for text in (what, str(where), kind)]
    if _LIBC.mount(*words, flags, options.encode() or None):
        raise OSError(ctypes.get_errno(), f"cannot mount at {where}")
