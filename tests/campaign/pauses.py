"""Pauses and releases of Slurm's jobs, with something killed amid each; then everything is looked at."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.actions import Pause, Resume
from advisor.engines.slurm import SlurmEngine
from advisor.outcomes import Done, Failed, Late, Outcome, Stale, Unsupported
from collector.inventory.slurm_programs import answer
from collector.managers.model import Look
from collector.model import JobId
from collector.store.database import Store
from tests.campaign.crashes import HEAD, Crash, Daemons, crash_of
from tests.campaign.engine import REST_S, engine_of, look_at
from tests.slurm_cluster import SlurmCluster
from tests.stores import open_store

OURS, STRANGER = ("nobody", 65534), ("games", 5)
"""Accounts that Debian has."""
MOST_JOBS = 5
"""Of one GPU each, of eight; then they make room."""
LATE_S = 60.0
"""After it everything must have been found out."""
JOB = (
    "exec 9>>{out}/$SLURM_JOB_ID.lock; flock --nonblock 9 || echo doubled >> {out}/doubled; "
    "trap 'exit 75' TERM; while :; do sleep 0.1 9>&- & wait $!; done"
)
"""Two runs of one job at once write it down."""


@dataclass
class Killing:
    """Runs Slurm's programs; before or after one of them something is killed."""

    daemons: Daemons
    due: Crash | None = None
    calls: int = 0

    def __call__(self, command: Sequence[str], timeout_s: float) -> str:
        self.calls += 1
        due = self.due if self.due is not None and self.due.at == self.calls else None
        if due is not None and not due.is_after:
            self._kill(due)
        try:
            return answer(command, timeout_s)
        finally:
            if due is not None and due.is_after:
                self._kill(due)

    def not_yet(self, *, at_once: bool) -> None:
        """The step had fewer commands: what is due comes now, or as its outcome is looked for."""
        if self.due is not None and at_once:
            self._kill(self.due)
        elif self.due is not None:
            self.calls, self.due = 0, replace(self.due, at=1)

    def _kill(self, crash: Crash) -> None:
        self.due = None
        time.sleep(crash.delay_s)
        self.daemons.crash(crash.process, crash.away_s)


