"""The words that controller and workers exchange: plans, store keys, reports. Pure.

All of it lives in one key-value store that the controller hosts. The store lets anybody in, so every value is
sealed with the job's secret (``sealed_store``), and nothing is a counter that a stranger could move. Plan
numbers only grow, and a plan that was adopted gives its number to the generation it founds, so "generation 7"
and "plan 7" are the same group.

    plan/N             a Plan, published by the controller
    connected/N/ID     member ID has built the new process group (or failed: the reason)
    decision/N         "commit" once all are connected, else "cancel"
    ready/ID           worker ID has warmed up and could join
    switched/N/ID      member ID has left the old group for N, and holds the state
    lost/G/ID          member ID saw generation G break; holds its last committed step
    unhanded/N/ID      why member ID cannot hand its state over as plan N asks; said before lost/G/ID
    broken/G           generation G is broken, says the controller: whoever still waits in it, leave it
    pulse/ID           counts up while worker ID lives; it stands still when the process is stopped or cut
                       off; "leaving" stands behind the number once a signal asked the worker to leave
    report/ID          newest measurements of member ID
    wish/N             what members are to do at their next step boundary: "save" or "release-caches"
    wishes             the number of the newest wish: who comes later has nothing to do with older ones
    calls              how the script calls its model, as shapes: what a joiner warms up with
    granted/N/ID       what came of wish N in member ID, as JSON

Other machines that offer their slots, through the same store:

    offer/N            the N-th machine to join (from 1): its id, a random word, and what it brings
    agent/ID/pulse     counts up while machine ID is in reach, with "leaving" behind the number once it was
                       asked to leave; at last "left" (no worker is left there) or "over"
    agent/ID/ask/N     the controller's N-th request: start a worker (it is known as N then), signal one,
                       leave, lost (it counted as out of reach: join anew), over
    agent/ID/ended/N   worker N of machine ID has ended: its code and the reason

The groups meet under generation/N/ in the same store, sealed like the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NewType

MemberId = NewType("MemberId", str)
AgentId = NewType("AgentId", str)

COMMIT = "commit"
CANCEL = "cancel"
CONNECTED = "ok"

ENV_STORE = "FALLOW_STORE"
"""host:port of the controller's store; its presence means that somebody drives this process."""
ENV_MEMBER = "FALLOW_MEMBER"
"""This worker's id, unique for the job's whole life."""
ENV_SECRET = "FALLOW_SECRET_FD"
"""The number of the inherited descriptor from which the job's secret is read; the number is no secret."""
ENV_TOKEN = "FALLOW_TOKEN"
"""What a machine must know to join; the controller's and the agents' must be the same."""
LEAVING = "leaving"
"""In a pulse: who shows it was asked by a signal to leave, and goes on until the others can do without."""
LEFT = "left"
"""The last pulse of a machine that has left: its workers have ended, and it takes no others."""
MISTAKE = 64
"""Exit code of a worker whose script asked for something that cannot be: EX_USAGE, alike at each start."""
OVER = "over"
"""The last pulse of a machine that has heard that the training is over."""
WISHES = "wishes"
CALLS = "calls"
"""Written once, by the first of the job in its first step."""
SAVE = "save"
"""A wish: rank 0 saves the training where it has a path."""
RELEASE_CACHES = "release-caches"
"""A wish: the worker's allocator gives unused memory back to the driver."""
ENV_ROLE = "FALLOW_ROLE"
"""``founder`` starts training at once, ``joiner`` warms up and waits to be taken in."""
ENV_HOST = "FALLOW_HOST"
"""The address at which workers on other machines reach this one; absent where all share a machine."""
ENV_INTERFACE = "FALLOW_INTERFACE"
"""The network interface of that address, where GLOO_SOCKET_IFNAME was set to it and not by a person."""
FOUNDER = "founder"
JOINER = "joiner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A membership to move to.

    ``members`` are in rank order. ``receivers`` are those of them that must be handed the training state:
    joiners, and after a failure whoever is behind. ``base`` is the generation it departs from; ``recover``
    says that this generation is broken, so that nobody waits for a step boundary in it.
    """

    number: int
    base: int
    members: tuple[MemberId, ...]
    receivers: tuple[MemberId, ...] = ()
    recover: bool = False

    @property
    def transfers(self) -> tuple[tuple[int, int], ...]:
        """Who hands the state to whom: (source rank, receiver rank), the sources sharing the work evenly."""
        receiving = set(self.receivers)
        sources = [rank for rank, member in enumerate(self.members) if member not in receiving]
        targets = [rank for rank, member in enumerate(self.members) if member in receiving]
        return tuple((sources[turn % len(sources)], rank) for turn, rank in enumerate(targets))


def offer_key(number: int) -> str:
    """Where the ``number``-th machine to join says who it is and what it brings."""
    return f"offer/{number}"


def agent_pulse_key(agent: AgentId) -> str:
    """Where machine ``agent`` shows that it is in reach."""
    return f"agent/{agent}/pulse"


def request_key(agent: AgentId, number: int) -> str:
    """Where the controller's request ``number`` to machine ``agent`` lies."""
    return f"agent/{agent}/ask/{number}"


