"""Idle holders told rung by rung: which level a job is at, and what its owner reads happens next."""

from dataclasses import replace

import pytest

from advisor.planner.limits import Mode
from advisor.policies.idle_escalation import Rung
from advisor.state.model import ActionClass, Job, Phase, Telemetry, Use
from collector.model import JobKind
from service.alerts.idle import idle_jobs, next_words, stand_of
from service.alerts.model import Condition
from service.alerts.rules import sight
from service.config.alerting import AlertsConfig
from tests.service.alerts.alert_parts import (
    ANN,
    GPUS,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    facts,
    finding,
    job,
    state,
)

KEY = f"held-idle:{ANN}"
AUTO = {ActionClass.RECLAIM: Mode.AUTO}
ASK = {ActionClass.RECLAIM: Mode.ASK}
ENDING = {ActionClass.RECLAIM: Mode.AUTO, ActionClass.TERMINATE: Mode.AUTO}


def idle(minutes: int, **changes: object) -> Job:
    return job(idle_since_ms=NOW_MS - minutes * MINUTE_MS, started_ms=NOW_MS - 100 * HOUR_MS, **changes)


def told(of: Job, modes: dict[ActionClass, Mode] | None = None, **changes: object) -> Condition:
    seen = idle_jobs(facts(state(of), modes=modes, **changes), ())
    assert set(seen.holds) == {KEY}, seen
    return seen.holds[KEY]


@pytest.mark.parametrize(
    ("minutes", "rung"),
    [(5, "show"), (29, "show"), (30, "tell"), (59, "tell"), (60, "pause"), (239, "pause")],
)
def test_each_rung_is_a_level_of_its_own_and_show_is_no_word(minutes: int, rung: str) -> None:
    found = told(idle(minutes))
    assert found.rung == rung
    assert found.level == Rung[rung.upper()]


def test_a_batch_job_has_the_longer_clocks() -> None:
    assert told(idle(59, kind=JobKind.BATCH)).rung == "show"
    assert told(idle(60, kind=JobKind.BATCH)).rung == "tell"
    assert told(idle(120, kind=JobKind.BATCH)).rung == "pause"


def test_a_fresh_checkpoint_makes_it_a_requeue_and_a_stale_one_does_not() -> None:
    assert told(idle(300, checkpoint_ms=NOW_MS - 310 * MINUTE_MS)).rung == "pause"
    assert told(idle(300, checkpoint_ms=NOW_MS - 290 * MINUTE_MS)).rung == "requeue"


def test_ending_is_a_rung_only_where_it_is_switched_on() -> None:
    assert told(idle(25 * 60)).rung == "pause"
    found = told(idle(25 * 60), ENDING)
    assert (found.rung, "what it did not save is lost" in found.next) == ("terminate", True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"preemptible": False}, "Nothing is done to it: it is not preemptible."),
        ({"attached": None}, "nobody knows who sits at it"),
        ({"kind": JobKind.INFERENCE}, "it serves inference, which is never disturbed"),
        ({"acted_ms": NOW_MS - 60_000}, "it was disturbed 1 min ago"),
    ],
)
def test_what_nothing_may_be_done_to_stays_told_and_its_owner_reads_so(
    changes: dict[str, object], says: str
) -> None:
    found = told(idle(600, **changes), AUTO)
    assert found.rung == "tell"
    assert says in found.next


def test_a_job_that_cannot_be_checkpointed_is_not_said_to_be_paused() -> None:
    found = told(idle(40, checkpointable=False, checkpoint_ms=NOW_MS), AUTO)
    assert "put back in its queue" in found.next and "paused" not in found.next


@pytest.mark.parametrize(
    ("minutes", "modes", "says"),
    [
        (40, None, "Fallow does nothing to it by itself: that is at advise."),
        (40, None, "from 2026-11-02 00:20 UTC on"),
        (90, None, "this is the time at which it is paused; nothing is lost"),
        (
            40,
            ASK,
            "From 2026-11-02 00:20 UTC on it is proposed that it is paused; nothing is lost; nothing is",
        ),
        (90, ASK, "waits for its owner's or an operator's yes (`fallow plan --waiting`)"),
        (40, AUTO, "It is paused; nothing is lost, 2026-11-02 00:20 UTC at the earliest, unless it works"),
        (58, AUTO, "2026-11-02 00:15 UTC at the earliest"),
        (90, AUTO, "as soon as its owner has been told for the grace"),
    ],
)
def test_what_happens_next_is_what_the_mode_allows(
    minutes: int, modes: dict[ActionClass, Mode] | None, says: str
) -> None:
    assert says in told(idle(minutes), modes).next


