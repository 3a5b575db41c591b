"""One cycle with real parts: a state that moves on, the dry-run engine, a journal that remembers."""

from dataclasses import dataclass, field, replace

import pytest

from advisor.actions import Action, Start
from advisor.cycle import run_cycle
from advisor.engines.dry_run import DryRun
from advisor.outcomes import Done, Failed, Outcome
from advisor.planner.guard import Ruling
from advisor.planner.limits import Limits, Mode
from advisor.planner.plan import Plan
from advisor.planner.validate import BadState
from advisor.state.model import ActionClass, ClusterState, Gpu, Job

AUTO = Limits(modes=dict.fromkeys(ActionClass, Mode.AUTO))
STATE = ClusterState(
    as_of_ms=1000,
    gpus={f"g{at}": Gpu(uuid=f"g{at}", node="n") for at in range(2)},
    jobs={name: Job(id=name, project="lab", submitted_ms=at) for at, name in enumerate("abc")},
)


@dataclass
class Book:
    """A journal in memory."""

    lines: list[str] = field(default_factory=list)

    def decided(self, at_ms: int, plan: Plan, ruling: Ruling) -> None:
        self.lines.append(f"{at_ms}: {len(plan.steps)} steps, {len(ruling.refused)} refused")

    def intends(self, at_ms: int, step: Action, actor: str = "fallow") -> int:
        self.lines.append(f"{at_ms}: intends {step.job}")
        return len(self.lines)

    def came_of(self, at_ms: int, intent: int, outcome: Outcome) -> None:
        self.lines.append(f"{at_ms}: {intent} {type(outcome).__name__}")


class Fixed:
    """A clock that a test sets."""

    def now_ms(self) -> int:
        return 2000

    def monotonic_ms(self) -> int:
        return 2000

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a cycle does not wait")


class Breaks:
    """An engine whose world breaks at its second step."""

    def __init__(self) -> None:
        self.done: list[Action] = []

    def do(self, step: Action, intent: int = 0) -> Outcome:
        self.done.append(step)
        return Done() if len(self.done) < 2 else Failed(found="the node does not answer")


def test_a_cycle_does_what_it_planned_and_writes_every_intent_first() -> None:
    book, engine = Book(), DryRun(STATE)
    cycle = run_cycle(lambda: STATE, engine, book, Fixed(), AUTO)
    assert [step.job for step, _ in cycle.outcomes] == ["a", "b"]
    assert book.lines == [
        "2000: 2 steps, 0 refused",
        "2000: intends a",
        "2000: 2 Done",
        "2000: intends b",
        "2000: 4 Done",
    ]
    assert set(engine.would_be().placements) == {"a", "b"}


def test_a_cycle_stops_at_the_first_surprise() -> None:
    engine = Breaks()
    state = replace(STATE, gpus={f"g{at}": Gpu(uuid=f"g{at}", node="n") for at in range(3)})
    cycle = run_cycle(lambda: state, engine, Book(), Fixed(), AUTO)
    assert len(cycle.plan.steps) == 3
    assert [step.job for step in engine.done] == ["a", "b"]
    assert isinstance(cycle.outcomes[-1][1], Failed)


def test_by_default_a_cycle_only_says_what_it_would_do() -> None:
    engine = Breaks()
    cycle = run_cycle(lambda: STATE, engine, Book(), Fixed(), Limits())
    assert len(cycle.plan.steps) == 2
    assert len(cycle.ruling.refused) == 2
    assert engine.done == []


def test_the_guard_looks_again_at_a_newer_world() -> None:
    newer = replace(STATE, jobs={name: job for name, job in STATE.jobs.items() if name != "a"})
    worlds = iter((STATE, newer))
    cycle = run_cycle(lambda: next(worlds), DryRun(newer), Book(), Fixed(), AUTO)
    assert [step.job for step, _ in cycle.outcomes] == ["b"]
    assert [refusal.job for refusal in cycle.ruling.refused] == ["a"]
    assert isinstance(cycle.plan.steps[0], Start)


def test_a_world_that_cannot_be_is_not_decided_on() -> None:
    broken = replace(STATE, jobs={"a": Job(id="a", project="lab", min_gpus=-2)})
    with pytest.raises(BadState, match="job a asks for -2 GPUs"):
        run_cycle(lambda: broken, Breaks(), Book(), Fixed(), AUTO)
