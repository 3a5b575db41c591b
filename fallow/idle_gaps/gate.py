"""The background's side: computes only while the foreground's GPU waits.

Before each layer, each gradient and each optimizer's step is a gate. It lets a *piece* through, the work up
to the next gate, if the piece ends before the gap does, by how long it took lately. Otherwise it waits. A
page that cannot be used keeps the gate shut, which is said once.
"""

import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from fallow.idle_gaps.page import Page, PageError, attach

LOG = logging.getLogger("fallow")

ENV_PAGE = "FALLOW_IDLE_GAPS"
"""The page of the foreground in whose gaps this process computes; its launcher says which."""

LOOK_S = 0.0002
"""How often a shut gate looks: 2% of a gap of 10 ms. A processor is hardly used by it."""

LATELY = 16
"""Runs of a piece of which the longest counts."""

RESERVE = 1.15
"""A piece is taken to last so many times its longest lately."""

FORGOTTEN_AFTER = 16
"""Gaps that pass by while a piece waits, after which its longest run is forgotten: one that a busy machine
or a first use made long must not keep it out for good. A piece that is too long costs one gap in so many."""

FIRST_S = 0.002
"""What a piece is taken to last before it ran once."""


class Gate:
    """One process's gate. ``now_s`` and ``sleep`` are the steady clock's, others in tests."""

    def __init__(
        self,
        page: Page | None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.page, self._now_s, self._sleep = page, now_s, sleep
        self._lasted: defaultdict[Any, deque[float]] = defaultdict(lambda: deque(maxlen=LATELY))
        self._running: tuple[Any, float] | None = None

    def pass_through(self, piece: Any) -> None:
        """End the piece before, and wait until ``piece`` fits into what is left of a gap."""
        self.end_piece()
        needed, passed, last = RESERVE * self._usual(piece), 0, 0
        while self.page is None or self.page.left_s() < needed:
            gap = 0 if self.page is None else self.page.gap
            if gap not in (0, last):
                passed, last = passed + 1, gap
            if passed > FORGOTTEN_AFTER:
                needed, passed = self._forget(piece), 0
            self._sleep(LOOK_S)
        self.page.begin_piece()
        self._running = (piece, self._now_s())

    def end_piece(self) -> None:
        """What was launched last is done; on a GPU it is waited for, so that one piece at most is under
        way.
        """
        if self._running is None:
            return
        if torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()
        piece, began = self._running
        self._lasted[piece].append(self._now_s() - began)
        self._running = None
        if self.page is not None:
            self.page.end_piece()

    def end_step(self) -> None:
        """An optimizer's step is over."""
        self.end_piece()
        if self.page is not None:
            self.page.end_background_step()

    def _forget(self, piece: Any) -> float:
        """Forget the longest run of a piece, or half of it if there is no other; what it needs now."""
        lasted = self._lasted[piece]
        longest = max(lasted, default=FIRST_S)
        if len(lasted) > 1:
            lasted.remove(longest)
        else:
            lasted.clear()
            lasted.append(longest / 2)
        return RESERVE * self._usual(piece)

    def _usual(self, piece: Any) -> float:
        lasted = self._lasted.get(piece)
        return max(lasted) if lasted else FIRST_S


def install(environment: Mapping[str, str] = os.environ) -> bool:
    """Put gates before every layer, gradient and optimizer's step of this process, if its launcher asked.

    True when it did. A page that cannot be used is logged, and the gates stay shut.
    """
    path = environment.get(ENV_PAGE)
    if not path:
        return False
    try:
        page = attach(Path(path))
    except PageError as error:
        LOG.error("this background job waits for good: %s", error)
        page = None
    _hook(Gate(page))
    return True


def _hook(gate: Gate) -> None:
    """Layers without children only: a gate in the midst of one would be passed twice.

    What is compiled or captured runs as one piece, behind the gate before it.
    """
    seen: set[int] = set()

    def before_layer(module: nn.Module, _: Any) -> None:
        if next(module.children(), None) is not None or torch.compiler.is_compiling():
            return
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                parameter.register_post_accumulate_grad_hook(after_gradient)
        gate.pass_through(("layer", id(module)))

    def after_gradient(parameter: torch.Tensor) -> None:
        gate.pass_through(("gradient", id(parameter)))

    register_module_forward_pre_hook(before_layer)
    register_optimizer_step_pre_hook(lambda optimizer, *_: gate.pass_through(("optimizer", id(optimizer))))
    register_optimizer_step_post_hook(lambda *_: gate.end_step())