def ended_key(agent: AgentId, worker: int) -> str:
    """Where machine ``agent`` says how its worker ended."""
    return f"agent/{agent}/ended/{worker}"


def pulse(beat: int, leaving: bool) -> str:
    """What a worker or a machine shows as its ``beat``-th sign of life."""
    return f"{beat} {LEAVING}" if leaving else str(beat)


def is_leaving(shown: bytes) -> bool:
    """Whether a pulse says that its sender was asked to leave, or has left."""
    return shown.decode().endswith((LEAVING, LEFT))


def encode_plan(plan: Plan) -> str:
    """The plan as one line of JSON."""
    return json.dumps(asdict(plan))


def decode_plan(text: str) -> Plan:
    """The plan that ``encode_plan`` wrote."""
    fields: dict[str, Any] = json.loads(text)
    plan = Plan(**fields)
    return replace(plan, members=tuple(plan.members), receivers=tuple(plan.receivers))


def encode_report(report: Mapping[str, float | int | None]) -> str:
    """A worker's measurements as one line of JSON; keys carry their units."""
    return json.dumps(dict(report))


def plan_key(number: int) -> str:
    """Where plan ``number`` is published."""
    return f"plan/{number}"


def decision_key(number: int) -> str:
    """Where the controller says what became of plan ``number``."""
    return f"decision/{number}"


def connected_key(number: int, member: MemberId) -> str:
    """Where ``member`` says that it has built the group of plan ``number``, or why not."""
    return f"connected/{number}/{member}"


def switched_key(number: int, member: MemberId) -> str:
    """Where ``member`` says that it works in generation ``number``."""
    return f"switched/{number}/{member}"


def saving_key(generation: int) -> str:
    """Where its first member says that it saves the training: all of ``generation`` leave."""
    return f"saving/{generation}"


def lost_key(generation: int, member: MemberId) -> str:
    """Where ``member`` says that ``generation`` broke, and which step it had committed last."""
    return f"lost/{generation}/{member}"


def unhanded_key(number: int, member: MemberId) -> str:
    """Where ``member`` says why it cannot hand its state over as plan ``number`` asks."""
    return f"unhanded/{number}/{member}"


def ready_key(member: MemberId) -> str:
    """Where a joiner says that it has warmed up."""
    return f"ready/{member}"


def broken_key(generation: int) -> str:
    """Where the controller says that ``generation`` is broken."""
    return f"broken/{generation}"


def pulse_key(member: MemberId) -> str:
    """Where a worker shows that it lives."""
    return f"pulse/{member}"


def report_key(member: MemberId) -> str:
    """Where a member's newest measurements lie."""
    return f"report/{member}"


def wish_key(number: int) -> str:
    """Where wish ``number`` lies."""
    return f"wish/{number}"


def granted_key(number: int, member: MemberId) -> str:
    """Where ``member`` says what came of wish ``number``."""
    return f"granted/{number}/{member}"


def group_prefix(number: int) -> str:
    """The store prefix under which generation ``number`` meets: old keys would poison a new group."""
    return f"generation/{number}"
