"""Acting on a real Slurm: a job that agreed gives its GPUs back and gets them again, and no other does."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.actions import Move, Pause, Requeue, Resize
from advisor.planner.guard import approve
from advisor.planner.plan import Plan, Rule
from advisor.state.model import ActionClass, Phase
from analytics.query import run
from collector.model import JobId
from service.cli import manager_queue
from service.control.errors import ActingError, NotAllowed
from service.control.interface import Caller
from service.schemas.values import plain_rows
from service.usecases.advice import limits_of
from tests.service.control.control_world import until
from tests.service.control.slurm_stage import ANN, AUTO, BOB, OPERATOR, SlurmStage, slurm_stage, uuids
from tests.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = [pytest.mark.slow, pytest.mark.process]

SAVES = (
    "echo start ${{SLURM_RESTART_COUNT:-0}} >> {log}; trap 'echo saved >> {log}; exit 75' TERM; "
    "while :; do sleep 0.1 & wait $!; done"
)
"""A job that saves itself when it is told to end."""


@pytest.fixture(scope="module")
def shared() -> Iterator[SlurmCluster]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder), nodes=2) as made:
        (made.folder / "out").mkdir()
        (made.folder / "out").chmod(0o777)
        yield made


@pytest.fixture
def cluster(shared: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    monkeypatch.setenv("SLURM_CONF", str(shared.conf))
    yield shared
    shared.ask("sh", "-c", "squeue --noheader --format=%A | xargs --no-run-if-empty scancel")
    shared.until("an empty queue", "squeue", "--noheader", "--format=%A", says="")


@pytest.fixture
def stage(cluster: SlurmCluster, tmp_path: Path) -> Iterator[SlurmStage]:
    with slurm_stage(cluster, tmp_path) as made:
        yield made


def submit(cluster: SlurmCluster, who: Caller, *options: str) -> str:
    """The number of a job that saves itself, and says what it hears in ``out/NUMBER``'s file."""
    log = cluster.folder / "out" / "$SLURM_JOB_ID"
    script = ("--output=/dev/null", "--chdir=/", f"--wrap={SAVES.format(log=log)}")
    owner = (f"--uid={who.uid}", f"--gid={who.uid}")
    return cluster.ask("sbatch", "--parsable", *owner, *options, *script).strip()


def heard(cluster: SlurmCluster, job: str) -> list[str]:
    return (cluster.folder / "out" / job).read_text().splitlines()


def stands(cluster: SlurmCluster, job: str) -> tuple[str, str, str]:
    """State, priority, how often it was put back."""
    told = cluster.ask(
        "squeue", "--noheader", f"--jobs={job}", "--Format=State:|,PriorityLong:|,RestartCnt:|"
    )
    state, priority, restarts = told.strip().split("|")[:3]
    return state, "held" if priority == "0" else "free", restarts


def runs(cluster: SlurmCluster, job: str) -> None:
    cluster.until("its run", "squeue", "--noheader", f"--jobs={job}", "--format=%T", says="RUNNING")


def test_an_idle_job_that_agreed_saves_itself_and_is_held_under_its_id(
    cluster: SlurmCluster, stage: SlurmStage
) -> None:
    mine = submit(cluster, ANN, "--gres=gpu:4", "--nodelist=n1", "--comment=fallow:pause")
    runs(cluster, mine)
    his = submit(cluster, BOB, "--gres=gpu:4", "--nodelist=n1")
    cluster.until("its reason", "squeue", "--noheader", f"--jobs={his}", "--format=%r", says="Resources")
    stage.look(ago_s=6 * 3600)
    assert stage.cycle() == [("Notify", "Done")], "first she is told"
    stage.told(mine)
    assert stage.cycle() == [("Pause", "Late")]
    began_s = time.monotonic()
    runs(cluster, his)
    assert time.monotonic() - began_s < 5
    verb, result, found = stage.until_settled(mine)
    assert (verb, result) == ("pause", "done") and "held" in found
    assert stands(cluster, mine) == ("PENDING", "held", "1")
    assert heard(cluster, mine) == ["start 0", "saved"]
    assert stage.cycle() == [] and stage.troubles == []
    job = stage.acting.loop.state.jobs[f"slurm:{mine}"]  # type: ignore[union-attr,index]
    assert (job.phase, job.paused_on, job.manager) == (Phase.PAUSED, uuids(stage, his), "Slurm")
    with pytest.raises(NotAllowed):
        stage.desk.resume(BOB, JobId(f"slurm:{mine}"), "mine")
    cluster.ask("scancel", his)
    stage.acting.start()
    row = stage.desk.resume(ANN, JobId(f"slurm:{mine}"), "I need it")
    assert row["outcome"] in ("done", "under way")
    runs(cluster, mine)
    until("its second run", lambda: heard(cluster, mine) == ["start 0", "saved", "start 1"])
    until("its release", lambda: stage.actions(mine)[0][:2] == ("resume", "done"))
    assert stage.look()[mine].key.restarts == 1
    assert stage.store_rows("SELECT over_as FROM manager_acts WHERE verb = 'pause'") == [("released",)]


