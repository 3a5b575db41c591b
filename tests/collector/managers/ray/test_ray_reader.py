"""What a Ray cluster's answers mean: who holds which GPU, who waits and why, and what is no answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.managers.model import JobState, Look, ManagedJob, WaitCause
from collector.managers.ray.api import MOST, Account, Answer, NoAnswer, asking
from collector.managers.ray.reader import RayManager
from collector.model import OutOfService, Unavailable
from tests.collector.dcgm import loopback
from tests.collector.managers.ray.dashboard import (
    BEGAN_MS,
    CLUSTER,
    DRIVER,
    GROUPED,
    HALF,
    NODE,
    TASK,
    TOLD_MS,
    Dashboard,
)

NOW_MS = TOLD_MS + 3_000
HERE = Account(url="http://head:8265")
TRAIN = f"ray:{CLUSTER[:8]}/train%402"


def look(world: Dashboard, user_key: str = "") -> Look | Unavailable:
    return RayManager(HERE, user_key=user_key, get=world.get).look(NOW_MS)


def seen(world: Dashboard, user_key: str = "") -> Look:
    found = look(world, user_key)
    assert isinstance(found, Look), found.reason
    return found


def held(found: Look) -> dict[str, list[tuple[int, tuple[int, ...], float, tuple[int, ...]]]]:
    return {
        job.holder.job: [(each.gpus, each.indices, each.share, each.pids) for each in job.given or ()]
        for job in found.jobs
        if job.state is JobState.RUNNING
    }


def waits(found: Look) -> list[ManagedJob]:
    return [job for job in found.jobs if job.state is JobState.PENDING]


def test_workers_and_placement_groups_hold_what_their_program_took() -> None:
    """0, 1 and 3 the program saw itself; the group's second bundle has nobody in it, and 2 alone is left."""
    found = seen(Dashboard())
    assert held(found) == {
        TRAIN: [
            (1, (0,), 0.5, (HALF,)),
            (1, (1,), 1.0, (GROUPED,)),
            (1, (2,), 1.0, ()),
            (1, (3,), 1.0, (TASK,)),
        ]
    }
    (node,) = found.nodes
    assert (node.name, node.gpus, node.given_gpus, node.state) == ("gpu-a", 4, 4, None)


def test_who_waits_is_told_with_what_was_asked_for_and_since_when() -> None:
    found = {(job.shown_id, job.ask.gpus): job for job in waits(seen(Dashboard()))}
    assert {key: (job.tasks, job.cause) for key, job in found.items()} == {
        ("train@2 big", 8): (1, WaitCause.RESOURCES),
        ("train@2 actors", 2): (1, WaitCause.RESOURCES),
        ("train@2 actors", 9): (1, WaitCause.NODES),  # no node has more than 4
        ("train@2 tasks", 1): (3, WaitCause.RESOURCES),
    }
    submitted_ms = 1795795622453  # by the list of jobs; all of them were asked for 12 to 18 s after that
    assert all(12_000 < job.key.submitted_ms - submitted_ms < 18_000 for job in found.values())
    assert {job.holder.job for job in found.values()} == {TRAIN}


def test_a_persons_name_is_believed_only_under_the_key_that_the_site_names() -> None:
    assert {job.holder.user for job in seen(Dashboard()).jobs} == {None}
    assert {job.holder.user for job in seen(Dashboard(), "user").jobs} == {"ann"}
    assert {job.holder.user for job in seen(Dashboard(), "owner").jobs} == {None}


def test_a_driver_is_not_a_submissions_that_was_started_on_another_node() -> None:
    """A driver names its submission itself: one that names somebody else's isn't taken for it."""
    world = Dashboard()
    (train,) = [job for job in world.bodies["jobs"] if job["submission_id"] == "train@2"]
    train["driver_info"]["node_ip_address"] = "10.0.0.9"
    assert list(held(seen(world))) == [f"ray:{CLUSTER[:8]}:{DRIVER}"]


