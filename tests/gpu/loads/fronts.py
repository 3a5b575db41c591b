"""Two foregrounds that leave their GPU idle half of the time, and a training to run behind them."""

import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import fallow
from fallow.idle_gaps.announce import announcer
from fallow.idle_gaps.gate import ENV_PAGE
from tests.gpu import place
from tests.gpu.loads import models

BATCH, REQUEST = (4, 1) if place.dry else (32, 8)
SEQUENCES, WORDS_LONG, WIDTH, BLOCKS = (1, 4, 16, 1) if place.dry else (4, 512, 768, 12)
WARM, TIMED = (1, 2) if place.dry else (8, 12)
ENDLESS = 10_000_000


class Front:
    """What runs in front: ``once`` does a unit of it and says what that took, in seconds."""

    pace = 0.0  # seconds

    def once(self) -> float:
        raise NotImplementedError

    def warm(self) -> None:
        """What a first use takes is over then."""

    def calibrate(self) -> None:
        """Find the pace at which half of the time is idle, while nobody is beside."""

    def clear(self) -> None:
        """A new measurement begins."""


class Training(Front):
    """A step's time is from the end of the one before."""

    def __init__(self, torch: Any) -> None:
        device, front = place.torch_device(), self
        x, y = models.images(torch, BATCH), torch.randint(0, 1000, (BATCH,))

        class Slow(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return ENDLESS * BATCH

            def __getitem__(self, index: int) -> tuple[Any, Any]:
                if index % BATCH == 0:
                    time.sleep(front.pace)
                return x[index % BATCH], y[index % BATCH]

        net = models.resnet_50(torch)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)

        def loss(inputs: Any, wanted: Any) -> Any:
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not place.dry):
                return torch.nn.functional.cross_entropy(net(inputs.to(device)), wanted.to(device))

        def busy() -> None:
            optimizer.zero_grad()
            value = loss(x, y)
            value.backward()
            optimizer.step()
            float(value.detach().item())

        def fetch() -> None:
            torch.utils.data.default_collate([(x[at], y[at]) for at in range(BATCH)])

        def begun() -> tuple[Any, Any]:
            trainer = fallow.connect(device=str(device)).elastic(
                net, optimizer, global_batch=BATCH, max_micro_batch=BATCH
            )
            return trainer, trainer.steps(Slow(), total_steps=ENDLESS, shuffle=False, workers=0)

        self._busy, self._fetch, self._begun = busy, fetch, begun
        self._trainer: Any = None
        self._loss, self._ended_s = loss, time.monotonic()

    def warm(self) -> None:
        median_s(self._busy)

    def calibrate(self) -> None:
        busy_s = median_s(self._busy)
        self.pace = max(busy_s - median_s(self._fetch), busy_s / 10)

    def once(self) -> float:
        if self._trainer is None:  # not before: the gaps of its first steps are those that it learns
            self._trainer, self._steps = self._begun()
        _, batches = next(self._steps)
        for inputs, wanted in batches:
            self._trainer.backward(self._loss(inputs, wanted))
        done = self._trainer.step()
        float(done.loss)  # as scripts that print it do: the host has caught up with the GPU then
        before_s, self._ended_s = self._ended_s, time.monotonic()
        return self._ended_s - before_s

    def clear(self) -> None:
        """What it rested is no step's time."""
        self._ended_s = time.monotonic()


class Serving(Front):
    """A request's time is from when it came to its answer; what waits in line has come."""

    def __init__(self, torch: Any) -> None:
        net = models.resnet_50(torch).eval()
        x = models.images(torch, REQUEST).to(place.torch_device())

        def answer() -> None:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=not place.dry):
                net(x)
            place.synchronize()

        self._answer = answer
        self._gaps = announcer(place.torch_device())
        self.clear()

    def warm(self) -> None:
        median_s(self._answer)

    def calibrate(self) -> None:
        self.pace = 2 * median_s(self._answer)
        took = []
        for _ in range(2 * TIMED):  # an answer after a rest takes longer than one right after another
            time.sleep(self.pace / 2)
            begun_s = time.monotonic()
            self._answer()
            took.append(time.monotonic() - begun_s)
        self.pace = 2 * statistics.mean(took)

    def once(self) -> float:
        wait_s = self._comes_s - time.monotonic()
        if wait_s > 0:
            with self._gaps.gap("request"):
                time.sleep(wait_s)
        begun_s = time.monotonic()
        self._answer()
        ended_s = time.monotonic()
        took_s = ended_s - self._comes_s
        if wait_s > 0:
            self._gaps.end_step(ended_s - begun_s)
            self._gaps.begin_step()  # what lies between is no gap: the next request may have come
        self._comes_s += self._draw.expovariate(1 / self.pace)
        return took_s

    def clear(self) -> None:
        """The same requests come again, so that two measurements differ by what ran beside."""
        self._draw, self._comes_s = random.Random(7), time.monotonic()


class Behind(Front):
    """A fine-tuning of a transformer of 0.16 thousand million parameters."""

    def __init__(self, torch: Any) -> None:
        fallow.listen()
        net = models.transformer(torch, WIDTH, BLOCKS)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5)
        x = torch.randint(0, models.WORDS, (SEQUENCES, WORDS_LONG)).to(place.torch_device())
        self._step: Callable[[], None] = lambda: models.trains(torch, net, optimizer, x, words=True)

    def warm(self) -> None:
        if ENV_PAGE not in os.environ:  # else it would wait at its gate, and never be ready
            median_s(self.once)

    def once(self) -> float:
        begun_s = time.monotonic()
        self._step()
        place.synchronize()
        return time.monotonic() - begun_s


def median_s(once: Callable[[], object]) -> float:
    took = []
    for _ in range(WARM + TIMED):
        begun_s = time.monotonic()
        once()
        took.append(time.monotonic() - begun_s)
    return statistics.median(took[WARM:])
