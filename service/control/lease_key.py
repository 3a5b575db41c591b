"""The key of the MACs on commands and leases: DATA/lease.key, made at the first start, kept for good.

It goes into a backup with the rest of DATA, and so leases that are younger than the backup are recognised
when that is put back. Where it is lost a new one is made: running jobs keep what the store says that they
hold, and what their launchers show of later commands proves nothing any more.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from advisor.jobs.signing import KEY_BYTES
from service.errors import FallowError

NAME = "lease.key"


class KeyRefused(FallowError):
    """The key cannot be used; the message says what was found and what to do."""


def lease_key(data: Path) -> bytes:
    """The key of this DATA; made with mode 0600 where there is none. Raises ``KeyRefused``."""
    path = data / NAME
    try:
        _make(path)
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about, text = os.fstat(file.fileno()), file.read(4 * KEY_BYTES)
            # A key that somebody else gave, they may know.
            if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()):
                raise KeyRefused(f"{path} is not this service's own file (uid {about.st_uid}); {_ANEW}")
            if about.st_mode & 0o077:
                os.fchmod(file.fileno(), 0o600)
        key = bytes.fromhex(text.decode("ascii").strip())
    except OSError as error:
        raise KeyRefused(f"cannot read or make {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise KeyRefused(f"{path} holds no key; {_ANEW}") from error
    if len(key) < KEY_BYTES:
        raise KeyRefused(f"{path} holds no whole key; {_ANEW}")
    return key


_ANEW = "put it back from a backup, or remove it, and the next start makes a new one"


def _make(path: Path) -> None:
    """Write a new key where no file is: whole, or not at all."""
    if path.exists() or path.is_symlink():
        return
    # Linked into place once it is on disk: nobody ever reads a part of a key.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as out:
        out.write(secrets.token_hex(KEY_BYTES) + "\n")
        out.flush()
        os.fsync(out.fileno())
    try:
        os.link(draft, path)  # never over one that another service has just made
    except FileExistsError:
        pass
    finally:
        draft.unlink()
