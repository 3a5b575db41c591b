"""What a uid is called, in one place: whoever writes a person down or compares two writes the same name.

Nothing here may be asked on an event loop: the machine's directory service may be slow.
"""

import pwd
import re
from pathlib import Path

_NAMELESS = re.compile(r"uid-(0|[1-9][0-9]{0,9})", re.ASCII)
MOST_UID = 2**32 - 2
"""The last number, ``(uid_t) -1``, is no user: to the kernel it says "unchanged"."""
WHOLE_MACHINE = ["0", "0", "4294967295"]
"""``/proc/self/uid_map`` of a process that sees every uid as it is."""


def name_of(uid: int) -> str:
    """The account's name, ``uid-1234`` where it has none. Blocks as ``account_name`` does."""
    return account_name(uid) or nameless(uid)


def uid_of(name: str) -> int | None:
    """Whom ``name_of`` calls so; ``None``: nobody here. Blocks as ``account_name`` does."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        match = _NAMELESS.fullmatch(name)
    uid = None if match is None else int(match[1])
    return uid if uid is None or uid <= MOST_UID else None


def account_name(uid: int) -> str | None:
    """The account's name, if it has one; blocks as long as the machine's directory service does."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def nameless(uid: int) -> str:
    """What a uid without an account is called."""
    return f"uid-{uid}"


def unmapped_uid() -> int | None:
    """The uid as which everybody appears who has none in this user namespace: nobody in particular.

    ``None`` where this process sees all uids of the machine; user_namespaces(7).
    """
    try:
        if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == WHOLE_MACHINE:
            return None
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
