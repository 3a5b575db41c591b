"""Advice on the simulated cluster, against its true labels: nobody who works or starts is ever touched."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.actions import Cancel, Move, Pause, Requeue, Resize
from advisor.decide import decide
from advisor.live.snapshot import EVERYBODY, Live, Site, read_live
from advisor.live.stored_analysis import WARNINGS, Judged, recorded_analysis
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Abstain, Advice
from advisor.planner.transition import replay
from advisor.policies import consolidate, idle_reclaim, memory_cap, pack, right_size
from advisor.state.model import ClusterState, Telemetry, Use
from analytics.assess import assess, finding_rows, unjudged_rows
from analytics.model import Analysis
from analytics.query import Connection, run
from analytics.thresholds import Thresholds
from collector.model import GpuUuid
from collector.sources.simulated.cluster import SimulatedCluster
from collector.sources.simulated.labels import Label, LabelKind
from collector.store.database import Store
from collector.store.judgements import Judgement
from tests.stores import open_store

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START_MS = 1_793_145_600_000  # 2026-10-28, a Wednesday
DAYS = 3
TICK_MS = 30_000
GOOD_FOR_MS = 300_000
RULES = PlannerConfig()
ALL = frozenset({EVERYBODY})
CONSENTING = Site(preemptible=ALL, checkpointable=ALL, may_share=ALL)
INSTANTS = tuple(START_MS + DAY_MS + hour * HOUR_MS + 7 * 60_000 for hour in range(0, 46, 5))
RESTING = frozenset(
    {
        LabelKind.NOTEBOOK_AWAY,
        LabelKind.BETWEEN_RUNS,
        LabelKind.BETWEEN_RUNS_EMPTY,
        LabelKind.HELD_EMPTY,
        LabelKind.FORGOTTEN_SERVICE,
    }
)
POLICIES = (idle_reclaim, memory_cap, pack, consolidate, right_size)


class Past:
    """One cluster's three days in a real store, and its labels."""

    def __init__(self, folder: Path) -> None:
        cluster = SimulatedCluster(4, nodes=2)
        self.store: Store = open_store(folder / "fallow.duckdb")
        for history in cluster.history(START_MS, START_MS + DAYS * DAY_MS, TICK_MS):
            self.store.write_history(history)
        self.seen: dict[int, Live] = {}
        self.truth = cluster.truth(START_MS, START_MS + DAYS * DAY_MS)

    def live(self, reader: Connection, now_ms: int) -> Live:
        """As if all owners had been told an hour ago, and nobody sat there: only its use protects a job."""
        if now_ms not in self.seen:
            self.seen[now_ms] = self.read(reader, now_ms)
        return self.seen[now_ms]

    def read(self, reader: Connection, now_ms: int) -> Live:
        live = read_live(
            lambda name, given: run(reader, name, given).to_pylist(),
            assess(reader, now_ms, Thresholds(), TICK_MS),
            CONSENTING,
            RULES,
        )
        jobs = {
            name: replace(job, notified_ms=now_ms - HOUR_MS, notifications=2, attached=False)
            for name, job in live.state.jobs.items()
        }
        return replace(live, state=replace(live.state, jobs=jobs))

    def labels(self, uuid: GpuUuid, job: str, now_ms: int) -> set[LabelKind]:
        return {
            row.kind
            for row in self.truth
            if row.uuid == uuid and row.from_ms < now_ms <= row.to_ms and _is_of(row, job)
        }


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    made = Past(tmp_path_factory.mktemp("truth"))
    with made.store:
        yield made


@pytest.mark.slow
def test_no_advice_ever_touches_an_active_or_starting_job(past: Past) -> None:
    limits, rested, told = Limits(), 0, 0
    with past.store.reader() as reader:
        for now_ms in INSTANTS:
            live = past.live(reader, now_ms)
            for answer in _answers(live, limits):
                if not isinstance(answer, Advice) or answer.job is None:
                    continue
                if answer.action.value == "reclaim":
                    told += 1
                for step in answer.steps:
                    if isinstance(step, Pause | Requeue | Cancel):
                        labels = _all_labels(past, live.state, step.job, now_ms)
                        assert labels and labels <= RESTING, (step, labels)
                        rested += 1
    assert told > 10, "the cluster has idle holders to tell of"
    assert rested > 5, "and some that may be paused: otherwise nothing was proven"


@pytest.mark.slow
def test_nothing_is_advised_on_gpus_that_are_not_known_well(past: Past) -> None:
    limits = Limits()
    with past.store.reader() as reader:
        for now_ms in INSTANTS:
            live = past.live(reader, now_ms)
            bad = {u for u, gpu in live.state.gpus.items() if gpu.telemetry is not Telemetry.GOOD}
            for answer in _answers(live, limits):
                if isinstance(answer, Advice):
                    assert not bad & set(answer.gpus), answer


