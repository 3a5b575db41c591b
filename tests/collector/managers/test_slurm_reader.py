"""A look at Slurm: what is believed, what is not, how seldom it is asked."""

import os
from dataclasses import replace

import pytest

from collector.managers.model import JobState, Look
from collector.managers.slurm.reader import ACCOUNT_MS, GRANTS_MS, SINGLY, SlurmManager
from collector.managers.source import ManagerSource
from collector.model import (
    ClaimSource,
    JobKind,
    OutOfService,
    Unavailable,
)
from collector.reading import Reading
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, Node, World

T0_MS = (SUBMITTED_S + 60) * 1000


def looked(manager: SlurmManager, at_ms: int = T0_MS) -> Look:
    look = manager.look(at_ms)
    assert isinstance(look, Look), look
    return look


def claims(world: World) -> list[tuple[str, int | None, float, str]]:
    reading = ManagerSource(SlurmManager(run=world.run)).read(T0_MS)
    assert isinstance(reading, Reading), reading
    return [(each.node, each.index, each.share, each.holder.job) for each in reading.claims or ()]


def test_a_job_holds_the_gpus_that_its_gres_names() -> None:
    world = World(jobs=[Job(id=812, nodes=("gpu1", "gpu2"), gres=("gpu:2(IDX:0,3)", "gpu:1(IDX:1)"))])
    assert claims(world) == [
        ("gpu1", 0, 1.0, "slurm:812"),
        ("gpu1", 3, 1.0, "slurm:812"),
        ("gpu2", 1, 1.0, "slurm:812"),
    ]
    reading = ManagerSource(SlurmManager(run=world.run)).read(T0_MS)
    assert isinstance(reading, Reading) and reading.claims and reading.look
    claim = reading.claims[0]
    assert (claim.holder.user, claim.holder.project, claim.source) == ("ann", "vision", ClaimSource.SLURM)
    assert claim.holder.kind is JobKind.BATCH


@pytest.mark.parametrize(
    ("state", "holds"),
    [("RUNNING", True), ("COMPLETING", True), ("SUSPENDED", True), ("PENDING", False), ("COMPLETED", False)],
)
def test_a_job_holds_gpus_from_its_start_to_its_clean_up(state: str, holds: bool) -> None:
    assert bool(claims(World(jobs=[Job(id=1, state=state)], nodes=[Node(used="")]))) is holds


def test_gpus_that_are_nowhere_named_are_claimed_without_an_index() -> None:
    world = World(jobs=[Job(id=1, gres=("gpu:2",))])
    assert [(node, index) for node, index, _, _ in claims(world)] == [("gpu1", None)] * 2
    world = World(jobs=[Job(id=1, gres=())])
    assert [(node, index) for node, index, _, _ in claims(world)] == [("gpu1", None)] * 2


def test_shards_share_their_gpu_by_what_each_was_given() -> None:
    jobs = [
        Job(id=1, gres=("shard:3(IDX:3)",), asked="gres:shard:3"),
        Job(id=2, gres=("shard:a100:1(IDX:3)",), asked="gres:shard:1"),
    ]
    found = claims(
        World(jobs=jobs, nodes=[Node(gres="gpu:4,shard:16", used="gpu:0(IDX:N/A),shard:4(IDX:3)")])
    )
    assert [(index, share) for _, index, share, _ in found] == [(3, 0.75), (3, 0.25)]


@pytest.mark.parametrize("program", ["squeue", "sinfo", "scontrol"])
def test_a_program_without_an_answer_is_no_empty_cluster(program: str) -> None:
    world = World(failing={program: f"{program} ended with 1: Unable to contact slurm controller"})
    outcome = SlurmManager(run=world.run).look(T0_MS)
    assert isinstance(outcome, Unavailable) and "Unable to contact" in outcome.reason


def test_no_jobs_where_nodes_gave_nothing_out_is_an_answer() -> None:
    assert claims(World(jobs=[], nodes=[Node(used="gpu:a100:0(IDX:N/A)")])) == []


HIDDEN = "given to jobs that Slurm does not show to this account"
MISCOUNTED = "given out by Slurm's count of the node, and no job has them"
SLURMS_OWN = 64030
"""The world's SlurmUser."""


