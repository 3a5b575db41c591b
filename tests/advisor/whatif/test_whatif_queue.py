"""What starts, moves and growth would have given back, on small pasts that one can go through by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planner.limits import Limits, PlannerConfig
from advisor.state.model import Job, Phase, Profile, Project
from advisor.state.site_protection import Protect
from advisor.whatif.elastic_growth import backtest_growth
from advisor.whatif.estimate import Given
from advisor.whatif.history import MOST_LOOKS, Holding, Installed, Moments, Past, Submitted
from advisor.whatif.replay import consented, everybody, what_if
from collector.model import GpuUuid, JobId
from tests.advisor.policies.scene import H100, VISION, gpu, job

RULES = PlannerConfig()
DAY_MS, MINUTE_MS = 24 * 3_600_000, 60_000
ZERO_MS = 1_800_000_000_000


def minute(at: float) -> int:
    return ZERO_MS + round(at * MINUTE_MS)


def asked(name: str, at: float, gpus: int = 1, most: int | None = None, **changes: object) -> Submitted:
    """A job that was submitted at that minute."""
    size = {"min_gpus": gpus, "max_gpus": most or gpus}
    given = {"phase": Phase.PENDING, "submitted_ms": minute(at), "started_ms": None, **size, **changes}
    made = job(name, **given)
    return Submitted(job=made, rigid=False)


def had(name: str, gpus: str, begin: float, end: float, share: float = 1.0) -> list[Holding]:
    return [
        Holding(job=JobId(name), uuid=GpuUuid(each), share=share, from_ms=minute(begin), to_ms=minute(end))
        for each in gpus.split()
    ]


def past(
    nodes: dict[str, str],
    jobs: list[Submitted],
    holdings: list[list[Holding]],
    until: float = 600,
    quota: float = 8,
) -> Past:
    """A window from minute 0 on; ``nodes`` names the GPUs of each."""
    installed = [
        Installed(gpu=gpu(name, node), place=f"{node}:{at}", from_ms=0)
        for node, names in nodes.items()
        for at, name in enumerate(names.split())
    ]
    return Past(
        from_ms=minute(0),
        to_ms=minute(until),
        submitted={each.job.id: each for each in jobs},
        holdings=[each for some in holdings for each in some],
        installed=installed,
        projects={VISION: Project(name=VISION, quota_gpus=quota)},
    )


def row(past: Past, action: str, allowed: Callable[[Job], bool] = everybody) -> Given:
    found = what_if(past, RULES, Limits(), allowed)
    return next(each for each in found.given if each.action == action)


def test_who_waited_while_a_gpu_was_free_would_have_had_it() -> None:
    seen = past({"n": "a b"}, [asked("late", 10)], [had("late", "a", 70, 300)])
    found = row(seen, "schedule")
    assert found.gpu_hours == pytest.approx(1.0)
    assert (found.jobs, found.times, found.low) == (1, 1, None)


def test_nobody_has_more_of_an_early_start_than_it_ran() -> None:
    seen = past({"n": "a"}, [asked("brief", 0)], [had("brief", "a", 120, 150)])
    assert row(seen, "schedule").gpu_hours == pytest.approx(0.5)


def test_what_somebody_else_got_in_truth_is_not_counted() -> None:
    other = had("other", "a", 30, 120)
    seen = past({"n": "a"}, [asked("late", 0), asked("other", 30)], [had("late", "a", 120, 300), other])
    assert row(seen, "schedule").gpu_hours == pytest.approx(0.5), "free for half an hour"


def test_a_gpu_that_goes_takes_the_early_start_with_it() -> None:
    held = [had("late", "b", 120, 300), had("other", "b", 0, 120)]
    seen = past({"n": "a b"}, [asked("late", 0), asked("other", 0), asked("last", 60)], held)
    first, second = seen.installed
    gone = replace(seen, installed=[replace(first, to_ms=minute(30)), second])
    assert row(seen, "schedule").gpu_hours == pytest.approx(2.0)
    assert row(gone, "schedule").gpu_hours == pytest.approx(0.5)


def test_a_wait_for_what_was_taken_is_nobodys_loss() -> None:
    seen = past(
        {"n": "a"}, [asked("one", 0), asked("two", 0)], [had("one", "a", 0, 60), had("two", "a", 60, 90)]
    )
    assert row(seen, "schedule").gpu_hours == 0
    assert row(seen, "consolidate").gpu_hours == 0


def test_waits_of_seconds_are_none() -> None:
    seen = past({"n": "a"}, [asked("prompt", 0)], [had("prompt", "a", 0.5, 60)])
    assert row(seen, "schedule").times == 0


def test_who_never_ran_says_nothing() -> None:
    assert row(past({"n": "a"}, [asked("gone", 0)], []), "schedule").times == 0


def test_nobody_starts_on_what_the_site_protects() -> None:
    seen = past({"n": "a"}, [asked("late", 10)], [had("late", "a", 70, 300)])
    kept = replace(seen, protect=Protect(gpus=frozenset({"n:0"})))
    assert row(kept, "schedule").gpu_hours == 0


def scattered(**changes: object) -> Past:
    """Three GPUs, half of two of them given to one user's jobs, and a gang of two that waits three hours."""
    small = [asked(name, 0, share=0.5, **changes) for name in ("s1", "s2")]
    return past(
        {"n": "a b c"},
        [*small, asked("gang", 30, 2)],
        [had("s1", "a", 0, 210, 0.5), had("s2", "b", 0, 500, 0.5), had("gang", "a c", 210, 500)],
        quota=0,
    )


def test_moves_give_a_gang_what_it_waited_for_less_what_they_cost() -> None:
    found = row(scattered(), "consolidate")
    assert (found.jobs, found.times, found.disturbed) == (1, 1, 1)
    assert found.gpu_hours == pytest.approx(2 * 3.0 - 0.5 * RULES.move_s / 3600, abs=1e-4)
    assert found.earned.cases == 1, "what was expected of it stands beside what came"


