"""What acts, as one thing that is started and stopped; ``service.control.components`` builds it."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from advisor.engines.external import ExternalEngine
from advisor.engines.hooks import HookEngine
from advisor.engines.kubernetes import KubernetesEngine
from advisor.engines.launched import LocalEngine
from advisor.engines.slurm import SlurmEngine
from service.control.executor import Applying
from service.control.job_commands import JobCommands
from service.control.loop import ActingLoop

if TYPE_CHECKING:
    from service.alerts.evaluate import AlertEvaluator
    from service.health.condition import MaintenanceTask


class Acting:
    """All of it, built: ``desk`` takes orders at once, cycles run between ``start`` and ``stop``."""

    def __init__(
        self,
        desk: JobCommands,
        loop: ActingLoop,
        applying: Applying,
        waiting: tuple[LocalEngine | SlurmEngine | KubernetesEngine | HookEngine | ExternalEngine, ...],
        alerts: "Callable[[], AlertEvaluator]",
        *,
        metrics: Callable[[], bytes] = bytes,
    ) -> None:
        self.desk, self.loop, self.metrics = desk, loop, metrics
        self._applying, self._waiting, self._alerts = applying, waiting, alerts

    def start(self) -> "tuple[MaintenanceTask, ...]":
        """Begin to act; returns what is to be done now and then from now on. Callers are answered by now."""
        from service.alerts.components import chore_of

        alerts = chore_of(self._alerts())
        self._applying.start()
        self.loop.start()
        return (alerts,)

    def hurry(self) -> None:
        """The end is near: every wait ends at once, and no further step is begun."""
        for engine in self._waiting:
            engine.interrupt()
        self.loop.hurry()
        self._applying.hurry()

    def stop(self) -> None:
        """End: waits end at once, what was begun is settled at the next start. Blocks for a moment."""
        self.hurry()
        with ExitStack() as ends:
            for each in (self._applying.stop, self.loop.stop):
                ends.callback(each)
