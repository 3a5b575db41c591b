"""A whole training, once alone and once resized every so many steps with workers killed at random.

Used by ``bench/curves.py`` for the docs and, shorter, by the tests.
"""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.elastic import text_training
from fallow.controller import Controller
from fallow.nursery import Nursery

SCRIPT = Path(text_training.__file__)
ROOT = SCRIPT.parents[2]
PATIENCE_S = 240.0


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
    """Carries the plan out from the controller's loop; the gate keeps the training from running ahead."""

    folder: Path
    total_steps: int
    left: list[Disturbance]
    asked: Disturbance | None = None
    deaths: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def poll(self, controller: Controller) -> None:
        """Called by the controller each round."""
        assert time.monotonic() - self.began_s < PATIENCE_S, controller.journal[-8:]
        step, view, now = self._furthest(), controller.view, self.asked
        steady = len(view.members) == view.target and view.pending is None and not view.lost
        if now is not None and now.kill_at is not None:
            if step >= now.kill_at - 1 and steady:
                controller.processes[view.members[now.victim % len(view.members)]].kill()
                self.deaths += 1
                self.asked = Disturbance(step=now.step, workers=now.workers, kill_at=None, victim=0)
            return
        if steady and self.left and step >= self.left[0].step - 1:
            self.asked = self.left.pop(0)
            controller.resize(self.asked.workers)
        self._open(steady)

    def _open(self, steady: bool) -> None:
        if self.asked is not None and self.asked.kill_at is not None:
            until = self.asked.kill_at
        elif not steady:
            return
        else:
            until = self.left[0].step if self.left else self.total_steps
        (self.folder / "gate.new").write_text(str(until))
        (self.folder / "gate.new").replace(self.folder / "gate")

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
    (folder / "gate").write_text(str(plan[0].step))
    controllers: list[Controller] = []
    nursery = Nursery(
        [str(SCRIPT), str(folder), str(total_steps), mode],
        {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        on_news=lambda: [controller.wake() for controller in controllers] and None,
    )
    controller = Controller(nursery.spawn, workers=1, maximum=4)
    controllers.append(controller)
    disturber = Disturber(folder, total_steps, list(plan))
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
