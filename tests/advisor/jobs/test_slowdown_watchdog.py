"""Speeds by counted steps, alone and beside a neighbour, and when two are parted."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.actions import Move, Requeue
from advisor.jobs.model import JobRecord, JobState, StartCommand
from advisor.jobs.slowdown_watchdog import (
    Counted,
    Pair,
    Span,
    Track,
    Way,
    beside,
    counted,
    couples,
    experience_of,
    followed,
    own_speed,
    parting,
    too_slow,
    tried,
    ways,
)
from advisor.policies.pack import PAIRING
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Placement, ProjectName, Reservation
from collector.model import GpuUuid, JobId, NodeName
from tests.advisor.jobs.job_store_world import submission, word

SPAN = Span(window_ms=30_000, settle_ms=60_000, least_steps=20)
G0, G1, G2 = (GpuUuid(f"g{n}") for n in range(3))
HOST, GUEST = JobId("fallow:1"), JobId("fallow:2")
ALONE, TOGETHER = Way(gpus=(G0,), share=1.0), Way(gpus=(G0,), share=0.5, beside=frozenset({GUEST}))
PAIR = Pair(
    host=HOST, guest=GUEST, host_profile="anna/a", guest_profile="anna/b", gpu_model="H100", alone=(10.0, 4.0)
)


def run(
    way: Way,
    steps_per_s: float,
    seconds: int,
    *,
    begin: Track | None = None,
    from_s: int = 0,
    alone: float | None = None,
    every_s: int = 5,
) -> Track:
    """A track of a job at that speed, its launcher heard every five seconds."""
    track = begin
    for at_s in range(from_s, from_s + seconds + 1, every_s):
        now = Counted(at_ms=at_s * 1000, step=int(at_s * steps_per_s))
        track = followed(track, way, now, SPAN, alone)
    assert track is not None
    return track


def test_a_speed_is_steps_a_second_over_windows_after_settling() -> None:
    assert run(ALONE, 10, 85).windows == ()
    assert run(ALONE, 10, 90).windows == (10.0,)
    assert own_speed(run(ALONE, 10, 145)) is None, "two windows are too few"
    assert own_speed(run(ALONE, 10, 150)) == 10.0


def test_a_slow_job_is_measured_over_longer_windows() -> None:
    track = run(ALONE, 0.25, 60 + 79)
    assert track.windows == () and run(ALONE, 0.25, 60 + 80).windows == (0.25,)


def test_who_stands_still_beside_another_is_measured_as_still() -> None:
    track = run(TOGETHER, 10, 60, alone=10.0)
    for at_s in range(65, 160, 5):
        track = followed(track, TOGETHER, Counted(at_ms=at_s * 1000, step=600), SPAN, 10.0)
    assert track.windows == (0.0, 0.0, 0.0)
    assert too_slow(beside(track, GUEST, 10.0), PAIRING)


@pytest.mark.parametrize(
    ("way", "step"),
    [
        (TOGETHER, 2_000),
        (replace(ALONE, share=0.5), 2_000),
        (replace(ALONE, gpus=(G1,)), 2_000),
        (ALONE, 100),
    ],
    ids=["a neighbour came", "another share", "another GPU", "it went back to a checkpoint"],
)
def test_windows_are_of_one_way_of_running(way: Way, step: int) -> None:
    track = run(ALONE, 10, 150)
    after = followed(track, way, Counted(at_ms=155_000, step=step), SPAN)
    assert after.windows == () and after.begun is None


def test_a_launcher_that_was_started_again_counts_anew() -> None:
    track = run(ALONE, 10, 150)
    assert followed(track, ALONE, Counted(at_ms=3_000, step=2_000), SPAN).windows == ()


def test_the_same_word_heard_twice_says_nothing_new() -> None:
    track = run(ALONE, 10, 120)
    assert followed(track, ALONE, track.newest, SPAN) is track


@given(st.floats(0.05, 50), st.lists(st.integers(1, 40), min_size=40, max_size=80), st.floats(0.3, 1.2))
def test_a_speed_is_off_by_a_twentieth_at_most(alone: float, gaps: list[int], part: float) -> None:
    """Whenever counts come, and however slow the job: a count is the steps that are whole."""
    track, at_s = None, 0
    for gap in gaps:
        at_s += gap
        now = Counted(at_ms=at_s * 1000, step=int(at_s * alone * part))
        track = followed(track, TOGETHER, now, SPAN, alone)
        for speed in beside(track, GUEST, alone):
            assert abs(speed - part) <= 1 / SPAN.least_steps + 1e-9


def test_parts_of_the_own_speed_are_of_this_neighbour_alone() -> None:
    track = run(TOGETHER, 8, 150, alone=10.0)
    assert beside(track, GUEST, 10.0) == (0.8, 0.8, 0.8)
    assert beside(track, JobId("fallow:9"), 10.0) == () and beside(track, GUEST, None) == ()
    assert beside(None, GUEST, 10.0) == () and own_speed(track) is None


def test_undone_after_three_slow_windows_in_a_row_and_not_after_two() -> None:
    assert too_slow((1.0, 0.89, 0.89, 0.89), PAIRING)
    assert not too_slow((0.89, 0.89), PAIRING)
    assert not too_slow((0.89, 0.91, 0.89, 0.89), PAIRING)


def test_a_trial_is_the_first_windows_of_both_and_is_over_once() -> None:
    assert tried(PAIR, (0.9, 0.9), (0.5, 0.5, 0.5), PAIRING) is PAIR
    after = tried(PAIR, (0.8, 0.9, 1.0, 0.1), (0.5, 0.6, 0.7), PAIRING)
    assert after.speeds == (pytest.approx(0.9), pytest.approx(0.6)) and after.windows == 3
    assert tried(after, (0.1,) * 5, (0.1,) * 5, PAIRING) is after


def test_of_a_pair_that_is_parted_what_both_have_by_then_is_its_trial() -> None:
    parted = replace(PAIR, undone=True)
    after = tried(parted, (0.8, 0.8, 0.8), (0.5,), PAIRING)
    assert (after.speeds, after.windows) == ((0.8, 0.5), 1)
    assert tried(parted, (0.8, 0.8, 0.8), (), PAIRING) is parted


def test_what_was_learnt_holds_for_its_model_and_the_parted_stay_apart() -> None:
    known = experience_of(
        [
            replace(PAIR, speeds=(0.95, 0.7), windows=3),
            replace(PAIR, gpu_model="A100", undone=True),
            replace(PAIR, gpu_model="V100"),
        ]
    )
    (trial,) = known["H100"].trials.values()
    assert (trial.first, trial.second, trial.first_speed) == ("anna/a", "anna/b", 0.95)
    assert not known["H100"].undone and known["A100"].undone == {("anna/a", "anna/b")}
    assert not known["V100"].trials, "they were put together, and nobody counted"


def entry(job: JobId, gpus: tuple[GpuUuid, ...] = (G0,), share: float = 0.5, **changes: Any) -> JobRecord:
    wanted = submission(name=str(job), share=changes.pop("asked", 1.0), max_gpus=1)
    plain = JobRecord(id=job, submission=wanted, state=JobState.RUNNING, gpus=gpus, share=share)
    return replace(plain, **changes)


def state(*entries: JobRecord, **changes: Any) -> ClusterState:
    """Three GPUs of one model on two nodes."""
    plain = ClusterState(
        as_of_ms=0,
        gpus={
            uuid: Gpu(uuid=uuid, node=NodeName(node), model="H100")
            for uuid, node in ((G0, "one"), (G1, "two"), (G2, "one"))
        },
        jobs={each.id: Job(id=each.id, project=ProjectName("vision")) for each in entries},
        placements={each.id: Placement(gpus=each.gpus, share=each.share) for each in entries},
    )
    return replace(plain, **changes)


def test_a_couple_is_two_who_got_less_than_they_asked_for() -> None:
    both = entry(HOST), entry(GUEST)
    assert couples(both, ways(state(*both), both)) == ((HOST, GUEST),)
    asked = entry(HOST, asked=0.5), entry(GUEST, asked=0.5)
    assert couples(asked, ways(state(*asked), asked)) == (), "they asked for halves: nobody packed them"
    apart = entry(HOST), entry(GUEST, gpus=(G1,))
    assert couples(apart, ways(state(*apart), apart)) == ()


def test_of_three_on_a_gpu_nobody_is_blamed() -> None:
    three = tuple(entry(JobId(f"fallow:{n}"), share=0.3) for n in range(3))
    assert couples(three, ways(state(*three), three)) == ()


def test_who_is_being_changed_or_beside_a_stranger_is_not_measured() -> None:
    moving = entry(HOST, directive=StartCommand(number=4, gpus=(G0,)), acknowledged=3)
    assert set(ways(state(moving, entry(GUEST)), [moving, entry(GUEST)])) == {GUEST}
    both = entry(HOST), entry(GUEST)
    seen = state(*both)
    strange = replace(seen, gpus={**seen.gpus, G0: replace(seen.gpus[G0], occupied=True)})
    assert ways(strange, both) == {}


def test_steps_that_nobody_counts_are_no_count() -> None:
    assert counted(entry(HOST)) is None
    assert counted(entry(HOST, report=word(JobState.RUNNING, step=4))) is None, "an older launcher"
    assert counted(entry(HOST, report=word(JobState.RUNNING, step=4, counted_ms=9))) == Counted(
        at_ms=9, step=4
    )


def test_the_guest_goes_to_a_free_gpu_of_its_model_near_by_and_the_host_gets_all_of_its_own() -> None:
    both = entry(HOST), entry(GUEST)
    entries = {each.id: each for each in both}
    guest, host = parting(state(*both), PAIR, entries, "why")
    assert guest == Move(job=GUEST, gpus=(G2,), share=1.0, action=ActionClass.PACK, reason="why")
    assert host == Move(job=HOST, gpus=(G0,), share=1.0, action=ActionClass.PACK, reason="why")
    promised = {JobId("gang"): Reservation(start_ms=1, gpus=(G2,))}
    guest, _ = parting(state(*both, reservations=promised), PAIR, entries, "why")
    assert isinstance(guest, Move) and guest.gpus == (G1,), "what was promised to somebody is not free"


def test_where_no_gpu_is_free_the_guest_waits_in_the_queue() -> None:
    both = entry(HOST), entry(GUEST)
    others = (entry(JobId("a"), gpus=(G1,)), entry(JobId("b"), gpus=(G2,)))
    guest, host = parting(state(*both, *others), PAIR, {each.id: each for each in both}, "why")
    assert guest == Requeue(job=GUEST, action=ActionClass.PACK, reason="why") and isinstance(host, Move)
