"""What a site protects and what owners were told reach the live state, from configuration and store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.jobs.external_jobs import ExternalJobStore
from advisor.live.snapshot import Live, read_live
from advisor.planner.limits import Limits, PlannerConfig
from advisor.policies import idle_reclaim
from analytics.assess import assess
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.model import GpuUuid, JobId
from collector.store.database import Store
from service.config.file import parse
from service.usecases.advice import site_of
from tests.advisor.engines.external_parts import HandClock
from tests.analytics.world import A0, TWO_MS, fill

RULES, TICK_MS = PlannerConfig(), 10_000
JOB = JobId("slurm:1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fill(tmp_path) as filled:
        yield filled


def seen(store: Store, toml: str = "") -> Live:
    site = site_of(parse(toml, origin="fallow.toml").config)
    with store.reader() as reader:
        analysis = assess(reader, TWO_MS, Thresholds(), TICK_MS)
        return read_live(lambda name, given: run(reader, name, given).to_pylist(), analysis, site, RULES)


@pytest.mark.parametrize(
    "toml",
    ['[protect]\njobs = ["slurm:1"]', '[protect]\ngpus = ["{A0}"]', '[protect]\nusers = ["{user}"]'],
    ids=["by its id", "by its GPU", "by its owner"],
)
def test_what_the_configuration_protects_is_marked_in_the_live_state(store: Store, toml: str) -> None:
    plain = seen(store).state.jobs[JOB]
    assert not plain.protected
    text = toml.replace("{A0}", A0).replace("{user}", plain.user or "")
    state = seen(store, text).state
    assert state.jobs[JOB].protected
    assert state.gpus[GpuUuid(A0)].protected is ("gpus" in toml)


def test_advice_on_a_protected_job_says_so_and_does_nothing(store: Store) -> None:
    live = seen(store, '[protect]\njobs = ["slurm:*"]')
    answers = idle_reclaim.advise(live.state, live.observed, Limits(), RULES)
    ours = [each for each in answers if each.job == JOB]
    assert ours, "the job idles, so something is said of it"
    assert all(not getattr(each, "steps", ()) for each in ours)
    said = " ".join(getattr(each, "why", "") or getattr(each, "reason", "") for each in ours)
    assert "he site protects it" in said


def test_what_was_told_and_kept_is_in_the_live_state(store: Store) -> None:
    book = ExternalJobStore(store, HandClock(at_ms=TWO_MS - 60_000))
    book.told(JOB, "tell", "It idles.", ("terminal pts/1",))
    told = seen(store).state.jobs[JOB]
    assert (told.notified_ms, told.notifications) == (TWO_MS - 60_000, 1)
    book.keep(JOB, TWO_MS + 3_600_000, told.user or "")
    kept = seen(store).state.jobs[JOB]
    assert (kept.notified_ms, kept.keep_until_ms, kept.keep_count) == (None, TWO_MS + 3_600_000, 1)
