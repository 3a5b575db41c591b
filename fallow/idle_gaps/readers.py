"""Which other accounts may read a page of idle gaps: an access list of the file system, for reading alone.

A background job of another account has to see when gaps are open. It gets no page that it may write: what the
foreground and its launcher say there, they alone say. ``/dev/shm`` keeps access lists (tmpfs, acl(5)); their
layout is that of Linux's ``posix_acl_xattr.h``: a version, then tag, permissions and id of each entry.
"""

import os
import struct
from collections.abc import Collection
from pathlib import Path

NAME = "system.posix_acl_access"
VERSION = 2
OWNER, USER, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
READ, WRITE, EXECUTE = 4, 2, 1
NO_ID = 0xFFFFFFFF
"""Of entries that name nobody."""


def let_read(page: Path, accounts: Collection[int]) -> None:
    """These accounts, by their numbers, may read the page, and no others beside its owner.

    Raises OSError, where the file system keeps no access lists too.
    """
    _set(page, READ | WRITE, READ, accounts)


def let_enter(folder: Path, accounts: Collection[int]) -> None:
    """These accounts may open what lies in the folder under a name that they know, as far as that lets them;
    nobody but its owner may list it. Raises OSError.
    """
    _set(folder, READ | WRITE | EXECUTE, EXECUTE, accounts)


def _set(path: Path, own: int, others: int, accounts: Collection[int]) -> None:
    entries = [(OWNER, own, NO_ID), *[(USER, others, each) for each in sorted(set(accounts))]]
    entries += [(GROUP, 0, NO_ID), (MASK, others if accounts else 0, NO_ID), (OTHERS, 0, NO_ID)]
    value = struct.pack("<I", VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, NAME, value, follow_symlinks=False)
