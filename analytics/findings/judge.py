"""All judgements about one GPU, in order: can anything be said, is it faulty, how is it used."""

from collections.abc import Callable

from analytics.findings import faults, holding, intruders, loops, rare, saturation
from analytics.findings.window import stale
from analytics.model import IDLENESS, Claim, Finding, FindingKind, GpuPast, StartingUp, Unknown, Verdict
from analytics.thresholds import Thresholds

EVERY_KIND = tuple(FindingKind)
RESTS = IDLENESS | {FindingKind.NOT_STARTED, FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP}
"""Where none of these can be judged on a GPU, nobody knows whether its holder does anything there."""

OF_HOLD = RESTS | {
    FindingKind.RARELY_USED,
    FindingKind.LOW_SATURATION,
    FindingKind.MEMORY_HOG,
    FindingKind.RESERVED_BY_DESIGN,
}
SUSPENDED = "its workload manager has suspended it: it may not compute, and that is not its owner's doing"
"""Slurm does so for gang scheduling, preemption and by an administrator's word (scontrol(1), "suspend"), and
does not say who did."""

OF_GPU: tuple[Callable[[GpuPast, Thresholds], Finding | Unknown | None], ...] = (
    faults.suspect,
    faults.zombie,
    intruders.intruder,
)
"""What is looked for on a GPU, whoever holds it."""

OF_USE: tuple[Callable[[GpuPast, Claim, int, Thresholds], Finding | Unknown | None], ...] = (
    saturation.low_saturation,
    saturation.memory_hog,
)
"""What is looked for in a holder's use of a GPU at an instant; unknown where a stranger is on it as well."""


def judge(past: GpuPast, now_ms: int, thresholds: Thresholds, tick_ms: int) -> Verdict:
    """What is found, what cannot be known and who is only starting, about one GPU at ``now_ms``.

    A silent GPU is judged by its silence alone: about everything else the answer is Unknown.
    """
    silence = stale(past, now_ms, thresholds, tick_ms)
    if silence is not None:
        fallen = faults.falling(past, now_ms, thresholds)
        return Verdict(
            findings=() if fallen is None else (fallen,),
            unknown=(Unknown(uuid=past.uuid, kinds=EVERY_KIND, reason=silence),),
        )
    answers: list[Finding | Unknown | StartingUp | None] = [rule(past, thresholds) for rule in OF_GPU]
    for claim in past.claims:
        if claim.suspended:
            answers.append(Unknown(uuid=past.uuid, kinds=tuple(sorted(OF_HOLD)), reason=SUSPENDED))
            continue
        own = intruders.own_past(past, claim)
        hold = holding.held(own, claim, now_ms, thresholds)
        answers.append(_hold(past, own, claim, hold, thresholds))
        looping = loops.crash_loop(past, claim, thresholds)
        about_use = (
            looping or (None if isinstance(hold, Finding) else rare.rarely_used(own, claim, thresholds)),
            *(rule(past, claim, now_ms, thresholds) for rule in OF_USE),
        )
        answers += [_use(past, each, thresholds) if isinstance(each, Finding) else each for each in about_use]
    if past.claims and not any(answer.kind in RESTS for answer in answers if isinstance(answer, Finding)):
        answers.append(faults.of_holders(past, RESTS))
    return Verdict(
        findings=tuple(answer for answer in answers if isinstance(answer, Finding)),
        unknown=_merged(past, [answer for answer in answers if isinstance(answer, Unknown)]),
        starting=tuple(answer for answer in answers if isinstance(answer, StartingUp)),
    )


def _hold(past: GpuPast, own: GpuPast, claim: Claim, hold: intruders.Held, t: Thresholds) -> intruders.Held:
    """What is said of a hold; unknown where a stranger was at work, or where counters are to be doubted."""
    told = intruders.unless_hidden(past, own, claim, hold, t)
    return faults.unless_doubted(past, told, t, is_idle=True) if isinstance(told, Finding) else told


def _use(past: GpuPast, found: Finding, t: Thresholds) -> Finding | Unknown:
    told = intruders.unless_intruded(past, found)
    # Low saturation is of the active bins alone, and those in doubt are none.
    if isinstance(told, Unknown) or told.kind is FindingKind.LOW_SATURATION:
        return told
    return faults.unless_doubted(past, told, t, is_idle=False)


def _merged(past: GpuPast, unknown: list[Unknown]) -> tuple[Unknown, ...]:
    """One entry a reason, naming every kind that it keeps from being judged."""
    kinds: dict[str, dict[FindingKind, None]] = {}
    for entry in unknown:
        kinds.setdefault(entry.reason, {}).update(dict.fromkeys(entry.kinds))
    return tuple(
        Unknown(uuid=past.uuid, kinds=tuple(names), reason=reason) for reason, names in kinds.items()
    )
