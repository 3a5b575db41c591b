"""Tokens for TCP beside DATA/token: who each stands for, as what, and until when. Only hashes are kept.

A token is 256 random bits, so a plain SHA-256 of it cannot be turned back; it is shown once, when it is made.
DATA/tokens.json is written whole or not at all, mode 0600, and the service looks at it again whenever it
changed: a revoked token ends with the next request.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from service.control.interface import Role
from service.data_folder import tokens_file
from service.errors import FallowError

PREFIX = "fallow-"
USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,63}\$?")
DAY_MS = 86_400_000
LONGEST_DAYS = 3650


class TokenTrouble(FallowError):
    """A token cannot be made, kept or found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token. ``id`` is for people; ``digest`` the SHA-256 of the secret, in hexadecimal."""

    id: str
    user: str
    role: Role
    made_ms: int
    expires_ms: int
    digest: str

    def has_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return now_ms >= self.expires_ms


class Tokens:
    """The tokens of a DATA directory as they are now. Not for many threads at once."""

    def __init__(self, data: Path) -> None:
        self._path = tokens_file(data)
        self._seen: tuple[int, int, int] | None = None
        self._by_digest: Mapping[str, Token] = {}

    def named(self, secret: str) -> Token | None:
        """The token with this secret, expired or not; ``None`` when there is none, or it was revoked."""
        self._look()
        return self._by_digest.get(digest(secret))

    def _look(self) -> None:
        try:
            status = self._path.stat()
        except OSError:
            self._seen, self._by_digest = None, {}
            return
        mark = (status.st_ino, status.st_mtime_ns, status.st_size)
        if mark != self._seen:
            self._by_digest = {token.digest: token for token in read(self._path)}
            self._seen = mark


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def add(data: Path, *, user: str, role: Role, span_ms: int, now_ms: int) -> tuple[Token, str]:
    """A new token, kept, and its secret, which is kept nowhere. Raises ``TokenTrouble``."""
    if not USER_NAME.fullmatch(user):
        raise TokenTrouble(f"{user!r} is no name of a user: letters, digits, and . _ - @ +, 64 at most")
    if not 0 < span_ms <= LONGEST_DAYS * DAY_MS:
        raise TokenTrouble(f"a token lasts from a moment to {LONGEST_DAYS} days; give --expires 30d")
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(
        id=secrets.token_hex(4),
        user=user,
        role=role,
        made_ms=now_ms,
        expires_ms=now_ms + span_ms,
        digest=digest(secret),
    )
    with _changing(data) as change:
        change(lambda tokens: (*tokens, token))
    return token, secret


def revoke(data: Path, name: str) -> tuple[Token, ...]:
    """Remove the token of this id, or all of a user; those removed. Raises ``TokenTrouble`` for none."""
    revoked = tuple(token for token in kept(data) if name in (token.id, token.user))
    if not revoked:
        raise TokenTrouble(f"no token {name!r} in {tokens_file(data)}; `fallow token list` shows them")
    ids = {token.id for token in revoked}
    with _changing(data) as change:
        change(lambda tokens: tuple(token for token in tokens if token.id not in ids))
    return revoked


def kept(data: Path) -> tuple[Token, ...]:
    """The tokens of a DATA directory. Raises ``TokenTrouble`` when they cannot be read."""
    path = tokens_file(data)
    try:
        return read(path) if path.exists() else ()
    except OSError as error:
        raise TokenTrouble(f"cannot read {path}: {error.strerror}; its owner can") from error


def read(path: Path) -> tuple[Token, ...]:
    """The tokens of a file. Raises OSError, and ``TokenTrouble`` when it is damaged."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            Token(
                id=str(row["id"]),
                user=str(row["user"]),
                role=Role(row["role"]),
                made_ms=int(row["made_ms"]),
                expires_ms=int(row["expires_ms"]),
                digest=str(row["digest"]),
            )
            for row in rows
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TokenTrouble(f"{path} is damaged ({error}); remove it and issue the tokens anew") from error


Turn = Callable[[tuple[Token, ...]], tuple[Token, ...]]


@contextmanager
def _changing(data: Path) -> Iterator[Callable[[Turn], None]]:
    """Change the file alone: two at once would lose one's change. Raises ``TokenTrouble``."""
    path = tokens_file(data)
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TokenTrouble(f"cannot write {path}: {error.strerror}; its owner can") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lambda turn: _write(path, turn(kept(data)))
    except OSError as error:
        raise TokenTrouble(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        os.close(lock)


def _write(path: Path, tokens: tuple[Token, ...]) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump([asdict(token) for token in tokens], out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
