"""What a uid is called, in one place: whoever writes a person down or compares two writes the same name.

Nothing here may be asked on an event loop: the machine's directory service may be slow.
"""

import pwd
import re

_NAMELESS = re.compile(r"uid-(0|[1-9][0-9]{0,9})", re.ASCII)
MOST_UID = 2**32 - 2


def name_of(uid: int) -> str:
    """The account's name, ``uid-1234`` where it has none. Blocks as ``account_name`` does."""
    return account_name(uid) or nameless(uid)


def uid_of(name: str) -> int | None:
    """Whom ``name_of`` calls so; ``None``: nobody here. Blocks as ``account_name`` does."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        found = _NAMELESS.fullmatch(name)
    uid = None if found is None else int(found[1])
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
