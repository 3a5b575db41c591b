"""Joins the advisor to what a client can ask: configuration and named queries in, advice and plan out.

Reading only: nothing here reaches an engine, and no mode is looked at but to say what would be done.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from service.errors import FallowError

if TYPE_CHECKING:
    from advisor.explain import Decisions
    from advisor.live.snapshot import Site
    from advisor.planner.fair_share import Charged
    from advisor.planner.guard import Ruling
    from advisor.planner.limits import Limits, PlannerConfig
    from advisor.planner.observed import Observed
    from advisor.planner.plan import Abstain, Advice
    from advisor.state.model import ClusterState, Job
    from advisor.whatif.history import Past
    from advisor.whatif.hook_rules import RuleEffect
    from collector.model import GpuUuid
    from service.client import Client
    from service.config.model import Config

JUDGED_GOOD_FOR_S = 300.0
"""Five judgements that did not come."""
JUDGED_LEAST_S = 10.0
"""By the machine's own clock: a busy machine judges late."""


class CannotAdvise(FallowError):
    """There is nothing to decide on, or what was configured cannot be; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceContext:
    """What was decided about the live cluster, and how the guard rules on it.

    ``places`` maps ``node:index`` to a GPU; ``currency`` is ``None`` without prices.
    """

    said: "Decisions"
    ruling: "Ruling"
    limits: "Limits"
    rules: "PlannerConfig"
    places: "dict[str, GpuUuid]"
    currency: str | None


def consult(client: "Client", config: "Config", jobs: "Sequence[Job]" = ()) -> AdviceContext:
    """Read the live cluster, ask every policy, plan, and ask the guard. Blocks.

    ``jobs`` are jobs that wait, which nobody but the caller knows of. Raises ``ClientError`` and
    ``CannotAdvise``.
    """
    from advisor.decide import decide
    from advisor.explain import Decisions
    from advisor.live.snapshot import read_live
    from advisor.live.stored_analysis import Judged, moment_ms, recorded_analysis
    from advisor.planner.consent import with_consent, words_of
    from advisor.planner.guard import approve
    from advisor.planner.validate import BadState, checked
    from collector.gpu_place import node_place, places_apart
    from collector.model import GpuUuid

    limits = limits_of(config)
    at = newest(client)
    minute = at.replace(second=0, microsecond=0)
    # What is open is so whenever it began; the hours of the window, which few need, are kept few.
    span = {"from_ts": minute - timedelta(minutes=1), "to_ts": minute + timedelta(minutes=2)}
    findings = client.rows("findings", open=True, **span)
    judged = Judged.of(client.rows("judgement"), judged_good_for_ms(config))
    analysis = recorded_analysis(findings, client.rows("unjudged"), moment_ms(at), judged=judged)
    live = read_live(lambda name, given: client.rows(name, **given), analysis, site_of(config), config.advice)
    words = words_of(client.rows("consents", as_of=live.state.as_of_ms))
    try:
        state = checked(with_jobs(with_consent(live.state, words), jobs))
    except BadState as error:
        raise CannotAdvise(f"nothing can be decided: {error}") from error
    answers = ask_policies(state, live.observed, limits, config.advice)
    plan = decide(state, limits, answers)
    rows = [
        row for row in client.rows("gpus_now") if row["gpu_place"] is not None and row["uuid"] in state.gpus
    ]
    called = places_apart((row["node"], row["gpu_place"], row["uuid"]) for row in rows)
    places = {node_place(row["node"], called[row["uuid"]], row["uuid"]): GpuUuid(row["uuid"]) for row in rows}
    return AdviceContext(
        said=Decisions(state=state, observed=live.observed, answers=answers, plan=plan),
        ruling=approve(plan, state, limits),
        limits=limits,
        rules=config.advice,
        places=places,
        currency=next((price.currency for price in live.observed.prices.values()), None),
    )


def recorded_past(client: "Client", start: datetime, end: datetime, config: "Config") -> "Past":
    """What was recorded in a window. Blocks. Raises ``ClientError``."""
    from advisor.jobs.slowdown_watchdog import pairs_of
    from advisor.live.snapshot import stretch_of
    from advisor.planner.observed import Price
    from advisor.whatif.history import Past
    from advisor.whatif.history_rows import holding_of, installed_of, past_job_of, submitted_of
    from advisor.whatif.idle_clocks import with_clocks
    from collector.model import JobId

    site = site_of(config)
    span = {"from_ts": start, "to_ts": end}
    limit = {"start_limit_s": config.findings.start_limit_s}
    submissions = submitted_of(client.rows("submitted_jobs", **span))
    middle = (start + (end - start) / 2).replace(second=0, microsecond=0)
    rows, *halves = (
        client.rows("past_jobs", from_ts=since, to_ts=until)
        for since, until in ((start, end), (start, middle), (middle, end))
    )
    jobs, earlier, later = (
        tuple(past_job_of(row, site, submissions.get(JobId(row["job"]))) for row in each)
        for each in (rows, *halves)
    )
    return Past(
        from_ms=round(start.timestamp() * 1000),
        to_ms=round(end.timestamp() * 1000),
        stretches=with_clocks(
            [stretch_of(row) for row in client.rows("idle_stretches", **span, **limit)], config.findings
        ),
        jobs=jobs,
        earlier=earlier,
        later=later,
        pairs=pairs_of(client.rows("pairs", from_ts=start)),
        prices={
            row["model"]: Price(per_gpu_hour=row["per_gpu_hour"], currency=row["currency"])
            for row in rows
            if row["model"] is not None and row["per_gpu_hour"] is not None and row["currency"] is not None
        },
        submitted=submissions,
        holdings=tuple(holding_of(row) for row in client.rows("past_holdings", **span)),
        installed=tuple(installed_of(row) for row in client.rows("past_gpus", **span)),
        projects=site.projects,
        protect=site.protect,
    )


def rule_effects(client: "Client", past: "Past", config: "Config") -> "tuple[RuleEffect, ...]":
    """What each rule of ``[hooks]`` would have done in a past. Asks where each job ran that idled long."""
    from advisor.engines.hook_commands import hook_at, pod_of
    from advisor.whatif.hook_rules import effect
    from collector.model import JobId
    from service.config.hooks import hooks_of, idle_rule

    hooks = hooks_of(config.hooks)
    rules = [(hook, rule) for hook in hooks if (rule := idle_rule(hook)) is not None]
    least_s = min((rule.idle_s for _, rule in rules), default=0)
    idle = {each.job for each in past.stretches if each.length_s >= least_s} if rules else set()
    places: dict[JobId, str] = {}
    for job in idle:
        runs = client.rows("manager_runs", job=job) if job.startswith("slurm:") else []
        place = (runs[0]["partition"] or "", runs[0]["qos"] or "") if runs else ("", "")
        hook = hook_at(hooks, pod_of(job)[0], *place)
        if hook is not None:
            places[job] = hook.name
    return tuple(
        effect(
            rule, past.stretches, {job for job, name in places.items() if name == hook.name}, config.advice
        )
        for hook, rule in rules
    )


def ask_policies(
    state: "ClusterState", observed: "Observed", limits: "Limits", rules: "PlannerConfig"
) -> "tuple[Advice | Abstain, ...]":
    """What every policy says of one snapshot: advice by gain, then the reasons for none."""
    from advisor.planner.plan import Advice
    from advisor.policies import background, consolidate, idle_reclaim, memory_cap, pack, right_size

    answers = [
        answer
        for policy in (idle_reclaim, memory_cap, pack, consolidate, right_size, background)
        for answer in policy.advise(state, observed, limits, rules)
    ]
    advised = sorted((a for a in answers if isinstance(a, Advice)), key=lambda each: -each.gain_gpu_hours)
    return (*advised, *(a for a in answers if not isinstance(a, Advice)))


def newest(client: "Client") -> datetime:
    """The instant of the newest sample: what is advised is advised as of then."""
    rows = client.rows("span")
    if not rows or rows[0]["last_ts"] is None:
        raise CannotAdvise("nothing was measured yet; start a service with `fallow serve` and wait a minute")
    return text.aware(datetime.fromisoformat(rows[0]["last_ts"]))


def limits_of(config: "Config") -> "Limits":
    """The decision's bounds as they were configured, modes included."""
    from advisor.planner.limits import Lending, Limits, Mode, Order
    from advisor.state.model import ActionClass, ProjectName

    def said(table: object) -> "dict[ActionClass, Mode]":
        modes = {action: getattr(table, action.value.replace("-", "_")) for action in ActionClass}
        return {action: Mode(mode) for action, mode in modes.items() if mode}

    own = {ProjectName(name): said(table) for name, table in config.modes.by_project.items()}
    bounds = {
        **asdict(config.deciding),
        "order": Order(config.deciding.order),
        "lending": Lending(config.deciding.lending),
    }
    return Limits(modes=said(config.modes), project_modes=own, **bounds)


