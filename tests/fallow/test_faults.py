"""What else goes wrong with workers: stopped, hung, slow, spoiled. The training goes on, or says why not."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.membership import Limits  # noqa: E402
from fallow.protocol import MemberId  # noqa: E402
from fallow.workers.pool import WorkerPool  # noqa: E402
from tests.fallow.crew import Outcome, training  # noqa: E402
from tests.fallow.ledger import Account, audit  # noqa: E402
from tests.thinned import thinned  # noqa: E402

SCRIPT = Path(__file__).with_name("crash_train.py")
ROOT = Path(__file__).parents[2]
LIMITS = Limits(
    start_ms=3_000,
    connect_ms=1_500,
    switch_ms=8_000,
    report_ms=8_000,
    silence_ms=4_000,
    idle_silence_ms=2_500,
    gather_ms=300,
    leave_ms=3_000,
    failures=2,
)
DEADLINE_S = 60
ENOUGH = 700
"""Steps that no test here reaches."""

Goal = Callable[[Controller], bool]


@pytest.fixture(scope="module")
def nursery() -> Iterator[WorkerPool]:
    parent = WorkerPool([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    yield parent
    parent.close()


@pytest.fixture(scope="module")
def losses() -> list[float]:
    """The loss of each step of the same training alone."""
    alone = Outcome()
    training(ENOUGH, max_grad_norm=None, schedule=False)({}, alone)
    return [step.loss for step in alone.steps]


class Watched:
    """A training under a watchdog, stopped when the test has seen enough.

    ``lines`` is what a person at the terminal would read.
    """

    def __init__(
        self,
        nursery: WorkerPool,
        folder: Path,
        crash: str,
        *,
        workers: int,
        spare: int = 0,
        limits: Limits = LIMITS,
    ):
        self.lines: list[str] = []
        self._ledger = folder / "ledger"
        variables = {"CRASH": crash, "LEDGER": str(self._ledger), "STEPS": str(ENOUGH)}
        self.controller = Controller(
            lambda own: nursery.spawn({**own, **variables}),
            workers=workers,
            maximum=4,
            spare=spare,
            limits=limits,
            tell=self.lines.append,
        )

    def run(self, goal: Goal) -> int:
        """Train until ``goal`` is reached, and a few steps more."""
        deadline_s = time.monotonic() + DEADLINE_S
        reached_s: float | None = None

        def watch(controller: Controller) -> None:
            nonlocal reached_s
            assert time.monotonic() < deadline_s, (controller.journal, self.lines)
            if reached_s is None and goal(controller):
                reached_s = time.monotonic()
            if reached_s is not None and time.monotonic() - reached_s > 0.3 and not controller.view.stopping:
                controller.ask_to_stop("enough was seen")

        return self.controller.run(watch)

    def check(self, losses: list[float]) -> Account:
        """The training learned what one alone learns, from the right samples."""
        account = audit(self._ledger, None, 331, 48)
        assert len(account.losses) > 3
        for step, loss in account.losses.items():
            assert loss == pytest.approx(losses[step], rel=1e-9), f"step {step}"
        return account

    def said(self, *words: str) -> bool:
        """Whether a person was told so in one line."""
        return any(all(word in line for word in words) for line in self.lines)

    @property
    def worlds(self) -> list[int]:
        """The sizes of the generations, in order; the last may be 0, when all were stopped."""
        plans = [line for line in self.controller.journal if " Adopt(Plan" in line]
        return [line.split("members=(")[1].split(")")[0].count("'w") for line in plans]


def growing(size: int, then: Goal) -> Goal:
    """Ask once for ``size`` workers, as soon as there is a generation; reached when ``then`` is."""
    asked = False

    def goal(controller: Controller) -> bool:
        nonlocal asked
        if controller.view.generation and not asked:
            asked = True
            controller.resize(size)
        return asked and then(controller)

    return goal


def of_size(size: int, generation: int = 1) -> Goal:
    """That many members compute together, in this generation or a later one."""
    return lambda controller: (
        controller.view.generation >= generation
        and len(controller.view.members) == size
        and controller.view.pending is None
    )


@pytest.mark.parametrize(
    "point", thinned(["amid-step/7", "before-sum-of-2/6", "after-connect/1", "before-switched/1"], 2)
)
def test_a_worker_that_is_stopped_is_replaced(
    point: str, nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, f"w1/{point}/stop", workers=2)
    size = 3 if point.endswith("/1") else 2
    grown = lambda c: "w1" not in c.view.members and of_size(size)(c)  # noqa: E731
    watched.run(growing(size, grown))
    assert watched.said("ending w1"), watched.lines
    assert all(times <= 2 for times in watched.check(losses).attempts.values())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("start/0/hang", "still starting"),
        pytest.param("warm-up/0/stop", "silent for", marks=pytest.mark.long),
        ("warm-up/0/raise", "ValueError: sample 17 of w2 is spoiled"),
        ("warm-up/0/exit", "ended with 3 while starting"),
        pytest.param("before-connect/0/hang", "did not connect within", marks=pytest.mark.long),
        ("before-connect/0/stop", "did not connect within"),
    ],
)
def test_joiners_that_fail_cost_the_members_nothing_and_are_given_up(
    fault: str, words: str, nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    crash = " ".join(f"w{number}/{fault}" for number in range(1, 6))
    limits = LIMITS if words == "still starting" else replace(LIMITS, start_ms=30_000)
    watched = Watched(nursery, tmp_path, crash, workers=1, limits=limits)
    watched.run(growing(2, lambda controller: watched.said("staying at 1 worker")))
    assert watched.said("staying at 1 worker", words), watched.lines
    assert watched.worlds == [1, 0]
    assert set(watched.check(losses).attempts.values()) == {1}, "no step was repeated for a joiner"


def test_a_joiner_stopped_while_it_is_taken_in_holds_nobody_up_for_long(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "w1/before-receive/0/stop", workers=1)
    watched.run(growing(2, of_size(2)))
    assert watched.said("ending w1: silent for"), watched.lines
    assert set(watched.check(losses).attempts.values()) == {1}


def test_after_giving_up_a_resize_is_tried_again(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "w1/warm-up/0/raise w2/warm-up/0/raise", workers=1)
    asked = growing(2, of_size(2))

    def goal(controller: Controller) -> bool:
        if watched.said("staying at 1 worker") and controller.view.target == 1:
            controller.resize(2)
        return asked(controller)

    watched.run(goal)
    assert watched.worlds == [1, 2, 0]
    watched.check(losses)


def test_a_slow_joiner_does_not_hold_up_a_quick_one(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "w2/warm-up/0/sleep", workers=1)
    watched.run(growing(3, of_size(3)))
    assert watched.worlds == [1, 2, 3, 0]
    assert set(watched.check(losses).attempts.values()) == {1}


def test_a_leaver_that_does_not_go_is_ended(nursery: WorkerPool, losses: list[float], tmp_path: Path) -> None:
    watched = Watched(nursery, tmp_path, "w1/after-switched/1/hang", workers=2)
    nicenesses: dict[str, set[int]] = {"w0": set(), "w1": set()}

    def gone(controller: Controller) -> bool:
        for worker, seen in nicenesses.items():
            process = controller.processes.get(MemberId(worker))
            if process is not None:
                with suppress(ProcessLookupError):
                    seen.add(os.getpriority(os.PRIO_PROCESS, process.pid))
        return "w1" not in controller.view.workers

    watched.run(growing(1, gone))
    assert watched.said("ending w1", "still leaving")
    assert nicenesses["w0"] == {0}, "who stays keeps its turn"
    assert 10 in nicenesses["w1"] <= {0, 10}, "who leaves gives way to who stays"
    assert set(watched.check(losses).attempts.values()) == {1}


def test_a_sample_that_spoils_every_worker_ends_the_training_with_its_reason(
    nursery: WorkerPool, tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "*/amid-step/6/raise", workers=2)
    assert watched.run(lambda controller: False) == 1
    assert "ValueError: sample 17 of w" in (watched.controller.exit_reason or "")


def test_a_worker_that_fails_again_and_again_is_not_replaced_for_ever(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    crash = " ".join(f"w{number}/amid-step/6/raise" for number in range(1, 9))
    watched = Watched(nursery, tmp_path, crash, workers=2)
    watched.run(lambda controller: watched.said("staying at 1 worker"))
    assert watched.said("staying at 1 worker", "ValueError: sample 17 of w2 is spoiled"), watched.lines
    watched.check(losses)


PLAIN = """
import os, sys, time, fallow
runs = open(os.environ["RUNS"], "a")
runs.write(os.environ["KIND"] + "\\n")
runs.close()
if os.environ["KIND"] == "trains":
    time.sleep(3)  # longer than a start may take
