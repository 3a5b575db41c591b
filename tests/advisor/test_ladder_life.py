"""An idle notebook's way up the ladder and back, minute by minute, through the real cycle.

Once as a job that Fallow launched (its entry and its launcher's words by ``advisor.jobs.lifecycle``), once as
a foreign one (the foreign engine on a real store, with a fake CUDA driver). Only the clock is a test's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from advisor.actions import Action, Notify, Pause, Resume
from advisor.cycle import run_cycle
from advisor.engines.cuda_checkpoint import ProcessState
from advisor.engines.external import ExternalEngine, ExternalEngineDependencies
from advisor.engines.notify_owner import Notice, Told
from advisor.engines.router import Dispatch, EngineEntry
from advisor.jobs import lifecycle
from advisor.jobs.external_jobs import ExternalJobStore
from advisor.jobs.model import (
    Command,
    Elasticity,
    JobRecord,
    JobState,
    Launcher,
    NotifyCommand,
    PauseCommand,
    Report,
    ResumeCommand,
    StartCommand,
    Submission,
)
from advisor.jobs.with_snapshot import Look, joined
from advisor.outcomes import Done, Outcome, Unsupported
from advisor.planner.guard import Ruling
from advisor.planner.limits import Limits, Mode, PlannerConfig
from advisor.planner.observed import Observed
from advisor.planner.plan import Plan
from advisor.policies import idle_reclaim
from advisor.policies.idle_escalation import NotKept, keep
from advisor.state.model import ActionClass, ClusterState, Gpu, Job, Phase, Placement, Telemetry, Use
from advisor.state.owner_replies import Keep, Telling, Word, with_spoken
from analytics.vocabulary.jobs import is_submitted
from collector.model import JobId, JobKind
from collector.store.database import Store
from service.control.external_jobs import with_paused
from tests.advisor.engines.external_parts import (
    GPU,
    NODE,
    FakeCheckpointer,
    FakeDriver,
    HandClock,
    Machine,
    job_id,
    opened,
    process,
)

MINUTE_MS = 60_000
RULES = PlannerConfig()
AUTO = Limits(modes={ActionClass.RECLAIM: Mode.AUTO, ActionClass.SCHEDULE: Mode.AUTO})
WORKED_MS = HandClock().at_ms
"""The notebook's last work; minutes are counted from here."""


@dataclass
class Silent:
    """A journal that only counts."""

    count: int = 0

    def decided(self, at_ms: int, plan: Plan, ruling: Ruling) -> None:
        pass

    def intends(self, at_ms: int, step: Action, actor: str = "fallow") -> int:
        self.count += 1
        return self.count

    def came_of(self, at_ms: int, intent: int, outcome: Outcome) -> None:
        assert isinstance(outcome, Done), outcome


class Ears:
    def notify(self, notice: Notice) -> Told:
        return Told(reached=("terminal pts/1",))


def machine_state(now_ms: int) -> ClusterState:
    return ClusterState(
        as_of_ms=now_ms, gpus={GPU: Gpu(uuid=GPU, node=NODE, memory_bytes=80 << 30, telemetry=Telemetry.GOOD)}
    )


@dataclass
class Story:
    """A machine with one notebook; ``sentences_of`` what was done, as (minute, verb)."""

    clock: HandClock
    typed_ms: int = WORKED_MS
    worked_ms: int = WORKED_MS
    kind: JobKind = JobKind.INTERACTIVE
    log: list[tuple[int, str]] = field(default_factory=list)
    journal: Silent = field(default_factory=Silent)
    limits: Limits = AUTO
    every_min: int = 1

    @property
    def job(self) -> JobId:
        raise NotImplementedError

    @property
    def minute(self) -> int:
        return (self.clock.at_ms - WORKED_MS) // MINUTE_MS

    def observe(self) -> ClusterState:
        raise NotImplementedError

    def do(self, step: Action, intent: int = 0) -> Outcome:
        raise NotImplementedError

    def keep(self, hours: int) -> None:
        raise NotImplementedError

    def until(self, minute: int) -> None:
        """Let time pass, a cycle every so many minutes."""
        while self.minute < minute:
            self.clock.sleep(60 * self.every_min)
            cycle = run_cycle(
                self.observe,
                self,
                self.journal,
                self.clock,
                self.limits,
                policies=(lambda state: idle_reclaim.advise(state, Observed(), self.limits, RULES),),
            )
            self.log += [(self.minute, type(step).__name__) for step, _ in cycle.outcomes]

    def touch(self) -> None:
        """Somebody types at the notebook's terminal."""
        self.typed_ms = self.clock.at_ms


LAUNCHED = JobId("fallow:1")
LAUNCHER = Launcher(node=NODE, pid=9, started_ms=1)


