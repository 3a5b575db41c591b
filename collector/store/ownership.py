"""One owner a file: a lock beside it that the kernel drops when its holder dies, however it dies.

DuckDB's own lock keeps other processes out, but not a second opening in the same process; this one does both
and says who holds it. Its second line is the newest tick that was committed: where the file has less when it
is opened next, the end of its log is lost (``collector.store.log_damage``). Its third is how long the log was
after the newest commit, and when the file itself was changed last: folding the log into it changes that.
"""

import fcntl
import os
from pathlib import Path

from collector.store.errors import locked
from collector.store.log_damage import log_path

READ_BYTES = 96


class Ownership:
    """The lock ``FILE.lock``, held until released. Raises StoreLocked when somebody else has it.

    ``noted_ms`` is the newest tick that was committed, first by the owner before; ``None``: none noted.
    ``cut_ms`` is when that owner committed last, UTC, where the log is shorter now than it was then;
    ``None``: it is not, as far as can be told.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_words = ""
        self._descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._lines()[0]
            os.close(self._descriptor)
            raise locked("opening the store", path, f"process {holder or 'unknown'} has it") from error
        self.noted_ms, self.cut_ms = self._noted()
        self._write(self.noted_ms)

    def note_tick(self, at_ms: int | None) -> None:
        """The tick of ``at_ms`` is committed; ``None``: nothing is to be missed at the next opening."""
        if self._descriptor >= 0:
            self.noted_ms, self.cut_ms = at_ms, None
            self._write(at_ms)

    def note_commit(self) -> None:
        """Something is committed: so long is the log now. Some microseconds."""
        if self._descriptor >= 0:
            self._log_words = _log_words(self._path)
            self._write(self.noted_ms)

    def release(self) -> None:
        """Let others have the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _noted(self) -> tuple[int | None, int | None]:
        _, tick, log = self._lines()
        noted, now = log.split(), _log_words(self._path).split()
        # With another date a checkpoint has folded the log into the file since: a shorter log is no loss.
        is_known = len(noted) == len(now) == 2 and noted[0].isdecimal() and noted[1] == now[1]
        is_cut = is_known and int(noted[0]) > int(now[0])
        committed_ms = os.fstat(self._descriptor).st_mtime_ns // 1_000_000
        return int(tick) if tick.isdecimal() else None, committed_ms if is_cut else None

    def _lines(self) -> tuple[str, str, str]:
        """What the last owner wrote: its pid, the newest tick, the log's length; empty where it did not."""
        text = os.pread(self._descriptor, READ_BYTES, 0).decode(errors="replace")
        owner, tick, log, *_ = (*text.split("\n"), "", "")
        return owner.strip(), tick, log

    def _write(self, at_ms: int | None) -> None:
        """One write of a fixed length: a reader never sees half of it."""
        text = f"{os.getpid()}\n{'' if at_ms is None else at_ms}\n{self._log_words}\n"
        os.pwrite(self._descriptor, text.ljust(READ_BYTES).encode()[:READ_BYTES], 0)


def _log_words(path: Path) -> str:
    """The length of the log and the file's date, in nanoseconds; nothing where there is no file."""
    try:
        changed_ns = os.stat(path).st_mtime_ns  # noqa: PTH116  at every commit
    except OSError:
        return ""
    try:
        size = os.stat(log_path(path)).st_size  # noqa: PTH116
    except OSError:
        size = 0
    return f"{size} {changed_ns}"
