"""The background's side: computes only while the foreground's GPU waits.

Before each layer, each layer's gradients and each part of an optimizer's step is a gate. It lets a *piece*
through, the work up to the next gate, if all that is queued and the piece end before the gap does, by how
long they took lately. At most ``AHEAD_S`` of work is queued: so the GPU does not wait for the host, and a gap
that ends without notice is left soon. A page that cannot be used keeps the gate shut, which is said once.
"""

import logging
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path

import torch

from fallow.idle_gaps import hooks
from fallow.idle_gaps.marks import LATELY, DeviceMarks, Mark, Marks, Piece
from fallow.idle_gaps.page import Page, PageError, attach, attach_others

LOG = logging.getLogger("fallow")

ENV_PAGE = "FALLOW_IDLE_GAPS"
"""The page of the foreground in whose gaps this process computes; its launcher says which."""

ENV_COUNTS = "FALLOW_IDLE_GAP_COUNTS"
"""Where the foreground is another account's: a page of this job's own, on which it counts what it does. The
foreground's page is then read alone."""

ACCESS_S = 30.0
"""How long another account's page is waited for: its launcher lets us read it once it hears of us."""

LOOK_S = 0.00005
"""How often a shut gate looks. With what a sleep costs besides, a tenth of a millisecond: 1% of a gap of
10 ms. Turning instead would know it after 7 us (H100, 26 November 2026), and take a whole processor."""

AHEAD_S = 0.001
"""Work in the queue at most, but for a single piece that is longer: ten launches, so the GPU stays busy."""

MARK_EVERY_S = AHEAD_S / 4
"""Of work behind which a mark is put: a mark costs as much as a launch, and pieces are short (33 to 70 us by
their median, H100)."""

MEASURED_EVERY = 16
"""One run of a piece in so many is measured after its first ones: that takes two marks."""

RESERVE = 1.15
"""A piece is taken to last so many times its usual length."""

PATIENCE, LITTLE_PATIENCE = 16, 1
"""Gaps that pass by while a piece waits, after which it goes at the beginning of one, too long or not; the
second for a little known one, whose length may be that of a first use. So a piece longer than any gap costs
the foreground one gap in so many, and nothing waits for good."""

BEGINNING = 0.9
"""Of the longest gap seen while waiting: with more left than that, a gap has just begun."""


