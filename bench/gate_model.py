"""A GPU, its two hosts and their clock, on which Fallow's own gate, page, announcer and guard run: a model.

No time passes but that of the model: kernels, launches, waits and sleeps take what they took on an H100
(``tests.gpu.run``, 26 November 2026, steps ``fill``, ``pieces`` and ``page``). So a busy machine changes no
figure. The device does what is queued in order: behind a foreground's work nobody gets in between.
"""

import random
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Protocol

from fallow.idle_gaps.announce import Announcer
from fallow.idle_gaps.gate import Gate
from fallow.idle_gaps.page import LONGEST_GAP_S, Page, create

SHORT, LONG, OPTIMIZER = (310, 33e-6), (10, 300e-6), 13e-3
"""Pieces of a background step and how long each takes on the device; its optimizer, whole."""

PARTS = 26
"""Of its optimizer, where that has parts: such as ``fallow.idle_gaps.hooks`` would make of it."""

LAUNCH_S, SLOW_LAUNCH_S, OPTIMIZER_LAUNCH_S = 25e-6, 59e-6, 1e-3
"""The host's time for a piece, in a model that keeps its device busy and in one that does not (ResNet-50's
step in bf16 over its pieces), and for an optimizer's step."""

AWAIT_S, SLEEP_S = 37e-6, 100e-6
"""A wait for the device, beyond what is waited for; a sleep, beyond what was asked."""

GATE_S, MARK_S = 3e-6, 6e-6
"""The host's time in a gate, and for an event put into the queue and asked about."""

FIRST_S, FIRST_LONG_S, FIRST_LONG = 200e-6, 0.1, 0.03
"""A piece's first run takes so much more of the host; of so many in all it loads kernels."""

STRAY_S, STRAY = 0.03, 1e-4
"""The host is held up for so long once in so many pieces."""

STEP_S, GAP_S, JITTER = 0.028, 0.028, 0.03
"""The training in front: its work, its wait for data, and the spread of that."""

ANSWER_S, PACE_S = 0.005, 0.010
"""The server in front: an answer, and requests on average."""

WARM_STEPS, SETTLE_S = 10, 4.0
"""Of the background with nobody in front, and of the foreground by itself, as in step ``fill``."""


class World:
    """The clock of both hosts, and the one device: ``free_s`` is when all that is queued is done."""

    def __init__(self) -> None:
        self.now_s, self.free_s = 1_000.0, 0.0
        self._front: Iterator[float] = iter(())
        self._wakes_s = float("inf")

    def begin(self, front: Iterator[float]) -> None:
        """A foreground, which yields the time at which it goes on."""
        self._front = front
        self._wakes_s = next(front)

    def pass_s(self, seconds: float) -> None:
        """The background's host is busy or sleeps for so long; the foreground goes on meanwhile."""
        until_s = self.now_s + max(0.0, seconds)
        while self._wakes_s <= until_s:
            self.now_s = max(self.now_s, self._wakes_s)
            self._wakes_s = next(self._front)
        self.now_s = max(self.now_s, until_s)

    def queue(self, seconds: float) -> float:
        """Work for the device, behind all that is queued; when it is done."""
        self.free_s = max(self.now_s, self.free_s) + seconds
        return self.free_s

    def now_ns(self) -> int:
        """For the page."""
        return round(self.now_s * 1e9)


class Marks:
    """Events of the model's device, as ``fallow.idle_gaps.marks`` has them."""

    def __init__(self, world: World) -> None:
        self._world = world

    def use(self, devices: Collection[object]) -> None:
        """It has one."""

    def mark(self) -> float:
        """When all that is queued will be done."""
        self._world.pass_s(MARK_S)
        return max(self._world.now_s, self._world.free_s)

    def is_done(self, mark: float) -> bool:
        """Whether that has come."""
        return mark <= self._world.now_s

    def wait(self, mark: float) -> None:
        """Until it comes, and what waiting takes besides."""
        self._world.pass_s(mark - self._world.now_s + AWAIT_S)

    def between_s(self, earlier: float, later: float, devices: Collection[object]) -> float:
        """Seconds on the device."""
        return later - earlier


class Gates(Protocol):
    """A gate of the product, or one to compare it with."""

    def pass_through(self, name: int) -> None:
        """Wait until the piece may be launched."""

    def end_step(self) -> None:
        """A step is over."""


class NoGates:
    """The background by itself."""

    def pass_through(self, name: int) -> None:
        """At once."""

    def end_step(self) -> None:
        """Nothing is counted."""


class OnePiece:
    """What the gate did until it met a GPU: each piece is awaited, and its longest of 16 runs counts."""

    def __init__(self, world: World, page: Page) -> None:
        self._world, self._page = world, page
        self._lasted: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=16))
        self._running: tuple[int, float] | None = None

    def pass_through(self, name: int) -> None:
        """Wait for the piece before, then for a gap that is longer than this one."""
        self._end()
        lasted = self._lasted[name]
        passed, last = 0, 0
        while self._page.left_s() < 1.15 * max(lasted, default=0.002):
            if self._page.gap not in (0, last):
                passed, last = passed + 1, self._page.gap
            if passed > 16:
                longest, passed = max(lasted, default=0.002), 0
                if len(lasted) > 1:
                    lasted.remove(longest)
                else:
                    lasted.clear()
                    lasted.append(longest / 2)
            self._world.pass_s(0.0002 + SLEEP_S)
        self._running = (name, self._world.now_s)

    def end_step(self) -> None:
        """The last piece is awaited too."""
        self._end()

    def _end(self) -> None:
        if self._running is not None:
            self._world.pass_s(self._world.free_s - self._world.now_s + AWAIT_S)
            name, began_s = self._running
            self._lasted[name].append(self._world.now_s - began_s)
            self._running = None


