"""Which nodes Slurm has, and which of them it gives to nobody: drained, down or reserved, as ``sinfo`` says.

Plain text, which every release prints alike; the reason stands last, because it may hold any character.
"""

from collections.abc import Sequence

from collector.inventory.slurm_programs import output
from collector.model import NodeName, NodeState, OutOfService
from collector.procfs.job_root import bounded

COMMAND = ("sinfo", "--noheader", "--Node", "--format=%N|%T|%u|%E")
FLAGS = "*~#!%$@^-"
"""What sinfo puts behind a state (sinfo(1), "NODE STATE CODES")."""
NO_ANSWER, IN_MAINTENANCE = "*", "$"
REASON_CHARS = 256
"""Ours: a reason is as long as its writer likes."""
NOBODY = frozenset({"", "unknown"})
NO_REASON = frozenset({"", "none"})
STATES = {
    **dict.fromkeys(("drained", "draining", "drain"), OutOfService.DRAINED),
    **dict.fromkeys(("reserved", "maint"), OutOfService.RESERVED),
    **dict.fromkeys(
        ("down", "error", "fail", "failing", "future", "unknown", "inval", "blocked"), OutOfService.DOWN
    ),
    **dict.fromkeys(
        ("powered_down", "powering_down", "power_down", "reboot", "reboot_issued"), OutOfService.DOWN
    ),
}
"""sinfo's words for nodes that get no new job. A job that still runs on one keeps its GPUs."""


def node_states(command: Sequence[str] = COMMAND) -> tuple[NodeState, ...] | None:
    """Every node of the cluster; ``None`` where sinfo could not be asked. Blocks up to the timeout."""
    text = output(command)
    return parsed(text) if text and text.strip() else None


def parsed(text: str) -> tuple[NodeState, ...]:
    """The nodes in lines of ``node|state|user|reason``; a node of several partitions has several. Pure."""
    found: dict[NodeName, NodeState] = {}
    for line in text.splitlines():
        node, _, rest = line.strip().partition("|")
        told, _, rest = rest.partition("|")
        user, _, reason = rest.partition("|")
        if node and told:
            state = state_of(told)
            why = "" if state is None else reason_of(user, reason)
            found[NodeName(node)] = NodeState(node=NodeName(node), state=state, reason=why)
    return tuple(found.values())


def state_of(told: str) -> OutOfService | None:
    """Why a node in this state gets no jobs; ``None``: it does, or the word is a new one."""
    words, flags = told.rstrip(FLAGS).lower(), told[len(told.rstrip(FLAGS)) :]
    named = next((STATES[word] for word in words.split("+") if word in STATES), None)
    if named is None and NO_ANSWER in flags:
        return OutOfService.DOWN
    return OutOfService.RESERVED if named is None and IN_MAINTENANCE in flags else named


def reason_of(user: str, reason: str) -> str:
    """Why, and by whom, as far as Slurm says."""
    why = "" if reason.strip().lower() in NO_REASON else bounded(reason.strip(), REASON_CHARS)
    by = "" if user.strip().lower() in NOBODY else f"by {user.strip()}"
    return " ".join(each for each in (why, by) if each)