elif os.environ["KIND"] == "fails":
    raise RuntimeError("the disk is full")
elif os.environ["KIND"] == "tokenizes":
    job = fallow.connect()
    time.sleep(3)
elif os.environ["KIND"] == "errs":
    import torch
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.LBFGS(net.parameters())
    fallow.connect().elastic(net, optimizer, global_batch=2, max_micro_batch=2)
sys.modules["transformers.trainer"] = sys
"""


def test_a_script_that_is_not_elastic_runs_once_and_its_end_is_the_end(tmp_path: Path) -> None:
    script, runs = tmp_path / "plain.py", tmp_path / "runs"
    script.write_text(PLAIN)
    once = "a loop over trainer.steps() (transformers' Trainer is not elastic; "
    ends = {
        "trains": (0, once),
        "tokenizes": (0, once),
        "fails": (1, "RuntimeError: the disk is full"),
        "errs": (1, "Mistake: LBFGS computes the loss several times"),
    }
    limits = replace(LIMITS, start_ms=1_000)
    nursery = WorkerPool([str(script)], {"PYTHONPATH": str(ROOT), "RUNS": str(runs)})
    started = {word: (lambda given, word=word: nursery.spawn({**given, "KIND": word})) for word in ends}
    for word, (code, sentence) in ends.items():
        told: list[str] = []
        controller = Controller(started[word], workers=1, limits=limits, tell=told.append)
        asked = False

        def grow(driven: Controller) -> None:
            nonlocal asked
            if not asked and any(worker.heard_ms is None for worker in driven.view.workers.values()):
                asked = True
                driven.resize(3)  # starts no second run of a script that has yet to say anything

        assert controller.run(grow if word == "trains" else None) == code, (word, controller.journal)
        assert sentence in " ".join([*told, controller.exit_reason or ""]), (word, told)
    nursery.close()
    assert runs.read_text().split() == list(ends)


def test_a_spare_joins_at_once_and_is_replaced(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "", workers=1, spare=1)
    asked_with: list[str] = []

    def goal(controller: Controller) -> bool:
        view = controller.view
        ready = [m for m, w in view.workers.items() if w.phase.value == "ready"]
        if view.generation and ready and not asked_with:
            asked_with.extend(ready)
            controller.resize(2)
        return len(view.members) == 2 and bool(ready) and view.pending is None

    watched.run(goal)
    assert watched.worlds == [1, 2, 0]
    assert f"members=('w0', '{asked_with[0]}')" in "".join(watched.controller.journal)
    watched.check(losses)


@pytest.mark.parametrize("what", ["kill", "stop"])
def test_a_spare_that_is_lost_is_replaced_and_nobody_notices(
    what: str, nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, f"w2/after-ready/0/{what}", workers=2, spare=1)

    def goal(controller: Controller) -> bool:
        worker = controller.view.workers.get("w3")  # type: ignore[call-overload]
        return worker is not None and worker.phase.value == "ready"

    watched.run(goal)
    assert watched.worlds == [2, 0]
    assert set(watched.check(losses).attempts.values()) == {1}


def test_the_training_outlives_the_nursery_and_grows_from_a_new_one(
    losses: list[float], tmp_path: Path
) -> None:
    mortal = WorkerPool([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    watched = Watched(mortal, tmp_path, "", workers=2, limits=replace(LIMITS, start_ms=30_000))
    first = mortal.parent_pid
    killed = False

    def goal(controller: Controller) -> bool:
        nonlocal killed
        if of_size(2)(controller) and not killed:
            killed = True
            os.kill(first, signal.SIGKILL)
            controller.resize(3)
        return killed and of_size(3)(controller)

    watched.run(goal)
    assert mortal.parent_pid != first
    mortal.close()
    assert watched.worlds == [2, 3, 0]
    lost = [line for line in watched.controller.journal if "ended with -9" in line]
    assert not [line for line in lost if "w0" in line or "w1" in line]
    assert set(watched.check(losses).attempts.values()) == {1}


def test_a_worker_killed_after_its_nursery_is_still_seen_to_die(losses: list[float], tmp_path: Path) -> None:
    mortal = WorkerPool([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    watched = Watched(mortal, tmp_path, "", workers=2, limits=replace(LIMITS, start_ms=30_000))
    killed = False

    def goal(controller: Controller) -> bool:
        nonlocal killed
        if of_size(2)(controller) and not killed:
            killed = True
            os.kill(mortal.parent_pid, signal.SIGKILL)
            controller.processes[controller.view.members[1]].kill()
        return killed and of_size(2, generation=2)(controller)

    watched.run(goal)
    mortal.close()
    assert any("w1 ended with -9" in line for line in watched.controller.journal)
    watched.check(losses)


def test_every_resize_changes_its_mind_half_way(
    nursery: WorkerPool, losses: list[float], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, "", workers=1)
    wishes = iter([3, 1, 4, 2, 4, 1, 3, 2])

    def goal(controller: Controller) -> bool:
        busy = controller.view.pending is not None or controller.view.target != len(controller.view.members)
        if controller.view.generation and (busy or controller.view.generation == 1):
            wish = next(wishes, None)
            if wish is not None:
                controller.resize(wish)
        return next(wishes, None) is None and of_size(controller.view.target)(controller)

    watched.run(goal)
    assert set(watched.check(losses).attempts.values()) == {1}, "a resize is not a retry"
