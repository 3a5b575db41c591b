"""Whether this service is the head of the machines that push to it, for acting, messages, health and the log.

A head that another one has superseded does nothing outward: its alerts and reports stay undone here, because
the new head looks, finds and tells the same. One that is only not sure yet (nobody has pushed since it
started) tells all the same: that half of the machines are silent may be the news.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from service.health.components import DELIVERY
from service.logs import log_event

if TYPE_CHECKING:
    from collector.sources.nodes.receiver import NodeReceiver
    from service.health.components import HealthBoard
    from service.health.condition import MaintenanceTask
    from service.server.assemble import Body

log = logging.getLogger(__name__)

NAME = "head"
SENDING = ("alerts", "reports")
"""The chores whose work ends in messages."""
HELD = "Alerts, reports and remote write are held back here, and orders are refused"
SURE_WITHIN_S = 60.0
"""A node pushes each tick, and is started anew within ten seconds: nobody need be told of less."""


def withheld(nodes: "NodeReceiver | None") -> Callable[[], str | None]:
    """Asks why nothing may be done here, as the machines that push tell it; ``None``: this is the head."""
    headship = None if nodes is None else nodes.headship
    return (lambda: None) if headship is None else headship.withheld


def superseded(nodes: "NodeReceiver | None") -> Callable[[], str | None]:
    """Asks which other head is the one, as a machine has told; ``None``: none that is known."""
    return (lambda: None) if nodes is None else nodes.superseded


def held_back(
    chores: "tuple[MaintenanceTask, ...]", superseded: Callable[[], str | None], health: "HealthBoard"
) -> "tuple[MaintenanceTask, ...]":
    """The same chores, of which those that send messages do nothing while another head is the one.

    What is due stays due, and what waits in the outbox waits: a take-over here goes on where it stopped.
    """
    return tuple(
        replace(each, work=partial(_unless_superseded, each.work, superseded, health))
        if each.name in SENDING
        else each
        for each in chores
    )


def _unless_superseded(
    work: Callable[[], None], superseded: Callable[[], str | None], health: "HealthBoard"
) -> None:
    if superseded() is None:
        work()
    else:
        health.succeeded(DELIVERY)  # there is nothing for it to deliver: the component `head` says why


def watched(body: "Body", health: "HealthBoard") -> "Body":
    """The same body, whose every tick tells ``health`` and the log where it is not sure to be the head."""
    ask, ask_superseded, beat = withheld(body.nodes), superseded(body.nodes), body.beat
    if body.nodes is None or body.nodes.headship is None or beat is None:
        return body
    health.expect(NAME, bound_s=SURE_WITHIN_S, first_s=SURE_WITHIN_S, patient=True)
    last: list[str | None] = [None]

    def work() -> int:
        reason = ask()
        other = ask_superseded()
        if other is not None:  # for good: nothing to be patient about
            health.expect(NAME, bound_s=SURE_WITHIN_S)
        health.went(NAME, reason if other is None else f"{other}. {HELD}")
        if reason != last[0]:
            if reason is None:
                log_event(log, "head-sure")
            else:
                log_event(log, "head-withheld", logging.WARNING, reason=reason)
            last[0] = reason
        return beat.work()

    remark = ask()
    remarks = body.remarks if remark is None else (*body.remarks, f"Nothing is done to anybody: {remark}.")
    return replace(body, beat=replace(beat, work=work), remarks=remarks)