def test_whose_owner_did_not_agree_is_left_alone_whoever_asks(
    cluster: SlurmCluster, stage: SlurmStage
) -> None:
    words = (None, "fallow:pasue", "fallow:elastic=2-8", "the owner's own notes")
    silent = [
        submit(cluster, ANN, "--gres=gpu:1", *(() if word is None else (f"--comment={word}",)))
        for word in words
    ]
    taken_back = submit(cluster, ANN, "--gres=gpu:1", "--comment=fallow:pause")
    for job in (*silent, taken_back):
        runs(cluster, job)
    stage.look(ago_s=6 * 3600)
    for job in (*silent, taken_back):
        stage.told(job)
    stage.look()
    # Her word was seen a moment ago. She takes it back, and that counts before anybody looks again.
    cluster.ask("scontrol", "update", f"JobId={taken_back}", "Comment=not now")
    cycle = stage.acting.loop.cycle()
    assert [(type(step).__name__, type(came).__name__) for step, came in cycle.outcomes] == [
        ("Pause", "Stale")
    ]
    stage.acting.start()
    for job in (*silent, taken_back):
        for who, why in ((BOB, NotAllowed), (OPERATOR, ActingError)):
            for order in (stage.desk.pause, stage.desk.resume, stage.desk.cancel):
                with pytest.raises(why) as refused:
                    order(who, JobId(f"slurm:{job}"), "because")
                assert who is BOB or order != stage.desk.pause or "allow" in str(refused.value), refused.value
    stage.look()
    time.sleep(1)
    assert {stands(cluster, job) for job in (*silent, taken_back)} == {("RUNNING", "free", "0")}


def test_what_slurm_decides_is_refused_in_its_name(cluster: SlurmCluster, stage: SlurmStage) -> None:
    mine = submit(cluster, ANN, "--gres=gpu:1", "--comment=fallow:pause,elastic=1-4")
    runs(cluster, mine)
    stage.look(ago_s=6 * 3600)
    stage.cycle()
    id = JobId(f"slurm:{mine}")
    state = stage.acting.loop.state
    assert state is not None
    for step in (
        Pause(job=id, action=ActionClass.FAIR_SHARE),
        Requeue(job=id),
        Move(job=id, gpus=uuids(stage, mine)),
        Resize(job=id, gpus=()),
    ):
        ruling = approve(Plan(as_of_ms=state.as_of_ms, steps=(step,)), state, limits_of(AUTO))
        (why,) = ruling.refused
        assert why.rule is Rule.UNSUPPORTED and "Slurm" in why.reason, (step, why)


def test_who_waits_stands_beside_who_holds_unused_and_its_owner_may_keep_it(
    cluster: SlurmCluster, stage: SlurmStage, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = submit(cluster, ANN, "--gres=gpu:2", "--nodes=2", "--comment=fallow:pause")
    runs(cluster, idle)
    waits = submit(cluster, BOB, "--gres=gpu:4")
    cluster.until("its reason", "squeue", "--noheader", f"--jobs={waits}", "--format=%r", says="Resources")
    stage.look(ago_s=6 * 3600)
    assert stage.cycle() == [("Notify", "Done")]
    with stage.store.reader() as reader:
        queue, gpus = (plain_rows(run(reader, each, {})) for each in ("manager_queue", "gpus_now"))
    manager_queue.draw(queue, gpus, [], None, stage.snapshot.at_ms)  # type: ignore[arg-type]
    told = " ".join(capsys.readouterr().out.split())
    assert "1 job waits for 4 GPUs" in told and "not enough is free of what it asks for" in told, told
    assert f"Meanwhile 4 GPUs are held and unused: slurm:{idle} of nobody (4)." in told, told
    stage.told(idle)
    stage.desk.keep(ANN, JobId(f"slurm:{idle}"), 4, "I need it")
    assert stage.cycle() == []
    assert stands(cluster, idle) == ("RUNNING", "free", "0")
