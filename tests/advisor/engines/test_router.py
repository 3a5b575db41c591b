"""Each step goes to the first engine that has the job and does such a thing; what launchers told is noted."""

from dataclasses import dataclass, field

import pytest

from advisor.actions import Action, Notify, Pause, Requeue
from advisor.engines.capabilities import VERBS
from advisor.engines.router import LAUNCHER, Dispatch, EngineEntry
from advisor.journal.records import Result
from advisor.journal.recovery import TOLD, Found
from advisor.outcomes import Done, Failed, Late, Outcome, Unsupported
from advisor.state.model import is_submitted
from collector.model import JobId
from service.control.engines import CAPABILITIES

OURS, SLURMS, OTHERS = JobId("fallow:7"), JobId("slurm:7"), JobId("pid:node1/7@1")


@dataclass
class Engine:
    """Answers as it is told, and keeps what it was given."""

    answer: Outcome = field(default_factory=Done)
    given: list[tuple[str, str]] = field(default_factory=list)

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.given.append((type(step).__name__, step.job))
        return self.answer


@dataclass
class Three:
    """Launched, Slurm's own that only Slurm requeues, and all others."""

    launched: Engine = field(default_factory=Engine)
    soon: Engine = field(default_factory=Engine)
    slurm: Engine = field(default_factory=Engine)
    external: Engine = field(default_factory=Engine)
    heard: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    def dispatch(self) -> Dispatch:
        return Dispatch(
            (
                EngineEntry(
                    name="launched",
                    owns=is_submitted,
                    engine=self.launched,
                    brief=self.soon,
                    tells=True,
                    by_launcher=True,
                ),
                EngineEntry(
                    name="slurm",
                    owns=lambda job: job.startswith("slurm:"),
                    engine=self.slurm,
                    does=frozenset({Requeue}),
                ),
                EngineEntry(name="external", owns=lambda _: True, engine=self.external),
            ),
            lambda job, rung, message, reached: self.heard.append((job, message, reached)),
        )


def test_a_step_goes_to_the_engine_that_has_its_job_and_does_such_a_thing() -> None:
    three = Three()
    for step in (Pause(job=OURS), Requeue(job=SLURMS), Pause(job=SLURMS), Requeue(job=OTHERS)):
        assert three.dispatch().do(step) == Done()
    assert three.launched.given == [("Pause", OURS)]
    assert three.slurm.given == [("Requeue", SLURMS)]
    assert three.external.given == [("Pause", SLURMS), ("Requeue", OTHERS)]


def test_the_engines_say_whose_jobs_have_a_launcher() -> None:
    dispatch = Three().dispatch()
    assert [dispatch.by_launcher(job) for job in (OURS, SLURMS, OTHERS)] == [True, False, False]
    rays = EngineEntry(name="ray", owns=lambda job: job.startswith("ray:"), engine=Engine(), by_launcher=True)
    other = Dispatch(
        (rays, EngineEntry(name="external", owns=lambda _: True, engine=Engine())), lambda *_: None
    )
    assert other.by_launcher(JobId("ray:1")) and not other.by_launcher(OURS), "the id alone says nothing"
    assert not Dispatch((), lambda *_: None).by_launcher(OURS), "nobody's"


def test_what_came_of_a_step_is_asked_of_the_engine_that_has_its_job() -> None:
    def seen_by(name: str) -> Found:
        return lambda job, step, intent: Failed(found=f"{name} {job} {intent} {type(step).__name__}")

    slurm, external = (
        EngineEntry(name=name, owns=owns, engine=Engine(), does=does, found=seen_by(name))
        for name, owns, does in (
            ("slurm", lambda job: job.startswith("slurm:"), frozenset({Requeue})),
            ("external", lambda job: job == OTHERS, None),
        )
    )
    dispatch = Dispatch((slurm, external), lambda *_: None)
    assert dispatch.found(SLURMS, Requeue(job=SLURMS), 5) == Failed(found="slurm slurm:7 5 Requeue")
    assert dispatch.found(SLURMS, None, 5) == Failed(found="slurm slurm:7 5 NoneType"), "also unreadable"
    assert dispatch.found(OTHERS, Pause(job=OTHERS), 6) == Failed(found=f"external {OTHERS} 6 Pause")
    assert dispatch.found(OURS, Pause(job=OURS), 7) is None, "nobody's"


def test_each_engine_says_which_verbs_are_never_done_to_its_jobs() -> None:
    says = {
        name: {verb for verb, why in each.can().items() if why is None} for name, each in CAPABILITIES.items()
    }
    assert says["launched"] == set(VERBS)
    assert says["slurm"] == says["external"] == {"pause", "resume", "notify"}
    for each in CAPABILITIES.values():
        assert each.cannot.keys() <= set(VERBS), "a verb that no step has"
    slurms = EngineEntry(
        name="slurm", owns=lambda job: job == SLURMS, engine=Engine(), capabilities=CAPABILITIES["slurm"]
    )
    dispatch = Dispatch((slurms,), lambda *_: None)
    assert dispatch.can(SLURMS)["move"] == "Slurm decides where its jobs run"
    assert dispatch.can(SLURMS)["pause"] is None
    assert set(dispatch.can(OTHERS).values()) == {"no engine has it"}


def test_nobodys_step_is_not_done_and_says_so() -> None:
    alone = EngineEntry(name="launched", owns=is_submitted, engine=Engine())
    outcome = Dispatch((alone,), lambda *_: None).do(Pause(job=OTHERS))
    assert isinstance(outcome, Unsupported) and OTHERS in outcome.why


def test_brief_is_the_same_with_the_engines_that_wait_a_moment() -> None:
    three = Three()
    brief = three.dispatch().brief()
    brief.do(Pause(job=OURS))
    brief.do(Pause(job=OTHERS))
    assert three.soon.given == [("Pause", OURS)] and not three.launched.given
    assert three.external.given == [("Pause", OTHERS)], "it never waits"


@pytest.mark.parametrize(
    ("answer", "noted"), [(Done(), [(LAUNCHER,)]), (Failed(found="gone"), [()]), (Late(found="later"), [])]
)
def test_what_a_launcher_told_is_noted_once_known(answer: Outcome, noted: list[tuple[str, ...]]) -> None:
    three = Three(launched=Engine(answer), external=Engine(answer))
    three.dispatch().do(Notify(job=OURS, message="It idles."))
    three.dispatch().do(Notify(job=OTHERS, message="It idles."))
    assert [reached for _, _, reached in three.heard] == noted, "the other engine notes its own"


def test_a_late_word_is_noted_when_it_is_settled_and_never_twice() -> None:
    three = Three()
    dispatch, word = three.dispatch(), Notify(job=OURS, message="It idles.")
    dispatch.settled(word, Result.DONE, "acknowledged")
    dispatch.settled(word, Result.DONE, TOLD)
    dispatch.settled(Notify(job=OTHERS, message="It idles."), Result.DONE, "acknowledged")
    assert three.heard == [(OURS, "It idles.", (LAUNCHER,))]
