"""The state that decisions look at: measured jobs and GPUs, joined with what was submitted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.jobs import lifecycle
from advisor.jobs.model import (
    Elasticity,
    ExitReason,
    JobRecord,
    JobState,
    Launcher,
    PauseCommand,
    ReallocateCommand,
    StartCommand,
)
from advisor.jobs.with_snapshot import Look, joined
from advisor.planner.quota import is_usable
from advisor.planner.validate import checked
from advisor.state.model import (
    ClusterState,
    Gpu,
    Job,
    Node,
    Phase,
    Placement,
    Project,
    ProjectName,
    Telemetry,
    Use,
)
from analytics.vocabulary.jobs import is_submitted
from collector.model import GpuUuid, JobId, JobKind, NodeName
from tests.advisor.jobs.job_store_world import GPUS, NODE, submission, word

NOW = 100_000
GIB = 1 << 30


def live(**changes: object) -> ClusterState:
    plain = ClusterState(
        as_of_ms=NOW - 5_000,
        nodes={NODE: Node(name=NODE)},
        gpus={
            uuid: Gpu(uuid=uuid, node=NODE, model="H100", memory_bytes=80 * GIB, telemetry=Telemetry.GOOD)
            for uuid in GPUS
        },
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def look(**changes: object) -> Look:
    plain = Look(
        now_ms=NOW,
        newest_ms=dict.fromkeys(GPUS, NOW - 5_000),
        stale_ms=30_000,
        here=frozenset({NODE}),
        by_launcher=is_submitted,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def entry(number: int = 1, **asked: object) -> JobRecord:
    return lifecycle.submitted(JobId(f"fallow:{number}"), submission(**asked), 1_000)


def running(number: int = 1, gpus: tuple[GpuUuid, ...] = GPUS[:1], **asked: object) -> JobRecord:
    begun = lifecycle.with_command(entry(number, **asked), StartCommand(number=number, gpus=gpus), 2_000)
    return lifecycle.with_report(begun, word(JobState.RUNNING, number), 3_000)


def ended_as(reason: ExitReason) -> JobRecord:
    return replace(running(2), state=JobState.ENDED, exit_reason=reason, gpus=(), ended_ms=4_000)


def on_a_share(number: int, gpu: GpuUuid, share: float) -> JobRecord:
    begun = lifecycle.with_command(entry(number), StartCommand(number=1, gpus=(gpu,), share=share), 2_000)
    return lifecycle.with_report(begun, word(JobState.RUNNING, 1), 3_000)


def foreign(job: str, uuid: GpuUuid, **changes: object) -> tuple[dict[JobId, Job], dict[JobId, Placement]]:
    made = Job(id=JobId(job), project=ProjectName("lm"), phase=Phase.RUNNING, use=Use.IDLE, idle_since_ms=1)
    return {made.id: replace(made, **changes)}, {made.id: Placement(gpus=(uuid,))}  # type: ignore[arg-type]


def test_who_waits_runs_and_is_paused_stands_so() -> None:
    paused = lifecycle.with_report(
        lifecycle.with_command(running(3, GPUS[2:3]), PauseCommand(number=9), 4_000),
        word(JobState.PAUSED, 9),
        5_000,
    )
    state = checked(joined(live(), (entry(1), running(2), paused), look()))
    assert {job: each.phase for job, each in state.jobs.items()} == {
        "fallow:1": Phase.PENDING,
        "fallow:2": Phase.RUNNING,
        "fallow:3": Phase.PAUSED,
    }
    assert state.placements == {JobId("fallow:2"): Placement(gpus=GPUS[:1])}
    assert state.jobs[JobId("fallow:3")].paused_on == GPUS[2:3]
    assert state.as_of_ms == NOW


def test_what_a_launched_job_does_is_measured_by_its_id_and_never_guessed() -> None:
    jobs, placements = foreign("fallow:1", GPUS[0], idle_since_ms=7_000)
    seen = live(jobs=jobs, placements=placements)
    job = joined(seen, (running(1),), look()).jobs[JobId("fallow:1")]
    assert (job.use, job.idle_since_ms, job.user) == (Use.IDLE, 7_000, "anna")
    assert joined(live(), (running(1),), look()).jobs[JobId("fallow:1")].use is Use.UNKNOWN
    begun = lifecycle.with_command(entry(1), StartCommand(number=1, gpus=GPUS[:1]), 2_000)
    assert joined(seen, (begun,), look()).jobs[JobId("fallow:1")].use is Use.STARTING


def test_a_gpu_without_a_fresh_sample_is_given_to_nobody_and_nobody_on_it_is_judged() -> None:
    jobs, placements = foreign("slurm:1", GPUS[1])
    newest = {GPUS[0]: NOW - 60_000, GPUS[1]: NOW - 60_000, GPUS[2]: NOW - 5_000}
    state = joined(live(jobs=jobs, placements=placements), (), look(newest_ms=newest))
    assert [state.gpus[uuid].occupied for uuid in GPUS] == [True, True, False, True]
    assert state.gpus[GPUS[0]].telemetry is Telemetry.UNKNOWN
    held = state.jobs[JobId("slurm:1")]
    assert (held.use, held.idle_since_ms) == (Use.UNKNOWN, None)


def test_a_process_on_a_gpu_that_was_leased_since_the_last_look_is_no_intruder() -> None:
    taken = live(gpus={**live().gpus, GPUS[0]: replace(live().gpus[GPUS[0]], occupied=True)})
    assert joined(taken, (running(1),), look()).gpus[GPUS[0]].occupied is False
    assert joined(taken, (), look()).gpus[GPUS[0]].occupied is True
    jobs, placements = foreign("pid:7", GPUS[0])
    state = checked(joined(live(jobs=jobs, placements=placements), (running(1),), look()))
    assert list(state.jobs) == ["fallow:1"], "our lease is the strongest word"


def beside_our_half(*shares: float) -> ClusterState:
    """Jobs of others on the second half of our GPU, the last one on another GPU too; long there."""
    seen = {JobId("fallow:1"): Placement(gpus=GPUS[:1], share=0.5)}
    jobs: dict[JobId, Job] = {}
    for number, share in enumerate(shares):
        jobs |= foreign(f"slurm:{number}", GPUS[0], share=share)[0]
        gpus = GPUS[:2] if number == len(shares) - 1 else GPUS[:1]
        seen[JobId(f"slurm:{number}")] = Placement(gpus=gpus, share=share)
    mine = foreign("fallow:1", GPUS[0], share=0.5)[0]
    return checked(
        joined(live(jobs={**jobs, **mine}, placements=seen), (on_a_share(1, GPUS[0], 0.5),), look())
    )


def test_others_who_fit_beside_our_share_of_a_gpu_keep_their_places() -> None:
    state = beside_our_half(0.25, 0.25)
    assert sorted(state.placements) == ["fallow:1", "slurm:0", "slurm:1"]
    assert [state.gpus[uuid].occupied for uuid in GPUS] == [False] * 4


def test_others_who_together_do_not_fit_beside_our_share_lose_theirs_and_nobody_gets_what_they_use() -> None:
    state = beside_our_half(0.5, 0.5)
    assert list(state.placements) == ["fallow:1"]
    assert [state.gpus[uuid].occupied for uuid in GPUS] == [True, True, False, False]


@given(
    ours=st.lists(st.tuples(st.sampled_from(GPUS), st.sampled_from((0.25, 0.5, 1.0))), max_size=6),
    theirs=st.lists(
        st.tuples(st.sets(st.sampled_from(GPUS), min_size=1), st.sampled_from((0.3, 0.5, 1.0))), max_size=6
    ),
)
def test_whoever_else_is_there_no_gpu_is_given_away_more_than_once(
    ours: list[tuple[GpuUuid, float]], theirs: list[tuple[set[GpuUuid], float]]
) -> None:
    entries, leased = [], dict.fromkeys(GPUS, 0.0)
    for number, (uuid, share) in enumerate(ours):
        if leased[uuid] + share <= 1:
            leased[uuid] += share
            entries.append(on_a_share(number, uuid, share))
    jobs: dict[JobId, Job] = {}
    placements: dict[JobId, Placement] = {}
    taken = dict.fromkeys(GPUS, 0.0)
    for number, (uuids, share) in enumerate(theirs):
        if all(taken[uuid] + share <= 1 for uuid in uuids):
            taken.update({uuid: taken[uuid] + share for uuid in uuids})
            jobs |= foreign(f"slurm:{number}", GPUS[0], share=share)[0]
            placements[JobId(f"slurm:{number}")] = Placement(gpus=tuple(sorted(uuids)), share=share)
    state = checked(joined(live(jobs=jobs, placements=placements), entries, look()))
    free = {uuid for uuid, share in leased.items() if not share and is_usable(state.gpus[uuid], state)}
    held = {uuid for placement in state.placements.values() for uuid in placement.gpus}
    assert all(taken[uuid] == 0 or uuid in held for uuid in free), "who has no place is still there"


def test_of_a_job_one_of_whose_gpus_is_gone_the_others_are_given_to_nobody() -> None:
    gone = live()
    left = replace(gone, gpus={uuid: gpu for uuid, gpu in gone.gpus.items() if uuid != GPUS[0]})
    state = checked(joined(left, (running(1, GPUS[:2]), entry(2)), look()))
    assert not state.placements and list(state.jobs) == ["fallow:2"]
    assert [uuid for uuid, gpu in state.gpus.items() if gpu.occupied] == [GPUS[1]]


def test_what_ended_since_the_last_look_holds_nothing() -> None:
    jobs, placements = foreign("fallow:8", GPUS[0])
    state = checked(joined(live(jobs=jobs, placements=placements), (), look()))
    assert not state.jobs and not state.placements


def test_a_job_in_flight_holds_both_worlds_and_is_left_alone_with_its_node() -> None:
    moving = lifecycle.with_command(running(1, GPUS[:2]), ReallocateCommand(number=5, gpus=GPUS[1:3]), 4_000)
    state = checked(joined(live(), (moving,), look()))
    job = state.jobs[JobId("fallow:1")]
    assert set(state.placements[job.id].gpus) == set(GPUS[:3])
    assert not job.preemptible and not job.elastic and job.opted_out
    assert state.nodes[NODE].in_flight


def test_a_job_whose_launcher_is_away_or_whose_start_just_failed_is_not_started() -> None:
    state = joined(live(), (entry(1),), look(absent=frozenset({JobId("fallow:1")})))
    assert not state.jobs
    begun = lifecycle.with_command(entry(2), StartCommand(number=2, gpus=GPUS[:1]), NOW)
    failed = lifecycle.with_report(begun, word(JobState.PENDING, 2, failed="no such program"), NOW)
    assert not joined(live(), (failed,), look()).jobs
    assert joined(live(), (failed,), look(now_ms=NOW + 31_000)).jobs


def test_a_running_job_whose_launcher_is_away_is_left_alone() -> None:
    job = joined(live(), (running(1),), look(absent=frozenset({JobId("fallow:1")}))).jobs[JobId("fallow:1")]
    assert not job.preemptible and not job.elastic and job.opted_out


def test_a_rigid_job_is_neither_elastic_once_it_runs_nor_preemptible() -> None:
    rigid = running(1, GPUS[:2], mobility=Elasticity.RIGID)
    job = joined(live(), (rigid,), look()).jobs[JobId("fallow:1")]
    assert (job.min_gpus, job.max_gpus, job.preemptible, job.checkpointable) == (2, 2, False, False)
    movable = joined(live(), (running(1, GPUS[:2]),), look()).jobs[JobId("fallow:1")]
    assert (movable.min_gpus, movable.max_gpus, movable.preemptible) == (1, 4, True)


def test_nobody_knows_who_sits_at_an_interactive_job_that_says_nothing() -> None:
    job = joined(live(), (running(1, kind=JobKind.INTERACTIVE),), look()).jobs[JobId("fallow:1")]
    assert job.attached is None
    batch = joined(live(), (running(1),), look()).jobs[JobId("fallow:1")]
    assert batch.attached is False


def test_launched_jobs_are_put_on_this_machine_only() -> None:
    far = NodeName("far")
    state = live(nodes={NODE: Node(name=NODE), far: Node(name=far)})
    found = joined(state, (), look())
    assert found.nodes[NODE].schedulable and not found.nodes[far].schedulable


def test_a_job_of_a_project_that_became_an_inner_one_does_not_stop_the_others() -> None:
    projects = {
        ProjectName("vision"): Project(name=ProjectName("vision")),
        ProjectName("detection"): Project(name=ProjectName("detection"), parent=ProjectName("vision")),
    }
    state = checked(joined(live(projects=projects), (entry(1), entry(2, project=ProjectName("lm"))), look()))
    assert list(state.jobs) == ["fallow:2"]


def test_a_job_that_runs_while_its_project_becomes_an_inner_one_runs_on() -> None:
    projects = {
        ProjectName("vision"): Project(name=ProjectName("vision"), quota_gpus=2),
        ProjectName("detection"): Project(name=ProjectName("detection"), parent=ProjectName("vision")),
    }
    state = checked(joined(live(projects=projects), (running(1), entry(2)), look()))
    assert list(state.jobs) == ["fallow:1"]
    assert state.projects[state.jobs[JobId("fallow:1")].project].parent == "vision"


def test_the_speed_that_a_job_reports_is_its_profile() -> None:
    told = word(JobState.RUNNING, 1, step_s={1: 2.0, 2: 1.1, 3: 0.0}, steps_left=40.0, resize_s=0.5)
    job = joined(live(), (lifecycle.with_report(running(1), told, 3_000),), look()).jobs[JobId("fallow:1")]
    assert job.profile is not None
    assert (dict(job.profile.step_s), job.profile.steps_left) == ({1: 2.0, 2: 1.1}, 40.0)
    assert Launcher(node=NODE, pid=1, started_ms=1).pid == 1


def test_only_a_job_whose_library_says_what_it_holds_and_needs_has_a_cache_to_give() -> None:
    plain = running(1, memory_bytes=8 * GIB)
    jobs, placements = foreign("fallow:1", GPUS[0], memory_held_bytes=9 * GIB)
    measured = joined(live(jobs=jobs, placements=placements), (plain,), look()).jobs[JobId("fallow:1")]
    assert measured.cannot == {"release-memory": "its own library reports no cache"}
    told = word(JobState.RUNNING, 1, memory_held_bytes=9 * GIB, memory_needed_bytes=2 * GIB)
    says = joined(live(), (lifecycle.with_report(plain, told, 4_000),), look()).jobs[JobId("fallow:1")]
    assert (says.cannot, says.memory_held_bytes, says.memory_bytes) == ({}, 9 * GIB, 2 * GIB)


@pytest.mark.parametrize(
    ("first", "after", "failed"),
    [
        (running(2), ("fallow:2",), ()),
        (entry(2), ("fallow:2",), ()),
        (ended_as(ExitReason.DONE), (), ()),
        (ended_as(ExitReason.FAILED), ("fallow:2",), ("fallow:2",)),
        (ended_as(ExitReason.CANCELLED), ("fallow:2",), ("fallow:2",)),
        (ended_as(ExitReason.LOST), ("fallow:2",), ("fallow:2",)),
        (entry(3), ("fallow:2",), ("fallow:2",)),  # nobody knows how 2 ended
    ],
)
def test_a_job_that_starts_after_another_waits_for_its_good_end(
    first: JobRecord, after: tuple[str, ...], failed: tuple[str, ...]
) -> None:
    state = checked(joined(live(), (entry(1, after=(JobId("fallow:2"),)), first), look()))
    job = state.jobs[JobId("fallow:1")]
    assert (job.after, job.after_failed) == (after, failed)


def test_only_a_first_start_waits_for_other_jobs() -> None:
    again = replace(entry(1, after=(JobId("fallow:2"),)), started_ms=1_500)
    assert joined(live(), (again, running(2)), look()).jobs[JobId("fallow:1")].after == ()