def test_a_job_in_no_list_holds_its_gpus_all_the_same() -> None:
    """Ray lists no driver that says that it is of a submission which isn't there (seen)."""
    world = Dashboard()
    world.bodies["jobs"] = []
    found = seen(world)
    assert list(held(found)) == [f"ray:{CLUSTER[:8]}:{DRIVER}"]
    assert {job.key.submitted_ms for job in found.jobs if job.state is JobState.RUNNING} == {BEGAN_MS}


def test_a_submission_cannot_take_a_drivers_name() -> None:
    world = Dashboard()
    (train,) = [job for job in world.bodies["jobs"] if job["submission_id"] == "train@2"]
    train["submission_id"] = DRIVER
    assert list(held(seen(world))) == [f"ray:{CLUSTER[:8]}/{DRIVER}"]


def test_gpus_of_an_entry_point_are_its_submissions() -> None:
    """``entrypoint_num_gpus``: held by the actor that starts it, as a real 2.60.0 showed of ``entry-1``."""
    world = Dashboard()
    supervisor = next(each for each in world.listed("actors") if each["class_name"] == "JobSupervisor")
    worker = next(
        each for each in world.raylet()["coreWorkersStats"] if each["actorId"] == supervisor["actor_id"]
    )
    worker["usedResources"] = {"GPU": {"resourceSlots": [{"slot": "0", "allocation": 0.5}]}}
    world.use(4.0)
    grants = held(seen(world))[TRAIN]
    assert (1, (0,), 0.5, (worker["pid"],)) in grants and (1, (0,), 0.5, (HALF,)) in grants


def test_unused_bundles_have_no_number_where_two_devices_are_left() -> None:
    world = Dashboard()
    world.without_worker(TASK)
    world.use(2.5)
    found = seen(world)
    assert (1, (), 1.0, ()) in held(found)[TRAIN]
    assert [(node.given_gpus, node.state) for node in found.nodes] == [(3, None)]


def test_a_placement_group_is_counted_once_with_the_workers_in_it() -> None:
    world = Dashboard()
    world.without_worker(GROUPED)  # both bundles unused: 1 and 2 are left, and it has two GPUs
    assert (2, (1, 2), 1.0, ()) in held(seen(world))[TRAIN]


def test_a_cluster_without_jobs_says_so() -> None:
    world = Dashboard()
    world.bodies["jobs"] = []
    for name in ("actors", "tasks", "placement_groups"):
        world.only(name, lambda each: False)
    world.raylet()["coreWorkersStats"] = []
    world.use(0.0)
    found = seen(world)
    assert found.jobs == ()
    assert [(node.gpus, node.given_gpus, node.state) for node in found.nodes] == [(4, 0, None)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda world: world.without_worker(TASK), "gave out 3.5 GPUs of this node; .* have 2.5"),
        (lambda world: world.raylet().pop("coreWorkersStats"), "gave out 3.5 GPUs of this node; .* have 2$"),
        (lambda world: world.bodies["summary"]["data"].update(summary=[]), "have 2$"),
        (lambda world: setattr(world, "at_ms", TOLD_MS + 61_000), "doesn't say how many"),
        (lambda world: setattr(world, "at_ms", None), "doesn't say how many"),
        (lambda world: world.bodies["cluster_status"]["data"].update(clusterStatus=None), "doesn't say how"),
    ],
)
def test_a_node_that_gave_out_more_than_is_shown_has_no_free_gpus(
    change: Callable[[Dashboard], object], says: str
) -> None:
    """A stopped worker, a raylet that wasn't asked yet, an autoscaler's process that is away (seen)."""
    import re

    world = Dashboard()
    change(world)
    (node,) = seen(world).nodes
    assert node.state is OutOfService.UNASKED
    assert re.search(says, node.reason), node.reason


