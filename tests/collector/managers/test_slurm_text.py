"""What Slurm's programs print: recorded answers of a real 22.05.8, and names that try to be more."""

from pathlib import Path

import pytest

from collector.managers.model import Ask, Grant, JobState
from collector.managers.slurm.details import grants_of
from collector.managers.slurm.gres import entries
from collector.managers.slurm.node_text import nodes_of
from collector.managers.slurm.queue_text import NotQueue, jobs_of
from collector.model import JobKind, OutOfService
from tests.collector.managers.slurm_world import Job, World

RECORDED = Path(__file__).parent / "recorded"
MARK = "\x1fmark\x1f"


def recorded(name: str) -> str:
    return (RECORDED / f"slurm_22.05_{name}.txt").read_text()


def test_a_real_queue_is_read_whole() -> None:
    jobs = {each.job.shown_id: each.job for each in jobs_of(recorded("queue"), MARK, "fake")}
    assert {name: (job.state, job.reason) for name, job in jobs.items()} == {
        "1": (JobState.RUNNING, ""),
        "2": (JobState.RUNNING, ""),
        "5_0": (JobState.RUNNING, ""),
        "3": (JobState.PENDING, "Resources"),
        "5_[1-3%2]": (JobState.PENDING, "Priority"),
        "6": (JobState.PENDING, "Priority"),
        "7": (JobState.PENDING, "JobHeldUser"),
        "8": (JobState.PENDING, "Priority"),
        "9": (JobState.PENDING, "Priority"),
        "4": (JobState.ENDED, ""),
    }
    asks = {name: (job.ask.nodes, job.ask.gpus, job.ask.shards, job.tasks) for name, job in jobs.items()}
    assert asks["1"] == (1, 2, 0, 1)
    assert asks["2"] == (1, 0, 2, 1)
    assert asks["3"] == (2, 2, 0, 1), "a GPU on each of two nodes"
    assert asks["4"] == (1, 4, 0, 1), "GPUs for the whole job"
    assert asks["6"] == (3, 12, 0, 1)
    assert asks["5_[1-3%2]"] == (1, 1, 0, 3)
    first = jobs["1"]
    assert (first.key.cluster, first.key.id, first.key.submitted_ms) == ("fake", "1", 1_795_660_771_000)
    assert (first.started_ms, first.limit_s, first.nodes) == (1_795_660_772_000, 365 * 86_400, ("n1",))
    assert (first.partition, first.qos, first.holder.kind) == ("main", "", JobKind.BATCH)
    assert (jobs["3"].limit_s, jobs["3"].started_ms, jobs["6"].limit_s) == (3600, None, None)
    assert (jobs["4"].state_name, jobs["4"].ended_ms) == ("CANCELLED", 1_795_661_250_000)
    assert jobs["3"].holder.name == "two|names, of"
    assert jobs["8"].holder.name == "evil JobId=1 JobName=x"
    assert jobs["5_0"].holder.name == "sweep [5_0]" and jobs["5_0"].key.id == "10"


def test_real_nodes_say_what_they_have_and_gave() -> None:
    nodes = {each.name: each for each in nodes_of(recorded("nodes"), MARK)}
    assert {name: (node.gpus, node.given_gpus, node.given_shards) for name, node in nodes.items()} == {
        "n1": (4, 2, 0),
        "n2": (4, 0, 1),
        "n3": (4, 1, 0),
    }
    assert (nodes["n3"].state, nodes["n3"].reason) == (OutOfService.DRAINED, "bad | DIMM by root")
    assert nodes["n1"].partitions == ("main", "scav") and nodes["n1"].state is None


def test_real_details_say_which_gpus_whatever_a_name_says() -> None:
    listed = jobs_of(recorded("queue"), MARK, "fake")
    found = grants_of(recorded("details"), {each.job.key.id: each.name for each in listed})
    assert found["2"] == (Grant(node="n2", gpus=2, indices=(0,), is_shared=True),)
    assert found["10"] == (Grant(node="n3", gpus=1, indices=(0,)),)
    assert found["6"] == found["3"] == (), "they wait"
    assert found["1"] == (Grant(node="n1", gpus=2, indices=(0, 1)),), "job 8's name speaks of job 1"
    unnamed = grants_of(recorded("details"), {"1": "train"})
    assert unnamed["1"] is None, "where job 8's name isn't known, two lines speak of job 1"


