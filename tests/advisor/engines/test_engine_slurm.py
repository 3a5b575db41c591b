"""The engine for Slurm's jobs, on a Slurm that answers as the real one does, forgets, and is started anew."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from advisor.actions import Action, Cancel, Move, Notify, Pause, Requeue, Resize, Resume, Start
from advisor.engines.slurm import APART_MS, CANNOT, FACTS_MS, SlurmEngine, SlurmEngineDependencies
from advisor.engines.slurm_outcomes import UNHEARD_MS
from advisor.jobs.manager_acts import ManagerActStore
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from collector.clock import SystemClock
from collector.inventory.slurm_programs import NoAnswer
from collector.managers.model import Look, ManagedJob
from collector.managers.slurm.reader import SlurmManager
from collector.model import GpuUuid, JobId
from collector.store.database import Store
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, World
from tests.stores import open_store

JOB = JobId("slurm:812")
NOW_MS = (SUBMITTED_S + 10_000) * 1000
REST_S = 60.0
AGREED = Job(id=812, comment="fallow:pause")


@dataclass
class Clock(SystemClock):
    at_ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.at_ms


@dataclass(kw_only=True)
class Slurm(World):
    """Also does what it is told. ``deaf``: it says that it did, and does not."""

    told: list[tuple[str, str]] = field(default_factory=list)
    deaf: bool = False
    forgets_hold: bool = False

    def run(self, command: Sequence[str], timeout_s: float) -> str:
        if command[0] == "scontrol" and command[1] in ("requeuehold", "release"):
            if "told" in self.failing:
                raise NoAnswer(self.failing["told"])
            self.told.append((command[1], command[2]))
            if not self.deaf:
                self.jobs = [self._after(job, command[1]) for job in self.jobs]
            return ""
        return super().run(command, timeout_s)

    def _after(self, job: Job, verb: str) -> Job:
        if job.id != 812:
            return job
        if verb == "release":
            return replace(job, held=False)
        moved = {"state": "PENDING", "restarts": job.restarts + 1, "submitted_s": job.submitted_s + 5_000}
        return replace(job, held=not self.forgets_hold, **moved)  # type: ignore[arg-type]


@dataclass
class Rig:
    store: Store
    slurm: Slurm = field(default_factory=lambda: Slurm(jobs=[AGREED]))
    clock: Clock = field(default_factory=Clock)
    denied: str | None = None
    account: str = "root"
    intent: int = 0
    engine: SlurmEngine = field(init=False)
    looked: Look | None = None

    def __post_init__(self) -> None:
        self.starts()
        self.looks()

    def starts(self) -> None:
        """A service that knows what the store knows, and nothing else."""
        self.engine = SlurmEngine(
            SlurmEngineDependencies(
                book=ManagerActStore(self.store, self.clock),
                run=self.slurm.run,
                clock=self.clock,
                looks=lambda: () if self.looked is None else (self.looked,),
                against=self._against,
                gpus_of=lambda job: (GpuUuid("g0"), GpuUuid("g1")),
                rest_s=REST_S,
                account=self.account,
            )
        )

    def looks(self) -> None:
        look = SlurmManager(run=self.slurm.run).look(self.clock.at_ms)
        assert isinstance(look, Look), look
        self.looked = look
        self.engine.look_again()

    def give(self, step: Action) -> Outcome | None:
        """The outcome where there is one at once."""
        self.intent += 1
        given = self.engine.give(step, self.intent)
        return given if isinstance(given, Stale | Unsupported | Failed | Done | Late) else None

    def found(self, after_ms: int = 0) -> Outcome | None:
        self.clock.at_ms += after_ms
        return self.engine.found(self.intent)

    def pause(self) -> None:
        assert self.give(Pause(job=JOB)) is None
        assert isinstance(self.found(), Late)
        assert isinstance(self.found(APART_MS), Done)

    def change(self, **how: object) -> None:
        self.slurm.jobs = [replace(job, **how) if job.id == 812 else job for job in self.slurm.jobs]  # type: ignore[arg-type]

    def _against(self, job: ManagedJob, intent: int) -> str | None:
        return (
            self.denied if self.denied or (job.word is not None and job.word.pause) else "nobody allowed it"
        )


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_store(tmp_path / "fallow.duckdb") as store:
        yield Rig(store)


def test_a_pause_is_done_when_it_was_seen_twice_and_a_release_brings_the_job_back(rig: Rig) -> None:
    assert rig.give(Pause(job=JOB)) is None
    assert rig.slurm.told == [("requeuehold", "812")]
    first = rig.found()
    assert isinstance(first, Late) and "once more" in first.found
    assert isinstance(rig.found(APART_MS - 1), Late), "not two seconds apart"
    done = rig.found(1)
    assert isinstance(done, Done) and "held" in done.note and done.took_s == 0
    assert rig.give(Resume(job=JOB, gpus=())) is None
    assert rig.slurm.told[1:] == [("release", "812")]
    assert isinstance(rig.found(), Late)
    assert isinstance(rig.found(APART_MS), Done)
    again = rig.give(Resume(job=JOB, gpus=()))
    assert isinstance(again, Stale) and "does not hold it" in again.found
    assert len(rig.slurm.told) == 2


def test_a_held_job_that_a_new_controller_submits_anew_is_seen_anew(rig: Rig) -> None:
    assert rig.give(Pause(job=JOB)) is None
    assert isinstance(rig.found(), Late)
    rig.change(submitted_s=AGREED.submitted_s + 5_001)  # 22.05.8, killed right after the first look
    assert isinstance(rig.found(APART_MS), Late), "this run was seen once"
    assert isinstance(rig.found(APART_MS), Done)


def test_the_gpus_that_slurm_chose_are_told_with_the_outcome(rig: Rig) -> None:
    back = Resume(job=JOB, gpus=(), places=((None, 2),))
    rig.pause()
    assert rig.give(back) is None
    rig.change(state="RUNNING", nodes=("gpu3",), gres=("gpu:a100:2(IDX:1,3)",))
    rig.found()
    runs = rig.found(APART_MS)
    assert isinstance(runs, Done) and runs.note == "it runs again on gpu3 (GPU 1, 3)"
    (grant,) = runs.given
    assert (grant.node, grant.gpus, grant.indices) == ("gpu3", 2, (1, 3))


def test_no_gpus_are_told_while_a_released_job_waits(rig: Rig) -> None:
    rig.pause()
    assert rig.give(Resume(job=JOB, gpus=(), places=((None, 2),))) is None
    rig.found()
    waits = rig.found(APART_MS)
    assert isinstance(waits, Done) and waits.given == () and waits.note.endswith("when it is its turn")


@pytest.mark.parametrize("step", [Start, Move, Resize])
def test_what_slurm_decides_is_no_step_of_the_engine(rig: Rig, step: type) -> None:
    outcome = rig.give(step(job=JOB, gpus=()))
    assert isinstance(outcome, Unsupported) and "Slurm" in outcome.why
    for other in (Requeue(job=JOB), Cancel(job=JOB), Notify(job=JOB, message="x")):
        assert isinstance(rig.give(other), Unsupported)
    assert set(CANNOT) <= set(rig.engine.can(JOB)) and "pause" not in rig.engine.can(JOB)
    assert rig.slurm.told == []


def test_nothing_is_asked_about_another_job_or_run_than_the_one_that_was_seen(rig: Rig) -> None:
    others: tuple[dict[str, object], ...] = (
        {"user": "bob"},
        {"name": "other"},
        {"submitted_s": SUBMITTED_S + 9},
        {"restarts": 1},
        {"state": "PENDING"},
        {"state": "COMPLETING"},
        {"comment": "fallow:pasue"},
        {"comment": "(null)"},
    )
    for changes in others:
        rig.slurm.jobs = [replace(AGREED, **changes)]  # type: ignore[arg-type]
        assert isinstance(rig.give(Pause(job=JOB)), Stale), changes
    rig.slurm.jobs = []
    assert isinstance(rig.give(Pause(job=JOB)), Stale)
    assert rig.slurm.told == [] and rig.engine.found(rig.intent) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"requeue": False}, "--no-requeue"),
        ({"batch": False}, "salloc or srun"),
        ({"het": "811"}, "heterogeneous"),
    ],
)
def test_what_slurm_could_not_put_back_is_unsupported_and_stays_so(
    rig: Rig, changes: dict[str, object], why: str
) -> None:
    rig.change(**changes)
    rig.looks()
    outcome = rig.give(Pause(job=JOB))
    assert isinstance(outcome, Unsupported) and why in outcome.why
    assert why in rig.engine.can(JOB)["pause"], "the planner does not propose it again"
    assert rig.slurm.told == []


def test_a_task_of_an_array_is_named_as_one(rig: Rig) -> None:
    rig.change(array=(812, 3))
    rig.looks()
    assert rig.give(Pause(job=JOB)) is None
    assert rig.slurm.told == [("requeuehold", "812_3")]


def test_a_plain_account_acts_on_its_own_jobs_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    rig.account = "fallow"
    rig.starts()
    rig.looks()
    outcome = rig.give(Pause(job=JOB))
    assert isinstance(outcome, Unsupported) and "AdminLevel=Operator" in outcome.why
    rig.account = "ann"
    rig.starts()
    rig.looks()
    assert rig.give(Pause(job=JOB)) is None


def test_after_a_restart_of_the_controller_nothing_is_done_for_a_while(rig: Rig) -> None:
    rig.slurm.began_s = rig.clock.at_ms // 1000 - 10
    refused = rig.give(Pause(job=JOB))
    assert isinstance(refused, Stale) and "started lately" in refused.found and "50 s" in refused.found
    rig.clock.at_ms += 20_000
    rig.engine.look_again()
    assert "started lately" in rig.engine.can(JOB)["pause"]
    rig.clock.at_ms += 30_000
    assert rig.give(Pause(job=JOB)) is None


def test_numbers_that_fell_are_a_restart_too(rig: Rig) -> None:
    rig.slurm.next_number = 850
    assert isinstance(rig.give(Pause(job=JOB)), Stale)
    rig.clock.at_ms += round(REST_S * 1000)
    assert rig.give(Pause(job=JOB)) is None


def test_an_open_intent_is_found_again_after_the_rest_and_nothing_is_asked_twice(rig: Rig) -> None:
    rig.slurm.deaf = True
    assert rig.give(Pause(job=JOB)) is None
    rig.slurm.began_s = rig.clock.at_ms // 1000 + 1
    rig.clock.at_ms += 2_000
    rig.starts()  # the service was killed as well
    resting = rig.found()
    assert isinstance(resting, Late) and "looked for then" in resting.found
    second = rig.give(Pause(job=JOB))
    assert isinstance(second, Stale)
    rig.intent -= 1
    came = rig.found(round(REST_S * 1000))
    assert isinstance(came, Failed) and "runs as before" in came.found
    assert len(rig.slurm.told) == 1


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"state": "PENDING", "restarts": 1, "submitted_s": SUBMITTED_S + 9}, "not held"),
        ({"restarts": 1, "submitted_s": SUBMITTED_S + 9}, "runs again already"),
        ({"state": "COMPLETED"}, "ended as COMPLETED"),
        ({"user": "bob"}, "another job's number"),
        ({"submitted_s": SUBMITTED_S + 9}, "another job's number"),
        ({"restarts": 2, "submitted_s": SUBMITTED_S - 9}, "another job's number"),
    ],
)
def test_what_is_seen_counts_and_not_what_was_answered(rig: Rig, how: dict[str, object], found: str) -> None:
    rig.slurm.deaf = True
    assert rig.give(Pause(job=JOB)) is None
    assert isinstance(rig.found(), Late)
    rig.change(**how)
    came = rig.found()
    assert isinstance(came, Failed) and found in came.found
    assert isinstance(rig.give(Resume(job=JOB, gpus=())), Stale), "what is not held by Fallow is not released"
    assert len(rig.slurm.told) == 1


def test_a_hold_that_was_seen_once_and_forgotten_is_no_pause(rig: Rig) -> None:
    assert rig.give(Pause(job=JOB)) is None
    assert isinstance(rig.found(), Late)
    rig.change(held=False)
    came = rig.found(APART_MS)
    assert isinstance(came, Failed) and "not held" in came.found


def test_a_refusal_is_believed_only_when_the_job_is_seen_unchanged(rig: Rig) -> None:
    rig.slurm.failing["told"] = "scontrol ended with 1: Access/permission denied for job 812"
    assert rig.give(Pause(job=JOB)) is None
    came = rig.found()
    assert isinstance(came, Failed) and "permission denied" in came.found
    # A controller that died after it had heard answers with an error as well.
    rig.slurm.failing["told"] = "scontrol ended with 1: Unable to contact slurm controller"
    assert rig.give(Pause(job=JOB)) is None
    rig.slurm.failing.clear()
    rig.slurm.run(("scontrol", "requeuehold", "812"), 1.0)
    assert isinstance(rig.found(), Late)
    assert isinstance(rig.found(APART_MS), Done)


def test_a_silent_slurm_is_asked_nothing_and_settles_nothing(rig: Rig) -> None:
    assert rig.give(Pause(job=JOB)) is None
    rig.slurm.failing["squeue"] = "squeue gave no answer in 5 s; is slurmctld up, and munge?"
    silent = rig.found(10 * UNHEARD_MS)
    assert isinstance(silent, Late) and "does not answer" in silent.found
    assert isinstance(rig.give(Pause(job=JOB)), Stale)
    rig.slurm.failing = {"scontrol": "scontrol gave no answer in 5 s"}
    rig.clock.at_ms += FACTS_MS
    rig.engine.look_again()
    assert "does not answer" in rig.engine.can(JOB)["pause"]
    assert len(rig.slurm.told) == 1
