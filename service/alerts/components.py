"""Joins the alerts to a service: the acting half's eyes, the store, the outbox, and the clock of them all."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from analytics import text
from collector.clock import SystemClock
from service.alerts.evaluate import AlertDependencies, AlertEvaluator
from service.alerts.inputs import Eyes, facts_of
from service.alerts.store import AlertStore
from service.health.condition import MaintenanceTask
from service.notify.message import address_of
from service.notify.outbox import Outbox, Undelivered

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.model import Config

EVERY_S = 30
FIRST_AFTER_S = 60
"""After the first judgement of a start: what was found before the stop says nothing of now."""


OVERDUE_S = 1_800
"""A receiver's server may be away for a while: messages are tried again for three days. After half an hour it
is worth a look, by the ways that need no message."""


def join_alerts(
    config: "Config",
    store: "Store",
    clock: "Clock",
    eyes: Eyes,
    delivered: Callable[[str | None], None] = lambda trouble: None,
) -> AlertEvaluator:
    """The alerts of one store, at rest. People of a simulated cluster are not sent anything.

    ``delivered`` is told how each round of deliveries ended.
    """
    undelivered = Undelivered(store.folder, SystemClock())
    return AlertEvaluator(
        AlertDependencies(
            config=replace(config.alerts, owners=False) if eyes.simulated else config.alerts,
            delivery=config.delivery,
            book=AlertStore(store),
            outbox=Outbox(store.folder, lambda receiver: address_of(receiver, config.delivery)),
            clock=clock,
            machine=SystemClock(),
            facts=partial(facts_of, store, config, clock, eyes),
            simulated=eyes.simulated,
            overdue=lambda: _overdue(*undelivered.now()),
            delivered=delivered,
        )
    )


def _overdue(count: int, oldest_s: float | None) -> str | None:
    if oldest_s is None or oldest_s < OVERDUE_S:
        return None
    messages = "a message waits" if count == 1 else f"{count} messages wait, the oldest"
    return f"{messages} for {text.length(oldest_s)} to be taken; `fallow alerts` says by whom"


def chore_of(desk: AlertEvaluator) -> MaintenanceTask:
    """The looks and letters of a desk, as a chore of the service."""
    return MaintenanceTask(name="alerts", every_s=EVERY_S, first_after_s=FIRST_AFTER_S, work=desk.work)
