"""The other rules: hogs, faulty GPUs, a badly used day, a starved quota; and what rule each kind has. Pure.

Each takes what was judged or measured elsewhere and says what of it holds now, what cannot be told, and why
the rest is calm. Nothing is judged anew here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from advisor.planner.limits import Mode
from advisor.planner.plan import Rule
from advisor.planner.quota import allocated, tree_of, upward
from advisor.planner.transition import SHARE_SLACK
from advisor.policies.exemptions import silence
from advisor.policies.phrases import job_name
from advisor.state.model import ActionClass, Job, Phase, ProjectName
from analytics import text
from analytics.model import Evidence, Finding, FindingKind
from collector.model import JobId
from service.alerts.blindness import blindness, is_stale
from service.alerts.ended_jobs import ended_jobs
from service.alerts.facts import Facts
from service.alerts.idle import ended, idle_jobs
from service.alerts.model import WORSE, WORTH_A_WORD, AlertKind, Condition, Evaluation
from service.alerts.phrases import keeping, measured, where
from service.alerts.strangers import KINDS as KINDS_OF_STRANGERS
from service.alerts.strangers import strangers
from service.alerts.whole_jobs import KINDS as KINDS_OF_JOBS
from service.alerts.whole_jobs import told_once, whole_jobs
from service.config.alerting import AlertsConfig
from service.wording import is_bound

Evaluate = Callable[[Facts, AlertsConfig, Iterable[str]], Evaluation]
"""A rule: from a look, the configuration and the keys of the open cases to what holds."""


def sight(facts: Facts, config: AlertsConfig, open_keys: Iterable[str]) -> Evaluation:
    """All rules that are switched on, over one look. A case of a kind that was switched off is calm."""
    keys = tuple(open_keys)
    parts = [rule(facts, config, keys) for kind, rule in RULES.items() if kind.value in config.kinds]
    off = {
        key: "this kind of alert is switched off" for key in keys if key.partition(":")[0] not in config.kinds
    }
    evaluation = Evaluation(
        at_ms=facts.now_ms,
        holds={key: conditions for part in parts for key, conditions in part.holds.items()},
        unknown=frozenset().union(*(part.unknown for part in parts)),
        calm={**off, **{key: why for part in parts for key, why in part.calm.items()}},
    )
    return told_once(evaluation)


def memory_hogs(facts: Facts, open_keys: Iterable[str]) -> Evaluation:
    """Jobs that keep memory which they hardly touch: one case a job, on however many GPUs."""
    by_job: defaultdict[JobId, list[Finding]] = defaultdict(list)
    for finding in facts.observed.analysis.findings:
        if finding.kind is FindingKind.MEMORY_HOG and finding.holder is not None:
            by_job[finding.holder.job].append(finding)
    prefix = f"{AlertKind.MEMORY_HOG.value}:"
    open_jobs = {JobId(key.removeprefix(prefix)) for key in open_keys if key.startswith(prefix)}
    unjudged = facts.unjudged(FindingKind.MEMORY_HOG)
    holds: dict[str, Condition] = {}
    unknown, calm = set(), {}
    for id in sorted({*by_job, *open_jobs}):
        job, key = facts.state.jobs.get(id), f"{prefix}{id}"
        placement = facts.state.placements.get(id)
        if job is None or placement is None:
            calm[key] = ended(facts.state, id)
            continue
        silent = silence(facts.state, job, ActionClass.CAP_MEMORY, facts.limits, facts.advice)
        doubtful = silent is not None and silent.rule is Rule.TELEMETRY
        if job.protected or (silent is not None and not doubtful):
            calm[key] = "the site protects it" if silent is None else silent.reason
        elif id in by_job and not doubtful:
            holds[key] = _hog(facts, job, by_job[id])
        elif doubtful or set(placement.gpus) & unjudged:
            unknown.add(key)
        else:
            calm[key] = "it uses its memory now, or holds less of it"
    return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown), calm=calm)


def gpu_faults(facts: Facts) -> Evaluation:
    """GPUs that are not seen any more, and those whose counters contradict each other: one case a GPU."""
    levels = {FindingKind.SUSPECT_COUNTERS: WORTH_A_WORD, FindingKind.FALLING_GPU: WORSE}
    holds: dict[str, Condition] = {}
    findings = [each for each in facts.observed.analysis.findings if each.kind in levels]
    for finding in sorted(findings, key=lambda each: levels[each.kind]):
        fault = _fault(facts, finding, levels[finding.kind])
        holds[fault.key] = fault
    prefix = AlertKind.GPU_FAULT.value
    unknown = {f"{prefix}:{uuid}" for uuid in facts.unjudged(FindingKind.SUSPECT_COUNTERS)}
    calm = {f"{prefix}:{uuid}": "it answers, and its counters agree" for uuid in facts.state.gpus}
    return Evaluation(at_ms=facts.now_ms, holds=holds, unknown=frozenset(unknown - set(holds)), calm=calm)


def low_utilization(facts: Facts, config: AlertsConfig) -> Evaluation:
    """The cluster over its last day against the target; a day that was hardly measured says nothing."""
    key, target, day = (
        f"{AlertKind.LOW_UTILIZATION.value}:cluster",
        config.utilization_target_ratio,
        facts.day,
    )
    if target == 0:
        return Evaluation(at_ms=facts.now_ms, calm={key: "no target is set any more"})
    used = None if day is None else day.utilization_ratio
    if day is None or used is None or day.measured_ratio < facts.advice.coverage_ratio:
        return Evaluation(at_ms=facts.now_ms, unknown=frozenset({key}))
    if used >= min(1.0, target + config.utilization_margin_ratio):
        return Evaluation(at_ms=facts.now_ms, calm={key: f"it was {text.percent(used)} over the last day"})
    if used >= target:
        return Evaluation(at_ms=facts.now_ms, unknown=frozenset({key}))
    use = f"{'at most ' if is_bound(day.bound_used_gpu_hours) else ''}{text.percent(used)}"
    condition = Condition(
        key=key,
        kind=AlertKind.LOW_UTILIZATION,
        level=WORTH_A_WORD,
        rung="under-target",
        since_ms=day.from_ms,
        title=f"The cluster was used {use} over a day; the target is {text.percent(target)}",
        says=(
            f"From {text.clock(day.from_ms)} to {text.clock(day.to_ms)} the GPUs were used "
            f"{use} of the time that was measured; the target is {text.percent(target)}."
        ),
        next="Nothing is done because of this; `fallow advise` says what would give GPU-hours back.",
        do="fallow advise",
        evidence=(
            Evidence(name="utilization_ratio", value=used),
            Evidence(name="target_ratio", value=target),
            Evidence(name="measured_ratio", value=day.measured_ratio),
        ),
    )
    return Evaluation(at_ms=facts.now_ms, holds={key: condition})


def starved_quotas(facts: Facts, config: AlertsConfig) -> Evaluation:
    """Projects with a job that waits for GPUs which their quota guarantees them: one case a project.

    A job has the quota of its own project, else of the nearest one above that has one. Where nothing is
    measured nobody can be given anything; that is blindness, and no starvation.
    """
    tree = tree_of(facts.state.projects, also={job.project for job in facts.state.jobs.values()})
    allocation = upward(tree, allocated(facts.state))
    waiting: defaultdict[ProjectName, list[Job]] = defaultdict(list)
    for job in facts.state.jobs.values():
        if job.phase is not Phase.RUNNING and not job.held and job.id not in facts.state.placements:
            above = (name for name in tree.paths[job.project] if tree.projects[name].quota_gpus)
            waiting[next(above, job.project)].append(job)
    prefix = f"{AlertKind.QUOTA_STARVED.value}:"
    if is_stale(facts, config):
        unknown = frozenset(f"{prefix}{name}" for name in tree.projects)
        return Evaluation(at_ms=facts.now_ms, unknown=unknown)
    holds: dict[str, Condition] = {}
    for name in sorted(waiting):
        quota = tree.projects[name].quota_gpus or 0.0
        jobs = [job for job in waiting[name] if _is_owed(job, quota - allocation[name], facts, config)]
        if quota > 0 and jobs:
            holds[f"{prefix}{name}"] = _starved(facts, name, jobs, quota, allocation[name])
    calm = {f"{prefix}{name}": "no job of it waits for what its quota guarantees" for name in tree.projects}
    return Evaluation(at_ms=facts.now_ms, holds=holds, calm=calm)


def _hog(facts: Facts, job: Job, findings: list[Finding]) -> Condition:
    gpus = tuple(each.uuid for each in findings)
    place = where(gpus, facts)
    own = facts.limits.within(job.project, facts.state.projects)
    mode = own.mode(ActionClass.CAP_MEMORY)
    unused = sum(
        float(e.value or 0.0) for each in findings for e in each.evidence if e.name == "unused_gpu_hours"
    )
    then = {
        Mode.ASK: "A smaller setting is proposed for its next launch; nothing is done without a yes.",
        Mode.AUTO: "A smaller setting is put in place for its next launch, where Fallow launches it.",
    }
    return Condition(
        key=f"{AlertKind.MEMORY_HOG.value}:{job.id}",
        kind=AlertKind.MEMORY_HOG,
        level=WORTH_A_WORD,
        rung="suspected",
        since_ms=min(each.window_from_ms for each in findings),
        title=f"{job_name(job)} holds memory on {place} that it hardly uses",
        says=" ".join(each.sentence for each in findings[:2])
        + ("" if len(findings) <= 2 else f" The same on {len(findings) - 2} more GPUs."),
        next=then.get(mode, "Fallow does nothing to it by itself.")
        + f" The running job is left alone; `fallow explain {job.id}` names the setting.",
        do=keeping(job.id),
        evidence=(
            *(each for each in findings[0].evidence if each.name != "unused_gpu_hours"),
            Evidence(name="unused_gpu_hours", value=unused),
            *measured(facts, job.id, (FindingKind.MEMORY_HOG,)),
        ),
        job=job.id,
        user=job.user,
        project=job.project,
        node=findings[0].node,
        gpus=gpus,
    )


def _fault(facts: Facts, finding: Finding, level: int) -> Condition:
    holder = finding.holder
    fell = finding.kind is FindingKind.FALLING_GPU
    says_so = any(each.name == "off_the_bus" and each.value for each in finding.evidence)
    phrase = "fell off the bus" if says_so else "is not seen any more"
    what = phrase if fell else "has counters that cannot be believed"
    on = "" if holder is None else f" It was given to {holder.user or 'somebody'} ({holder.job})."
    again = "it answers again" if fell else "its counters agree again"
    return Condition(
        key=f"{AlertKind.GPU_FAULT.value}:{finding.uuid}",
        kind=AlertKind.GPU_FAULT,
        level=level,
        rung="falling" if fell else "suspect",
        since_ms=finding.since_ms,
        title=f"{where((finding.uuid,), facts)} {what}",
        says=f"{finding.sentence}{on}",
        next=f"Fallow gives it to nobody, and judges and touches nobody on it, until {again}.",
        do="fallow findings",
        evidence=finding.evidence,
        job=None if holder is None else holder.job,
        user=None if holder is None else holder.user,
        project=None if holder is None else holder.project,
        node=finding.node,
        gpus=(finding.uuid,),
    )


def _is_owed(job: Job, free_gpus: float, facts: Facts, config: AlertsConfig) -> bool:
    """Whether the job fits under what is left of its quota, and has waited for too long."""
    wants = job.min_gpus * job.share
    since_ms = max(job.submitted_ms, job.acted_ms or 0)
    return wants <= free_gpus + SHARE_SLACK and facts.now_ms - since_ms >= config.starved_s * 1000


def _starved(
    facts: Facts, name: ProjectName, jobs: list[Job], quota: float, allocated_gpus: float
) -> Condition:
    first = min(jobs, key=lambda job: (max(job.submitted_ms, job.acted_ms or 0), job.id))
    since_ms = max(first.submitted_ms, first.acted_ms or 0)
    promised = facts.state.reservations.get(first.id)
    reason = facts.waits.get(first.id)
    more = "" if len(jobs) == 1 else f" {len(jobs) - 1} more of its jobs wait as well."
    then = "" if promised is None else f" It was promised a start by {text.clock(promised.start_ms)}."
    return Condition(
        key=f"{AlertKind.QUOTA_STARVED.value}:{name}",
        kind=AlertKind.QUOTA_STARVED,
        level=WORTH_A_WORD,
        rung="starved",
        since_ms=since_ms,
        title=f"{name} waits for GPUs that its quota guarantees",
        says=(
            f"{job_name(first)} waits for {text.many(first.min_gpus * first.share, 'GPU')} since "
            f"{text.clock(since_ms)}, for {text.length((facts.now_ms - since_ms) / 1000)}, while {name} "
            f"holds {text.count(allocated_gpus)} of the {text.count(quota)} that its quota guarantees.{more}"
        ),
        next=f"It starts as soon as there is room.{then}"
        + ("" if not reason else f" The queue says: {reason}.")
        + ("" if facts.halt is None else f" Nothing is started meanwhile: {facts.halt}."),
        do="fallow queue",
        evidence=(
            Evidence(name="quota_gpus", value=quota),
            Evidence(name="held_gpus", value=allocated_gpus),
            Evidence(name="waiting_jobs", value=len(jobs)),
        ),
        job=first.id,
        user=first.user,
        project=name,
    )


def _of_kind(rule: Callable[[Facts, AlertKind, Iterable[str]], Evaluation], kind: AlertKind) -> Evaluate:
    return lambda facts, _, open_keys: rule(facts, kind, open_keys)


RULES: Mapping[AlertKind, Evaluate] = {
    AlertKind.HELD_IDLE: lambda facts, _, open_keys: idle_jobs(facts, open_keys),
    **{kind: _of_kind(whole_jobs, kind) for kind in KINDS_OF_JOBS},
    **{kind: _of_kind(strangers, kind) for kind in KINDS_OF_STRANGERS},
    AlertKind.MEMORY_HOG: lambda facts, _, open_keys: memory_hogs(facts, open_keys),
    AlertKind.GPU_FAULT: lambda facts, *_: gpu_faults(facts),
    AlertKind.LOW_UTILIZATION: lambda facts, config, _: low_utilization(facts, config),
    AlertKind.QUOTA_STARVED: lambda facts, config, _: starved_quotas(facts, config),
    AlertKind.COLLECTOR_BLIND: lambda facts, config, _: blindness(facts, config),
    AlertKind.JOB_ENDED: lambda facts, _, open_keys: ended_jobs(facts, open_keys),
}
"""What says of each kind which cases hold now."""
