"""Jobs of which something was found: one case a job and kind, on however many GPUs it was found. Pure.

A job of which nothing works now is the ladder's (``service.alerts.idle``). Nothing is done because of these.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from advisor.planner.plan import Rule
from advisor.policies.exemptions import silence
from advisor.policies.phrases import job_name
from advisor.state.model import ActionClass, Job
from analytics import text
from analytics.model import Evidence, Finding, FindingKind
from analytics.vocabulary.findings import KINDS as FINDINGS
from analytics.vocabulary.findings import LOOK_BEFORE_LESS, UNKNOWN_GPUS, WORKED_BEFORE
from collector.model import JobId
from service.alerts.facts import Facts
from service.alerts.idle import ended
from service.alerts.model import WORTH_A_WORD, AlertKind, Condition, Evaluation
from service.alerts.phrases import keeping, measured, told, where

HOURS = "idle_gpu_hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What a case of a kind says beside the findings' own sentences.

    ``costs``: its idle GPU-hours stand in the title. ``begins``: a job that has never computed counts as
    starting up, which is what such a case is about, and so no reason to be silent.
    """

    finding: FindingKind
    title: str
    next: str
    calm: str
    costs: bool = False
    begins: bool = False


KINDS: Mapping[AlertKind, _Words] = {
    AlertKind.USES_PART: _Words(
        finding=FindingKind.USES_PART,
        title="uses a part of its GPUs",
        next="Fallow takes no GPU from it. Ask for fewer next time, or use all of them.",
        calm="it uses all of its GPUs, or none",
    ),
    AlertKind.STRAGGLER: _Words(
        finding=FindingKind.STRAGGLER,
        title="works unevenly over its GPUs",
        next="Fallow does nothing to it; see that GPU's data, clock and share of the work.",
        calm="its GPUs are used alike now",
    ),
    AlertKind.MAY_HANG: _Words(
        finding=FindingKind.MAY_HANG,
        title="may hang",
        next="Fallow does nothing to it. Look at its log and its processes' stacks; if its ranks wait for "
        "each other, start it again from its newest checkpoint.",
        calm="it works again, or its power has changed",
    ),
    AlertKind.CRASH_LOOP: _Words(
        finding=FindingKind.CRASH_LOOP,
        title="crashes and starts again and again",
        next="Fallow does nothing to it by itself. Read in its log why it dies; ending it, or allowing fewer "
        "restarts, gives its GPUs back.",
        calm="its processes live on now",
        costs=True,
        begins=True,
    ),
    AlertKind.SLEEPING_BATCH: _Words(
        finding=FindingKind.SLEEPING_BATCH,
        title="has never computed on its GPUs",
        next="Fallow does nothing to it by itself. Its log says what it waits for; ending it gives its GPUs "
        "back.",
        calm="it has computed",
        costs=True,
        begins=True,
    ),
    AlertKind.RARELY_USED: _Words(
        finding=FindingKind.RARELY_USED,
        title="uses its GPUs rarely",
        next="Fallow does nothing to it. A server can scale to zero, a job end with each of its runs, a "
        "terminal be held at fixed hours; or it takes a share of a GPU, where its memory leaves room.",
        calm="it is used more than rarely, or not at all",
        costs=True,
    ),
    AlertKind.LOW_SATURATION: _Words(
        finding=FindingKind.LOW_SATURATION,
        title="fills little of its GPUs while it works",
        next="Fallow does nothing to it.",
        calm="it fills more of its GPUs now",
    ),
    AlertKind.RESERVED_BY_DESIGN: _Words(
        finding=FindingKind.RESERVED_BY_DESIGN,
        title="reserves memory by design and serves little",
        next="Fallow does nothing to it. A lower limit of the server's own, and then a share of a GPU, or a "
        "scale to zero help.",
        calm="it serves more, or holds less memory",
    ),
}


