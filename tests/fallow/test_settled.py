"""Whoever has read a number that hangs on a sum asks whether the group was aborted before believing it.

With gloo that is nothing, so only these tests show where it was forgotten; over NCCL it is all that keeps
garbage from being taken for a sum.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.gradients.overlapped import Plain  # noqa: E402
from fallow.gradients.reducer import MARKS, Local, check_whole  # noqa: E402
from fallow.process_group.collectives import Alone, GroupBroken  # noqa: E402
from fallow.side_sums import SideSums  # noqa: E402
from fallow.state.progress import Progress  # noqa: E402

pytestmark = pytest.mark.quick

CPU = torch.device("cpu")


class Noting(Alone):
    """Workers of which the others add nothing; what is asked of the group, in order."""

    def __init__(self, world_size: int = 1) -> None:
        self.world_size = world_size
        self.asked: list[str] = []

    def all_reduce(self, buffers: Sequence[torch.Tensor]) -> None:
        self.asked.append("sum")

    def start_all_reduce(self, buffer: torch.Tensor) -> Any:
        self.asked.append("sum")
        return super().start_all_reduce(buffer)

    def settle(self) -> None:
        self.asked.append("settle")


class Aborted(Noting):
    def settle(self) -> None:
        raise GroupBroken("this group was aborted")


class Seat:
    """A place in a group that nobody mends."""

    def __init__(self, group: Alone):
        self.group = group

    def prove(self) -> None: ...

    def recover(self) -> None:
        raise GroupBroken("nobody mends it")


def test_marks_that_fit_are_not_enough_where_the_group_was_aborted() -> None:
    """What was left in the buffer can be just what was hoped for."""
    check_whole(Noting(), 8.0, 8.0)
    with pytest.raises(GroupBroken, match="was aborted"):
        check_whole(Aborted(), 8.0, 8.0)


def test_two_steps_that_follow_each_other_have_other_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the sum of the step before, left in the buffer by an abort, would pass for this one's."""
    marks: list[int] = []
    finish = Local.finish

    def noting(self: Local, blocks: Any, notes: Any, mark: int = 1) -> Any:
        marks.append(mark)
        return finish(self, blocks, notes, mark)

    monkeypatch.setattr(Local, "finish", noting)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = fallow.connect(environment={}).elastic(model, optimizer, global_batch=2, max_micro_batch=2)
    for _, batches in trainer.steps([torch.ones(2)] * 4, 5):
        for batch in batches:
            trainer.backward(model(batch).sum())
        trainer.step()
    assert len(marks) == 5
    assert all(before != after for before, after in itertools.pairwise(marks))
    assert all(1 <= mark <= MARKS for mark in marks)


def test_gradients_that_are_summed_by_themselves_are_looked_after_as_well() -> None:
    """Sparse ones are summed after the others, which were found whole already."""
    group = Noting()
    model = torch.nn.Embedding(4, 2, sparse=True)
    reducer = Plain(model, group, 0)
    reducer.begin()
    reducer.begin_micro_batch(True)
    loss = model(torch.tensor([1, 2])).sum()
    loss.backward()
    reducer.end_micro_batch(0, 1.0, loss.detach(), None)
    reducer.finish([(0, 1)], [], 5)
    whole = group.asked.index("settle")
    assert "sum" in group.asked[whole:], "nothing was summed by itself, so this shows nothing"
    assert group.asked[-1] == "settle"


def test_each_sum_beside_the_steps_is_asked_about_before_it_counts() -> None:
    group = Noting()
    sums = SideSums(Progress(), CPU)
    assert sums.sum(Seat(group), lambda: "evaluate()", lambda _: [1.5, 2.0]) == [1.5, 2.0]
    assert group.asked == ["sum", "settle"] * 2, "whether all sum the same, and the sum"


def test_a_sum_beside_the_steps_is_not_had_from_an_aborted_group() -> None:
    progress = Progress()
    with pytest.raises(GroupBroken):
        SideSums(progress, CPU).sum(Seat(Aborted()), lambda: "evaluate()", lambda _: [1.5])
    assert (progress.sums, list(progress.last)) == (0, [])


def test_what_survivors_lack_is_asked_about_before_it_counts() -> None:
    progress = Progress()
    progress.sums, progress.last = 1, [4.0]
    group = Noting(world_size=2)
    SideSums(progress, CPU).meet(group)
    assert group.asked == ["sum", "settle"] * 2, "how many each has, and the one that somebody lacks"
    assert (progress.sums, progress.last) == (1, [4.0])
