"""Somebody's job of a project that has others below it: decided about like any other, and stops nobody."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.decide import decide
from advisor.live.snapshot import Live, read_live
from advisor.planner.fair_share import fair_shares
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.quota import known_as, quota_cover
from advisor.planner.validate import checked
from advisor.state.model import ActionClass, ClusterState, ProjectName
from analytics.assess import assess
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.model import JobId
from collector.store.database import Store
from service.config.file import parse
from service.usecases.advice import site_of
from tests.analytics.world import TWO_MS, fill

JOB = JobId("slurm:1")
TREE = '[quotas."{0}"]\ngpus = {1}\n[quotas.below]\nparent = "{0}"\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fill(tmp_path) as filled:
        yield filled


def seen(store: Store, toml: str = "") -> Live:
    site = site_of(parse(toml, origin="fallow.toml").config)
    with store.reader() as reader:
        analysis = assess(reader, TWO_MS, Thresholds(), 10_000)
        answered = lambda name, given: run(reader, name, given).to_pylist()  # noqa: E731
        return read_live(answered, analysis, site, PlannerConfig())


def inner(store: Store, *, quota: int) -> tuple[ProjectName, ClusterState]:
    """The name of the job's project, and the state where that has another one below it."""
    project = seen(store).state.jobs[JOB].project
    return project, checked(seen(store, TREE.format(project, quota)).state)


def test_its_job_has_a_place_in_the_tree_and_everything_can_be_decided(store: Store) -> None:
    project, state = inner(store, quota=0)
    theirs = state.jobs[JOB].project
    assert theirs != project == known_as(theirs)
    assert state.projects[theirs].parent == project
    plan = decide(state, Limits())
    assert plan.fair_gpus[theirs] == pytest.approx(state.placements[JOB].size_gpus)


def test_the_quota_of_its_project_covers_it(store: Store) -> None:
    _, without = inner(store, quota=0)
    project, covered = inner(store, quota=8)
    assert quota_cover(without).gpus(without.jobs[JOB]) == 0
    assert quota_cover(covered).gpus(covered.jobs[JOB]) == covered.placements[JOB].size_gpus
    assert fair_shares(covered, Limits()).fair_gpus[project] >= covered.placements[JOB].size_gpus


def test_what_its_project_allows_holds_for_it(store: Store) -> None:
    project, state = inner(store, quota=0)
    off = Limits(project_modes={project: {ActionClass.RECLAIM: Mode.OFF}})
    assert off.is_off(ActionClass.RECLAIM, state.jobs[JOB].project, state.projects)
    assert project not in state.usage and state.jobs[JOB].project in state.usage