@dataclass
class Launched(Story):
    """The launched notebook. Its launcher carries every directive out at once and says who sits there."""

    words: list[Word] = field(default_factory=list)
    entry: JobRecord = field(init=False)

    def __post_init__(self) -> None:
        wanted = Submission(
            command=("jupyter",),
            user="ann",
            project="lab",  # type: ignore[arg-type]
            kind=self.kind,
            mobility=Elasticity.ELASTIC,
            preemptible=True,
        )
        began_ms = WORKED_MS - 60 * MINUTE_MS
        entry = lifecycle.with_command(
            lifecycle.submitted(LAUNCHED, wanted, began_ms), StartCommand(number=1, gpus=(GPU,)), began_ms
        )
        self.entry = self._said(entry, JobState.RUNNING, began_ms)
        self.engine = Dispatch(
            (
                EngineEntry(name="launched", owns=is_submitted, engine=Obeys(self), tells=True),
                EngineEntry(name="external", owns=lambda _: True, engine=Foreignless()),
            ),
            self._heard,
        )

    @property
    def job(self) -> JobId:
        return LAUNCHED

    def observe(self) -> ClusterState:
        now_ms = self.clock.at_ms
        stand = self.entry.state
        self.entry = self._said(self.entry, stand, now_ms)
        live = machine_state(now_ms)
        if stand is JobState.RUNNING:
            seen = Job(
                id=LAUNCHED,
                project="lab",  # type: ignore[arg-type]
                phase=Phase.RUNNING,
                use=Use.IDLE,
                idle_since_ms=self.worked_ms,
            )
            live = replace(live, jobs={LAUNCHED: seen}, placements={LAUNCHED: Placement(gpus=(GPU,))})
        look = Look(
            now_ms=now_ms,
            newest_ms={GPU: now_ms},
            stale_ms=30_000,
            here=frozenset({NODE}),
            by_launcher=is_submitted,
        )
        return joined(with_spoken(live, self.words), [self.entry], look)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        return self.engine.do(step, intent + 1)

    def keep(self, hours: int) -> None:
        state = self.observe()
        kept = keep(state.jobs[LAUNCHED], hours, self.clock.at_ms, RULES)
        assert isinstance(kept, Job) and kept.keep_until_ms is not None
        self.words.append(
            Keep(job=LAUNCHED, at_ms=self.clock.at_ms, until_ms=kept.keep_until_ms, by_user="ann")
        )

    def _heard(self, job: JobId, rung: str, message: str, reached: tuple[str, ...]) -> None:
        at_ms = self.clock.at_ms
        self.words.append(Telling(job=job, at_ms=at_ms, rung=rung, reached=", ".join(reached) or None))

    def _said(self, entry: JobRecord, stand: JobState, now_ms: int) -> JobRecord:
        """The launcher's word: what it carried out, and whether somebody typed a short while ago."""
        number = 0 if entry.directive is None else entry.directive.number
        attached = now_ms - self.typed_ms < 15 * MINUTE_MS
        report = Report(
            at_ms=now_ms,
            launcher=LAUNCHER,
            state=stand,
            acknowledged=number,
            gpus=entry.gpus,
            attached=attached,
        )
        return lifecycle.with_report(entry, report, now_ms)


@dataclass
class Obeys:
    """The launched half of the engine: every directive is acknowledged at once."""

    story: Launched

    def do(self, step: Action, intent: int = 0) -> Outcome:
        directive: Command
        match step:
            case Notify():
                directive = NotifyCommand(number=intent, message=step.message)
            case Pause():
                idling = step.action is ActionClass.RECLAIM and step.for_job is None
                directive = PauseCommand(number=intent, reason=step.reason, for_idling=idling)
            case Resume():
                directive = ResumeCommand(number=intent, gpus=step.gpus)
            case _:
                return Unsupported(why=f"{step} is not part of this story")
        story, now_ms = self.story, self.story.clock.at_ms
        given = lifecycle.with_command(story.entry, directive, now_ms)
        stands = {PauseCommand: JobState.PAUSED, NotifyCommand: given.state, ResumeCommand: JobState.RUNNING}
        story.entry = story._said(given, stands[type(directive)], now_ms)  # type: ignore[index]
        if isinstance(step, Resume):
            story.worked_ms = now_ms
        return Done()


class Foreignless:
    def do(self, step: Action, intent: int = 0) -> Outcome:
        raise AssertionError("no foreign job is in this story")


FOREIGN = job_id(71)


