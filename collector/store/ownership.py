"""One owner a file: a lock beside it that the kernel drops when its holder dies, however it dies.

DuckDB's own lock keeps other processes out, but not a second opening in the same process; this one does both
and says who holds it.
"""

import fcntl
import os
from pathlib import Path

from collector.store.errors import locked


class Ownership:
    """The lock ``FILE.lock``, held until released. Raises StoreLocked when somebody else has it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise locked("opening the store", path, f"process {holder or 'unknown'} has it") from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
