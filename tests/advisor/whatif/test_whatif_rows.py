"""A recorded window read back from a real store: what was asked for, who held what, and what was there."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from advisor.jobs.model import Elasticity, ExitReason, JobRecord, JobState
from advisor.jobs.repository import Change, write_changes
from advisor.planner.limits import PlannerConfig
from advisor.state.model import ActionClass, Phase, Profile
from advisor.whatif.history import Past
from advisor.whatif.replay import what_if
from collector.model import GpuUuid, JobId
from service.client import connect
from service.config.model import Config
from service.usecases.advice import recorded_past
from tests.advisor.jobs.job_store_world import submission, word
from tests.analytics.given_world import A, B, C, D, past
from tests.analytics.world import GIB, MINUTE_MS, NOON_MS

NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)
FIRM, LATE = JobId("fallow:1"), JobId("fallow:2")
HOLDINGS: list[tuple[GpuUuid, JobId, int, int | None]] = [
    (A, FIRM, 0, 120),
    (B, JobId("slurm:7"), 30, None),
    (C, LATE, 60, 150),
]


def entries() -> Iterator[JobRecord]:
    """One that said much of itself, and one that waited an hour while C was free."""
    said = word(
        JobState.ENDED,
        step_s={1: 1.0, 2: 0.6},
        resize_s=2.5,
        memory_held_bytes=60 * GIB,
        memory_needed_bytes=12 * GIB,
        exit_reason=ExitReason.DONE,
    )
    elastic = submission(name="firm", mobility=Elasticity.ELASTIC, opted_out=frozenset({ActionClass.PACK}))
    ended = {"state": JobState.ENDED, "exit_reason": ExitReason.DONE}
    yield JobRecord(id=FIRM, submission=elastic, submitted_ms=NOON_MS, ended_ms=at(120), report=said, **ended)  # type: ignore[arg-type]
    rigid = submission(nonce="late", max_gpus=1, mobility=Elasticity.RIGID, gpu_models=("H100",))
    yield JobRecord(id=LATE, submission=rigid, submitted_ms=NOON_MS, ended_ms=at(150), **ended)  # type: ignore[arg-type]


def at(minute: int) -> int:
    return NOON_MS + minute * MINUTE_MS


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with past(folder, HOLDINGS, busy=[(A, 0, 120), (C, 60, 150)]) as store:
        write_changes(store, [Change(before=None, after=each) for each in entries()], NOON_MS)
    return folder


@pytest.fixture(scope="module")
def seen(recorded: Path) -> Past:
    with connect(recorded) as client:
        return recorded_past(client, NOON, NOON + timedelta(minutes=180), Config())


def ask(folder: Path, name: str, begin: int, end: int) -> list[dict[str, Any]]:
    span = {"from_ts": NOON + timedelta(minutes=begin), "to_ts": NOON + timedelta(minutes=end)}
    with connect(folder) as client:
        return list(client.rows(name, **span))


def test_submitted_jobs_are_read_with_what_they_last_said(seen: Past) -> None:
    firm = seen.submitted[FIRM]
    assert (firm.job.min_gpus, firm.job.max_gpus, firm.rigid) == (1, 4, False)
    assert firm.job.profile == Profile(step_s={1: 1.0, 2: 0.6}, resize_s=2.5)
    assert (firm.memory_needed_bytes, firm.job.memory_held_bytes) == (12 * GIB, 60 * GIB)
    assert (firm.job.preemptible, firm.job.checkpointable) == (True, True)
    assert firm.job.opted_out == {ActionClass.PACK}
    late = seen.submitted[LATE]
    assert (late.rigid, late.job.preemptible, late.job.profile) == (True, False, None)
    assert (late.job.gpu_models, late.job.phase) == (("H100",), Phase.PENDING)


def test_submitted_jobs_are_those_that_were_there_in_the_window(recorded: Path) -> None:
    assert [row["job"] for row in ask(recorded, "submitted_jobs", 0, 10)] == [FIRM, LATE]
    assert [row["job"] for row in ask(recorded, "submitted_jobs", 130, 140)] == [LATE]
    assert ask(recorded, "submitted_jobs", 160, 170) == []


def test_past_holdings_begin_when_they_began_and_end_with_the_window(recorded: Path) -> None:
    rows = {row["job"]: row for row in ask(recorded, "past_holdings", 70, 100)}
    assert {job: (row["from_ms"], row["to_ms"]) for job, row in rows.items()} == {
        FIRM: (at(0), at(100)),
        "slurm:7": (at(30), at(100)),
        LATE: (at(60), at(100)),
    }
    assert [row["job"] for row in ask(recorded, "past_holdings", 155, 180)] == ["slurm:7"]


def test_past_gpus_are_those_that_were_installed(recorded: Path, seen: Past) -> None:
    assert [row["uuid"] for row in ask(recorded, "past_gpus", 0, 180)] == [A, B, C, D]
    assert {each.place for each in seen.installed} == {"a:0", "a:1", "a:2", "a:3"}


def test_what_a_job_said_it_needed_is_what_a_past_job_carries(seen: Past) -> None:
    jobs = {each.job.id: each for each in seen.jobs}
    assert (jobs[FIRM].use.memory_needed_bytes, jobs[FIRM].job.memory_held_bytes) == (12 * GIB, 60 * GIB)
    assert jobs[FIRM].job.opted_out == {ActionClass.PACK}
    other = jobs[JobId("slurm:7")]
    assert (other.use.memory_needed_bytes, other.job.preemptible) == (None, False), "nobody said so"


def test_an_hour_of_waiting_beside_a_free_gpu_is_found(seen: Past) -> None:
    found = next(row for row in what_if(seen, PlannerConfig()).given if row.action == "schedule")
    assert (found.jobs, found.gpu_hours) == (1, pytest.approx(1.0))


def test_growth_is_found_where_two_sizes_were_measured(seen: Past) -> None:
    found = next(row for row in what_if(seen, PlannerConfig()).given if row.action == "resize")
    assert found.jobs == 1 and 0 < found.gpu_hours <= 2.0 * (1 / 0.6 - 1)
    still = replace(seen, submitted={LATE: seen.submitted[LATE]})
    assert next(row for row in what_if(still, PlannerConfig()).given if row.action == "resize").jobs == 0