@dataclass
class Background:
    """A training behind: it launches its pieces at its gates."""

    world: World
    gates: Gates
    parts: int
    launch_s: float
    draw: random.Random = field(default_factory=lambda: random.Random(4))
    steps: int = 0
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        part = (OPTIMIZER_LAUNCH_S / self.parts, OPTIMIZER / self.parts)
        short, long = ([(self.launch_s, seconds)] * count for count, seconds in (SHORT, LONG))
        self._pieces = [*short, *long, *[part] * self.parts]

    def step(self) -> None:
        """One step."""
        for name, (launch_s, work_s) in enumerate(self._pieces):
            if not isinstance(self.gates, NoGates):
                self.world.pass_s(GATE_S)
            self.gates.pass_through(name)
            self.world.pass_s(launch_s + self._held_up_s(name))
            self.world.queue(work_s)
        self.gates.end_step()
        self.world.pass_s(self.world.free_s - self.world.now_s)  # its script reads the loss
        self.steps += 1

    def _held_up_s(self, name: int) -> float:
        """What the host takes longer now and then."""
        seconds = STRAY_S if self.draw.random() < STRAY else 0.0
        if name not in self._seen:
            self._seen.add(name)
            seconds += FIRST_LONG_S if self.draw.random() < FIRST_LONG else FIRST_S
        return seconds


@dataclass
class Front:
    """A foreground, and what is written down of it."""

    world: World
    announcer: Announcer
    took_s: list[float] = field(default_factory=list)
    idle_s: float = 0.0
    draw: random.Random = field(default_factory=lambda: random.Random(3))

    def training(self) -> Generator[float]:
        """Waits for its data as long as it computes."""
        began_s = self.world.now_s
        while True:
            self.announcer.begin_step()
            gap_s = GAP_S * self.draw.lognormvariate(0, JITTER)
            with self.announcer.gap("data"):
                yield self.world.now_s + gap_s
            self.idle_s += gap_s
            yield self.world.queue(STEP_S)
            self.announcer.end_step()
            self.took_s.append(self.world.now_s - began_s)
            began_s = self.world.now_s

    def server(self) -> Generator[float]:
        """Answers requests that come at random, one after another."""
        comes_s = self.world.now_s
        while True:
            wait_s = comes_s - self.world.now_s
            if wait_s > 0:
                with self.announcer.gap("request"):
                    yield comes_s
                self.idle_s += wait_s
            began_s = self.world.now_s
            yield self.world.queue(ANSWER_S)
            if wait_s > 0:
                self.announcer.end_step(self.world.now_s - began_s)
                self.announcer.begin_step()
            self.took_s.append(self.world.now_s - comes_s)
            comes_s += self.draw.expovariate(1 / PACE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one gate beside one foreground, over the same foreground by itself."""

    speed: float
    """Of the background's own."""
    idle: float
    """Part of the time in which the foreground left the device to others: no gate that costs it nothing can
    give more speed.
    """
    p50: float
    p99: float


Made = Callable[[World, Page], Gates]


def fallows(world: World, page: Page) -> Gates:
    """The product's own gate."""
    return Gate(page, lambda: world.now_s, lambda wished_s: world.pass_s(wished_s + SLEEP_S), Marks(world))


def step_s(made: Made | None, parts: int, launch_s: float) -> float:
    """A background step with nobody in front; its gates, if it has any, are open."""
    world = World()
    with _page(world) as page:
        gates = NoGates() if made is None else made(world, page)
        background = Background(world, gates, parts, launch_s)
        _warm(background, page)
        took = []
        for _ in range(100):
            page.open_gap(LONGEST_GAP_S)
            began_s = world.now_s
            background.step()
            took.append(world.now_s - began_s)
        return median(took)


def beside(made: Made, parts: int, is_server: bool, seconds: float) -> Result:
    """Let in beside a foreground for so long, after it was by itself for as long."""
    world = World()
    with _page(world) as page:
        background = Background(world, made(world, page), parts, LAUNCH_S)
        _warm(background, page)
        page.shut_gap()
        page.allow(is_allowed=False)
        front = Front(world, Announcer(page, now_s=lambda: world.now_s))
        running = front.server() if is_server else front.training()
        world.begin(running)
        world.pass_s(SETTLE_S + seconds)
        alone = front.took_s[len(front.took_s) // 10 :]
        front.took_s, front.idle_s = [], 0.0
        page.allow(is_allowed=True)
        began_s, before = world.now_s, background.steps
        while world.now_s < began_s + seconds:
            background.step()
        took_s = world.now_s - began_s
        running.close()
        own_s = step_s(None, parts, LAUNCH_S)
        return Result(
            speed=(background.steps - before) * own_s / took_s,
            idle=front.idle_s / took_s,
            p50=median(front.took_s) / median(alone),
            p99=_p99(front.took_s) / _p99(alone),
        )


def _warm(background: Background, page: Page) -> None:
    """Its first steps, with nobody in front."""
    page.allow(is_allowed=True)
    page.end_step(alone_s=None, recent_s=None, share=1.0)
    for _ in range(WARM_STEPS):
        page.open_gap(LONGEST_GAP_S)
        background.step()


@contextmanager
def _page(world: World) -> Iterator[Page]:
    with tempfile.TemporaryDirectory() as folder, create(Path(folder, "page"), world.now_ns) as page:
        yield page


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[-1]