FORGED = "x UserId=ann(1) JOB_GRES=gpu:4   Nodes=gpu1 CPU_IDs=0 Mem=1 GRES=gpu:4(IDX:0-3) y"


@pytest.mark.parametrize("name", [FORGED, f"a\nJobId=812 JobName={FORGED}", f"a\nJobId=9 JobName={FORGED}"])
def test_no_name_gives_a_job_gpus_that_it_has_not(name: str) -> None:
    jobs = [Job(id=812, name=name, gres=("gpu:1(IDX:3)",)), Job(id=9, name="b", gres=("gpu:1(IDX:2)",))]
    world = World(jobs=jobs)
    text = world.run(("scontrol", "show", "job"), 1)
    found = grants_of(text, {str(job.id): job.name for job in jobs})
    assert found["812"] in (None, (Grant(node="gpu1", gpus=1, indices=(3,)),))
    assert found["9"] in (None, (Grant(node="gpu1", gpus=1, indices=(2,)),))


@pytest.mark.parametrize("text", ["JOBID PARTITION NAME\n", "1" + MARK, "slurm_load_jobs error"])
def test_another_text_is_no_queue(text: str) -> None:
    with pytest.raises(NotQueue):
        jobs_of(text, MARK, "lab")


@pytest.mark.parametrize(
    ("name", "kept"), [("a\x1b[2Jb", "a [2Jb"), ("two\nlines", "two lines"), ("x" * 5000, "x" * 255 + "…")]
)
def test_a_name_is_one_printable_line(name: str, kept: str) -> None:
    text = World(jobs=[Job(id=1, name=name)]).run(("squeue", _option()), 1)
    assert jobs_of(text, MARK, "lab")[0].job.holder.name == kept


def test_a_user_without_a_name_is_known_by_number() -> None:
    text = World(jobs=[Job(id=1, user="", uid=5012)]).run(("squeue", _option()), 1)
    assert jobs_of(text, MARK, "lab")[0].job.holder.user == "uid-5012"


def test_no_jobs_is_a_text() -> None:
    assert jobs_of("", MARK, "lab") == ()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("gres:gpu:2", Ask(nodes=2, gpus=4)),
        ("gres:gpu:a100:2,gres:gpu:h100:1", Ask(nodes=2, gpus=6, gpu_type="a100,h100")),
        ("gres:gpu", Ask(nodes=2, gpus=2)),
        ("gres:shard:3", Ask(nodes=2, gpus=0, shards=6)),
        ("gres:nic:1", Ask(nodes=2, gpus=0)),
        ("N/A", Ask(nodes=2, gpus=0)),
    ],
)
def test_what_was_asked_for_counts_all_nodes(asked: str, expected: Ask) -> None:
    job = Job(id=1, asked=asked, nodes=("gpu1", "gpu2"))
    text = World(jobs=[job]).run(("squeue", _option()), 1)
    assert jobs_of(text, MARK, "lab")[0].job.ask == expected


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ("gpu:2(IDX:0,5)", [(2, (0, 5))]),
        ("gpu:a100:1(IDX:0),gpu:v100:2(IDX:4-5)", [(1, (0,)), (2, (4, 5))]),
        ("gpu:3090:2(IDX:1,3)", [(2, (1, 3))]),
        ("gpu:3090:2", [(2, ())]),
        ("mygpu:2(IDX:1,3)", []),
        ("nic:1(IDX:0),gpu:1(IDX:2),craynetwork:4", [(1, (2,))]),
        ("gpu(S:0-1)", [(None, ())]),
        ("gpu:0(IDX:N/A)", [(0, ())]),
        ("", []),
        ("gpu:1(IDX:0-999999999999999999999)", [(1, tuple(range(4097)))]),
    ],
)
def test_gres_of_every_kind(detail: str, found: list[tuple[int | None, tuple[int, ...]]]) -> None:
    assert [(each.count, each.indices) for each in entries(detail)] == found


def _option() -> str:
    from collector.managers.slurm.queue_text import format_of

    return f"--Format={format_of(MARK)}"


@pytest.mark.parametrize("text", ["", "No jobs in the system\n"])
def test_a_text_of_no_job_grants_nothing(text: str) -> None:
    assert grants_of(text, {"7": "fit"}) == {}
