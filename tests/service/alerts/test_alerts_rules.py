"""Hogs, faults, a badly used day, starved quotas, blindness: what holds, what is unknown, what is calm."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from advisor.planner.limits import Mode
from advisor.state.model import ActionClass, Phase, Project, Reservation, Use
from advisor.state.model import Job as AdvisedJob
from analytics.model import FindingKind, Unknown
from collector.model import JobId
from collector.store.gaps import NOT_RUNNING
from service.alerts.blindness import blindness
from service.alerts.facts import Away, Blindness, Day
from service.alerts.inputs import away_of, blindness_of, day_of
from service.alerts.model import WORSE, WORTH_A_WORD, AlertKind
from service.alerts.rules import gpu_faults, low_utilization, memory_hogs, starved_quotas
from service.config.alerting import EVERY_KIND, AlertsConfig
from tests.service.alerts.alert_parts import (
    ANN,
    GPUS,
    HOUR_MS,
    MINUTE_MS,
    NODE,
    NOW_MS,
    facts,
    finding,
    job,
    state,
)

CONFIG = AlertsConfig(utilization_target_ratio=0.5)
HOG, FALLING, SUSPECT = FindingKind.MEMORY_HOG, FindingKind.FALLING_GPU, FindingKind.SUSPECT_COUNTERS
HOG_KEY, FAULT_KEY = f"memory-hog:{ANN}", f"gpu-fault:{GPUS[0]}"
WORKS = job(use=Use.ACTIVE, idle_since_ms=None)


def test_a_hog_on_many_gpus_is_one_case_of_its_job() -> None:
    held = {ANN: GPUS}
    hogs = tuple(finding(HOG, uuid) for uuid in GPUS)
    seen = memory_hogs(facts(state(WORKS, on=held), *hogs), ())
    assert list(seen.holds) == [HOG_KEY]
    found = seen.holds[HOG_KEY]
    assert found.level == WORTH_A_WORD and found.gpus == GPUS
    assert "The same on 2 more GPUs." in found.says
    assert f"`fallow explain {ANN}` names the setting" in found.next
    assert found.do.startswith("fallow keep ")


@pytest.mark.parametrize(
    ("mode", "says"),
    [(Mode.ADVISE, "does nothing"), (Mode.ASK, "nothing is done without a yes"), (Mode.AUTO, "put in place")],
)
def test_what_happens_to_a_hog_next_is_what_its_mode_allows(mode: Mode, says: str) -> None:
    seen = memory_hogs(facts(state(WORKS), finding(HOG), modes={ActionClass.CAP_MEMORY: mode}), ())
    assert says in seen.holds[HOG_KEY].next


def test_a_hog_that_cannot_be_judged_now_is_unknown_and_one_that_mended_is_calm() -> None:
    unjudged = Unknown(uuid=GPUS[0], kinds=(HOG,), reason="only 60% were measured")
    assert memory_hogs(facts(state(WORKS), unknown=(unjudged,)), [HOG_KEY]).unknown == {HOG_KEY}
    assert HOG_KEY in memory_hogs(facts(state(WORKS)), [HOG_KEY]).calm
    assert "no GPUs" in memory_hogs(facts(state()), [HOG_KEY]).calm[HOG_KEY]


def test_a_case_stays_as_it_is_while_nobody_judges() -> None:
    """With the judging stuck, that nothing is found any more does not mean that anything mended."""
    seen = facts(state(WORKS))
    analysis = replace(seen.observed.analysis, overdue=True)
    stuck = replace(seen, observed=replace(seen.observed, analysis=analysis))
    assert memory_hogs(stuck, [HOG_KEY]).unknown == {HOG_KEY}
    assert FAULT_KEY in gpu_faults(stuck).unknown


@pytest.mark.parametrize("changes", [{"keep_until_ms": NOW_MS + HOUR_MS}, {"protected": True}])
def test_a_hog_that_is_kept_or_protected_is_left_alone(changes: dict[str, object]) -> None:
    seen = memory_hogs(facts(state(replace(WORKS, **changes)), finding(HOG)), ())  # type: ignore[arg-type]
    assert seen.holds == {} and HOG_KEY in seen.calm


def test_a_gpu_that_falls_is_worse_than_one_that_is_suspect() -> None:
    seen = gpu_faults(facts(state(), finding(SUSPECT), finding(FALLING)))
    assert (seen.holds[FAULT_KEY].level, seen.holds[FAULT_KEY].rung) == (WORSE, "falling")
    only = gpu_faults(facts(state(), finding(SUSPECT, holder=None))).holds[FAULT_KEY]
    assert (only.level, only.rung, only.job) == (WORTH_A_WORD, "suspect", None)
    assert only.title == "H100 node1:0 has counters that cannot be believed"
    assert "gives it to nobody" in only.next


def test_a_silent_gpu_is_neither_well_nor_ill_by_its_counters() -> None:
    silent = Unknown(uuid=GPUS[0], kinds=tuple(FindingKind), reason="its newest sample is 5 min old")
    assert gpu_faults(facts(state(), unknown=(silent,))).unknown == {FAULT_KEY}
    fell = gpu_faults(facts(state(), finding(FALLING), unknown=(silent,)))
    assert FAULT_KEY in fell.holds and fell.unknown == frozenset()
    assert FAULT_KEY in gpu_faults(facts(state())).calm


def day(used: float | None, measured: float = 1.0) -> Day:
    return Day(from_ms=NOW_MS - 24 * HOUR_MS, to_ms=NOW_MS, utilization_ratio=used, measured_ratio=measured)


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (day(0.499), "holds"),
        (day(0.5), "unknown"),
        (day(0.519), "unknown"),
        (day(0.52), "calm"),
        (day(0.3, measured=0.94), "unknown"),
        (day(0.3, measured=0.95), "holds"),
        (day(None), "unknown"),
        (None, "unknown"),
    ],
)
def test_a_day_under_the_target_is_a_case_until_it_is_well_above_it(found: Day | None, answer: str) -> None:
    seen = low_utilization(facts(state(), day=found), CONFIG)
    assert bool(getattr(seen, answer))
    assert sum(map(bool, (seen.holds, seen.unknown, seen.calm))) == 1


def test_a_day_by_gpu_utilization_alone_is_told_as_a_bound() -> None:
    row = {"gpu_hours": 10.0, "unknown_gpu_hours": 0.0, "suspect_gpu_hours": 0.0}
    row |= {"used_gpu_hours": 3.0, "utilization_ratio": 0.3}
    for bound, told in ((3.0, "used at most 30% over"), (0.0, "used 30% over")):
        found = day_of([{**row, "bound_used_gpu_hours": bound}], NOW_MS - 24 * HOUR_MS, NOW_MS)
        (case,) = low_utilization(facts(state(), day=found), CONFIG).holds.values()
        assert told in case.title


def test_without_a_target_no_day_is_a_case() -> None:
    assert low_utilization(facts(state(), day=day(0.0)), AlertsConfig()).holds == {}


def test_the_day_is_used_over_measured_time() -> None:
    quiet = {"unknown_gpu_hours": 0.0, "suspect_gpu_hours": 2.0}
    rows = [
        {**quiet, "gpu_hours": 10.0, "used_gpu_hours": 4.0, "utilization_ratio": 0.5},
        {**quiet, "gpu_hours": 10.0, "used_gpu_hours": 0.0, "utilization_ratio": 0.0},
        {
            "gpu_hours": 5.0,
            "unknown_gpu_hours": 5.0,
            "suspect_gpu_hours": 0.0,
            "used_gpu_hours": 0.0,
            "utilization_ratio": None,
        },
    ]
    found = day_of(rows, 0, 1)
    assert found.utilization_ratio == pytest.approx(4.0 / (8.0 + 8.0))
    assert found.measured_ratio == pytest.approx(20 / 25)
    assert day_of([], 0, 1) == Day(from_ms=0, to_ms=1, utilization_ratio=None, measured_ratio=0.0)


def waiting(id: str = "fallow:1", minutes: int = 40, **changes: object) -> AdvisedJob:
    return job(
        JobId(id),
        phase=Phase.PENDING,
        submitted_ms=NOW_MS - minutes * MINUTE_MS,
        started_ms=None,
        idle_since_ms=None,
        **changes,
    )


def vision(gpus: float) -> dict[object, Project]:
    return {"vision": Project(name="vision", quota_gpus=gpus)}  # type: ignore[arg-type]


STARVED = "quota-starved:vision"


def test_a_job_that_waits_for_what_its_quota_guarantees_is_a_case_of_its_project() -> None:
    of = state(
        waiting(),
        waiting("fallow:2", 50),
        projects=vision(2),
        reservations={JobId("fallow:2"): Reservation(start_ms=NOW_MS + HOUR_MS, gpus=GPUS[:1])},
    )
    seen = starved_quotas(facts(of, waits={JobId("fallow:2"): "2 GPUs of node1"}), CONFIG)
    found = seen.holds[STARVED]
    assert "for 50 min, while vision holds 0 of the 2" in found.says
    assert "1 more of its jobs wait as well" in found.says
    assert "promised a start by 2026-11-02 01:00 UTC" in found.next
    assert "The queue says: 2 GPUs of node1." in found.next
    assert (found.user, found.project, found.do) == ("ann", "vision", "fallow queue")


def test_the_quota_above_counts_for_a_project_without_one_of_its_own() -> None:
    above = {"lab": Project(name="lab", quota_gpus=2), "vision": Project(name="vision", parent="lab")}  # type: ignore[arg-type]
    assert list(starved_quotas(facts(state(waiting(), projects=above)), CONFIG).holds) == [
        "quota-starved:lab"
    ]
    own = {**above, "vision": replace(above["vision"], quota_gpus=1)}
    used = state(waiting(), WORKS, on={ANN: GPUS[:1]}, projects=own)
    assert starved_quotas(facts(used), CONFIG).holds == {}, "what is left belongs to its neighbours"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (state(waiting(minutes=29), projects=vision(2)), "not for so long"),
        (state(waiting(), projects=vision(0)), "no quota"),
        (state(waiting(), projects={}), "no project"),
        (state(waiting(min_gpus=3, max_gpus=3), projects=vision(2)), "more than the quota"),
        (state(waiting(held=True), projects=vision(2)), "its owner holds it"),
        (
            state(waiting(), WORKS, on={ANN: GPUS[:2]}, projects=vision(2)),
            "the quota is used",
        ),
    ],
)
def test_who_waits_for_anything_else_is_not_starved(of: object, why: str) -> None:
    assert starved_quotas(facts(of), CONFIG).holds == {}, why  # type: ignore[arg-type]


def test_where_nothing_is_measured_nobody_is_called_starved() -> None:
    of = state(waiting(), projects=vision(2))
    seen = starved_quotas(facts(of, last_tick_ms=NOW_MS - 10 * MINUTE_MS), CONFIG)
    assert seen.holds == {} and STARVED in seen.unknown


def test_a_source_that_cannot_be_read_is_a_case_with_its_reason() -> None:
    lost = Blindness(source="nvml", since_ms=NOW_MS - 3 * MINUTE_MS, reason="the driver is gone")
    seen = blindness(facts(state(), blind=(lost,)), CONFIG)
    found = seen.holds["collector-blind:source:nvml"]
    assert "cannot be read since 2026-11-01 23:57 UTC: the driver is gone" in found.says
    fresh = replace(lost, since_ms=NOW_MS - MINUTE_MS)
    assert blindness(facts(state(), blind=(fresh,)), CONFIG).holds == {}


NODE_KEY = f"collector-blind:node:{NODE}"


@pytest.mark.parametrize(
    ("ages", "blind"),
    [
        ((3, 3, None), True),
        ((None, None), True),
        ((3, 1), False),
        ((0, None), False),
        ((), False),
    ],
)
def test_a_node_is_blind_when_none_of_its_gpus_is_measured(ages: tuple[int | None, ...], blind: bool) -> None:
    newest = tuple(None if age is None else NOW_MS - age * MINUTE_MS for age in ages)
    seen = blindness(facts(state(), newest_ms={str(NODE): newest}), CONFIG)
    assert (NODE_KEY in seen.holds) is blind


def test_nodes_that_fall_silent_with_their_source_are_no_cases_of_their_own() -> None:
    lost = Blindness(source="dcgm", since_ms=NOW_MS - HOUR_MS, reason="refused")
    old = {f"n{at}": (NOW_MS - HOUR_MS,) for at in range(50)}
    seen = blindness(facts(state(), blind=(lost,), newest_ms=old), CONFIG)
    assert list(seen.holds) == ["collector-blind:source:dcgm"]
    assert len(seen.unknown) == 50


def test_a_service_without_ticks_says_so_and_nothing_of_its_nodes() -> None:
    old = NOW_MS - 5 * MINUTE_MS
    seen = blindness(facts(state(), last_tick_ms=old, newest_ms={"n": (old,)}), CONFIG)
    assert list(seen.holds) == ["collector-blind:ticks"]
    assert seen.holds["collector-blind:ticks"].level == WORSE
    assert "collector-blind:ticks" in blindness(facts(state(), last_tick_ms=None), CONFIG).holds


AWAY_KEY = "collector-blind:away"


@pytest.mark.parametrize(
    ("lasted", "ago", "told"),
    [(60, 1, True), (60, 19, True), (60, 26, False), (1, 1, False)],
    ids=["an hour, just now", "still", "it was told", "a restart"],
)
def test_a_service_that_was_away_says_from_when_to_when(lasted: int, ago: int, told: bool) -> None:
    config = replace(CONFIG, opens_after_s=900, blind_s=120)
    away = Away(from_ms=NOW_MS - (ago + lasted) * MINUTE_MS, to_ms=NOW_MS - ago * MINUTE_MS)
    seen = blindness(facts(state(), away=away), config)
    assert (AWAY_KEY in seen.holds) is told
    if told:
        said = seen.holds[AWAY_KEY]
        assert said.since_ms == away.from_ms and "was not running from 2026-11-0" in said.says
        assert "nobody is judged" in said.next
    else:
        assert AWAY_KEY in seen.calm


def test_the_newest_time_without_a_service_is_that_of_all_its_sources() -> None:
    why = {"uuid": None, "reason": NOT_RUNNING}
    gaps = [
        {"source": "nvml", "from_ts": at(30), "to_ts": at(10), **why},
        {"source": "dcgm", "from_ts": at(31), "to_ts": at(10), **why},
        {"source": "nvml", "from_ts": at(50), "to_ts": at(40), **why},
        {"source": "nvml", "from_ts": at(5), "to_ts": at(1), "uuid": None, "reason": "no answer"},
    ]
    assert away_of(gaps) == Away(from_ms=NOW_MS - 31 * MINUTE_MS, to_ms=NOW_MS - 10 * MINUTE_MS)
    assert away_of(gaps[3:]) is None


def at(minutes_ago: float) -> datetime:
    return datetime.fromtimestamp((NOW_MS - minutes_ago * MINUTE_MS) / 1000, UTC).replace(tzinfo=None)


def test_blindness_goes_back_to_the_beginning_of_its_unbroken_gaps() -> None:
    sources = [
        {"source": "nvml", "last_ts": at(0), "reason": "no answer"},
        {"source": "slurm", "last_ts": at(0), "reason": None},
        {"source": "gone", "last_ts": at(600), "reason": "it was taken out of the configuration"},
    ]
    gaps = [
        {"source": "nvml", "uuid": None, "from_ts": at(4), "to_ts": at(0)},
        {"source": "nvml", "uuid": "GPU-0", "from_ts": at(90), "to_ts": at(0)},
        {"source": "nvml", "uuid": None, "from_ts": at(9), "to_ts": at(4)},
        {"source": "nvml", "uuid": None, "from_ts": at(60), "to_ts": at(30)},
    ]
    assert blindness_of(sources, gaps, NOW_MS, 10_000) == (
        Blindness(source="nvml", since_ms=NOW_MS - 9 * MINUTE_MS, reason="no answer"),
    )


def test_every_kind_of_alert_can_be_switched() -> None:
    assert {each.value for each in AlertKind} == set(EVERY_KIND)
