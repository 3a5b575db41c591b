"""What one person may take of this service, put together from the configuration: one object a bound."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector.procfs.accounts import uid_of
from service.api.acting import Hands
from service.api.allowance import Allowance, Kind, Rate
from service.api.persons import person_of
from service.api.turns import Turns
from service.control.interface import Caller, Role
from service.server.connection_limits import ConnectionLimits, ConnectionSlots
from service.server.peers import LocalPeers
from service.trust.persons import learn_lenders, person_of_uid

if TYPE_CHECKING:
    from service.config.bounding import LimitsConfig
    from service.config.model import ApiConfig
    from service.control.holdings import Holdings

CALLS_PER_JOB = 30.0
"""A launcher reports every 5 s, and asks for its stream anew now and then."""
CHANGES_PER_JOB = 6.0
"""A job that checkpoints every 10 s says as often that something is new."""
CONNECTIONS_AT_ONCE = 200
"""To take one in costs up to a millisecond on a busy machine: what anybody can make others wait at once."""
MINUTES_OF_A_DAY = 1440
QUESTIONS_IN_LINE = 16
"""A page of the dashboard asks ten questions at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Rates, places, and the lines in which requests wait for their turn. Used on the event loop."""

    allowance: Allowance
    places: ConnectionSlots
    peers: LocalPeers
    questions: Turns
    hands: Hands

    def count_jobs(self, holdings: "Holdings") -> None:
        """From now on more is granted to who has jobs."""
        self.allowance.jobs_of = holdings.jobs_of
        self.places.has_gpus = holdings.has_gpus


def make_bounds(limits: "LimitsConfig", api: "ApiConfig", connections: int) -> Bounds:
    """The bounds; ``connections`` is how many this process can hold open. Asks for operators' accounts."""
    allowance = Allowance(_rates(limits))
    learn_lenders()

    def changed(caller: Caller) -> None:
        if caller.role is not Role.OPERATOR:
            allowance.take(person_of(caller), Kind.CHANGE)

    operators = _accounts(api.operators)
    rules = ConnectionLimits(
        total=connections,
        of_one=min(limits.connections, connections),
        reserved=min(limits.reserved_connections, connections // 2),
    )
    return Bounds(
        allowance=allowance,
        places=ConnectionSlots(
            rules,
            is_operator=operators.__contains__,
            arrives=lambda person: allowance.has(person, Kind.CONNECTION),
        ),
        peers=LocalPeers(),
        questions=Turns(
            at_once=min(limits.questions, max(1, api.query_threads // 2)),
            waiting=QUESTIONS_IN_LINE,
            what="questions",
            setting="limits.questions",
        ),
        hands=Hands(limits.calls_at_once, changed),
    )


def _rates(limits: "LimitsConfig") -> dict[Kind, Rate]:
    return {
        Kind.CALL: Rate(
            per_minute=limits.calls_per_minute,
            at_once=limits.calls_per_minute,
            per_job=CALLS_PER_JOB,
            what="requests",
            setting="limits.calls_per_minute",
        ),
        Kind.CONNECTION: Rate(
            per_minute=limits.calls_per_minute,
            at_once=min(CONNECTIONS_AT_ONCE, limits.calls_per_minute),
            per_job=CALLS_PER_JOB,
            what="connections",
            setting="limits.calls_per_minute",
        ),
        Kind.ORDER: Rate(
            per_minute=limits.orders_per_minute,
            at_once=limits.orders_at_once,
            what="orders",
            setting="limits.orders_per_minute and orders_at_once",
        ),
        Kind.KEPT: Rate(
            per_minute=limits.kept_mib_per_day / MINUTES_OF_A_DAY,
            at_once=limits.kept_mib_per_day,
            what="MiB of orders, which are kept",
            setting="limits.kept_mib_per_day",
        ),
        Kind.CHANGE: Rate(
            per_minute=limits.changes_per_minute,
            at_once=limits.changes_per_minute,
            per_job=CHANGES_PER_JOB,
            what="reports that say something new",
            setting="limits.changes_per_minute",
        ),
    }


def _accounts(operators: Iterable[str]) -> frozenset[str]:
    """The keys of those who are operators by their uid; who is one by a token alone connects as others do."""
    named = (uid_of(name) for name in operators)
    return frozenset(person_of_uid(uid) for uid in (0, os.geteuid(), *named) if uid is not None)
