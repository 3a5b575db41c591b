"""Who asks: on the Unix socket the kernel says it, on TCP a token does.

A local caller needs no password, because the kernel names the uid at the other end (SO_PEERCRED, unix(7)) and
nobody can speak for another. Root, the user that the service runs as, and whom the configuration names are
operators; all others users. A uid that a person was lent for containers (subuid(5)) is called as that person,
as its processes are; it is no operator by that name, since what runs in a container is less than its owner.
"""

import asyncio
import hmac
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from collector.procfs.accounts import name_of, uid_of, unmapped_uid
from collector.procfs.owners import whose_uid
from service.api.tokens import Tokens, TokenTrouble
from service.control.interface import Caller, Role, acts_for_all

KEPT_S = 60.0
DIRECTORY_THREADS = 2
"""Of its own: what else takes long must not keep anybody from being recognized."""
MOST_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end of a Unix socket, as the kernel says."""

    pid: int
    uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """It cannot be told who asks; the reason is for the asker."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What opens the door: the secret of DATA/token, further tokens, and the names of operators."""

    token: str
    tokens: Tokens
    operators: frozenset[str]
    now_ms: Callable[[], int]


class Identity:
    """Tells callers apart. Used on the event loop alone."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._own_uid = os.geteuid()
        self._threads = ThreadPoolExecutor(max_workers=DIRECTORY_THREADS, thread_name_prefix="directory")
        self._unmapped = unmapped_uid()
        self._accounts: dict[tuple[str, object], tuple[float, object]] = {}

    async def by_kernel(self, peer: Peer) -> Caller:
        """Who is at the other end of the Unix socket."""
        name = await self._name(peer.uid)
        pid = peer.pid if peer.pid > 0 else None
        account = await self._cached(("account", peer.uid), lambda: name_of(peer.uid))
        return Caller(name=name, uid=peer.uid, role=self._role(peer.uid, str(account)), pid=pid)

    async def by_token(self, headers: Mapping[bytes, str]) -> Caller | Unknown:
        """Whom the request's token stands for."""
        scheme, _, secret = headers.get(b"authorization", "").partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not secret:
            return Unknown(
                reason="a token is needed: Authorization: Bearer, with the content of DATA/token or of one "
                "made by `fallow token add`; on the machine itself the Unix socket needs none"
            )
        # In constant time: how long it takes must not tell how much of a guess was right.
        if hmac.compare_digest(secret.encode(), self._keys.token.encode()):
            name = await self._name(self._own_uid)
            return Caller(name=name, uid=self._own_uid, role=Role.OPERATOR)
        try:
            token = self._keys.tokens.named(secret)
        except (TokenTrouble, OSError) as error:
            return Unknown(reason=f"tokens cannot be checked now: {error}")
        if token is None:
            return Unknown(reason="the token is wrong, or was revoked; the right one stands in DATA/token")
        if token.has_expired(self._keys.now_ms()):
            return Unknown(
                reason=f"the token {token.id} of {token.user} has expired; an operator can make another with "
                "`fallow token add`"
            )
        if token.role is Role.NODE:  # a machine's name, which is no account's
            return Caller(name=token.user, uid=None, role=Role.NODE, credential=token.id)
        uid = await self._cached(("uid", token.user), lambda: uid_of(token.user))
        return Caller(name=token.user, uid=uid if isinstance(uid, int) else None, role=token.role)

    def _role(self, uid: int, account: str) -> Role:
        if acts_for_all(uid, account, self._keys.operators):
            return Role.OPERATOR
        # The kernel gives everybody without a uid here the same one: nobody knows who of them it is.
        return Role.VIEWER if uid == self._unmapped else Role.USER

    async def _name(self, uid: int) -> str:
        name = await self._cached(("name", uid), lambda: whose_uid(uid))
        return str(name)

    async def _cached(self, key: tuple[str, object], ask: Callable[[], object]) -> object:
        """What the machine's directory says; asked anew every minute, on a thread, because it may be slow."""
        now_s = time.monotonic()
        entry = self._accounts.get(key)
        if entry is not None and now_s - entry[0] < KEPT_S:
            return entry[1]
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        if len(self._accounts) >= MOST_KEPT:
            self._accounts.clear()
        self._accounts[key] = (now_s, answer)
        return answer
