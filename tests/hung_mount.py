"""A folder whose file system never answers: FUSE without anybody behind it. For root on Linux."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MS_NOSUID_NODEV = 2 | 4
MNT_DETACH = 2


@contextmanager
def hung_mount(folder: Path) -> Iterator[None]:
    """Until the end of the block whoever looks into the folder waits; then they get an error."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("only root can mount, and it needs /dev/fuse")
    libc = ctypes.CDLL(None, use_errno=True)
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"hung", os.fsencode(folder), b"fuse", MS_NOSUID_NODEV, options) != 0:
            pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            libc.umount2(os.fsencode(folder), MNT_DETACH)
    finally:
        os.close(fuse)
