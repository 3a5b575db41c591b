"""How long a piece of work between two gates takes: so soon a gate can close, in eager trainings.

Twice for each model: in the queue, by the device's events at every gate, the host well ahead of the device;
and as ``fallow.idle_gaps.gate`` takes its pieces to last, by marks that it puts itself.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fallow.idle_gaps import gate, hooks
from fallow.idle_gaps.page import LONGEST_GAP_S, Page, create
from tests.gpu import place
from tests.gpu.answers import Figure, told
from tests.gpu.loads import models
from tests.gpu.parts import apart

WARM, LEARNS, STEPS = (2, 4, 2) if place.dry else (3, 12, 8)
"""Steps before any is timed, more with gates: each of the first runs of a piece is measured, as later few."""
BATCH, WORDS_LONG, SEQUENCES = (2, 8, 2) if place.dry else (32, 1024, 4)
WIDTH, BLOCKS = 1536, 24
"""0.84 thousand million parameters, with embedding and head: 13 GB with gradients and Adam's states."""
AHEAD_CYCLES = 200_000_000
"""A tenth of a second in which the device turns, and the host queues: else its launches would be measured."""
OFF, MARKS, GATES = range(3)
Piece = Any


class Looking(gate.Gate):
    """The product's hooks lead here: to nothing, to marks in the device's queue, or to the product's gate."""

    def __init__(self, page: Page, event: Callable[[], Any]) -> None:
        super().__init__(page)
        self.mode, self._event, self.marks = OFF, event, list[tuple[Piece, Any]]()

    def pass_through(self, piece: Piece, devices: Collection[Any] = ()) -> None:
        if self.mode == MARKS:
            self._mark(piece)
        elif self.mode == GATES:
            super().pass_through(piece, devices)

    def end_step(self) -> None:
        if self.mode == MARKS:
            self._mark(None)
        elif self.mode == GATES:
            super().end_step()

    def usual_ms(self) -> dict[Piece, float]:
        """How long each piece is taken to last."""
        return {name: 1000 * piece.usual_s for name, piece in self._pieces.items() if piece.lately_s}

    def forget(self) -> None:
        """A new model: addresses of modules come again."""
        self._pieces.clear()
        self.marks.clear()

    def _mark(self, piece: Piece) -> None:
        event = self._event()
        event.record()
        self.marks.append((piece, event))


def main() -> dict[str, Any]:
    """ResNet-50, then a transformer."""
    torch = place.torch()
    module = torch.get_device_module(place.torch_device())
    with tempfile.TemporaryDirectory() as folder, create(Path(folder, "page")) as page:
        page.allow(is_allowed=True)
        page.end_step(alone_s=None, recent_s=None, share=1.0)
        looking = Looking(page, lambda: module.Event(enable_timing=True))
        kept: list[Any] = []  # the gate knows parameters by their addresses, which would come again
        hooks.put(looking)

        def resnet() -> Sequence[Figure]:
            net = models.resnet_50(torch)
            kept.append(net)
            optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
            x = models.images(torch, BATCH).to(place.torch_device())
            return _looked_at(torch, "ResNet-50", looking, net=net, optimizer=optimizer, x=x, words=False)

        def transformer() -> Sequence[Figure]:
            net = models.transformer(torch, WIDTH, BLOCKS)
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
            x = torch.randint(0, models.WORDS, (SEQUENCES, WORDS_LONG)).to(place.torch_device())
            millions = sum(parameter.numel() for parameter in net.parameters()) / 1e6
            figures = _looked_at(torch, "transformer", looking, net=net, optimizer=optimizer, x=x, words=True)
            return [told("transformer: parameters", millions, "M"), *figures]

        return {"figures": apart("ResNet-50", resnet) + apart("transformer", transformer)}


def _looked_at(
    torch: Any, name: str, looking: Looking, *, net: Any, optimizer: Any, x: Any, words: bool
) -> list[Figure]:
    looking.forget()
    assert looking.page is not None
    in_queue: list[float] = []
    seconds: dict[int, float] = {}
    for mode in (OFF, MARKS, GATES):
        looking.mode, took = mode, list[float]()
        for step in range((warm := LEARNS if mode == GATES else WARM) + STEPS):
            looking.page.open_gap(LONGEST_GAP_S)
            looking.marks.clear()
            place.synchronize()
            if mode == MARKS and not place.dry:
                torch.cuda._sleep(AHEAD_CYCLES)
            begun_s = time.perf_counter()
            models.trains(torch, net, optimizer, x, words=words)
            place.synchronize()
            took.append(time.perf_counter() - begun_s)
            if step >= warm:
                in_queue += _between_ms(looking.marks)
        seconds[mode] = statistics.median(took[warm:])
    looking.mode, usual_ms = OFF, looking.usual_ms()
    parts = 1 + max(piece[3] for piece in usual_ms if piece[0] == "optimizer")
    return [
        told(f"{name}: pieces a step", len(in_queue) / STEPS),
        *_spread(f"{name}: in the queue", in_queue),
        *_spread(f"{name}: as the gate takes them", list(usual_ms.values())),
        told(f"{name}: the longest piece", _title(max(usual_ms, key=lambda piece: usual_ms[piece]), net)),
        told(f"{name}: parts of the optimizer's step", parts),
        told(f"{name}: a step", seconds[OFF] * 1000, "ms"),
        told(f"{name}: with open gates, over without", seconds[GATES] / seconds[OFF]),
    ]


def _between_ms(marks: Sequence[tuple[Piece, Any]]) -> list[float]:
    return [float(one.elapsed_time(later)) for (piece, one), (_, later) in pairwise(marks) if piece]


def _spread(title: str, pieces_ms: Sequence[float]) -> list[Figure]:
    cut = statistics.quantiles(pieces_ms, n=100, method="inclusive")
    each = (("p50", cut[49]), ("p99", cut[98]), ("longest", max(pieces_ms)))
    return [told(f"{title}, {name}", value, "ms") for name, value in each]


def _title(piece: Piece, net: Any) -> str:
    kind, number, *_ = piece
    layers = {id(module): f"{type(module).__name__} {name}" for name, module in net.named_modules()}
    named = {id(parameter): name for name, parameter in net.named_parameters()}
    return f"{kind} {layers.get(number, named.get(number, ''))}".strip()