def test_nobody_is_moved_out_of_a_quota_or_right_after_its_start() -> None:
    seen = scattered()
    covered = replace(seen, projects={VISION: Project(name=VISION, quota_gpus=8)})
    assert row(covered, "consolidate").times == 0
    early = {**seen.submitted, "gang": asked("gang", 5, 2)}
    found = row(replace(seen, submitted=early), "consolidate")
    assert found.gpu_hours == pytest.approx(2 * 3.0 - 0.5 * RULES.move_s / 3600, abs=1e-4), (
        "from minute 30 on"
    )


def test_who_did_not_consent_is_not_moved() -> None:
    firm = scattered(preemptible=False, checkpointable=False)
    assert row(firm, "consolidate", consented).gpu_hours == 0
    assert row(firm, "consolidate").gpu_hours > 0, "had everybody consented"
    rigid = {id: replace(each, rigid=id != "gang") for id, each in firm.submitted.items()}
    assert row(replace(firm, submitted=rigid), "consolidate").gpu_hours == 0, "no consent makes it movable"


SPEEDS = Profile(step_s={1: 1.0, 2: 0.5, 4: 0.4}, resize_s=30.0, gpu_model=H100)


def test_growth_is_worth_the_speed_that_was_measured() -> None:
    grows = asked("elastic", 0, 1, 4, profile=SPEEDS)
    seen = past({"n": "a b"}, [grows], [had("elastic", "a", 0, 300)], until=300)
    found = row(seen, "resize")
    assert found.gpu_hours == pytest.approx(5.0 - 2 * 30 / 3600), "twice as fast, less one resize"
    assert (found.jobs, found.times) == (1, 1)


def test_growth_goes_back_when_somebody_else_came() -> None:
    grows = asked("elastic", 0, 1, 2, profile=SPEEDS)
    held = [had("elastic", "a", 0, 300), had("other", "b", 60, 240)]
    seen = past({"n": "a b"}, [grows, asked("other", 60)], held, until=300)
    found = row(seen, "resize")
    assert found.gpu_hours == pytest.approx(2.0 - 3 * 2 * 30 / 3600), "an hour, back, and an hour again"
    assert found.times == 2


def test_growth_that_was_never_measured_claims_nothing() -> None:
    seen = past({"n": "a b"}, [asked("elastic", 0, 1, 2)], [had("elastic", "a", 0, 300)], until=300)
    found = row(seen, "resize")
    assert (found.gpu_hours, found.jobs) == (0, 0)


def test_sizes_between_two_others_earn_the_bar_of_growth() -> None:
    (case,) = backtest_growth([SPEEDS, Profile(step_s={1: 1.0, 2: 0.5})])
    foretold = 1 / 0.4**0.5  # half-way in log-log between 1 on one GPU and 0.4 on four
    assert case.expected_s == pytest.approx((foretold - 1) * 3600)
    assert case.came_s == pytest.approx(3600)


def test_of_very_many_changes_evenly_as_many_are_looked_at() -> None:
    many = [had(f"j{at}", "a", at, at + 1) for at in range(3 * MOST_LOOKS)]
    seen = past({"n": "a"}, [asked(f"j{at}", at) for at in range(3 * MOST_LOOKS)], many, until=3 * MOST_LOOKS)
    looks = Moments(seen, everybody).looks()
    assert len(looks) == MOST_LOOKS and looks[0] == minute(0) and looks == tuple(sorted(set(looks)))


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Jobs one after another on each of a few GPUs, some of which had waited; none beside each other."""
    jobs, holdings = [], []
    for uuid in ("a", "b", "c", "d"):
        at = draw(st.integers(0, 60))
        while at < 400:
            name, length = f"{uuid}{at}", draw(st.integers(5, 200))
            most = draw(st.sampled_from([1, 1, 2, 4]))
            waited = draw(st.sampled_from([0, 0, 30, 120]))
            jobs.append(asked(name, max(0, at - waited), 1, most, profile=SPEEDS if most > 1 else None))
            holdings.append(had(name, uuid, at, at + length))
            at += length + draw(st.integers(0, 90))
    return past({"n": "a b", "m": "c d"}, jobs, holdings)


@settings(max_examples=25)
@given(pasts())
def test_no_more_is_given_back_than_lay_free(seen: Past) -> None:
    held = sum(min(each.to_ms, seen.to_ms) - each.from_ms for each in seen.holdings)
    free_h = (4 * (seen.to_ms - seen.from_ms) - held) / 3_600_000
    for found in what_if(seen, RULES).given:
        assert found.gpu_hours <= free_h + 1e-6, found.action


@settings(max_examples=10)
@given(pasts())
def test_the_same_past_gives_the_same_replay(seen: Past) -> None:
    shuffled = replace(
        seen,
        holdings=list(reversed(seen.holdings)),
        submitted=dict(reversed(list(seen.submitted.items()))),
    )
    assert what_if(seen, RULES) == what_if(shuffled, RULES)


def test_a_pause_or_a_change_of_gpus_makes_a_run_neither_longer_nor_larger() -> None:
    parts = [had("one", "a", 10, 40), had("one", "b", 20, 30), had("one", "c d", 200, 220)]
    plain = [had("one", "a b", 10, 60)]
    moments = [Moments(past({"n": "a b c d"}, [asked("one", 5)], each), everybody) for each in (parts, plain)]
    told = [each.endings(minute(300)).summed for each in moments]
    assert told[0] == told[1]
    assert moments[0].began_ms(JobId("one")) == minute(10) and moments[0].left_ms(JobId("one")) == minute(220)
