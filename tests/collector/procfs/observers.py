"""Looks at real processes as another user, through a hidepid mount, from another pid namespace."""

import ctypes
import errno
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

NOBODY = 65534
CLONE_NEWNS, CLONE_NEWPID = 0x0002_0000, 0x2000_0000
MS_REC_PRIVATE = 0x4000 | 0x4_0000
MNT_DETACH = 2

T = TypeVar("T")


class NotAllowed(PermissionError):
    """This machine lets not even root make namespaces or mounts, as in most containers."""


def in_fork(work: Callable[[], T]) -> T:
    """What ``work`` returns in a child process of its own; its exception is raised here."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer: object = work()
        except BaseException as error:
            answer = error
        with os.fdopen(writer, "wb") as out:
            pickle.dump(answer, out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        answer = pickle.loads(source.read())
    os.waitpid(child, 0)
    if isinstance(answer, NotAllowed):
        pytest.skip(f"needs CAP_SYS_ADMIN: {answer}")
    if isinstance(answer, BaseException):
        raise answer
    return answer  # type: ignore[return-value]


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def unshare(flags: int) -> None:
    _checked(ctypes.CDLL(None, use_errno=True).unshare(flags), "unshare")


@contextmanager
def mounted_proc(where: Path, options: str) -> Iterator[None]:
    """A proc file system of the caller's pid namespace at ``where``, in the caller's mount namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.mount(None, b"/", None, MS_REC_PRIVATE, None), "mount --make-rprivate")
    _checked(libc.mount(b"proc", str(where).encode(), b"proc", 0, options.encode() or None), "mount -t proc")
    try:
        yield
    finally:
        libc.umount2(str(where).encode(), MNT_DETACH)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are the tester's alone."""
    folder = Path(tempfile.mkdtemp(prefix="fallow-proc-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to look through another user's eyes")


def _checked(code: int, call: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        kind = NotAllowed if number in (errno.EPERM, errno.EACCES) else OSError
        raise kind(number, f"{call}: {os.strerror(number)}")
