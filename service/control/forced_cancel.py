"""``fallow cancel --force``: an operator ends a job and its lease, whatever its launcher and processes do.

For a lease that nobody else can end: its launcher is gone, or does not obey. Nothing is done to a process.
What may still run on its GPUs is said, and those are in use by a stranger until they are measured free.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.actions import Cancel
from advisor.jobs.job_store import UnknownJob as NoEntry
from advisor.jobs.lifecycle import Refused, leased
from advisor.jobs.model import CancelCommand, JobRecord
from advisor.outcomes import Done
from collector.snapshot import Snapshot
from service.control.errors import NotAllowed, WrongState
from service.control.interface import Caller, Role
from service.control.owner_commands import Orders
from service.schemas.answer import Row

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from service.control.liveness import Liveness

MOST_NAMED = 8
"""Processes that a sentence names; it says how many more there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedEnd:
    """Ends leases; ``snapshot`` is what the collector saw at its newest tick."""

    register: "Register"
    orders: Orders
    eyes: "Liveness"
    snapshot: Callable[[], Snapshot]

    def end(self, caller: Caller, entry: JobRecord, step: Cancel) -> Row:
        """End the entry's job and lease, and say what may run on. Blocks for three commits.

        Raises ``NotAllowed``, ``WrongState``.
        """
        if caller.role is not Role.OPERATOR:
            raise NotAllowed(f"an operator cancels with --force; {caller.name} is a {caller.role.value}")
        leftovers = what_is_left(entry, self.snapshot(), self.eyes.living(entry))

        def end(number: int) -> Done:
            self.register.end(entry.id, CancelCommand(number=number, reason=step.reason))
            return Done(note=leftovers)

        try:
            return self.orders.carry_out(step, f"user {caller.name}", end).row()
        except (Refused, NoEntry) as error:
            raise WrongState(str(error)) from error


def what_is_left(entry: JobRecord, snapshot: Snapshot, living: tuple[int, ...]) -> str:
    """What may still run on the GPUs of an entry, in a sentence; ``living`` are workers of it. Pure."""
    gpus = leased(entry)
    if not gpus:
        return f"{entry.id} is ended, and held no GPU"
    processes = {process.key: process for process in snapshot.processes}
    named = dict.fromkeys(living, "")
    for key in sorted(sample.key for sample in snapshot.process_samples if sample.uuid in gpus):
        process = processes.get(key)
        user = None if process is None else process.user or f"uid {process.uid}"
        named[key.pid] = "" if process is None else f" ({process.name or 'unknown'}, {user})"
    sentence = (
        f"{entry.id} is ended; {', '.join(gpus)} {'is' if len(gpus) == 1 else 'are'} not leased any more"
    )
    if not named:
        return f"{sentence}, and free once measured so"
    first = ", ".join(f"process {pid}{about}" for pid, about in list(named.items())[:MOST_NAMED])
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"{sentence}, and in use by a stranger while {first}{more} may run there"
