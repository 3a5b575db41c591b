"""A whole training, once alone and once resized every so many steps with workers killed at random.

Used by ``bench/curves.py`` for the docs and, shorter, by the tests.
"""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.elastic import text_training
from fallow.controller.controller import Controller
from fallow.workers.pool import WorkerPool

SCRIPT = Path(text_training.__file__)
ROOT = SCRIPT.parents[2]
PATIENCE_S, NUDGE_S = 120.0, 0.2
STEPS_IN_A_WORLD = 2
"""So many are committed in each world before it is disturbed; the first may be the last of the one before."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A step as some worker committed it."""

    loss: float
    world_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What happens from ``step`` on: the world is asked to become ``workers``, and at ``kill_at`` the
    member of rank ``victim`` (modulo the world) is killed with -9.
    """

    step: int
    workers: int
    kill_at: int | None
    victim: int


def disturbances(total_steps: int, every: int, seed: int) -> list[Disturbance]:
    """A new world every ``every`` steps, and a death in most of several workers; all drawn from ``seed``.

    The only worker is never killed: with it, what was learned since the last checkpoint would be lost.
    """
    chosen = random.Random(seed)
    found, world = [], 1
    for step in range(every, total_steps, every):
        world = chosen.choice([workers for workers in (1, 2, 3, 4) if workers != world])
        dies = chosen.random() < 0.8 and world > 1
        kill_at = step + chosen.randrange(every // 4, every - 4) if dies else None
        found.append(Disturbance(step=step, workers=world, kill_at=kill_at, victim=chosen.randrange(4)))
    return found


@dataclass
class Disturber:
    """Carries the plan out from the controller's loop; the gate keeps the training from running ahead.

    Whoever waits at the gate comes to no boundary between steps, and worlds change at boundaries only: while
    one is to change, who waits is let go on by a step at a time.
    """

    folder: Path
    total_steps: int
    left: list[Disturbance]
    gate: int = -1
    nudged_s: float = 0.0
    steady_from: int | None = None
    asked: Disturbance | None = None
    deaths: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def poll(self, controller: Controller) -> None:
        """Called by the controller each round."""
        assert time.monotonic() - self.began_s < PATIENCE_S, controller.journal[-8:]
        step, view, now = self._furthest(), controller.view, self.asked
        if len(view.members) != view.target or view.pending is not None or view.lost:
            self.steady_from = None
            self._nudge(step)
            return
        if self.steady_from is None:
            self.steady_from = step
        enough = self.steady_from + STEPS_IN_A_WORLD
        if step >= enough:
            if now is not None and now.kill_at is not None:
                if step >= now.kill_at - 1:
                    controller.processes[view.members[now.victim % len(view.members)]].kill()
                    self.deaths += 1
                    self.asked = Disturbance(step=now.step, workers=now.workers, kill_at=None, victim=0)
                    return
            elif self.left and step >= self.left[0].step - 1:
                self.asked, self.steady_from = self.left.pop(0), None
                controller.resize(self.asked.workers)
        self.open(max(self._until(), enough))

    def _until(self) -> int:
        if self.asked is not None and self.asked.kill_at is not None:
            return self.asked.kill_at
        return self.left[0].step if self.left else self.total_steps

    def open(self, until: int) -> None:
        """Let the training go as far as step ``until``."""
        if until > self.gate:
            self.gate = until
            (self.folder / "gate.new").write_text(str(until))
            (self.folder / "gate.new").replace(self.folder / "gate")

    def _nudge(self, step: int) -> None:
        now_s = time.monotonic()
        if step >= self.gate and now_s - self.nudged_s > NUDGE_S:
            self.nudged_s = now_s
            self.open(self.gate + 1)

    def _furthest(self) -> int:
        return max((step for log in _read(self.folder).values() for step in log), default=-1)


def undisturbed(folder: Path, total_steps: int, mode: str) -> dict[int, Committed]:
    """The fixed run, in this process, alone."""
    folder.mkdir(parents=True, exist_ok=True)
    text_training.train(folder, total_steps, mode)
    return _read(folder)["alone"]


def disturbed(
    folder: Path, total_steps: int, mode: str, plan: list[Disturbance]
) -> tuple[dict[str, dict[int, Committed]], int]:
    """What each worker committed, and how many were killed. Raises AssertionError if the training fails."""
    folder.mkdir(parents=True, exist_ok=True)
    controllers: list[Controller] = []

    def wake() -> None:
        for each in controllers:
            each.wake()

    nursery = WorkerPool(
        [str(SCRIPT), str(folder), str(total_steps), mode],
        {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        on_news=wake,
    )
    controller = Controller(nursery.spawn, workers=1, maximum=4)
    controllers.append(controller)
    disturber = Disturber(folder, total_steps, list(plan))
    disturber.open(plan[0].step)
    try:
        code = controller.run(disturber.poll)
    finally:
        nursery.close()
    assert code == 0, (controller.exit_reason, controller.journal[-8:])
    assert not disturber.left, "the training ended before all was done to it"
    return _read(folder), disturber.deaths


def _read(folder: Path) -> dict[str, dict[int, Committed]]:
    logs: dict[str, dict[int, Committed]] = {}
    for path in sorted(folder.glob("*.losses")):
        rows = [line.split() for line in path.read_text().splitlines() if line.count(" ") == 2]
        logs[path.stem] = {
            int(step): Committed(float.fromhex(loss), int(world)) for step, loss, world in rows
        }
    return logs
