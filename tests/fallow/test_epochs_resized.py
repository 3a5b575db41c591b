"""Epochs and evaluations of trainings that are resized and lose workers: nobody does an epoch's end twice."""

import functools
import logging
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.process_group.collectives import Group, GroupBroken  # noqa: E402
from fallow.side_sums import SideSums  # noqa: E402
from fallow.state.progress import Progress  # noqa: E402
from tests.fallow.crew import SEEDING, Outcome, Run, network, run, task  # noqa: E402
from tests.fallow.devices import NAME, moved  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick
nn = torch.nn
EPOCHS, SAMPLES, BATCH = 5, 90, 24  # 4 steps an epoch, the last of 18 samples
HELD_OUT = task(37, seed=2)


class Killed(Exception):
    """What ends a worker in the midst of an evaluation."""


class Diary:
    """What each worker did. In the evaluation of an epoch that is in ``die``, whoever has that rank dies; the
    steps in ``hold`` wait for a change that was asked for, so that it comes right behind them.
    """

    def __init__(self, die: Mapping[int, int] | None = None, hold: Collection[int] = ()):
        self.lines: dict[int, list[tuple[Any, ...]]] = {}
        self._die, self._hold = dict(die or {}), set(hold)
        self._lock = threading.Lock()

    def train(self, environment: Mapping[str, str], outcome: Outcome) -> None:
        """A training as a user would write it, with a schedule by epoch, evaluation and a best value."""
        with SEEDING:
            model = moved(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        lines = self.lines.setdefault(id(outcome), [])
        trainer = fallow.connect(NAME, environment=environment).elastic(
            model, optimizer, global_batch=BATCH, max_micro_batch=7, state={"schedule": schedule}
        )

        def metric(batch: Any) -> dict[str, Any]:
            x, y = batch
            with self._lock:
                dies = self._die.get(trainer.epoch) == trainer.rank
                if dies:
                    del self._die[trainer.epoch]
            if dies:
                trainer._seat.group.abort()  # as the system does for one that is killed
                raise Killed
            scores = model(x.to(NAME))
            return {
                "loss": nn.functional.cross_entropy(scores, y.to(NAME), reduction="none"),
                "right": (scores.argmax(1) == y.to(NAME)).sum(),
            }

        for epoch in trainer.epochs(EPOCHS):
            lines.append(("enters", epoch, trainer.next_step))
            for step, batches in trainer.steps(task(SAMPLES)):
                for x, y in batches:
                    trainer.backward(nn.functional.cross_entropy(model(x.to(NAME)), y.to(NAME)))
                while step in self._hold and trainer.rank == 0 and not trainer._seat.flag():
                    time.sleep(0.001)
                done = trainer.step()
                if done is not None:
                    outcome.steps.append(done)
            found = trainer.evaluate(HELD_OUT, metric, batch=5)
            assert found.samples == 37
            lines.append(
                ("ends", epoch, found.mean("loss"), found.sums["right"], optimizer.param_groups[0]["lr"])
            )
            schedule.step()
        outcome.parameters = {name: value.cpu().clone() for name, value in model.state_dict().items()}


def ends(diary: Diary) -> list[dict[int, tuple[float, ...]]]:
    """Of each worker, what it found at the end of each epoch. Raises where it ended one twice."""
    told = []
    for lines in diary.lines.values():
        found = [(line[1], line[2:]) for line in lines if line[0] == "ends"]
        assert [epoch for epoch, _ in found] == sorted({epoch for epoch, _ in found}), found
        told.append(dict(found))
    return told


def alone() -> dict[int, tuple[float, ...]]:
    diary = Diary()
    diary.train({}, Outcome())
    (found,) = ends(diary)
    return found


def check(diary: Diary, ran: Run) -> None:
    """Every epoch's end is the one of a training alone, in each worker that was there."""
    assert ran.exit_code == 0, ran.journal
    expected = alone()
    assert set(expected) == set(range(EPOCHS))
    told = ends(diary)
    assert {epoch for found in told for epoch in found} == set(range(EPOCHS))
    for found in told:
        for epoch, values in found.items():
            assert values == pytest.approx(expected[epoch], rel=1e-12), epoch
            same = [other[epoch] for other in told if epoch in other]
            assert all(each == same[0] for each in same), "all workers found the same bits"


def test_joiners_enter_the_epoch_that_the_others_are_in_and_end_no_earlier_one() -> None:
    """Behind its last step as well: they end it with the others, on the state of before its end."""
    diary = Diary(hold={3, 7, 12, 15})
    ran = run(diary.train, 1, {2: 2, 6: 3, 11: 1, 14: 2})
    check(diary, ran)
    entered = [lines[0] for lines in diary.lines.values()]
    assert sorted(entered) == [("enters", 0, 0), ("enters", 0, 4), ("enters", 1, 8), ("enters", 3, 16)]
    first = {lines[0][2]: [line[1] for line in lines if line[0] == "ends"] for lines in diary.lines.values()}
    assert first[0] == [0, 1, 2, 3, 4]
    assert first[8][0] == 1, "it came behind the last step of epoch 1, and ended it"
    assert first[16] == [3, 4]


@pytest.mark.parametrize("dying", [{1: 1}, {0: 0}, {1: 0, 3: 1}])
def test_an_evaluation_whose_worker_dies_counts_each_sample_once(dying: dict[int, int]) -> None:
    diary = Diary(dying)
    ran = run(diary.train, 3)
    assert sum(isinstance(outcome.error, Killed) for outcome in ran.outcomes) == len(dying)
    check(diary, ran)


def test_a_joiner_of_a_loop_over_loops_is_told_that_it_repeats_what_lies_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And a joiner of a single loop, or of ``epochs``, is told nothing."""

    def train(environment: Mapping[str, str], outcome: Outcome, loops: int = 4) -> None:
        with SEEDING:
            model = moved(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        trainer = fallow.connect(NAME, environment=environment).elastic(
            model, optimizer, global_batch=BATCH, max_micro_batch=7
        )
        for loop in range(loops):
            for step, batches in trainer.steps(task(SAMPLES), epochs=4 * (loop + 1) // loops):
                for x, y in batches:
                    trainer.backward(nn.functional.cross_entropy(model(x.to(NAME)), y.to(NAME)))
                while step == 9 and trainer.rank == 0 and not trainer._seat.flag():
                    time.sleep(0.001)
                done = trainer.step()
                if done is not None:
                    outcome.steps.append(done)
        outcome.parameters = {}

    assert run(train, 1, {8: 2}).exit_code == 0
    told = [text for text in map(logging.LogRecord.getMessage, caplog.records) if "its first loop" in text]
    assert len(told) == 1
    assert "joined at step 10, behind its first loop over steps()" in told[0]
    caplog.clear()
    assert run(functools.partial(train, loops=1), 1, {8: 2}).exit_code == 0
    assert "its first loop" not in caplog.text


class Seats:
    """A seat whose first group breaks for some of its workers; all come into the second one."""

    def __init__(self, first: Group, second: Group, sums: SideSums):
        self.group, self._second, self._sums = first, second, sums
        self.recovered = 0

    def prove(self) -> None: ...

    def recover(self) -> None:
        self.group = self._second
        self.recovered += 1
        self._sums.meet(self.group)


class Broken:
    """A group in which nothing arrives."""

    rank, world_size = 0, 3

    def all_reduce(self, buffers: Any) -> None:
        raise GroupBroken("somebody died")


def test_who_lacks_a_sum_that_others_have_is_given_it_and_none_is_taken_twice() -> None:
    """Rank 0 has it and is in the next step, where it finds the group broken; 1 and 2 were waiting for it."""

    def work(group: Group) -> object:
        progress = Progress()
        sums = SideSums(progress, CPU)
        asked = []
        if group.rank == 0:
            progress.sums, progress.last = 1, [6.5, 7.0]
            seat = Seats(group, group, sums)
            seat.recover()
            first = list(progress.last)
        else:
            seat = Seats(Broken(), group, sums)  # type: ignore[arg-type]
            first = sums.sum(seat, lambda: "x", lambda group: asked.append(1) or [1.0, 2.0])  # type: ignore[func-returns-value]
        second = sums.sum(seat, lambda: "y", lambda group: [float(group.rank)])
        return first, second, progress.sums, seat.recovered, len(asked)

    told = together(3, work)
    assert told == [([6.5, 7.0], [3.0], 2, 1, 0), *[([6.5, 7.0], [3.0], 2, 1, 1)] * 2]


def test_a_sum_that_nobody_has_is_taken_again_by_who_is_left() -> None:
    def work(group: Group) -> object:
        sums = SideSums(Progress(), CPU)
        seat = Seats(Broken(), group, sums)  # type: ignore[arg-type]
        found = sums.sum(seat, lambda: "x", lambda group: [float(group.world_size), 1.0])
        return found, seat.recovered

    assert together(2, work) == [([4.0, 2.0], 1)] * 2


def test_where_nobody_mends_a_group_the_sum_fails_as_a_step_does() -> None:
    class Fixed(Seats):
        def recover(self) -> None:
            raise GroupBroken("no controller")

    with pytest.raises(GroupBroken, match="no controller"):
        sums = SideSums(Progress(), CPU)
        sums.sum(Fixed(Broken(), Broken(), sums), lambda: "x", lambda group: [1.0])  # type: ignore[arg-type]
