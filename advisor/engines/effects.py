"""What carrying a step out would do to the world, told beforehand. Pure; nothing here touches anything.

An engine that can tell has ``preview``; which of a step's preconditions it reads for that is its own affair,
but it writes nothing, sends nothing and keeps no GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from advisor.jobs.external_jobs import Holder, Paused, Seen
from advisor.jobs.lifecycle import PLACING, leased
from advisor.jobs.model import (
    CancelCommand,
    Command,
    Elasticity,
    JobRecord,
    NotifyCommand,
    PauseCommand,
    ReallocateCommand,
    ReleaseMemoryCommand,
    RequeueCommand,
    ResumeCommand,
    StartCommand,
)
from advisor.outcomes import Stale, Unsupported
from advisor.tags import verb_of
from analytics import text


class EffectKind(StrEnum):
    """What is touched: COMMAND a launcher or a site's own program, SIGNAL processes, LEASE who holds which
    GPU, ENVIRONMENT that of workers which start, MEMORY of a GPU, MESSAGE a person, RECORD only what Fallow
    remembers.
    """

    COMMAND = "command"
    SIGNAL = "signal"
    LEASE = "lease"
    ENVIRONMENT = "environment"
    MEMORY = "memory"
    MESSAGE = "message"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One thing that a step would do, in a line for people."""

    kind: EffectKind
    text: str


THEN_ENDS = Effect(
    kind=EffectKind.SIGNAL, text="then SIGTERM to its workers, SIGKILL to what is left of them"
)
"""What follows where a job has saved itself."""

Preview = tuple[Effect, ...] | Stale | Unsupported
"""All that a step would do, in order; or why its engine would not begin it as the world is now."""


def of_command(order: Command, entry: JobRecord, timeout_s: float) -> tuple[Effect, ...]:
    """What a command to a job's launcher leads to. ``timeout_s``: so long its answer is waited for."""
    effect = Effect(
        kind=EffectKind.COMMAND,
        text=f"{verb_of(order)}, to the launcher of {entry.id}; its answer is waited for up to "
        f"{text.length(timeout_s)}",
    )
    return (effect, *_signals(order, entry), *_leases(order, entry))


def of_notice(message: str, holder: Holder | None, ways: int) -> tuple[Effect, ...]:
    """What is told to the owner of a job without a launcher, on so many ways."""
    user = (None if holder is None else holder.user) or "its owner"
    how = f"on {text.many(ways, 'way')} of telling" if ways else "but no way of telling is switched on"
    return (Effect(kind=EffectKind.MESSAGE, text=f"to {user}, {how}: {message}"),)


def of_checkpoint(leaving: Paused) -> tuple[Effect, ...]:
    """What a pause by CUDA's checkpoint does: no signal, and its GPUs are free while it is away."""
    return (
        Effect(
            kind=EffectKind.MEMORY,
            text=f"CUDA checkpoint of {_named(pids(leaving.processes))}, to the machine's memory",
        ),
        Effect(kind=EffectKind.LEASE, text=f"{', '.join(leaving.gpus)} can be given to others meanwhile"),
    )


def of_restore(paused: Paused, pids: Sequence[int]) -> tuple[Effect, ...]:
    """What the way back does, for those processes that are left."""
    gpus = ", ".join(paused.gpus)
    return (
        Effect(kind=EffectKind.LEASE, text=f"{gpus} are kept from others until it runs"),
        Effect(kind=EffectKind.MEMORY, text=f"CUDA restore of {_named(pids)}, onto {gpus}"),
    )


def pids(processes: Sequence[Seen]) -> tuple[int, ...]:
    """Their numbers."""
    return tuple(each.pid for each in processes)


def _named(numbers: Sequence[int]) -> str:
    return f"{'process' if len(numbers) == 1 else 'processes'} {', '.join(map(str, numbers))}"


def _signals(order: Command, entry: JobRecord) -> tuple[Effect, ...]:
    """What the launcher does to the workers, as ``service.launcher`` does it."""
    match order:
        case PauseCommand() | RequeueCommand() if leased(entry):
            return (_save(entry), THEN_ENDS)
        case ReallocateCommand() if entry.submission.mobility is Elasticity.ELASTIC:
            return (Effect(kind=EffectKind.SIGNAL, text="none: its controller changes the workers in place"),)
        case ReallocateCommand():
            return (_save(entry), THEN_ENDS, Effect(kind=EffectKind.SIGNAL, text="workers start anew"))
        case CancelCommand() if leased(entry):
            grace = text.length(entry.submission.grace_s)
            ends = f"SIGTERM to its workers at once, SIGKILL to what is left after its grace of {grace}"
            return (Effect(kind=EffectKind.SIGNAL, text=ends),)
        case ReleaseMemoryCommand():
            return (
                Effect(kind=EffectKind.MEMORY, text="its library returns the memory that it only caches"),
            )
        case NotifyCommand(message=message):
            return (Effect(kind=EffectKind.MESSAGE, text=f"printed by its launcher: {message}"),)
        case _:
            return ()


def _save(entry: JobRecord) -> Effect:
    submission = entry.submission
    grace = f"it has {text.length(submission.grace_s)} to save itself, and goes on if it does not"
    if submission.mobility is Elasticity.ELASTIC:
        return Effect(kind=EffectKind.SIGNAL, text=f"none: its controller is asked to save; {grace}")
    return Effect(kind=EffectKind.SIGNAL, text=f"SIG{submission.checkpoint_signal} to its workers; {grace}")


def _leases(order: Command, entry: JobRecord) -> tuple[Effect, ...]:
    if isinstance(order, StartCommand) and order.beside is not None:
        where = f"none: it computes in the idle gaps of {order.beside} on {', '.join(order.gpus)}"
        return (Effect(kind=EffectKind.LEASE, text=where),)
    if isinstance(order, PLACING):
        assert isinstance(order, StartCommand | ResumeCommand | ReallocateCommand)
        part = "" if order.share >= 1 else f" {text.percent(order.share)} of each,"
        memory = "" if order.memory_bytes is None else f", {text.size(order.memory_bytes)} of memory each"
        takes = Effect(
            kind=EffectKind.LEASE,
            text=f"takes {', '.join(order.gpus)},{part} {order.sharing.value}{memory}",
        )
        names = " ".join(f"{name}={value}" for name, value in order.settings)
        return (takes, Effect(kind=EffectKind.ENVIRONMENT, text=names)) if names else (takes,)
    if isinstance(order, PauseCommand | RequeueCommand | CancelCommand) and leased(entry):
        return (
            Effect(kind=EffectKind.LEASE, text=f"gives {', '.join(leased(entry))} back once all has ended"),
        )
    return ()
