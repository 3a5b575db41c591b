"""A job over all its GPUs: it uses a part of them, or most wait for a few. One case a job. Pure.

A job of which nothing works is the ladder's (``service.alerts.idle``). Nothing is done because of these.
"""

from collections.abc import Iterable, Mapping

from advisor.model import ActionClass, Job
from advisor.plan import Rule
from advisor.policies.protection import silence
from advisor.policies.sayings import job_name
from analytics.model import Finding, FindingKind
from collector.model import JobId
from service.alerts.facts import Facts
from service.alerts.idle import ended
from service.alerts.model import WORTH_A_WORD, AlertKind, Condition, Sighting
from service.alerts.sayings import keeping, measured

KINDS: Mapping[AlertKind, FindingKind] = {
    AlertKind.USES_PART: FindingKind.USES_PART,
    AlertKind.STRAGGLER: FindingKind.STRAGGLER,
}
TITLES = {
    AlertKind.USES_PART: "uses a part of its GPUs",
    AlertKind.STRAGGLER: "works unevenly over its GPUs",
}
NEXT = {
    AlertKind.USES_PART: "Fallow takes no GPU from it. Ask for fewer next time, or use all of them.",
    AlertKind.STRAGGLER: "Fallow does nothing to it; see that GPU's data, clock and share of the work.",
}
CALM = {
    AlertKind.USES_PART: "it uses all of its GPUs, or none",
    AlertKind.STRAGGLER: "its GPUs are used alike now",
}


def whole_jobs(facts: Facts, kind: AlertKind, open_keys: Iterable[str]) -> Sighting:
    """The jobs of which this is so; those of which a GPU is not judged are unknown, never calm."""
    finding_kind, prefix = KINDS[kind], f"{kind.value}:"
    found = {
        each.holder.job: each
        for each in facts.observed.analysis.findings
        if each.kind is finding_kind and each.holder is not None
    }
    open_jobs = {JobId(key.removeprefix(prefix)) for key in open_keys if key.startswith(prefix)}
    unjudged = facts.unjudged(finding_kind)
    holds: dict[str, Condition] = {}
    unknown, calm = set(), {}
    for id in sorted({*found, *open_jobs}):
        job, placement, key = facts.state.jobs.get(id), facts.state.placements.get(id), f"{prefix}{id}"
        if job is None or placement is None:
            calm[key] = ended(facts.state, id)
            continue
        silent = silence(facts.state, job, ActionClass.RECLAIM, facts.limits, facts.advice)
        if silent is not None and silent.rule is not Rule.TELEMETRY:
            calm[key] = silent.reason
        elif id in found:
            holds[key] = _condition(facts, kind, job, found[id])
        elif silent is not None or set(placement.gpus) & unjudged:
            unknown.add(key)
        else:
            calm[key] = CALM[kind]
    return Sighting(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown), calm=calm)


def _condition(facts: Facts, kind: AlertKind, job: Job, finding: Finding) -> Condition:
    return Condition(
        key=f"{kind.value}:{job.id}",
        kind=kind,
        level=WORTH_A_WORD,
        rung="found",
        since_ms=finding.since_ms,
        title=f"{job_name(job)} {TITLES[kind]}",
        says=finding.sentence,
        next=NEXT[kind],
        do=keeping(job.id),
        evidence=(*finding.evidence, *measured(facts, job.id, (finding.kind,))),
        job=job.id,
        user=job.user,
        project=job.project,
        node=finding.node,
        gpus=facts.state.placements[job.id].gpus,
    )
