"""Slurm's controller is killed anywhere in a pause and a release: nobody runs twice, no stranger is met.

A controller that is killed may have forgotten the newest job, and gives its number to the next one, or that a
job was to be held. A stranger submits at once after each restart.
"""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from advisor.actions import Pause, Resume
from advisor.engines.slurm import SlurmEngine, SlurmEngineDependencies
from advisor.jobs.manager_acts import ManagerActStore
from advisor.outcomes import Done, Late, Outcome, Stale
from collector.clock import SystemClock
from collector.inventory.slurm_programs import answer
from collector.managers.model import Look
from collector.managers.slurm.reader import SlurmManager
from collector.model import JobId
from collector.store.database import Store
from tests.collector.store.store_parts import at_path
from tests.slurm_cluster import PATIENCE_S, SlurmCluster, slurm_cluster
from tests.stores import open_store

pytestmark = [pytest.mark.slow, pytest.mark.process]

REST_S = 3.0
"""The controller registers its nodes and looks at what runs there within a second; a site's rest is 60 s."""
MOST_JOBS = 5
"""Of one GPU each, of eight; then they make room."""
JOB = (
    "exec 9>>{out}/$SLURM_JOB_ID.lock; flock --nonblock 9 || echo doubled >> {out}/doubled; "
    "trap 'exit 75' TERM; while :; do sleep 0.1 9>&- & wait $!; done"
)
"""Two runs of one job at once write it down."""


@dataclass
class Killing:
    """Runs Slurm's programs; kills its controller before or after the ``at``-th, ``delay_s`` later."""

    cluster: SlurmCluster
    at: int | None = None
    is_after: bool = False
    delay_s: float = 0.0
    calls: int = 0

    def __call__(self, command: Sequence[str], timeout_s: float) -> str:
        self.calls += 1
        is_due = self.at == self.calls
        if is_due and not self.is_after:
            self._kill()
        try:
            return answer(command, timeout_s)
        finally:
            if is_due and self.is_after:
                self._kill()

    def _kill(self) -> None:
        self.at = None
        time.sleep(self.delay_s)
        self.cluster.kill("slurmctld")
        self.cluster.start("slurmctld")


