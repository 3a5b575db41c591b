"""Joins the alerts to a service: the acting half's eyes, the store, the outbox, and the clock of them all."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from collector.clock import SystemClock
from service.alerts.asking import Eyes, facts_of
from service.alerts.book import AlertBook
from service.alerts.desk import AlertDesk, Ground
from service.daemon.state import Chore
from service.delivery.addresses import address_of
from service.delivery.outbox import Outbox

if TYPE_CHECKING:
    from collector.clock import Clock
    from collector.store.database import Store
    from service.config.model import Config

EVERY_S = 30
FIRST_AFTER_S = 60
"""After the first judgement of a start: what was found before the stop says nothing of now."""


def join_alerts(config: "Config", store: "Store", clock: "Clock", eyes: Eyes) -> AlertDesk:
    """The alerts of one store, at rest. People of a simulated cluster are not sent anything."""
    return AlertDesk(
        Ground(
            config=replace(config.alerts, owners=False) if eyes.simulated else config.alerts,
            delivery=config.delivery,
            book=AlertBook(store),
            outbox=Outbox(store.folder, lambda receiver: address_of(receiver, config.delivery)),
            clock=clock,
            machine=SystemClock(),
            facts=partial(facts_of, store, config, clock, eyes),
            simulated=eyes.simulated,
        )
    )


def chore_of(desk: AlertDesk) -> Chore:
    """The looks and letters of a desk, as a chore of the service."""
    return Chore(name="alerts", every_s=EVERY_S, first_after_s=FIRST_AFTER_S, work=desk.work)
