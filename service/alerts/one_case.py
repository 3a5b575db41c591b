"""One case a job, whatever was found of it: what holds of each job joined into one condition. Pure.

Rules judge kind by kind. People think in jobs, and get one message of a job: its case has the key of the kind
with which it began, and keeps that while any kind holds (docs/decisions/0108).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analytics.model import Evidence
from analytics.vocabulary.findings import title_of_kind
from service.alerts.lifecycle import Docket
from service.alerts.model import AlertKind, Condition, Evaluation, Incident, kinds_of

OF_A_JOB = (
    AlertKind.HELD_IDLE,
    AlertKind.CRASH_LOOP,
    AlertKind.SLEEPING_BATCH,
    AlertKind.USES_PART,
    AlertKind.MAY_HANG,
    AlertKind.STRAGGLER,
    AlertKind.MEMORY_HOG,
    AlertKind.RARELY_USED,
    AlertKind.RESERVED_BY_DESIGN,
    AlertKind.LOW_SATURATION,
)
"""What is found of jobs, what costs most first: of kinds on one level the first one has the title."""


def job_of(key: str) -> str | None:
    """The job that a case of this key is about; ``None`` of GPUs, people, sources and the end of a job."""
    kind, _, job = key.partition(":")
    return job if kind in OF_A_JOB else None


def asked_keys(cases: Iterable[Incident]) -> tuple[str, ...]:
    """The keys by which rules are asked of open cases: of a job one for each kind that its case tells of."""
    keys: list[str] = []
    for case in cases:
        job = job_of(case.key)
        keys += [case.key] if job is None else [f"{kind}:{job}" for kind in kinds_of(case.condition)]
    return tuple(dict.fromkeys(keys))


def joined(evaluation: Evaluation, docket: Docket) -> Evaluation:
    """The look with one condition a job, under the key of its open case, else of its last one told of.

    A case stays while any of its kinds holds or is not known. Of a second open case of a job, from an older
    store, nothing is said before the job is calm.
    """
    parts: defaultdict[str, list[Condition]] = defaultdict(list)
    opened: defaultdict[str, list[Incident]] = defaultdict(list)
    for condition in evaluation.holds.values():
        if (job := job_of(condition.key)) is not None:
            parts[job].append(condition)
    for case in sorted(docket.open.values(), key=lambda case: case.number):
        if (job := job_of(case.key)) is not None:
            opened[job].append(case)
    holds = {key: each for key, each in evaluation.holds.items() if job_of(key) is None}
    unknown, calm = set(evaluation.unknown), dict(evaluation.calm)
    for job, cases in opened.items():
        for case in cases if job not in parts else cases[1:]:
            keys = [f"{kind}:{job}" for kind in kinds_of(case.condition)]
            unknown.discard(case.key)
            if job in parts or evaluation.unknown & set(keys):
                unknown.add(case.key)
            reasons = dict.fromkeys(evaluation.calm[key] for key in keys if key in evaluation.calm)
            if reasons:
                calm[case.key] = "; ".join(reasons)
    for job, conditions in parts.items():
        still_unknown = () if job not in opened else _unknown_kinds(opened[job][0], job, evaluation)
        one = replace(
            _together(conditions, still_unknown), key=_key(job, conditions, opened[job], docket.past)
        )
        holds[one.key] = one
    return replace(evaluation, holds=holds, unknown=frozenset(unknown - set(holds)), calm=calm)


def at_case(condition: Condition, docket: Docket) -> Condition:
    """A condition of a job under the key of the case that is open about the job, if one is."""
    job = job_of(condition.key)
    cases = [case for case in docket.open.values() if job is not None and job_of(case.key) == job]
    oldest = min(cases, key=lambda case: case.number, default=None)
    return condition if oldest is None else replace(condition, key=oldest.key)


def _key(
    job: str, conditions: Sequence[Condition], opened: Sequence[Incident], past: Mapping[str, Incident]
) -> str:
    if opened:
        return opened[0].key
    lately = [case for case in past.values() if job_of(case.key) == job]
    if lately:
        return max(lately, key=lambda case: case.told_ms or 0).key
    return _in_order(conditions)[0].key


def _unknown_kinds(case: Incident, job: str, evaluation: Evaluation) -> tuple[str, ...]:
    return tuple(kind for kind in kinds_of(case.condition) if f"{kind}:{job}" in evaluation.unknown)


def _in_order(conditions: Sequence[Condition]) -> list[Condition]:
    return sorted(conditions, key=lambda each: (-each.level, OF_A_JOB.index(each.kind)))


def _together(conditions: Sequence[Condition], unknown: Sequence[str]) -> Condition:
    """All that was found of a job as one; kinds that are not known now are still its kinds."""
    first, *others = _in_order(conditions)
    kinds = tuple(dict.fromkeys((first.kind.value, *(each.kind.value for each in others), *unknown)))
    if len(kinds) == 1:
        return first
    also = ", ".join(title_of_kind(each.kind.value).lower() for each in others)
    evidence = {each.name: each for part in reversed((first, *others)) for each in part.evidence}
    return replace(
        first,
        title=f"{first.title}; also: {also}" if also else first.title,
        says=" ".join(dict.fromkeys(each.says for each in (first, *others))),
        next=" ".join(dict.fromkeys(each.next for each in (first, *others))),
        since_ms=min(each.since_ms for each in conditions),
        evidence=(*evidence.values(), Evidence(name="kinds", value=", ".join(kinds))),
        gpus=tuple(dict.fromkeys(uuid for each in (first, *others) for uuid in each.gpus)),
        by_ladder=any(each.by_ladder for each in conditions),
    )
