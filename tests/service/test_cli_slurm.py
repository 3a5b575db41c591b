"""``fallow queue`` and ``fallow job`` on a Slurm site: who waits and why, a job's runs, jobs that ended."""

import json
from pathlib import Path

import pytest

from analytics.query import run
from collector.managers.slurm.reader import SlurmManager
from collector.managers.source import ManagerSource
from collector.reading import Reading, Tick
from service.cli import main, manager_job, manager_queue
from service.summaries import waiting
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, Node, World
from tests.collector.store.store_parts import at_path, gpu, sample
from tests.stores import open_store

T0_MS = (SUBMITTED_S + 3_600) * 1000
JOBS = (
    Job(id=812, nodes=("gpu1",), gres=("gpu:a100:2(IDX:0-1)",)),
    Job(id=9, state="PENDING", reason="QOSMaxGRESPerUser", user="bob", name="sweep"),
    Job(id=10, state="PENDING", reason="Priority", user="bob", asked="N/A", submitted_s=SUBMITTED_S + 60),
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two looks at Slurm, ten minutes apart: 811 ran at the first, and is over at the second."""
    limit = (
        "QOS=normal(1)",
        "    User Limits",
        "      1000",
        "        MaxTRESPU=gres/gpu=3(2),gres/gpu:a100=N(2)",
    )
    world = World(
        qos=limit, nodes=[Node(used="gpu:a100:2(IDX:0-1)"), Node(name="gpu2", used="", gres="gpu:8")]
    )
    manager = ManagerSource(SlurmManager(run=world.run))
    measured = gpu(0, node="gpu1.lab.example")
    with open_store(at_path(tmp_path)) as store:
        for at_ms, jobs in ((T0_MS - 600_000, (Job(id=811),)), (T0_MS, JOBS)):
            world.jobs = jobs
            reading = manager.read(at_ms)
            assert isinstance(reading, Reading), reading
            hardware = Reading(source="dcgm", at_ms=at_ms, gpus=(measured,))
            store.write_tick(Tick(at_ms=at_ms, width_ms=30_000, outcomes=(hardware, reading), allocations=()))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "job"),
    [
        ("812", "slurm:812"),
        ("200_1", "slurm:200_1"),  # a task of an array
        ("200_[3-5%2]", "slurm:200_[3-5%2]"),  # its tasks that wait, by squeue
        ("200_[1,7]", "slurm:200_[1,7]"),
        ("200_*", "slurm:200_*"),  # the same, by scontrol
        ("200+1", "slurm:200+1"),  # a part of a heterogeneous job
        ("812.0", "slurm:812"),  # steps, by sacct and squeue --steps
        ("812.batch", "slurm:812"),
        ("200_1.extern", "slurm:200_1"),
        ("200+1.interactive", "slurm:200+1"),
        ("200.0+1", "slurm:200"),
        ("812@a", "slurm:812@a"),
        ("slurm:200+1", "slurm:200+1"),
        ("slurm:812.batch", "slurm:812"),
        ("fallow:7", "fallow:7"),
        ("train-200", "train-200"),
        ("pod:ns/200_1", "pod:ns/200_1"),
        ("200_x", "200_x"),
        ("123.server", "123.server"),  # of PBS
    ],
)
def test_each_form_that_slurm_prints_of_a_job_is_its_id(typed: str, job: str) -> None:
    assert manager_job.id_of(typed) == job
    assert manager_job.id_of(manager_job.id_of(typed)) == job


def test_who_waits_is_in_slurm_s_order_with_its_reason(site: Path) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        rows = run(reader, "manager_queue", {}).to_pylist()
    assert [(row["job"], row["reason"], row["gpus"], row["user_name"]) for row in rows] == [
        ("slurm:9", "QOSMaxGRESPerUser", 2, "bob"),
        ("slurm:10", "Priority", 0, "bob"),
    ]
    assert [
        (row["manager"], row["place"], row["waits_for"]) for row in manager_queue.as_json(_text(rows))
    ] == [
        ("lab", 1, "QOSMaxGRESPerUser"),
        ("lab", 2, "Priority"),
    ]


def test_a_queue_is_drawn_with_who_holds_gpus_unused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        rows = _text(run(reader, "manager_queue", {}).to_pylist())
    idle = {"job": "slurm:812", "user_name": "ann", "state": "held-idle", "node": "gpu1"}
    busy = {"job": "slurm:8", "user_name": "bob", "state": "good", "node": "gpu1"}
    manager_queue.draw(rows, [idle, idle, busy], [], 1, T0_MS)
    told = " ".join(capsys.readouterr().out.split())
    assert "At Slurm, cluster lab: 2 jobs wait for 2 GPUs; 1 of them until GPUs are free" in told
    assert "slurm:9" in told and "QOS normal allows one" in told
    assert "and 1 job more" in told
    assert "Meanwhile 2 GPUs are held and unused: slurm:812 of ann (2)." in told


def test_a_queue_of_an_older_service_is_drawn_in_slurm_s_words(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        rows = _text(run(reader, "manager_queue", {}).to_pylist())
    older = [{name: row[name] for name in row if name not in ("cause", "expected_at")} for row in rows]

    class Older:
        def rows(self, name: str) -> list[dict[str, object]]:
            return older

    manager_queue.draw(manager_queue.read(Older()), [], [], None, T0_MS)  # type: ignore[arg-type]
    assert "At Slurm, cluster lab: 2 jobs wait for 2 GPUs" in capsys.readouterr().out


def test_free_gpus_that_a_limit_or_a_reservation_keeps_are_named_so(site: Path) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        rows = [row for row in run(reader, "manager_queue", {}).to_pylist() if row["cause"] == "limit"]
        nodes = run(reader, "manager_nodes", {}).to_pylist()
    told = "reservation night of account vision"
    gpus = [
        {"node": "gpu1.lab.example", "state": "free", "state_reason": None},
        {"node": "gpu2", "state": "reserved", "state_reason": told},
        {"node": "elsewhere", "state": "free", "state_reason": None},
    ]
    assert waiting.kept(rows, gpus, nodes) == (
        f"1 GPU is free and kept: {told}.",
        "1 GPU is free, and 1 job waits all the same: QOS normal allows one person no more GPUs: "
        "3 at most, 2 in use.",
    )
    rows[0]["cause"] = "resources"
    assert len(waiting.kept(rows, gpus, nodes)) == 1


@pytest.mark.parametrize("name", ["812", "slurm:812"])
def test_a_job_s_run_is_told_by_its_number(site: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", name, "--data", str(site), "--since", "3650d"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "slurm:812 train · ann · vision · batch" in told
    assert "At Slurm, cluster lab: running since" in told and "on gpu1: GPU 0, 1" in told
    assert "asked for 2 GPUs on 1 node, for at most 1 h, in partition main QOS normal" in told


def test_a_job_that_waits_says_why(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "9", "--data", str(site)]) == 0
    assert "QOS normal allows one person no more GPUs" in " ".join(capsys.readouterr().out.split())


def test_a_job_that_has_ended_is_still_told(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "811", "--data", str(site), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["job"], row["runs"][0]["state"]) == ("slurm:811", "ended")


def test_a_number_that_nobody_knows_is_refused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "999", "--data", str(site)]) == 2
    assert "no job '999'" in capsys.readouterr().err


def test_the_runs_of_a_job_are_found_by_what_people_call_it_too(site: Path) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        (row,) = run(reader, "manager_runs", {"job": "slurm:812"}).to_pylist()
    assert (row["state"], row["shown_id"], row["restarts"]) == ("running", "812", 0)


def test_nodes_that_nobody_measures_are_known(site: Path) -> None:
    with open_store(at_path(site)) as store, store.reader() as reader:
        rows = run(reader, "manager_nodes", {}).to_pylist()
    assert [(row["node"], row["gpus"], row["given_gpus"], row["measured_gpus"]) for row in rows] == [
        ("gpu1", 4, 2, 1),
        ("gpu2", 8, 0, 0),
    ]


def _text(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """As they come over the wire: times as text."""
    times = ("submitted_at", "expected_at")
    return [{**row, **{name: row[name] and str(row[name]) for name in times}} for row in rows]


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("(null)", ()),
        ("somebody else's", ()),
        ("x fallow:pause", ("its comment 'fallow:pause' allows to put it back into Slurm's queue",)),
        ("fallow:elastic=2-8", ("allows from 2 to 8 GPUs",)),
        ("fallow:pasue", ("its comment 'fallow:pasue' allows nothing: 'pasue' is none of its words",)),
    ],
)
def test_what_its_owner_allows_in_its_comment_is_said_of_a_job(
    tmp_path: Path, comment: str, said: tuple[str, ...]
) -> None:
    manager = ManagerSource(SlurmManager(run=World(jobs=[Job(id=812, comment=comment)]).run))
    with open_store(at_path(tmp_path)) as store:
        reading = manager.read(T0_MS)
        assert isinstance(reading, Reading), reading
        store.write_tick(Tick(at_ms=T0_MS, width_ms=30_000, outcomes=(reading,)))
        with store.reader() as reader:
            (row,) = run(reader, "manager_runs", {"job": "slurm:812"}).to_pylist()
    rows = [{name: str(cell) if name.endswith("_at") else cell for name, cell in row.items()}]
    told = [line for line in manager_job.lines(rows) if "comment" in line]
    assert len(told) == len(said) and all(part in line for part, line in zip(said, told, strict=True))


@pytest.mark.slow
def test_a_job_that_waits_is_explained_with_its_limit(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(at_path(site)) as store:
        measured = Reading(source="dcgm", at_ms=T0_MS, gpus=(gpu(0),), samples=(sample(0, T0_MS + 1),))
        store.write_tick(Tick(at_ms=T0_MS + 1, width_ms=30_000, outcomes=(measured,), allocations=None))
    assert main(["explain", "slurm:9", "--data", str(site)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "QOS normal allows one person no more GPUs: 3 at most, 2 in use" in told
