"""A page of shared memory for one GPU, through which a foreground and a background job know of each other.

Sixteen words of 8 bytes, each written by one side and stored at once. Times are nanoseconds of the machine's
steady clock (``time.monotonic_ns``), which all processes of a machine share. Nothing on the page can open a
gate for longer than ``LONGEST_GAP_S``: what is out of range counts as shut.
"""

import math
import mmap
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

# More than are used, so that a later version may add some without another size.
WORDS = 16
SIZE = 8 * WORDS
MARK = 0x46414C4C4F570001
"""The first word: that this is a page, and its version. Another one is not read."""

LONGEST_GAP_S = 60.0
"""A later end of a gap is not believed: no step of a training waits that long, and a foreground that is
killed amid a gap must not leave the gate open."""

LONGEST_LATE_S = 0.01
"""More than this is not believed of what a foreground puts up with when it takes a gap back."""

GAP_ENDS, FOREGROUND_STEPS, ALONE_S, RECENT_S, SHARE, ALLOWED, BACKGROUND_STEPS, PIECE_BEGAN = range(1, 9)
LATE_S, GAPS_S, WORK_S = 9, 10, 11
"""Places of the words. The foreground writes the first five, ``LATE_S`` and ``GAPS_S``, the launcher
``ALLOWED``, the background job the rest. A process of an older version leaves the last three 0: its gaps end
when they are said to, and the other two are not known.
"""


class PageError(OSError):
    """A page cannot be used; the message says why. Whoever meets it keeps the gate shut."""


