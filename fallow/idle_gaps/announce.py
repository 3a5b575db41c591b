"""The foreground's side: says when its GPU waits, and for how long as a rule.

    with announcer.gap("sum"):
        wait_for_the_others()

How long a gap lasts is the median of the last ones of its kind in control steps, when nobody filled
them. A gap that comes for the first time, or that was short lately, is not announced; nor is one that
begins while kernels are still queued on the GPU, as the host runs ahead of it.
"""

import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import torch

from fallow.idle_gaps.guard import CONTROLS_KEPT, Guard
from fallow.idle_gaps.page import Page, PageError, attach

LOG = logging.getLogger("fallow")

ENV_PAGE = "FALLOW_OWN_IDLE_GAPS"
"""The page on which this process announces its gaps, or a folder with a page for each GPU, named as in
``CUDA_VISIBLE_DEVICES``; whoever launched it made them."""

KEPT = 16
"""Gaps of a kind of which the median counts."""

LATE_PART, LATEST_S = 0.02, 0.001
"""Of a step alone, and at most: work that may be under way when a gap ends that lasted longer than usual. So
what nobody can foretell costs a step 2%, and is left within a millisecond."""

SHORTEST_S = 0.0005
"""Shorter gaps are not announced: a background job needs some of one to know of it and to fill it."""


class Announcer:
    """Without a page it does nothing, and costs next to nothing. ``is_waiting``: nothing is queued on the
    GPU.
    """

    def __init__(
        self,
        page: Page | None,
        is_waiting: Callable[[], bool] = lambda: True,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page, self._is_waiting, self._now_s, self._guard = page, is_waiting, now_s, Guard()
        self._lengths: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._step_began: float | None = None
        self._between: float | None = None
        self._gaps_s = 0.0
        self._works_since_s = now_s()
        self._gaps_alone: deque[float] = deque(maxlen=CONTROLS_KEPT)
        self._is_between = False

    @contextmanager
    def gap(self, kind: str) -> Iterator[None]:
        """The GPU waits within."""
        if self._page is None:
            yield
            return
        began = self._begin(kind)
        try:
            yield
        finally:
            self._end(kind, began)

    def begin_step(self) -> None:
        """The script has come back for the next step: what it did since the last one is over."""
        if self._page is not None and self._is_between:
            self._end("script", self._between)
            self._is_between = False

    def end_step(self, took_s: float | None = None) -> None:
        """A step was committed; what the script does now, until it comes back, is a gap as well.

        A server's step is a request that came in a gap, and ``took_s`` what its answer took: from one answer
        to the next passes what the clients please. Its gaps are told as that part of an answer which they are
        of its time, as a training's are a part of its step.
        """
        if self._page is None:
            return
        now = self._now_s()
        gaps_s = self._gaps_s
        if took_s is not None and gaps_s > 0:
            gaps_s = took_s * gaps_s / (gaps_s + max(took_s, now - self._works_since_s))
        if took_s is None and self._step_began is not None:
            took_s = now - self._step_began
        if took_s is not None:
            guard = self._guard
            if guard.is_control:
                self._gaps_alone.append(gaps_s)
            guard.end_step(took_s)
            self._page.end_step(
                alone_s=guard.alone_s,
                recent_s=guard.recent_s,
                share=guard.share,
                gaps_s=median(self._gaps_alone) if self._gaps_alone else 0.0,
            )
        self._gaps_s = 0.0
        self._step_began = now
        self._between, self._is_between = self._begin("script"), True

    def _begin(self, kind: str) -> float | None:
        """When a gap began; None where the GPU still works."""
        if not self._is_waiting():
            return None
        lengths = self._lengths[kind]
        if lengths and not self._guard.is_control and (expected := median(lengths)) >= SHORTEST_S:
            assert self._page is not None
            late_s = min(LATE_PART * (self._guard.alone_s or 0.0), LATEST_S)
            self._page.open_gap(expected, late_s=late_s)
        return self._now_s()

    def _end(self, kind: str, began: float | None) -> None:
        assert self._page is not None
        self._page.shut_gap()
        self._works_since_s = self._now_s()
        if began is not None and self._guard.is_control:
            lasted_s = self._works_since_s - began
            self._lengths[kind].append(lasted_s)
            self._gaps_s += lasted_s


def announcer(device: torch.device, environment: Mapping[str, str] = os.environ) -> Announcer:
    """What this process announces its gaps with, as its launcher asked. A page that cannot be used is
    logged.
    """
    path = environment.get(ENV_PAGE)
    if not path:
        return Announcer(None)
    try:
        return Announcer(attach(_own_page(Path(path), environment, device)), partial(_is_waiting, device))
    except PageError as error:
        LOG.warning("idle gaps are not announced: %s", error)
        return Announcer(None)


def _own_page(path: Path, environment: Mapping[str, str], device: torch.device) -> Path:
    """The page itself, or the one in that folder of ``device`` among the GPUs that this process sees. Raises:
    PageError where it does not see so many.
    """
    if not path.is_dir():
        return path
    number: int | None = device.index
    if number is None:
        number = int(torch.cuda.current_device()) if torch.cuda.is_initialized() else 0
    words = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if number >= len(words):
        raise PageError(f"{path} has no page for {device}: CUDA_VISIBLE_DEVICES names {len(words)}")
    return path / words[number].strip().replace("/", "_")


def _is_waiting(device: torch.device) -> bool:
    return device.type != "cuda" or bool(torch.cuda.current_stream(device).query())
