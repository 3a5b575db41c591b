"""The token that lets machines join one training: read where only its owner can, made where nobody gave one.

Never an argument: those of every process can be read by everybody (``/proc/PID/cmdline``).
"""

import os
import secrets
import stat
import sys
from collections.abc import MutableMapping
from pathlib import Path

from fallow import accounts, protocol

STDIN = "-"
LONGEST_BYTES = 4096
"""A token is a line."""


class TokenMissing(Exception):
    """There is no token, or it lies where others could have read or written it."""


def token_of(file: str | None, environment: MutableMapping[str, str]) -> str:
    """The token in ``file``, from the standard input where it is STDIN; else the environment's.

    It is in the environment no more afterwards: workers need not know it. Raises TokenMissing.
    """
    token = environment.pop(protocol.ENV_TOKEN, "")
    if file == STDIN:
        token = sys.stdin.readline(LONGEST_BYTES)
    elif file is not None:
        token = _read(Path(file))
    if not token.strip():
        raise TokenMissing(
            f"no token: give --token-file FILE (or - for the standard input), or set {protocol.ENV_TOKEN}"
        )
    return token.strip()


def make_token(path: Path) -> str:
    """A new one, left in a new file at ``path`` that only we can read. Raises OSError if there is a file."""
    token = secrets.token_hex(16)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(token)
    return token


def _read(path: Path) -> str:
    try:
        with path.open() as file:
            status = os.fstat(file.fileno())
            if not accounts.is_ours(status.st_uid):
                raise TokenMissing(
                    f"{path} belongs to account {status.st_uid}: a token is read from a file of ours"
                )
            if stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
                raise TokenMissing(f"others may read or write {path}: chmod 600 {path}, and change the token")
            return file.readline(LONGEST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise TokenMissing(f"the token in {path} cannot be read: {error}") from None