class Page:
    """One GPU's page. ``now_ns`` is the steady clock, another one in tests."""

    def __init__(self, memory: mmap.mmap, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._memory, self._now_ns = memory, now_ns
        self._whole = memoryview(memory).cast("q")
        self._real = memoryview(memory).cast("d")

    def close(self) -> None:
        """Let go of it; the file stays."""
        self._whole.release()
        self._real.release()
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what the foreground says -----------------------------------------------------------------------

    def open_gap(self, seconds: float, *, late_s: float = 0.0) -> None:
        """The GPU waits from now on, for so long as can be expected.

        If it then waits on, work of at most ``late_s`` may be under way, until the gap is shut.
        """
        self._real[LATE_S] = late_s
        self._whole[GAP_ENDS] = self._now_ns() + int(min(seconds, LONGEST_GAP_S) * 1e9)

    def shut_gap(self) -> None:
        """The GPU is needed again."""
        self._whole[GAP_ENDS] = 0

    def end_step(
        self, *, alone_s: float | None, recent_s: float | None, share: float, gaps_s: float = 0.0
    ) -> None:
        """A step of the foreground has ended; what the guard knows of steps without and with a background
        job, and how long the gaps of a step alone last together.
        """
        self._real[GAPS_S] = gaps_s
        self._real[ALONE_S] = math.nan if alone_s is None else alone_s
        self._real[RECENT_S] = math.nan if recent_s is None else recent_s
        self._real[SHARE] = share
        self._whole[FOREGROUND_STEPS] += 1

    # -- what the background job reads and says ---------------------------------------------------------

    def left_s(self) -> float:
        """Seconds of the open gap that a piece may take; 0 where there is none, or nobody may fill it."""
        return self.room_s()[0]

    def room_s(self) -> tuple[float, float]:
        """``left_s``, and seconds of work that may be under way when the gap is shut: for one that lasts on.
        A foreground that was killed amid one leaves that for ``LONGEST_GAP_S``.
        """
        ends_ns = self._whole[GAP_ENDS]
        if ends_ns == 0 or self._whole[0] != MARK or self._whole[ALLOWED] != 1:
            return 0.0, 0.0
        left_s, share, late_s = (ends_ns - self._now_ns()) / 1e9, self._real[SHARE], self._real[LATE_S]
        if not -LONGEST_GAP_S < left_s <= LONGEST_GAP_S or not 0 < share <= 1:
            return 0.0, 0.0
        late_s = late_s if 0 < late_s <= LONGEST_LATE_S else 0.0
        return max(0.0, left_s * share), late_s * share

    @property
    def gap(self) -> int:
        """The end of the gap that was announced last, by which one is told from the next; 0 while none is
        open.
        """
        return self._whole[GAP_ENDS]

    def begin_piece(self) -> None:
        """A piece of background work was launched."""
        self._whole[PIECE_BEGAN] = self._now_ns()

    def end_piece(self) -> None:
        """It is done."""
        self._whole[PIECE_BEGAN] = 0

    def end_background_step(self, work_s: float = 0.0) -> None:
        """A step of the background job has ended; seconds of GPU time that it takes alone."""
        self._real[WORK_S] += work_s
        self._whole[BACKGROUND_STEPS] += 1

    # -- what the launcher says and reads ---------------------------------------------------------------

    def allow(self, *, is_allowed: bool) -> None:
        """Whether anybody may fill gaps of this GPU; the kill switch and the foreground's owner say no."""
        self._whole[ALLOWED] = int(is_allowed)

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of the foreground and of the background so far."""
        return self._whole[FOREGROUND_STEPS], self._whole[BACKGROUND_STEPS]

    @property
    def alone_s(self) -> float | None:
        """Seconds of a foreground's step with nobody beside it; unknown until one was measured."""
        return _positive(self._real[ALONE_S])

    @property
    def gaps_s(self) -> float | None:
        """Seconds of gaps in a step of the foreground alone; unknown until one was measured."""
        return _positive(self._real[GAPS_S])

    @property
    def worked_s(self) -> float:
        """Seconds of GPU time that all steps of background jobs take alone."""
        return _positive(self._real[WORK_S]) or 0.0

    @property
    def slowdown(self) -> float | None:
        """The foreground's recent step beside its step alone; unknown until both were measured."""
        alone, recent = _positive(self._real[ALONE_S]), _positive(self._real[RECENT_S])
        return None if alone is None or recent is None else recent / alone


def create(path: Path, now_ns: Callable[[], int] = time.monotonic_ns) -> Page:
    """A new page that nobody may fill yet, readable and writable by its owner alone. Raises: PageError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PageError(f"{path} cannot be made: {error.strerror}") from error
    try:
        os.ftruncate(descriptor, SIZE)
        memory = mmap.mmap(descriptor, SIZE)
    except OSError as error:
        raise PageError(f"{path} cannot be made: {error.strerror}") from error
    finally:
        os.close(descriptor)
    memory[:8] = MARK.to_bytes(8, "little")
    return Page(memory, now_ns)


def attach(path: Path, now_ns: Callable[[], int] = time.monotonic_ns) -> Page:
    """A page that exists. It must be a file of this account's or root's, which nobody else may write.

    Raises: PageError for anything else at that path, a page of another version too.
    """
    return _attached(path, (os.geteuid(), 0), now_ns, is_written=True)


def attach_others(path: Path, now_ns: Callable[[], int] = time.monotonic_ns) -> Page:
    """Another account's page, to be read alone: whoever reads it cannot change what the foreground says.

    The account is the one by whose number its folder is named, and nobody else may write either. Raises:
    PageError as ``attach``, caused by PermissionError while that account lets nobody read it.
    """
    return _attached(path, (folder_of(path),), now_ns, is_written=False)


def folder_of(path: Path) -> int:
    """The account whose launcher made the folder of this page: by its name, ``fallow.UID.PID.XXXX``, and by
    whose it is. Raises: PageError for any other folder, and one that others may write.
    """
    folder = path.parent
    try:
        status = folder.lstat()
    except OSError as error:
        raise PageError(f"{folder} cannot be looked at: {error.strerror}") from error
    is_named = folder.name.split(".")[:2] == ["fallow", str(status.st_uid)]
    if not stat.S_ISDIR(status.st_mode) or not is_named or status.st_mode & 0o022:
        raise PageError(f"{folder} is no folder of idle gaps that its owner alone may write")
    return status.st_uid


def _attached(path: Path, owners: tuple[int, ...], now_ns: Callable[[], int], *, is_written: bool) -> Page:
    try:
        flags = (os.O_RDWR if is_written else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError as error:
        raise PageError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != SIZE:
            raise PageError(f"{path} is no page of idle gaps: a file of {SIZE} bytes is")
        if status.st_uid not in owners or status.st_mode & 0o022:
            raise PageError(f"{path} can be written by others than {_named(owners[0])}")
        memory = mmap.mmap(descriptor, SIZE, access=mmap.ACCESS_WRITE if is_written else mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise (
            error if isinstance(error, PageError) else PageError(f"{path} cannot be mapped: {error}")
        ) from error
    finally:
        os.close(descriptor)
    if int.from_bytes(memory[:8], "little") != MARK:
        memory.close()
        raise PageError(f"{path} is a page of another version: restart both jobs with one version")
    return Page(memory, now_ns)


def _named(owner: int) -> str:
    return "this account" if owner == os.geteuid() else f"account {owner}"


def _positive(seconds: float) -> float | None:
    """What is no length of time was not measured: a page is written by the jobs' own processes."""
    return seconds if 0 < seconds < math.inf else None
