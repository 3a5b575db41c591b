"""One owner a file: a lock beside it that the kernel drops when its holder dies, however it dies.

DuckDB's own lock keeps other processes out, but not a second opening in the same process; this one does both
and says who holds it. Its second line is the newest tick that was committed: where the file has less when it
is opened next, the end of its log is lost (``collector.store.log_damage``).
"""

import fcntl
import os
from pathlib import Path

from collector.store.errors import locked

READ_BYTES = 64


class Ownership:
    """The lock ``FILE.lock``, held until released. Raises StoreLocked when somebody else has it.

    ``noted_ms`` is the newest tick that was committed, at first by the owner before; ``None`` where none is
    noted.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._words()[:1]
            os.close(self._descriptor)
            raise locked(
                "opening the store", path, f"process {''.join(holder) or 'unknown'} has it"
            ) from error
        noted = self._words()[1:2]
        self.noted_ms = int(noted[0]) if noted and noted[0].isdecimal() else None
        self._write(self.noted_ms)

    def note_tick(self, at_ms: int | None) -> None:
        """The tick of ``at_ms`` is committed; ``None``: nothing is to be missed at the next opening."""
        if self._descriptor >= 0:
            self.noted_ms = at_ms
            self._write(at_ms)

    def release(self) -> None:
        """Let others have the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _words(self) -> list[str]:
        return os.pread(self._descriptor, READ_BYTES, 0).decode(errors="replace").split()

    def _write(self, at_ms: int | None) -> None:
        """One write of a fixed length: a reader never sees half of it."""
        text = f"{os.getpid()}\n{'' if at_ms is None else at_ms}\n"
        os.pwrite(self._descriptor, text.ljust(READ_BYTES).encode()[:READ_BYTES], 0)
