"""Where the workers of one group find each other: a part of the controller's store, sealed like all of it.

gloo and NCCL read there which addresses to connect to, as raw bytes, and take every length in them for true
(gloo's ``Rank``, transport/tcp/context.cc): a value that a stranger wrote could lead them anywhere. They see
only what this job's workers sealed.
"""

import base64
import json
import os
import threading
import time
from collections.abc import MutableMapping
from datetime import timedelta

import torch.distributed as dist

from fallow.sealed_store import Door, SealedStore
from fallow.secret import Secret

LONGEST_S = 30.0
"""How long a key is waited for where nobody says so."""
LOOK_S = 0.005
"""Between two looks whether NCCL has made its id: its making takes milliseconds."""
LOCAL_KEYS = "local"
RANKS_PER_ID = "TORCH_NCCL_RANKS_PER_ROOT"
"""For so many ranks one of them makes an id; torch takes 128 where it isn't set, and looks at it in the call
that connects, not when a group is made."""


ANY_NUMBER = str(2**31 - 1)
"""The largest that torch reads there (a C ``int``)."""


class Meeting(dist.Store):  # type: ignore[misc]  # torch is not checked
    """A store for one group under ``prefix``. Every value in it was sealed with ``secret``."""

    def __init__(self, door: Door, secret: Secret, prefix: str):
        super().__init__()
        self.secret, self.prefix = secret, prefix
        self._store = SealedStore(door, secret)

    def set(self, key: str, value: str | bytes) -> None:
        """Leave a value."""
        self._store.set(self._named(key), value if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """The value at ``key``; blocks until it is there. Raises dist.DistStoreError if it is late."""
        return self._awaited(key, LONGEST_S)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Block until all are there. Raises dist.DistStoreError when they are not in time."""
        until_s = time.monotonic() + (LONGEST_S if timeout is None else timeout.total_seconds())
        for key in keys:
            self._awaited(key, until_s - time.monotonic())

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return all(self._store.has(self._named(key)) for key in keys)

    def _awaited(self, key: str, timeout_s: float) -> bytes:
        until_s = time.monotonic() + timeout_s
        while (rest_s := until_s - time.monotonic()) > 0:
            value = self._store.wait(self._named(key), timedelta(seconds=rest_s))
            if value is not None:
                return value
        raise dist.DistStoreError(f"nobody of this job left {key!r} under {self.prefix!r} in time")

    def _named(self, key: str) -> str:
        return f"{self.prefix}/{key}"


def local_copy(
    meeting: Meeting,
    rank: int,
    timeout: timedelta,
    environment: MutableMapping[str, str] = os.environ,
) -> dist.Store:
    """A store in this process's memory that gets what rank 0 first leaves in its own; blocks in other ranks.

    For NCCL, whose threads go on looking at the store that they were given: one written in Python would have
    them wait for the interpreter's lock while whoever holds that lock waits for their end. All that its ranks
    exchange there is the id that rank 0 makes, and RANKS_PER_ID is set to have it stay the only one. Raises
    dist.DistStoreError when it doesn't come in time.
    """
    environment[RANKS_PER_ID] = ANY_NUMBER
    store = dist.HashStore()
    store.set_timeout(timeout)
    if rank == 0:
        until_s = time.monotonic() + timeout.total_seconds()
        threading.Thread(target=_copy_out, args=(store, meeting, until_s), name="fallow-meeting").start()
        return store
    meeting.wait([LOCAL_KEYS], timeout)
    for key, value in json.loads(meeting.get(LOCAL_KEYS)).items():
        store.set(key, base64.b64decode(value))
    return store


def _copy_out(store: dist.Store, meeting: Meeting, until_s: float) -> None:
    """Leave what comes into ``store`` where the other ranks find it; gives up at ``until_s``."""
    while not store.num_keys():
        if time.monotonic() > until_s:
            return
        time.sleep(LOOK_S)
    copies = {key: base64.b64encode(bytes(store.get(key))).decode() for key in store.list_keys()}
    try:
        meeting.set(LOCAL_KEYS, json.dumps(copies))
    except RuntimeError:
        return  # the controller is gone, which the channel notices