@dataclass
class Foreign(Story):
    """The same notebook, started by hand at a terminal."""

    store: Store = field(kw_only=True)
    book: ExternalJobStore = field(kw_only=True)

    def __post_init__(self) -> None:
        self.driver = FakeDriver(states={71: ProcessState.RUNNING})
        self.machine = Machine(self.store, self.clock)
        self.machine.sees([process(71)], FOREIGN)
        seen = self.machine.processes_of(FOREIGN)
        parts = ExternalEngineDependencies(
            book=self.book,
            sightings=lambda job: seen,
            ways=[Ears()],
            checkpointer=FakeCheckpointer(driver=self.driver),
            node=NODE,
            account_uid={"ann": 1000}.get,
        )
        self.engine = ExternalEngine(parts)

    @property
    def job(self) -> JobId:
        return FOREIGN

    def observe(self) -> ClusterState:
        now_ms = self.clock.at_ms
        sat = now_ms - self.typed_ms < 15 * MINUTE_MS
        job = Job(
            id=FOREIGN,
            project="lab",  # type: ignore[arg-type]
            user="ann",
            kind=self.kind,
            phase=Phase.RUNNING,
            started_ms=WORKED_MS - 60 * MINUTE_MS,
            preemptible=True,
            checkpointable=True,
            attached=sat,
            use=Use.IDLE,
            idle_since_ms=self.worked_ms,
        )
        live = machine_state(now_ms)
        live = replace(live, jobs={FOREIGN: job}, placements={FOREIGN: Placement(gpus=(GPU,))})
        paused = [each for each in self.book.checkpoints() if each.ended_as is None]
        return with_paused(with_spoken(live, self.book.words()), paused, lambda seen: [self.typed_ms])

    def do(self, step: Action, intent: int = 0) -> Outcome:
        outcome = self.engine.do(step, intent)
        if isinstance(step, Resume):
            self.worked_ms = self.clock.at_ms
        return outcome

    def keep(self, hours: int) -> None:
        kept = keep(self.observe().jobs[FOREIGN], hours, self.clock.at_ms, RULES)
        assert isinstance(kept, Job) and kept.keep_until_ms is not None
        self.book.keep(FOREIGN, kept.keep_until_ms, "ann")


@pytest.fixture(params=["launched", "foreign"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    clock = HandClock()
    if request.param == "launched":
        yield Launched(clock)
        return
    with opened(tmp_path, clock) as (store, book):
        yield Foreign(clock, store=store, book=book, every_min=5)


def test_idle_notebook_is_told_kept_told_again_paused_and_resumes_on_touch(story: Story) -> None:
    story.until(40)
    assert story.log == [(30, "Notify")]
    story.keep(4)
    story.until(275)
    assert story.log == [(30, "Notify")], "while it is kept, nothing is said and nothing done"
    story.until(290)
    assert story.log == [(30, "Notify"), (280, "Notify")], "told again when the time is over"
    story.until(400)
    assert story.log[2:] == [(295, "Pause")], "a quarter of an hour later, and never resumed untouched"
    story.touch()
    back = 400 + story.every_min
    story.until(back)
    assert story.log[3:] == [(back, "Resume")]
    story.until(425)
    assert story.log[4:] == [], "whoever came back is left alone"
    story.until(435)
    assert story.log[4:] == [(back + 30, "Notify")], "half an hour after the touch the clock has run anew"


def test_nobody_who_sits_there_is_paused(story: Story) -> None:
    for minute in range(10, 200, 10):
        story.until(minute)
        story.touch()
    assert "Pause" not in [verb for _, verb in story.log]


@pytest.mark.slow
def test_three_keeps_are_the_owners_and_then_the_ladder_goes_on(story: Story) -> None:
    for at in (30, 275, 520):
        story.until(at)
        story.keep(4)
    refused = keep(story.observe().jobs[story.job], 4, story.clock.at_ms, RULES)
    assert isinstance(refused, NotKept)
    story.until(780)
    assert story.log == [(30, "Notify"), (270, "Notify"), (515, "Notify"), (760, "Notify"), (775, "Pause")]


def test_by_default_the_whole_way_is_only_advice(story: Story) -> None:
    story.limits = Limits()
    story.until(400)
    assert story.log == []


def test_batch_job_has_the_longer_clocks(tmp_path: Path) -> None:
    batch = Launched(HandClock(), kind=JobKind.BATCH)
    batch.until(145)
    assert batch.log == [(60, "Notify"), (120, "Pause")]
    batch.until(155)
    assert batch.log[2:] == [(150, "Resume")], "nobody touches a batch job: it comes back after its cooldown"


def test_owner_is_not_paused_on_the_word_of_an_idle_time_that_is_over(story: Story) -> None:
    story.until(35)
    story.worked_ms = story.clock.at_ms
    story.until(90)
    assert story.log == [(30, "Notify"), (65, "Notify")]
    story.until(96)
    assert story.log[2:] == [(95, "Pause")]
