"""A thread that looks at every component: it logs each change once, and drives the fallback alerts.

It stands beside the clockwork, because that may be what is stuck, and it touches no store.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from service.health.components import Component
from service.logs import log_event

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""Half a usual tick: who is told after two minutes need not be told to the second."""
END_S = 2.0

Look = Callable[[Sequence[Component]], None]


class HealthWatch:
    """Looks every few seconds between ``start`` and ``stop``; ``look`` is handed what it saw."""

    def __init__(
        self, components: Callable[[], Sequence[Component]], look: Look, every_s: float = LOOK_S
    ) -> None:
        self._components, self._look, self._every_s = components, look, every_s
        self._known: dict[str, Component] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; blocks for a moment."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def look(self) -> None:
        """One look, on the caller's thread."""
        components = self._components()
        for each in components:
            before = self._known.get(each.name)
            if before is None or before.state is not each.state:
                was_bad = before is not None and before.state.is_bad
                if each.state.is_bad:
                    log_event(
                        log,
                        "component-unwell",
                        logging.WARNING,
                        component=each.name,
                        state=each.state.value,
                        age_s=None if each.age_s is None else round(each.age_s, 1),
                        bound_s=each.bound_s,
                        reason=each.reason,
                    )
                elif was_bad:
                    log_event(log, "component-well", component=each.name)
            self._known[each.name] = each
        self._look(components)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self.look()
            except Exception:
                log.exception("a look at the components failed")