@pytest.mark.slow
def test_every_advice_is_complete_and_its_steps_are_possible(past: Past) -> None:
    limits = Limits()
    with past.store.reader() as reader:
        for now_ms in INSTANTS:
            live = past.live(reader, now_ms)
            for answer in _answers(live, limits):
                if isinstance(answer, Abstain):
                    assert answer.reason
                    continue
                assert answer.what and answer.why and answer.risk and answer.evidence
                assert 0 <= answer.confidence <= 1 and answer.gain_gpu_hours >= 0
                replay(live.state, answer.steps)


def test_same_instant_gives_the_same_plan_twice(past: Past) -> None:
    with past.store.reader() as reader:
        first, second = (past.read(reader, INSTANTS[5]) for _ in range(2))
    plans = [decide(each.state, Limits(), _answers(each, Limits())) for each in (first, second)]
    assert plans[0] == plans[1]


@pytest.mark.slow
def test_plan_disturbs_only_who_rests(past: Past) -> None:
    limits = Limits(actions_per_hour=None)
    with past.store.reader() as reader:
        for now_ms in INSTANTS:
            live = past.live(reader, now_ms)
            plan = decide(live.state, limits, _answers(live, limits))
            for step in plan.steps:
                if isinstance(step, Pause | Requeue | Cancel):
                    assert _all_labels(past, live.state, step.job, now_ms) <= RESTING
                assert not isinstance(step, Resize)
                if isinstance(step, Move):
                    assert len(live.state.placements[step.job].gpus) == 1


def test_what_the_service_keeps_reads_back_as_what_it_judged(past: Past) -> None:
    """The rows of `findings` and `unjudged` give the same decisions as the analysis they were made of."""
    now_ms = START_MS + DAYS * DAY_MS
    analysis = _judge(past, now_ms, now_ms)
    with past.store.reader() as reader:
        kept = _kept(reader, now_ms)
        states = [_state(reader, each) for each in (analysis, kept)]
    assert states[0] == states[1]
    assert any(job.use is Use.IDLE for job in states[1].jobs.values())


def test_what_was_judged_too_long_ago_accuses_nobody(past: Past) -> None:
    """A service that was away, or that cannot judge, has old findings; who was idle then may work now."""
    now_ms = START_MS + DAYS * DAY_MS
    _judge(past, now_ms, now_ms - GOOD_FOR_MS - 1)
    with past.store.reader() as reader:
        kept = _kept(reader, now_ms)
        state = _state(reader, kept)
    assert kept.overdue
    assert not {finding.kind for finding in kept.findings} - WARNINGS
    assert state.jobs and not any(job.use is Use.IDLE for job in state.jobs.values())
    assert {gpu.telemetry for gpu in state.gpus.values()} <= {Telemetry.UNKNOWN, Telemetry.SUSPECT}
    live = Live(state=state, observed=Observed(analysis=kept))
    assert not [each for each in _answers(live, Limits()) if isinstance(each, Advice)]


def _judge(past: Past, now_ms: int, at_ms: int) -> Analysis:
    """Judge as of ``now_ms``, and keep that as if it had been judged ``at_ms``."""
    with past.store.reader() as reader:
        analysis = assess(reader, now_ms, Thresholds(), TICK_MS)
    judgement = Judgement(findings=finding_rows(analysis), unjudged=unjudged_rows(analysis))
    past.store.write_judgement(judgement, at_ms)
    return analysis


def _kept(reader: Connection, now_ms: int) -> Analysis:
    span = {"from_ts": now_ms - DAY_MS, "to_ts": now_ms + 60_000, "open": True}
    judged = Judged.of(run(reader, "judgement").to_pylist(), good_for_ms=GOOD_FOR_MS)
    found, unjudged = run(reader, "findings", span).to_pylist(), run(reader, "unjudged").to_pylist()
    return recorded_analysis(found, unjudged, now_ms, judged=judged)


def _state(reader: Connection, analysis: Analysis) -> ClusterState:
    def ask(name: str, given: Mapping[str, object]) -> list[dict[str, object]]:
        return run(reader, name, given).to_pylist()

    return read_live(ask, analysis, CONSENTING, RULES).state


def _answers(live: Live, limits: Limits) -> list[Advice | Abstain]:
    return [
        answer for policy in POLICIES for answer in policy.advise(live.state, live.observed, limits, RULES)
    ]


def _all_labels(past: Past, state: ClusterState, job: str, now_ms: int) -> set[LabelKind]:
    gpus = next(p.gpus for each, p in state.placements.items() if each == job)
    return {label for uuid in gpus for label in past.labels(uuid, job, now_ms)}


def _is_of(row: Label, job: str) -> bool:
    return row.holder is not None and row.holder.job == job