@pytest.mark.parametrize(
    ("line", "state"),
    [
        # As a real 2.60.0 with the autoscaler's second version wrote it of the same program.
        ("2.5/4.0 GPU (1.0 used of 2.0 reserved in placement groups)", None),
        ("3.5/4.0 GPU", None),
        ("4.0/4.0 GPU", OutOfService.UNASKED),
        ("3.0/4.0 GPU (1.0 used of 2.0 reserved in placement groups)", OutOfService.UNASKED),
        ("many/4.0 GPU", OutOfService.UNASKED),
        ("", OutOfService.UNASKED),
    ],
)
def test_the_autoscalers_second_version_says_it_in_words(line: str, state: OutOfService | None) -> None:
    world = Dashboard()
    world.bodies["cluster_status"]["data"]["clusterStatus"] = None
    lines = "\n".join(("0.0/4.0 CPU", line, "0B/17.80GiB memory"))
    world.bodies["summary"]["data"]["nodeLogicalResources"] = {NODE: lines}
    assert [node.state for node in seen(world).nodes] == [state]


def test_two_nodes_of_one_host_name_are_nobodys_to_tell_apart() -> None:
    world = Dashboard()
    world.second_node(host="gpu-a")
    found = seen(world)
    assert [(node.name, node.gpus, node.given_gpus, node.state) for node in found.nodes] == [
        ("gpu-a", 8, 4, OutOfService.UNASKED)
    ]
    assert {grant.of_gpus for job in found.jobs for grant in job.given or ()} == {0}, "no slot is an index"


def test_a_node_that_ray_drains_gets_no_jobs() -> None:
    world = Dashboard()
    world.second_node()
    world.raylet(1)["stateSnapshot"]["state"] = "DRAINING"
    assert [node.state for node in seen(world).nodes] == [None, OutOfService.DRAINED]


REFUSED = Answer(status=401, body={"error": "Unauthorized"})
GCS_AWAY = Answer(
    status=500, body={"result": False, "msg": "Failed to query data from GCS.", "data": {"result": None}}
)


def truncated(world: Dashboard, name: str) -> None:
    world.bodies[name]["data"]["result"]["total"] = MOST + 5


def with_holes(world: Dashboard, name: str) -> None:
    world.bodies[name]["data"]["result"]["partial_failure_warning"] = "1 of 3 raylets did not answer"


@pytest.mark.parametrize("name", ["nodes", "placement_groups", "actors", "tasks"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda world, name: world.instead.update({name: GCS_AWAY}),
            "HTTP 500: Failed to query data from GCS",
        ),
        (lambda world, name: world.instead.update({name: REFUSED}), "ray_token_file"),
        (lambda world, name: world.instead.update({name: Answer(status=200, body=None)}), "could not be"),
        (lambda world, name: world.instead.update({name: Answer(status=200, body=[])}), "could not be"),
        (truncated, "there are more than"),
        (with_holes, "has holes: 1 of 3 raylets"),
        (lambda world, name: world.bodies[name]["data"].update(result=[]), "no state API of Ray"),
    ],
)
def test_what_is_no_whole_list_is_no_answer_and_never_nobody(
    name: str, change: Callable[[Dashboard, str], object], says: str
) -> None:
    world = Dashboard()
    change(world, name)
    found = look(world)
    assert isinstance(found, Unavailable)
    assert says in found.reason


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("version", Answer(status=404, body=None), "no dashboard of Ray"),
        ("version", Answer(status=200, body={"version": "1.2"}), "no dashboard of Ray"),
        ("version", REFUSED, "wants a token"),
        ("jobs", Answer(status=500, body=None), "jobs could not be listed"),
        ("jobs", Answer(status=200, body={"jobs": []}), "jobs could not be listed"),
        (
            "summary",
            Answer(status=200, body={"result": False, "msg": "busy", "data": {}}),
            "workers: HTTP 200: busy",
        ),
        ("cluster_status", GCS_AWAY, "what is in use"),
        ("cluster_id", Answer(status=404, body=None), "its id"),
        (
            "cluster_id",
            Answer(status=200, body={"result": True, "data": {"clusterId": None}}),
            "its cluster's id",
        ),
    ],
)
def test_every_answer_has_to_be_there(name: str, answer: Answer, says: str) -> None:
    world = Dashboard()
    world.instead[name] = answer
    found = look(world)
    assert isinstance(found, Unavailable)
    assert says in found.reason