def whole_jobs(facts: Facts, kind: AlertKind, open_keys: Iterable[str]) -> Evaluation:
    """The jobs of which this is so; those of which a GPU is not judged are unknown, never calm."""
    words, prefix = KINDS[kind], f"{kind.value}:"
    findings: defaultdict[JobId, list[Finding]] = defaultdict(list)
    for each in facts.observed.analysis.findings:
        if each.kind is words.finding and each.holder is not None:
            findings[each.holder.job].append(each)
    open_jobs = {JobId(key.removeprefix(prefix)) for key in open_keys if key.startswith(prefix)}
    unjudged = facts.unjudged(words.finding)
    holds: dict[str, Condition] = {}
    unknown, calm = set(), {}
    for id in sorted({*findings, *open_jobs}):
        job, placement, key = facts.state.jobs.get(id), facts.state.placements.get(id), f"{prefix}{id}"
        if job is None or placement is None:
            calm[key] = ended(facts.state, id)
            continue
        silent = silence(facts.state, job, ActionClass.RECLAIM, facts.limits, facts.advice)
        if silent is not None and words.begins and silent.rule is Rule.MIN_RUNTIME:
            silent = None
        if silent is not None and silent.rule is not Rule.TELEMETRY:
            calm[key] = silent.reason
        elif id in findings:
            holds[key] = _condition(facts, kind, job, findings[id])
        elif silent is not None or set(placement.gpus) & unjudged:
            unknown.add(key)
        else:
            calm[key] = words.calm
    return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown), calm=calm)


def told_once(evaluation: Evaluation) -> Evaluation:
    """The look without a second case of a job that idles: its case as an idle job tells what was found.

    What is left out is neither bad nor calm.
    """
    idle = {each.job for each in evaluation.holds.values() if each.kind is AlertKind.HELD_IDLE}
    twice = {key for key, each in evaluation.holds.items() if each.kind in KINDS and each.job in idle}
    if not twice:
        return evaluation
    conditions = {key: each for key, each in evaluation.holds.items() if key not in twice}
    return Evaluation(
        at_ms=evaluation.at_ms, holds=conditions, unknown=evaluation.unknown | twice, calm=evaluation.calm
    )


def _condition(facts: Facts, kind: AlertKind, job: Job, findings: list[Finding]) -> Condition:
    words, first = KINDS[kind], findings[0]
    hours = sum(each.wasted_gpu_hours or 0.0 for each in findings)
    place = where(tuple(each.uuid for each in findings), facts)
    cost = f": {text.gpu_hours(hours)} idle on {place}" if words.costs else ""
    evidence = tuple(each for each in first.evidence if not (words.costs and each.name == HOURS))
    return Condition(
        key=f"{kind.value}:{job.id}",
        kind=kind,
        level=WORTH_A_WORD,
        rung="found",
        since_ms=min(each.since_ms for each in findings),
        title=f"{job_name(job)} {words.title}{cost}",
        says=told(findings),
        next=_next(words, first, job.id),
        do=keeping(job.id),
        evidence=(
            *evidence,
            *((Evidence(name=HOURS, value=hours),) if words.costs else ()),
            *measured(facts, job.id, (words.finding,)),
        ),
        job=job.id,
        user=job.user,
        project=job.project,
        node=first.node,
        gpus=facts.state.placements[job.id].gpus,
    )


def _next(words: _Words, finding: Finding, job: JobId) -> str:
    """What comes next; where a job may be at work, or may need its idle GPUs, to look first."""
    evidence = {each.name: each.value for each in finding.evidence}
    about = FINDINGS[finding.kind]
    if evidence.get(UNKNOWN_GPUS) and about.until_known:
        look = about.unknown_remedy(
            evidence[UNKNOWN_GPUS], finding.holder.kind if finding.holder else None
        ).replace("JOB", shlex.quote(job))
    elif evidence.get(WORKED_BEFORE):
        look = LOOK_BEFORE_LESS
    elif finding.kind is FindingKind.LOW_SATURATION:  # what helps is what its work is limited by
        helps = about.remedy_for(finding.holder.kind if finding.holder else None, evidence)
        return f"{words.next} {_capital(helps.replace('JOB', shlex.quote(job)))}."
    else:
        return words.next
    return f"Fallow takes no GPU from it. {_capital(look)}."


def _capital(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}"