def charged_now(client: "Client", config: "Config", as_of: datetime) -> "tuple[Charged, ...]":
    """Whom charging held-idle hours once more would move, by the use up to then. Blocks. Raises
    ``ClientError``."""
    from advisor.live.snapshot import usage_of
    from advisor.planner.fair_share import charging

    limits = limits_of(config)
    until = as_of.replace(second=0, microsecond=0)
    rows = client.rows("project_use", from_ts=until - timedelta(seconds=limits.window_s), to_ts=until)
    return charging(site_of(config).projects, usage_of(rows), limits)


def judged_good_for_ms(config: "Config") -> int:
    """For how long a judgement is believed, in time of the calendar, which may hurry."""
    return round(max(JUDGED_GOOD_FOR_S, JUDGED_LEAST_S * config.rehearsal.speed) * 1000)


def site_of(config: "Config") -> "Site":
    """Quotas and consent as decisions take them; a project above others without GPUs sums theirs."""
    from advisor.live.snapshot import Site
    from advisor.state.model import ActionClass, Project, ProjectName
    from advisor.state.site_protection import Protect

    parents = {quota.parent for quota in config.quotas.values() if quota.parent}
    return Site(
        projects={
            ProjectName(name): Project(
                name=ProjectName(name),
                parent=ProjectName(quota.parent) if quota.parent else None,
                quota_gpus=None if name in parents and quota.gpus == 0 else quota.gpus,
                limit_gpus=quota.limit or None,
                weight=quota.weight,
                priority=quota.priority,
            )
            for name, quota in config.quotas.items()
        },
        may_share=frozenset(config.consent.share),
        preemptible=frozenset(config.consent.preemptible),
        checkpointable=frozenset(config.consent.checkpointable),
        opted_out={
            name: frozenset(ActionClass(each) for each in classes)
            for name, classes in config.consent.opt_out.items()
        },
        protect=Protect(
            users=frozenset(config.protect.users),
            jobs=config.protect.jobs,
            gpus=frozenset(config.protect.gpus),
        ),
    )


