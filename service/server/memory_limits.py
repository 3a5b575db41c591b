"""Keeps the service small: it is a guest beside other people's jobs.

Some seventy threads live here. glibc gives each a heap of its own, up to eight a core, and what is freed in
one of them is neither used by the others nor given back. Arrow's own allocator does the same once more.
"""

import ctypes
from contextlib import suppress

import pyarrow as pa

HEAPS = 2
"""glibc's arenas: by default it makes eight a core, each of which keeps what its threads freed."""
_M_ARENA_MAX = -8  # mallopt(3)


def share_heaps() -> None:
    """Have all threads and Arrow share few heaps. Before any thread is started; without glibc Arrow alone."""
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)


def give_back() -> None:
    """Give the system what was freed. Takes milliseconds, in which no other thread can allocate."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
