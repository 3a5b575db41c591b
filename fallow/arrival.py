"""A state that is handed over amid a step: newcomers take it in while the others compute.

Between two updates nothing changes a parameter or what the optimizer remembers of it, so both can be sent
from where they lie during the forward and backward passes of one step, the arrival step. Newcomers compute
nothing in it; when they have the state they take part in its sum, and are members like all others from there
on. What the passes do change, running statistics, is copied before.

    boundary: fingerprint, begin to send ─► all but newcomers compute ─► settle: it has left ─► sum ─► confirm

A script can reach in and change a parameter amid a step, and then nobody knows which bytes had left. The
sender sees that by the tensors' version counters, the receiver by the fingerprint (``parameter.data`` has no
counter), and all are told in ``confirm``: the others commit the step, whose sum is right, and the newcomer
throws it away and is given the state again, between two steps. When to do so, ``seat`` knows.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from fallow import handover
from fallow.channel import Ready
from fallow.group import Group, GroupBroken
from fallow.handover import Departure

ENV_LEAST_BYTES = "FALLOW_AMID_STEP_BYTES"
LEAST_BYTES = 64 * 1024 * 1024
"""A smaller state is handed over between two steps: that is sooner done than a step without newcomers."""
LONGEST_STEP_S = 60.0
"""In a longer step, newcomers had better help: handing the state over is short beside it."""
FINGERPRINT = "fingerprint"
"""Where the state says that it was sent amid a step, and what its watched part looked like then."""


class Departing(Protocol):
    """Whose state is handed over."""

    next_step: int
    device: torch.device

    def departing_state(self) -> dict[str, Any]:
        """Everything that a joiner needs; tensors that a forward pass changes are copies."""
        ...


class Arrival:
    """One member's part in a hand-over amid a step; made by ``depart`` or ``reach``."""

    def __init__(self, ready: Ready, *, newcomer: bool, intact: bool, departure: Departure | None):
        self.ready = ready
        self.newcomer = newcomer
        self._intact = intact
        self._departure = departure

    @property
    def idle_ranks(self) -> frozenset[int]:
        """The newcomers' ranks: they compute nothing in this step."""
        plan = self.ready.plan
        return frozenset(plan.members.index(member) for member in plan.receivers)

    def settle(self) -> float:
        """Wait until this worker's part has left; returns for how long, in seconds. Raises GroupBroken."""
        if self._departure is None:
            return 0.0
        began_s = time.monotonic()
        self._departure.wait()
        self._intact = self._departure.is_untouched()
        self._departure = None
        return time.monotonic() - began_s

    def confirm(self, step: int, device: torch.device) -> bool:
        """Whether what arrived is what had been there, everywhere. Blocks. Raises GroupBroken."""
        return agree(self.ready.group, step, device, intact=self._intact)


def is_worth_it(state: Any, step_s: float | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ``state`` is better handed over amid a step than between two; ``step_s``: the usual step."""
    least = int(environment.get(ENV_LEAST_BYTES, LEAST_BYTES))
    return step_s is not None and step_s <= LONGEST_STEP_S and handover.nbytes(state) >= least


def depart(ready: Ready, onward: int | None, holder: Departing) -> Arrival:
    """Begin to send the holder's state to rank ``onward``, if to anybody. Blocks for its fingerprint."""
    departure = None
    if onward is not None:
        state = holder.departing_state()
        state[FINGERPRINT] = _watched(state)
        departure = handover.start_state(ready.group, onward, state, holder.device)
    return Arrival(ready, newcomer=False, intact=True, departure=departure)


def reach(ready: Ready, state: Mapping[str, Any]) -> Arrival | None:
    """The newcomer's part, once ``state`` has come; ``None`` for one that was sent between two steps."""
    sent = state.get(FINGERPRINT)
    if sent is None:
        return None
    return Arrival(ready, newcomer=True, intact=_watched(state) == sent, departure=None)


def agree(group: Group, step: int, device: torch.device, *, intact: bool = True) -> bool:
    """All members are about to end the same step; returns whether all are ``intact``.

    Sum and sum of squares together: both fit only where all are equal. Raises GroupBroken where they aren't.
    """
    if group.world_size == 1:
        return intact
    sums = torch.tensor([step, step * step, int(not intact)], dtype=torch.int64, device=device)
    group.all_reduce([sums])
    *steps, spoiled = sums.tolist()
    if steps != [step * group.world_size, step * step * group.world_size]:
        raise GroupBroken(f"the members of the new group are at different steps; this one is at {step}")
    return not spoiled


def _watched(state: Mapping[str, Any]) -> int:
    """The fingerprint of what scripts change by hand; what the optimizer remembers has version counters."""
    return handover.fingerprint([state["model"], state["extra"]])