@dataclass
class Pauses:
    """A cluster, a store and an engine that pauses and releases there; ``path`` is the store's."""

    cluster: SlurmCluster
    path: Path
    strangers: list[str] = field(default_factory=list)
    intent: int = 0
    looked: Look | None = None
    daemons: Daemons = field(init=False)
    killing: Killing = field(init=False)
    store: Store = field(init=False)
    engine: SlurmEngine = field(init=False)

    def __post_init__(self) -> None:
        self.daemons = Daemons(self.cluster)
        self.killing = Killing(self.daemons)
        (self.cluster.folder / "out").mkdir()
        (self.cluster.folder / "out").chmod(0o777)
        self.opens()
        time.sleep(REST_S)  # the controller was started lately

    def opens(self) -> None:
        """Its store, and a service that knows what that knows."""
        self.store = open_store(self.path)
        self.starts()

    def close(self) -> None:
        """Close the store that is open now."""
        self.store.close()

    def starts(self) -> None:
        """A service that knows what the store knows."""
        self.engine = engine_of(
            self.store, self.killing, lambda: () if self.looked is None else (self.looked,)
        )

    def kill(self, number: int, draw: random.Random, daemons: Sequence[str]) -> list[str]:
        """One kill, and all that must not have come of it; which outcome each verb had."""
        crash = crash_of(draw, daemons, self.cluster.nodes)
        job = self._submit(OURS, f"--job-name=mine{number}")
        self.cluster.until("its run", "squeue", "--noheader", f"--jobs={job}", "--format=%T", says="RUNNING")
        time.sleep(draw.choice((0.0, 0.5, 2.0)))
        self.looked = look_at()
        in_pause, id = draw.random() < 0.5, JobId(f"slurm:{job}")
        outcome = self._act(Pause(job=id), crash if in_pause else None)
        came = [f"pause, {crash.daemon if in_pause else 'nothing'} killed: {type(outcome).__name__}"]
        self.daemons.until_all_answer()
        self._is_as_told(job, outcome, crash if in_pause else None)
        if isinstance(outcome, Done):
            outcome = self._act(Resume(job=id, gpus=()), None if in_pause else crash)
            came.append(
                f"release, {'nothing' if in_pause else crash.daemon} killed: {type(outcome).__name__}"
            )
            self.daemons.until_all_answer()
            is_held = self._states().get(job, ("", "", "", ""))[2] == "0"
            assert not (isinstance(outcome, Done) and is_held), (crash, outcome)
        self._nobody_was_met(crash)
        self._make_room()
        time.sleep(REST_S if crash.daemon == "slurmctld" else 0.0)
        return came

    def _act(self, step: Pause | Resume, crash: Crash | None) -> Outcome:
        """One step with something killed in it, and what is found of it in the end."""
        self.intent += 1
        if crash is not None and crash.daemon == HEAD:
            return self._act_elsewhere(step, crash)
        self.killing.calls, self.killing.due = 0, crash
        given = self.engine.give(step, self.intent)
        is_over = isinstance(given, Stale | Unsupported)
        self.killing.not_yet(at_once=is_over)
        if is_over:
            if crash is not None:
                self._stranger()
            return given
        return self._found(met=crash is None)

    def _act_elsewhere(self, step: Pause | Resume, crash: Crash) -> Outcome:
        """The step in a service of its own, which is killed; the next one finds out."""
        self.store.close()
        verb, when = "pause" if isinstance(step, Pause) else "resume", "after" if crash.is_after else "before"
        words = (str(self.path), step.job, verb, str(self.intent), str(crash.at), when)
        done = subprocess.run(
            [sys.executable, "-m", "tests.campaign.head", *words],
            env=self.cluster.environment,
            timeout=2 * LATE_S,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done
        self._stranger()
        self.opens()
        return self._found(met=True)

    def _found(self, *, met: bool) -> Outcome:
        end_s = time.monotonic() + LATE_S
        while isinstance(found := self.engine.found(self.intent) or Stale(found="not asked"), Late):
            assert time.monotonic() < end_s, found
            if not met and self.killing.due is None:
                self._stranger()
                self.starts()  # the service as well
                met = True
            time.sleep(0.2)
        return found

    def _submit(self, whose: tuple[str, int], *options: str) -> str:
        script, uid = JOB.format(out=self.cluster.folder / "out"), whose[1]
        return self.cluster.ask(
            *("sbatch", "--parsable", "--gres=gpu:1", "--output=/dev/null", "--chdir=/"),
            *(f"--uid={uid}", f"--gid={uid}", "--comment=fallow:pause", *options, f"--wrap={script}"),
        ).strip()

    def _stranger(self) -> None:
        """Whoever comes next may get a number that was forgotten."""
        self.daemons.until_all_answer()
        self.strangers.append(self._submit(STRANGER, "--job-name=stranger"))

    def _states(self) -> dict[str, tuple[str, str, str, str]]:
        """By number: whose, state, priority, restarts."""
        text = self.cluster.ask(
            "squeue", "--noheader", "--Format=JobID:|,UserName:|,State:|,PriorityLong:|,RestartCnt:|"
        )
        return {row.split("|")[0]: tuple(row.split("|")[1:5]) for row in text.splitlines()}  # type: ignore[misc]

    def _is_as_told(self, job: str, outcome: Outcome, crash: Crash | None) -> None:
        """A job that was paused is held after one run; of one that was not, nothing is held."""
        state = self._states().get(job)
        if isinstance(outcome, Done):
            assert state is not None and state[0] == OURS[0] and state[2:] == ("0", "1"), (state, crash)
        if isinstance(outcome, Stale | Failed) and state is not None and state[0] == OURS[0]:
            assert state[2] != "0", ("held, and nobody knows", state, outcome, crash)
        if isinstance(outcome, Stale) and crash is not None and crash.daemon in (HEAD, "munged", "slurmdbd"):
            assert state is not None and state[1:] == ("RUNNING", state[2], "0"), (state, outcome, crash)

    def _nobody_was_met(self, crash: Crash) -> None:
        now = self._states()
        kept = [now[each] for each in self.strangers if each in now]  # a further kill may have lost one
        assert all(how[2] != "0" and how[3] == "0" for how in kept if how[0] == STRANGER[0]), (crash, kept)
        doubled = self.cluster.folder / "out" / "doubled"
        assert not doubled.exists(), crash

    def _make_room(self) -> None:
        now = self._states()
        over = [each for each, how in now.items() if how[0] == OURS[0] or len(now) > MOST_JOBS]
        self.strangers = [each for each in self.strangers if each in now and each not in over]
        if over:
            self.cluster.ask("scancel", *over)


@contextmanager
def pauses(cluster: SlurmCluster, path: Path) -> Iterator[Pauses]:
    """On a cluster that is up; the store at ``path`` is closed at the end."""
    with closing(Pauses(cluster, path)) as made:
        yield made
