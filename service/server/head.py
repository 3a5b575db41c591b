"""Whether this service is the head of the machines that push to it, for acting, health and the log."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from service.logs import log_event

if TYPE_CHECKING:
    from collector.sources.nodes.receiver import NodeReceiver
    from service.health.components import HealthBoard
    from service.server.assemble import Body

log = logging.getLogger(__name__)

NAME = "head"
SURE_WITHIN_S = 60.0
"""A node pushes each tick, and is started anew within ten seconds: nobody need be told of less."""


def withheld(nodes: "NodeReceiver | None") -> Callable[[], str | None]:
    """Asks why nothing may be done here, as the machines that push tell it; ``None``: this is the head."""
    headship = None if nodes is None else nodes.headship
    return (lambda: None) if headship is None else headship.withheld


def watched(body: "Body", health: "HealthBoard") -> "Body":
    """The same body, whose every tick tells ``health`` and the log where it is not sure to be the head."""
    ask, beat = withheld(body.nodes), body.beat
    if body.nodes is None or body.nodes.headship is None or beat is None:
        return body
    health.expect(NAME, bound_s=SURE_WITHIN_S, first_s=SURE_WITHIN_S, patient=True)
    told: list[str | None] = [None]

    def work() -> int:
        because = ask()
        health.went(NAME, because)
        if because != told[0]:
            if because is None:
                log_event(log, "head-sure")
            else:
                log_event(log, "head-withheld", logging.WARNING, reason=because)
            told[0] = because
        return beat.work()

    remark = ask()
    remarks = body.remarks if remark is None else (*body.remarks, f"Nothing is done to anybody: {remark}.")
    return replace(body, beat=replace(beat, work=work), remarks=remarks)
