"""Which uids are one person: an account, and those that it was lent for containers.

An account that may run containers without root has thousands of uids of its own (subuid(5)), which the kernel
shows as so many strangers; were they persons of their own, each would bring the bounds of another.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from collector.procfs.accounts import uid_of
from collector.procfs.owners import SUBUID, lent_ranges


def person_of_uid(uid: int, lent: Path = SUBUID) -> str:
    """The key of an account, or of the one that was lent this uid. Looks at one small file's date.

    Root's containers are not root: what is in them counts as one of its own. So does for a moment what is in
    anybody's, while the machine's directory is asked for the accounts of a file that has just changed.
    """
    changed_ns = _changed_ns(lent)
    if changed_ns is None:
        return f"uid {uid}"
    starts, ranges = _lent(lent, changed_ns)
    at = bisect_right(starts, uid) - 1
    if at < 0 or uid >= ranges[at][1]:
        return f"uid {uid}"
    name = ranges[at][0]
    if name.isdecimal():
        owner: int | None = int(name)
    else:
        owners = _owners(lent, changed_ns)
        owner = owners.result().get(name) if owners.done() else None
    return f"uid {owner}" if owner else containers_of(name)


def containers_of(owner: str) -> str:
    """The key of what runs in the containers of somebody who is more than they are."""
    return f"containers of {owner}"


def learn_lenders(lent: Path = SUBUID, timeout_s: float = 5.0) -> None:
    """Ask whose accounts those are that were lent uids. Blocks for the directory, at most so long."""
    changed_ns = _changed_ns(lent)
    if changed_ns is not None:
        with suppress(TimeoutError):
            _owners(lent, changed_ns).result(timeout_s)


@lru_cache(maxsize=2)
def _lent(path: Path, changed_ns: int) -> tuple[list[int], list[tuple[str, int]]]:
    """The ranges of a file, in order: where each begins; whose it is and its end."""
    ranges = [(lent.start, name, lent.stop) for name, lent in lent_ranges(path)]
    ranges.sort()
    return [first for first, _, _ in ranges], [(name, end) for _, name, end in ranges]


@lru_cache(maxsize=2)
def _owners(path: Path, changed_ns: int) -> "Future[Mapping[str, int]]":
    """The uids of those who were lent ranges; asked on a thread, for the machine's directory may be slow."""
    future: Future[Mapping[str, int]] = Future()
    names = {name for name, _ in _lent(path, changed_ns)[1] if not name.isdecimal()}

    def ask() -> None:
        try:
            uids = {name: uid_of(name) for name in names}
        except BaseException:
            future.set_result({})  # they stay persons beside their accounts; the thread's end is logged
            raise
        future.set_result({name: uid for name, uid in uids.items() if uid is not None})

    threading.Thread(target=ask, name="lenders", daemon=True).start()
    return future


def _changed_ns(path: Path) -> int | None:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  once a connection
    except OSError:
        return None
