"""When to start the child again, and which GPUs to leave alone meanwhile. Pure.

    running ── crash, hang, refusal ──► waiting (back-off doubles) ──► starting ──► running
       └── a GPU was lost ──► after RETRY_LOST a planned restart asks for it again

No jitter: the only rival for the driver is this one child.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

FIRST_WAIT_MS = 5_000
LONGEST_WAIT_MS = 300_000
RETRY_LOST_MS = 300_000
LONGEST_RETRY_LOST_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """A GPU that is left alone until then, why, and how long the pause after the next failure is."""

    until_ms: int
    pause_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How often it failed in a row, when to try next, and the GPUs (by index) that are left alone."""

    failures: int = 0
    not_before_ms: int = 0
    avoided: Mapping[int, Avoided] = field(default_factory=dict)


def failed(state: Restarts, now_ms: int, *, touching: int | None, reason: str) -> Restarts:
    """After a crash, a hang or a refusal. With a GPU to blame the rest goes on at once, without it."""
    if touching is not None:
        before = state.avoided.get(touching)
        pause = before.pause_ms if before else RETRY_LOST_MS
        held = Avoided(until_ms=now_ms + pause, pause_ms=pause, reason=reason)
        return replace(state, avoided={**state.avoided, touching: held})
    wait = min(FIRST_WAIT_MS * 2**state.failures, LONGEST_WAIT_MS)
    return replace(state, failures=state.failures + 1, not_before_ms=now_ms + wait)


def succeeded(state: Restarts) -> Restarts:
    """After a reading."""
    return replace(state, failures=0, not_before_ms=0) if state.failures else state


def noticed_lost(state: Restarts, now_ms: int, index: int, reason: str) -> Restarts:
    """A GPU was reported lost: remember when to ask for it again."""
    return state if index in state.avoided else failed(state, now_ms, touching=index, reason=reason)


def wants_fresh_child(state: Restarts, now_ms: int) -> bool:
    """Whether a GPU that was left alone is due to be asked for again, which takes a new child."""
    return any(_is_due(held, now_ms) for held in state.avoided.values())


def starting(state: Restarts, now_ms: int) -> tuple[frozenset[int], Restarts]:
    """The GPUs a new child must leave alone; those that are due get a try, and a longer pause after it."""
    renewed = {
        index: _longer(held, now_ms) if _is_due(held, now_ms) else held
        for index, held in state.avoided.items()
    }
    avoid = frozenset(index for index, held in state.avoided.items() if not _is_due(held, now_ms))
    return avoid, replace(state, avoided=renewed)


def returned(state: Restarts, answered: set[int]) -> Restarts:
    """Forget the GPUs that answer again."""
    left = {index: held for index, held in state.avoided.items() if index not in answered}
    return state if len(left) == len(state.avoided) else replace(state, avoided=left)


def must_wait_ms(state: Restarts, now_ms: int) -> int:
    """How long to wait before the next try; 0 when it is time, or when the clock was set back."""
    left = state.not_before_ms - now_ms
    return left if 0 < left <= LONGEST_WAIT_MS else 0


def _is_due(held: Avoided, now_ms: int) -> bool:
    """Whether its pause is over, or longer than it ever was: the clock was set back."""
    return not 0 < held.until_ms - now_ms <= held.pause_ms


def _longer(held: Avoided, now_ms: int) -> Avoided:
    pause = min(held.pause_ms * 2, LONGEST_RETRY_LOST_MS)
    return replace(held, until_ms=now_ms + pause, pause_ms=pause)
