"""Frameworks read the launcher's variables and would form a fixed world of their own: they must see none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

LAUNCHER = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
)


@contextmanager
def single_process() -> Iterator[None]:
    """Within it, this process looks as if nobody launched it. Not for use while other threads read them."""
    hidden = {
        name: os.environ.pop(name)
        for name in (*LAUNCHER, *(name for name in os.environ if name.startswith("TORCHELASTIC_")))
        if name in os.environ
    }
    try:
        yield
    finally:
        os.environ.update(hidden)