def test_an_older_ray_is_named_where_it_tells_too_little() -> None:
    world = Dashboard()
    world.bodies["version"]["ray_version"] = "2.9.3"
    world.instead["cluster_id"] = Answer(status=404, body=None)
    found = look(world)
    assert isinstance(found, Unavailable)
    assert "this is Ray 2.9.3; 2.60 is what was tried" in found.reason


@pytest.mark.parametrize(
    "slot", [{"slot": "0"}, {"slot": "200", "allocation": 1.0}, {"slot": "0", "allocation": 2}]
)
def test_gpus_that_are_not_told_slot_by_slot_are_no_answer(slot: dict[str, object]) -> None:
    world = Dashboard()
    world.worker(TASK)["usedResources"] = {"GPU": {"resourceSlots": [slot]}}
    assert isinstance(look(world), Unavailable)


def test_another_clusters_dashboard_at_the_address_is_no_answer_and_a_new_head_is() -> None:
    world, other = Dashboard(), "c" * 56
    manager = RayManager(HERE, get=world.get)
    assert isinstance(manager.look(NOW_MS), Look)
    world.bodies["cluster_id"]["data"]["clusterId"] = other
    found = manager.look(NOW_MS + 30_000)
    assert isinstance(found, Unavailable)
    assert "another cluster (cccccccc) answers at http://head:8265" in found.reason
    world.listed("nodes")[0]["start_time_ms"] = NOW_MS + 10_000
    again = manager.look(NOW_MS + 30_000)
    assert isinstance(again, Look), "the head was started anew after the last look"
    assert all(job.holder.job.startswith("ray:cccccccc") for job in again.jobs)


def test_a_wait_of_which_nobody_says_the_beginning_began_when_it_was_seen_first() -> None:
    world = Dashboard()
    world.only("tasks", lambda each: False)  # Ray's record of tasks is bounded
    manager = RayManager(HERE, get=world.get)
    first, second = manager.look(NOW_MS), manager.look(NOW_MS + 30_000)
    assert isinstance(first, Look) and isinstance(second, Look)
    for found in (first, second):
        assert {job.key.submitted_ms for job in waits(found) if "actors" in job.shown_id} == {NOW_MS}


def test_actors_that_wait_for_what_they_are_given_want_no_gpus_yet() -> None:
    world = Dashboard()
    for actor in world.listed("actors"):
        if actor["state"] == "PENDING_CREATION":
            actor["state"] = "DEPENDENCIES_UNREADY"
    causes = {job.cause for job in waits(seen(world)) if "actors" in job.shown_id}
    assert causes == {WaitCause.DEPENDENCY}


def test_over_http_a_token_is_sent_and_answers_are_bounded(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-word\n")
    asked: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> loopback.Answer:
        asked.append(headers["Authorization"])
        return loopback.Answer(
            body=b'{"ray_version": "2.60.0"}' if path == "/small" else b"[" + b"1," * 5_000
        )

    from contextlib import contextmanager

    with loopback.serving(answer) as url:  # type: ignore[arg-type]
        account = Account(url=url, token_file=token)
        with contextmanager(asking)(account, 2.0, 1_000) as get:
            assert get("/small").body == {"ray_version": "2.60.0"}
            with pytest.raises(NoAnswer, match="answer for /large is longer"):
                get("/large?nocache=1")
        assert set(asked) == {"Bearer secret-word"}
    gone = RayManager(Account(url=url, token_file=token)).look(NOW_MS)
    assert isinstance(gone, Unavailable) and "does not answer" in gone.reason and "secret" not in gone.reason
    missing = RayManager(Account(url=url, token_file=tmp_path / "none")).look(NOW_MS)
    assert isinstance(missing, Unavailable) and "cannot be read" in missing.reason