@pytest.mark.parametrize(("uid", "why"), [(1000, HIDDEN), (0, MISCOUNTED), (SLURMS_OWN, MISCOUNTED)])
def test_no_jobs_where_nodes_gave_gpus_out_is_none(
    uid: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    world = World(jobs=[], nodes=[Node(used="gpu:a100:3(IDX:0-2)")])
    outcome = SlurmManager(run=world.run).look(T0_MS)
    assert isinstance(outcome, Unavailable)
    assert outcome.reason.startswith(f"3 GPUs are {why}")
    assert world.asked("squeue") == 2, "a job may have begun between the two calls"


@pytest.mark.parametrize(("uid", "why"), [(1000, HIDDEN), (0, MISCOUNTED)])
def test_a_node_that_gave_more_than_the_jobs_shown_hold_has_no_free_gpu(
    uid: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    nodes = [Node(used="gpu:a100:3(IDX:0-2)"), Node(name="gpu2", used="gpu:0(IDX:N/A)")]
    look = looked(SlurmManager(run=World(nodes=nodes).run))
    assert [node.state for node in look.nodes] == [OutOfService.UNASKED, None]
    assert look.nodes[0].reason.startswith(f"1 GPU is {why}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who sees all")
def test_root_sees_all_jobs_whatever_is_private() -> None:
    assert looked(SlurmManager(run=World(private="jobs").run)).jobs


def test_who_waits_is_shown_with_the_reason() -> None:
    job = Job(id=9, state="PENDING", reason="ReqNodeNotAvail, UnavailableNodes:n3", nodes=("x", "y"))
    look = looked(SlurmManager(run=World(jobs=[Job(id=812), job]).run))
    waiting = look.jobs[1]
    assert (waiting.state, waiting.reason) == (JobState.PENDING, "ReqNodeNotAvail, UnavailableNodes:n3")
    assert (waiting.ask.gpus, waiting.given, waiting.started_ms) == (4, (), None)


def test_a_poll_is_two_calls_and_more_when_a_job_begins_and_once_a_minute() -> None:
    world = World()
    manager = SlurmManager(run=world.run)
    looked(manager)
    world.calls.clear()
    looked(manager, T0_MS + 30_000)
    assert [command[0] for command in world.calls] == ["sinfo", "squeue"]
    world.jobs = [Job(id=812), Job(id=813, gres=("gpu:1(IDX:2)",))]
    world.calls.clear()
    assert [job.given for job in looked(manager, T0_MS + 60_000).jobs][1] is not None
    assert [command[0] for command in world.calls] == ["sinfo", "squeue", "scontrol", "scontrol"]
    assert [command[-1] for command in world.calls[-2:]] == ["813", "reservation"]
    world.calls.clear()
    looked(manager, T0_MS + GRANTS_MS + 1)
    assert world.asked("scontrol") == 4, (
        "two jobs, reservations and the configuration" if ACCOUNT_MS <= GRANTS_MS else ""
    )


def test_many_new_jobs_are_asked_about_at_once() -> None:
    jobs = [Job(id=number, gres=(f"gpu:1(IDX:{number})",)) for number in range(1, SINGLY + 2)]
    world = World(jobs=jobs, nodes=[Node(used=f"gpu:{len(jobs)}")])
    look = looked(SlurmManager(run=world.run))
    assert [grant.indices for job in look.jobs for grant in job.given or ()] == [(job.id,) for job in jobs]
    assert world.asked("scontrol") == 3, "the configuration, all jobs, the reservations"


def test_a_hostile_name_costs_nobody_else_their_gpus() -> None:
    jobs = [Job(id=number, gres=(f"gpu:1(IDX:{number})",)) for number in range(1, SINGLY + 2)]
    evil = Job(id=99, name="a\nJobId=1 JobName=train UserId=x", gres=("gpu:1(IDX:9)",))
    world = World(jobs=[*jobs, evil], nodes=[Node(used=f"gpu:{len(jobs) + 1}")])
    look = looked(SlurmManager(run=world.run))
    assert [grant.indices for job in look.jobs[:2] for grant in job.given or ()] == [(1,), (2,)]


def test_a_job_that_ends_between_two_calls_is_no_fault() -> None:
    world = World(jobs=[Job(id=812), Job(id=813)], nodes=[Node(used="gpu:a100:4")])

    def run(command: tuple[str, ...], timeout_s: float) -> str:
        if command[-1] == "813":
            world.jobs = [Job(id=812)]
        return world.run(command, timeout_s)

    look = looked(SlurmManager(run=run))  # type: ignore[arg-type]
    assert look.jobs[0].given and look.jobs[1].given is None


def test_a_number_that_is_used_again_is_another_job() -> None:
    world = World()
    manager = SlurmManager(run=world.run)
    assert looked(manager).jobs[0].holder.job == "slurm:812"
    world.jobs = [Job(id=812, submitted_s=SUBMITTED_S + 40, user="bob", uid=1001)]
    again = looked(manager, T0_MS + 60_000).jobs[0]
    assert again.holder.job == f"slurm:812@{SUBMITTED_S + 40}"
    assert looked(manager, T0_MS + 90_000).jobs[0].holder.job == again.holder.job


def test_a_requeued_job_stays_the_same() -> None:
    world = World()
    manager = SlurmManager(run=world.run)
    looked(manager)
    world.jobs = [Job(id=812, submitted_s=SUBMITTED_S + 40, restarts=1)]
    assert looked(manager, T0_MS + 60_000).jobs[0].holder.job == "slurm:812"
    world.jobs = [replace(world.jobs[0], submitted_s=SUBMITTED_S + 80)]
    assert looked(manager, T0_MS + 90_000).jobs[0].holder.job == f"slurm:812@{SUBMITTED_S + 80}"


def test_all_calls_of_a_look_share_one_time_limit() -> None:
    outcome = SlurmManager(run=World().run, timeout_s=-1.0).look(T0_MS)
    assert isinstance(outcome, Unavailable) and "to answer" in outcome.reason
