"""A job's secret: what its own processes know and no other account of the machine does.

32 random bytes that the controller makes. They reach a worker in a descriptor that it inherits, never in its
arguments, its environment or a file with a name: the environment says only the descriptor's number. Behind
it lies memory (``memfd_create(2)``; elsewhere an unlinked file of mode 0600), and nobody but the same user
and root can open another process's descriptors (``/proc/PID/fd``, ptrace(2)).

    sealed value = version, sequence, nonce, MAC, hidden bytes

The MAC (HMAC-SHA256) is over the value's key, its sequence number and the hidden bytes, so that a value
cannot be moved to another key. The bytes are hidden as well (a keystream of SHAKE-256 over a key of its own
and a fresh nonce; encrypted first, then signed): NCCL lets in whoever knows the id that its workers exchange.
"""

import hashlib
import hmac
import os
import secrets
import struct
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fallow import protocol
from fallow.errors import Mistake

KEY_BYTES = 32
"""As long as HMAC-SHA256's result: a longer key protects no better (RFC 2104, section 3)."""
NONCE_BYTES = 16
"""Random, so that no two values of a job share a keystream; two would after some 2^64 values."""
MAC_BYTES = hashlib.sha256().digest_size
VERSION = b"\x01"
_HEAD = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Opened:
    """A value that somebody sealed who knows the secret, and its place among that writer's values."""

    sequence: int
    value: bytes


class Secret:
    """One job's secret. Its text form doesn't show it."""

    def __init__(self, key: bytes):
        if len(key) != KEY_BYTES:
            raise ValueError(f"a job's secret has {KEY_BYTES} bytes, not {len(key)}")
        self.key = key
        self._signing, self._hiding = self.derive("sign"), self.derive("hide")
        self._descriptor: int | None = None

    @classmethod
    def new(cls) -> Self:
        """A fresh one."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def read(cls, descriptor: int) -> Self:
        """The one behind ``descriptor``, which stays open. Raises OSError or ValueError for none."""
        return cls(os.pread(descriptor, KEY_BYTES + 1, 0))

    @property
    def descriptor(self) -> int:
        """Where it can be read by whoever inherits this; closed when this object goes."""
        if self._descriptor is None:
            self._descriptor = left_open(self.key)
            weakref.finalize(self, os.close, self._descriptor)
        return self._descriptor

    def derive(self, purpose: str) -> bytes:
        """A key for one purpose alone, from which the secret cannot be told."""
        return hmac.digest(self.key, f"fallow {purpose}".encode(), "sha256")

    def seal(self, name: str, sequence: int, value: bytes) -> bytes:
        """``value`` as only this job's processes can write and read it, under the key ``name``."""
        head = _HEAD.pack(sequence) + os.urandom(NONCE_BYTES)
        hidden = self._mixed(head, value)
        return VERSION + head + self._mac(name, head, hidden) + hidden

    def open(self, name: str, sealed: bytes) -> Opened | None:
        """What was sealed under ``name``; ``None`` when this job's secret was not used for it."""
        start = len(VERSION) + _HEAD.size + NONCE_BYTES
        head, mac = sealed[len(VERSION) : start], sealed[start : start + MAC_BYTES]
        hidden = sealed[start + MAC_BYTES :]
        if not sealed.startswith(VERSION) or not hmac.compare_digest(mac, self._mac(name, head, hidden)):
            return None
        return Opened(_HEAD.unpack_from(head)[0], self._mixed(head, hidden))

    def _mac(self, name: str, head: bytes, hidden: bytes) -> bytes:
        named = name.encode()
        return hmac.digest(self._signing, VERSION + _HEAD.pack(len(named)) + named + head + hidden, "sha256")

    def _mixed(self, head: bytes, value: bytes) -> bytes:
        """``value`` with the keystream of ``head`` added or taken away."""
        stream = hashlib.shake_256(self._hiding + head).digest(len(value))
        return (int.from_bytes(value) ^ int.from_bytes(stream)).to_bytes(len(value))


def inherited(environment: Mapping[str, str]) -> Secret:
    """The secret that a controller left for this worker. Raises Mistake when it isn't here."""
    text = environment.get(protocol.ENV_SECRET)
    try:
        secret = Secret.read(int(text or ""))
        os.set_inheritable(int(text or ""), False)  # what a script starts need not know it
        return secret
    except (OSError, ValueError, OverflowError) as error:
        problem = "is not set" if text is None else f"is {text}: {error}"
        raise Mistake(
            f"{protocol.ENV_STORE} names a controller, but its job's secret cannot be read here: "
            f"{protocol.ENV_SECRET}, the descriptor that it lies behind, {problem}. A worker that starts "
            "another process to train in must hand the descriptor on: subprocess.run(..., pass_fds="
            f"[int(os.environ[{protocol.ENV_SECRET!r}])]). To train alone, unset {protocol.ENV_STORE}"
        ) from None


def to_inherit(variables: Mapping[str, str]) -> tuple[int, ...]:
    """The descriptors that a process with these variables must be started with."""
    text = variables.get(protocol.ENV_SECRET)
    return () if text is None else (int(text),)


def left_open(key: bytes) -> int:
    """A new descriptor that the secret with this key can be read from; whoever asked for it closes it.

    It is not inheritable unless somebody makes it so.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fallow-secret")
    else:
        with tempfile.TemporaryFile() as unnamed:
            descriptor = os.dup(unnamed.fileno())
    os.pwrite(descriptor, key, 0)
    return descriptor
