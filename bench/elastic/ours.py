"""One training under our controller, taken through a list of world sizes."""

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.elastic import pauses
from bench.elastic.pauses import Change
from fallow.controller.controller import Controller
from fallow.workers.pool import WorkerPool

SCRIPT = Path(__file__).with_name("training.py")
STEPS_A_WORLD = 8
"""Enough to tell the usual step from the first one."""
PATIENCE_S = 120.0


@dataclass
class Tour:
    """Asks for the next world whenever the present one has made enough steps."""

    folder: Path
    worlds: list[int]
    asked: list[tuple[float, int, int]] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    looked_s: float = 0.0

    def poll(self, controller: Controller) -> None:
        """Called by the controller each round."""
        now_s = time.monotonic()
        if now_s - self.looked_s < 0.1 or controller.view.stopping:
            return
        self.looked_s = now_s
        assert now_s - self.began_s < PATIENCE_S, controller.journal[-5:]
        since_s, _, world = self.asked[-1] if self.asked else (0.0, 0, self.worlds[0])
        if self._steps(world, since_s) < STEPS_A_WORLD:
            return
        at, self.began_s = len(self.asked) + 1, now_s
        if at == len(self.worlds):
            controller.ask_to_stop("the tour is over")
        else:
            self.asked.append((time.monotonic(), world, self.worlds[at]))
            controller.resize(self.worlds[at])

    def _steps(self, world: int, since_s: float) -> int:
        logs = pauses.read(self.folder)
        return max(
            (sum(s.world_size == world and s.began_s > since_s for s in steps) for steps, _ in logs.values()),
            default=0,
        )


def tour(size: str, worlds: list[int]) -> list[tuple[int, int, Change]]:
    """Each change on the way through ``worlds``: from, to, and what it cost.

    Raises ValueError, with the controller's journal, for one that went by way of another world.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        controllers: list[Controller] = []

        def wake() -> None:
            for each in controllers:
                each.wake()

        nursery = WorkerPool(
            [str(SCRIPT), name, size],
            {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[2])},
            on_news=wake,
        )
        controller = Controller(nursery.spawn, workers=worlds[0], maximum=max(worlds))
        controllers.append(controller)
        journey = Tour(folder, worlds)
        try:
            controller.run(journey.poll)
        finally:
            nursery.close()
        logs = pauses.read(folder)
    try:
        return [(old, new, pauses.change(logs, at_s, old, new)) for at_s, old, new in journey.asked]
    except ValueError as error:
        error.add_note("\n".join(controller.journal))
        raise
