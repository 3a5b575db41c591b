"""What sinfo's words say of a node: drained, down or reserved, or that it gets jobs; and why. Pure."""

from collector.model import OutOfService
from collector.procfs.job_root import bounded

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