class Gate:
    """One process's gate. ``now_s`` and ``sleep`` are the steady clock's, others in tests; so ``marks``.
    ``counts`` is the page on which it says what it does, where that is not the foreground's.
    """

    def __init__(
        self,
        page: Page | None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        marks: Marks | None = None,
        counts: Page | None = None,
    ) -> None:
        self.page, self._sleep = page, sleep
        self._counts = page if counts is None else counts
        self._marks = DeviceMarks(now_s) if marks is None else marks
        self._pieces: defaultdict[Hashable, Piece] = defaultdict(Piece)
        self._running: Piece | None = None
        self._measured_from: Mark = None
        self._measured: deque[tuple[Piece, Mark, Mark]] = deque()
        self._queue: deque[tuple[Mark, float]] = deque()
        self._unmarked_s = self._ahead_s = self._step_s = 0.0
        self._one = threading.Lock()  # of two GPUs each has a thread that goes backward

    def pass_through(self, name: Hashable, devices: Collection[torch.device] = ()) -> None:
        """End the piece before, and wait until the one of this name, which will run on these devices, fits
        into what is left of a gap.
        """
        with self._one:
            self._pass(name, devices)

    def usual_s(self, name: Hashable) -> float | None:
        """How long a piece takes, in seconds; None while it is little known."""
        piece = self._pieces[name]
        return None if piece.is_little_known else piece.usual_s

    def end_piece(self) -> None:
        """What was launched last has an end; nobody waits for it."""
        with self._one:
            self._put_mark()

    def end_step(self) -> None:
        """An optimizer's step is over: the script may now do something that is not ours, and take long."""
        self.end_piece()
        if self._counts is not None:
            self._counts.end_background_step(self._step_s)
        self._step_s = 0.0

    def _pass(self, name: Hashable, devices: Collection[torch.device]) -> None:
        piece = self._pieces[name]
        piece.devices = devices
        self._marks.use(devices)
        is_measured = piece.runs < LATELY or piece.runs % MEASURED_EVERY == 0
        mark = None
        if is_measured or self._measured_from is not None or self._unmarked_s >= MARK_EVERY_S:
            mark = self._put_mark()
        needed_s = RESERVE * piece.usual_s
        if not self._lets(needed_s):
            self._put_mark()
            self._hold(piece, needed_s)
            mark = None
        piece.runs += 1
        if is_measured:
            self._measured_from = self._marks.mark() if mark is None else mark
        self._running = piece
        self._unmarked_s += piece.usual_s
        self._step_s += piece.middle_s
        self._ahead_s += piece.usual_s

    def _put_mark(self) -> Mark:
        """Behind all that was launched; None where that is marked already."""
        if self._running is None:
            return None
        mark = self._marks.mark()
        self._queue.append((mark, self._unmarked_s))
        self._unmarked_s = 0.0
        if self._measured_from is not None:
            self._measured.append((self._running, self._measured_from, mark))
            self._measured_from = None
        self._running = None
        self._settle()
        return mark

    def _settle(self) -> None:
        """What the device has done is no longer ahead, and was measured."""
        while self._queue and self._marks.is_done(self._queue[0][0]):
            mark, seconds = self._queue.popleft()
            self._ahead_s -= seconds
            while self._measured and self._measured[0][2] is mark:
                piece, began, ended = self._measured.popleft()
                lasted_s = self._marks.between_s(began, ended, piece.devices)
                if lasted_s is not None:
                    piece.lasted(lasted_s)
        if not self._queue:
            self._ahead_s = self._unmarked_s
            if self._running is None and self._counts is not None:
                self._counts.end_piece()

    def _lets(self, needed_s: float) -> bool:
        """Whether a piece may be launched now."""
        return self._fits(needed_s) and (self._ahead_s <= 0 or self._ahead_s + needed_s <= AHEAD_S)

    def _fits(self, needed_s: float) -> bool:
        """Whether it ends before the gap does, or soon enough after a gap that is longer than usual."""
        if self.page is None:
            return False
        rest_s, late_s = self.page.room_s()
        return self._ahead_s + needed_s <= max(rest_s, late_s)

    def _hold(self, piece: Piece, needed_s: float) -> None:
        passed, last, longest_s = 0, 0, 0.0
        patience = LITTLE_PATIENCE if piece.is_little_known else PATIENCE
        while not self._lets(needed_s):
            if self._fits(needed_s) and self._queue:
                self._marks.wait(self._queue[0][0])
            else:
                gap, rest_s = (0, 0.0) if self.page is None else (self.page.gap, self.page.left_s())
                if gap not in (0, last):
                    passed, last = passed + 1, gap
                longest_s = max(longest_s, rest_s)
                if passed > patience and longest_s > 0:
                    needed_s = min(needed_s, BEGINNING * longest_s)
                self._sleep(LOOK_S)
            self._settle()
        if self._counts is not None:
            self._counts.begin_piece()


def install(environment: Mapping[str, str] = os.environ) -> bool:
    """Put gates before every layer, gradient and optimizer's step of this process, if its launcher asked.

    True when it did. A page that cannot be used is logged, and the gates stay shut.
    """
    path = environment.get(ENV_PAGE)
    if not path:
        return False
    own = environment.get(ENV_COUNTS)
    page = counts = None
    try:
        counts = attach(Path(own)) if own else None
        page = _others(Path(path)) if own else attach(Path(path))
    except PageError as error:
        LOG.error("this background job waits for good: %s", error)
    hooks.put(Gate(page, counts=counts))
    return True


def _others(path: Path) -> Page:
    """Another account's page, as soon as it lets us read it. Raises: PageError."""
    ends_s = time.monotonic() + ACCESS_S
    while True:
        try:
            return attach_others(path)
        except PageError as error:
            if not isinstance(error.__cause__, PermissionError) or time.monotonic() > ends_s:
                raise
            time.sleep(0.1)
