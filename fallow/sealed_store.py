"""A store that anybody on the machine can write to, read and written so that only this job's words count.

torch's ``TCPStore`` has no login: who can connect can set, replace and delete any key. So every value is
sealed with the job's secret (``secret``) under its key, with a sequence number that only grows. A value that
isn't sealed with it, or is older than one that was read here before, counts as not there, and is told by name
once. What a stranger can still do is keep words from arriving: delete keys, hold the store up, stop it.

Reading never blocks. ``TCPStore.get`` waits for a key that is missing, and ``check`` before it is no help
where a stranger may delete the key in between; ``compare_set`` against a value that nobody sets answers at
once, in one round trip, with what is there (torch 2.13).
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from fallow.secret import Secret

LOG = logging.getLogger("fallow")
ABSENT = "\x00absent"
"""No sealed value begins with this, so it is never what is compared with, and never left in the store."""
PAUSE_S = 0.25
"""A forged value makes a wait return at once: so long it is left alone before anybody looks again."""
CLAIMS = 100
"""Races for one key that are lost before it is given up: only a stranger loses them for us on purpose."""


class Door(Protocol):
    """The part of ``TCPStore`` that is used. All raise RuntimeError when the connection is lost."""

    def set(self, key: str, value: bytes, /) -> None:
        """Leave a value; doesn't wait for an answer."""
        ...

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes, /) -> bytes:
        """What is there, after ``desired`` has taken the place of ``expected``; "" stands for nothing there.

        ``expected``, when nothing is there.
        """
        ...

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Block until all are there. Raises dist.DistStoreError when they are not in time."""
        ...


class SealedStore:
    """``door``, for values of one job. ``tell`` gets a sentence for each key under which a false one lay.

    Each key is written by one process. Raises RuntimeError when the connection is lost.
    """

    def __init__(self, door: Door, secret: Secret, tell: Callable[[str], None] = LOG.warning):
        self._door, self._secret, self._tell = door, secret, tell
        self._newest: dict[str, int] = {}
        self._told: set[str] = set()

    def set(self, key: str, value: str | bytes) -> None:
        """Leave a value; doesn't wait for an answer."""
        self._door.set(key, self._sealed(key, value))

    def get(self, key: str) -> bytes | None:
        """The value at ``key``; ``None`` when there is none of this job's. Never waits for one."""
        value = self._door.compare_set(key, ABSENT, ABSENT)
        return None if value == ABSENT.encode() else self._opened(key, value)

    def has(self, key: str) -> bool:
        """Whether there is a value of this job's at ``key``."""
        return self.get(key) is not None

    def wait(self, key: str, timeout: timedelta) -> bytes | None:
        """The value at ``key`` as soon as there is one; ``None`` when there is none of this job's in time."""
        import torch.distributed as dist  # takes a second where nobody has imported it yet

        try:
            self._door.wait([key], timeout)
        except dist.DistStoreError:
            return None
        value = self.get(key)
        if value is None:
            time.sleep(min(PAUSE_S, timeout.total_seconds()))
        return value

    def claim(self, key: str, value: str) -> bool:
        """Leave ``value`` unless this job has one there already; whether it is there now.

        Of several who claim a key one succeeds.
        """
        for _ in range(CLAIMS):
            current = self._door.compare_set(key, ABSENT, ABSENT)
            absent = current == ABSENT.encode()
            if not absent and self._opened(key, current) is not None:
                return False
            sealed = self._sealed(key, value)
            if self._door.compare_set(key, b"" if absent else current, sealed) == sealed:
                return True
        raise RuntimeError(f"the key {key!r} of the store cannot be had: something else writes to it")

    def _sealed(self, key: str, value: str | bytes) -> bytes:
        """With the time since boot as sequence number: it grows from value to value of one process."""
        return self._secret.seal(
            key, time.monotonic_ns(), value.encode() if isinstance(value, str) else value
        )

    def _opened(self, key: str, value: bytes) -> bytes | None:
        opened = self._secret.open(key, bytes(value))
        if opened is None:
            self._doubt(key, "doesn't come from this job")
            return None
        if opened.sequence < self._newest.get(key, 0):
            self._doubt(key, "is an old one of this job's, put back")
            return None
        self._newest[key] = opened.sequence
        return opened.value

    def _doubt(self, key: str, what: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._tell(
                f"a value of key {key!r} in the store {what}; another account on this machine may be writing "
                "to it. It is not acted upon"
            )