def with_jobs(state: "ClusterState", jobs: "Sequence[Job]") -> "ClusterState":
    """The state with jobs that wait added to it; a model is meant by any part of its name."""
    here = sorted({gpu.model for gpu in state.gpus.values() if gpu.model is not None})
    added = {}
    for job in jobs:
        meant = tuple(model for model in here for part in job.gpu_models if part.lower() in model.lower())
        added[job.id] = replace(job, gpu_models=meant or job.gpu_models)
    return replace(state, jobs={**state.jobs, **added})


def parse_want(text: str, number: int, now_ms: int) -> "Job":
    """A job that waits, from ``PROJECT:GPUS`` or ``PROJECT:GPUS:MODEL``. Raises ``CannotAdvise``."""
    from advisor.state.model import Job, ProjectName
    from collector.model import JobId

    project, _, rest = text.partition(":")
    count, _, model = rest.partition(":")
    size = _number(count)
    if not project or size is None:
        raise CannotAdvise(
            f"cannot read {text!r} as a wish; write PROJECT:GPUS or PROJECT:GPUS:MODEL, for example vision:4"
        )
    is_unshared = size >= 1
    return Job(
        id=JobId(f"want:{number}"),
        project=ProjectName(project),
        name=text,
        min_gpus=int(size) if is_unshared else 1,
        max_gpus=int(size) if is_unshared else 1,
        share=1.0 if is_unshared else size,
        gpu_models=(model,) if model else (),
        submitted_ms=now_ms,
        preemptible=True,
        may_share=not is_unshared,
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1 or (value >= 1 and value.is_integer()) else None