@dataclass
class World:
    cluster: SlurmCluster
    store: Store
    random: random.Random
    strangers: list[str] = field(default_factory=list)
    intent: int = 0
    looked: Look | None = None
    killing: Killing = field(init=False)
    engine: SlurmEngine = field(init=False)

    def __post_init__(self) -> None:
        self.killing = Killing(self.cluster)
        self.starts()

    def starts(self) -> None:
        """A service that knows what the store knows."""
        self.engine = SlurmEngine(
            SlurmEngineDependencies(
                book=ManagerActStore(self.store, SystemClock()),
                run=self.killing,
                clock=SystemClock(),
                looks=lambda: () if self.looked is None else (self.looked,),
                against=lambda job, intent: None if job.word and job.word.pause else "nobody allowed it",
                gpus_of=lambda job: (),
                rest_s=REST_S,
                account="root",
            )
        )

    def submit(self, uid: int, *options: str) -> str:
        script = JOB.format(out=self.cluster.folder / "out")
        return self.cluster.ask(
            *("sbatch", "--parsable", "--gres=gpu:1", "--output=/dev/null", "--chdir=/"),
            *(f"--uid={uid}", f"--gid={uid}", *options, f"--wrap={script}"),
        ).strip()

    def look(self) -> None:
        """As soon as Slurm answers."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            look = SlurmManager(timeout_s=PATIENCE_S).look(time.time_ns() // 1_000_000)
            if isinstance(look, Look):
                self.looked = look
                return
            assert time.monotonic() < end_s, look
            time.sleep(0.1)

    def stranger(self) -> None:
        """Whoever comes next may get a number that was forgotten."""
        self.cluster.until("Slurm", "sh", "-c", "scontrol ping | grep -c UP", says="1")
        self.strangers.append(self.submit(5, "--job-name=stranger", "--comment=fallow:pause"))

    def act(self, step: Pause | Resume, kill: bool) -> Outcome:
        """One step, with the controller killed somewhere in it, and what is found of it in the end."""
        self.intent += 1
        self.killing.calls = 0
        if kill:
            self.killing.at = self.random.choice((1, 2, 3, 3, 3, 4, 4, 5))
            self.killing.is_after = self.random.random() < 0.7
            self.killing.delay_s = self.random.choice((0.0, 0.0, 0.05, 0.3, 1.0))
        given = self.engine.give(step, self.intent)
        if self.killing.at is not None and kill:  # the step has fewer commands: it is killed as it is seen
            self.killing.calls, self.killing.at = 0, 1
        if isinstance(given, Stale):
            self.killing.at = None
            if kill:
                self.stranger()
            return given
        end_s, met = time.monotonic() + PATIENCE_S, not kill
        while isinstance(found := self.engine.found(self.intent) or Stale(found="not asked"), Late):
            assert time.monotonic() < end_s, found
            if not met and self.killing.at is None:
                self.stranger()
                self.starts()  # the service as well
                met = True
            time.sleep(0.2)
        return found

    def states(self) -> dict[str, tuple[str, str, str, str]]:
        """By number: whose, state, priority, restarts."""
        text = self.cluster.ask(
            "squeue", "--noheader", "--Format=JobID:|,UserName:|,State:|,PriorityLong:|,RestartCnt:|"
        )
        return {row.split("|")[0]: tuple(row.split("|")[1:5]) for row in text.splitlines()}  # type: ignore[misc]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder), nodes=2) as made:
        monkeypatch.setenv("SLURM_CONF", str(made.conf))
        (made.folder / "out").mkdir()
        (made.folder / "out").chmod(0o777)
        with open_store(at_path(tmp_path)) as store:
            yield World(made, store, random.Random(0))


def campaign(world: World, seed: int, kills: int) -> dict[str, int]:
    """So many kills; how often each step had which outcome. Fails where anything is met that must not be."""
    world.random.seed(seed)
    came: dict[str, int] = {}
    for number in range(kills):
        job = world.submit(65534, f"--job-name=mine{number}", "--comment=fallow:pause")
        world.cluster.until("its run", "squeue", "--noheader", f"--jobs={job}", "--format=%T", says="RUNNING")
        time.sleep(world.random.choice((0.0, 0.5, 2.0)))
        world.look()
        id = JobId(f"slurm:{job}")
        in_pause = number % 2 == 0
        outcome = world.act(Pause(job=id), kill=in_pause)
        _count(came, "pause", outcome)
        held = world.states().get(job)
        if isinstance(outcome, Done):
            assert held is not None and held[0] == "nobody" and held[2:] == ("0", "1"), (
                number,
                held,
                outcome,
            )
            outcome = world.act(Resume(job=id, gpus=()), kill=not in_pause)
            _count(came, "release", outcome)
            stands = world.states().get(job)
            if isinstance(outcome, Done):
                assert stands is not None and (stands[1] == "RUNNING" or stands[2] != "0"), (number, stands)
        now = world.states()
        kept = [now[each] for each in world.strangers if each in now]  # a further kill may have lost one
        assert all(how[2] != "0" and how[3] == "0" for how in kept if how[0] == "games"), (number, kept)
        assert not (world.cluster.folder / "out" / "doubled").exists(), number
        over = [each for each, how in now.items() if how[0] == "nobody" or len(now) > MOST_JOBS]
        world.strangers = [each for each in world.strangers if each in now and each not in over]
        if over:
            world.cluster.ask("scancel", *over)
        time.sleep(REST_S if in_pause else 0.0)
    return came


def _count(came: dict[str, int], verb: str, outcome: Outcome) -> None:
    key = f"{verb} {type(outcome).__name__}"
    came[key] = came.get(key, 0) + 1


def test_a_controller_that_is_killed_doubles_no_run_and_no_stranger_is_met(world: World) -> None:
    came = campaign(world, seed=11, kills=6)
    assert sum(came.values()) >= 6 and any(key.startswith("release") for key in came), came


@pytest.mark.long
def test_the_same_at_many_more_points(world: World) -> None:
    came = campaign(world, seed=812, kills=60)
    assert came.get("pause Done", 0) >= 20 and came.get("release Done", 0) >= 15, came