def test_what_could_never_be_done_to_it_is_said_with_the_reason() -> None:
    """No rung above telling is in reach, however long it idles: that is no "nothing further is due"."""
    beyond = {"pause": "only where [foreign] checkpoint is on", "requeue": "it cannot be launched anew"}
    found = told(idle(40, cannot=beyond), AUTO)
    assert found.next == "Nothing is done to it: only where [foreign] checkpoint is on."
    assert "cannot be checkpointed" in told(idle(40, checkpointable=False), AUTO).next


def test_while_acting_is_stopped_nothing_is_promised() -> None:
    found = told(idle(90), AUTO, halt="acting was stopped by root")
    assert found.next == "Nothing is done to it meanwhile: acting was stopped by root."


@pytest.mark.parametrize(("modes", "halt", "by_ladder"), [(AUTO, None, True), (AUTO, "stop", False)])
def test_the_owner_is_left_to_the_ladder_where_that_tells_by_itself(
    modes: dict[ActionClass, Mode], halt: str | None, by_ladder: bool
) -> None:
    assert told(idle(40), modes, halt=halt).by_ladder is by_ladder
    assert told(idle(40), ASK).by_ladder is False and told(idle(40)).by_ladder is False


def test_the_sites_protected_are_shown_and_never_told() -> None:
    assert told(idle(600, protected=True), AUTO).rung == "show"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"use": Use.ACTIVE}, "it works again"),
        ({"use": Use.STARTING}, "it has not computed since it was last started"),
        ({"keep_until_ms": NOW_MS + HOUR_MS}, "its owner keeps it for 1 h more"),
        ({"opted_out": frozenset({ActionClass.RECLAIM})}, "its owner opted out"),
        ({"attached": True}, "somebody sits at it"),
    ],
)
def test_who_works_is_kept_or_has_just_begun_is_calm_and_why(changes: dict[str, object], why: str) -> None:
    seen = idle_jobs(facts(state(idle(600, **changes))), [KEY])
    assert seen.holds == {} and seen.unknown == frozenset()
    assert why in seen.calm[KEY]


@pytest.mark.parametrize(
    "of",
    [
        state(job(use=Use.UNKNOWN)),
        state(job(idle_since_ms=None)),
        replace(
            state(job()),
            gpus={GPUS[0]: replace(state().gpus[GPUS[0]], telemetry=Telemetry.SUSPECT)},
        ),
    ],
)
def test_what_is_not_known_is_neither_idle_nor_calm(of: object) -> None:
    seen = idle_jobs(facts(of), [])  # type: ignore[arg-type]
    assert (seen.holds, seen.unknown) == ({}, frozenset({KEY}))


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (state(), "it holds no GPUs any more"),
        (state(job(phase=Phase.PAUSED), on={}), "it is paused"),
        (state(job(phase=Phase.PENDING), on={}), "it is back in its queue"),
    ],
)
def test_who_holds_no_gpus_is_calm_and_why(of: object, why: str) -> None:
    seen = idle_jobs(facts(of), [KEY])  # type: ignore[arg-type]
    assert why in seen.calm[KEY] and seen.holds == {}


def test_the_words_name_gpu_job_evidence_and_the_command() -> None:
    found = told(idle(40))
    assert found.title == f"ann's notebook ({ANN}) does nothing on H100 node1:0"
    assert (
        "has done nothing on H100 node1:0 since 2026-11-01 23:20 UTC, for 40 min (0.7 GPU-hours)"
        in found.says
    )
    assert found.do == f"fallow keep {ANN} --hours 4"
    assert found.gpus == GPUS[:1]
    one = facts(state(idle(70)), finding())
    assert idle_jobs(one, ()).holds[KEY].says == finding().sentence
    assert {each.name: each.value for each in idle_jobs(one, ()).holds[KEY].evidence}[
        "measured_ratio"
    ] == 0.98


def test_a_gang_is_one_case() -> None:
    held = {ANN: GPUS}
    seen = idle_jobs(facts(state(idle(40), on=held)), ())
    assert list(seen.holds) == [KEY]
    assert "4 H100 (node1:0, node1:1, node1:2, node1:3)" in seen.holds[KEY].title


def test_a_rule_that_is_switched_off_closes_its_cases_and_finds_nothing() -> None:
    seen = sight(facts(state(idle(40))), AlertsConfig(kinds=("gpu-fault",)), [KEY])
    assert KEY not in seen.holds
    assert "switched off" in seen.calm[KEY]


def test_standing_is_reckoned_as_if_the_owner_had_been_told() -> None:
    """A site at advise tells nobody by the ladder, and its rungs are reached all the same."""
    from advisor.planner.quota import quota_cover

    of = facts(state(idle(90, notified_ms=None)))
    stand = stand_of(of, of.state.jobs[ANN], quota_cover(of.state))
    assert (stand.rung, stand.next, stand.mode) == (Rung.PAUSE, None, Mode.ADVISE)
    assert next_words(of, stand).startswith("Fallow does nothing to it by itself")
