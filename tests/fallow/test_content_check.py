"""Workers that have other samples at the same places are told so, and who hasn't is not."""

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import numpy  # noqa: E402
from torch.utils.data import Dataset, IterableDataset  # noqa: E402

import fallow  # noqa: E402
from fallow.data.content_check import _hash_of  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick
nn = torch.nn
OTHERS = "workers have different samples at the same places"
AGAIN = "the stream gave other samples when it was read again"
LENGTH = 24


class Items(Dataset[Any]):
    """A data set of what ``item`` gives for an index."""

    def __init__(self, item: Callable[[int], Any], length: int = LENGTH):
        self._item, self._length, self.reads = item, length, 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        self.reads += 1
        return self._item(index)


class Stream(IterableDataset[Any]):
    """A stream of what ``order`` gives each time."""

    def __init__(self, order: Callable[[], list[int]]):
        self._order = order

    def __iter__(self) -> Iterator[Any]:
        return iter([torch.tensor(number) for number in self._order()])


def train(group: Group | None, data: Any, **recipe: Any) -> None:
    model = nn.Linear(1, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    job = Job(None, True, CPU, group)
    trainer = job.elastic(model, optimizer, global_batch=8, max_micro_batch=3, **recipe)
    shuffle = None if isinstance(data, IterableDataset) else False
    for _, batches in trainer.steps(data, 3, shuffle=shuffle):
        for batch in batches:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            trainer.backward(model(x.double().reshape(-1, 1)).square().mean())
        trainer.step()


def told(
    caplog: pytest.LogCaptureFixture, world: int, data: Callable[[int], Any], **recipe: Any
) -> list[str]:
    """What is logged by a training in which each rank has its own data."""
    with caplog.at_level(logging.WARNING, "fallow"):
        ended = together(world, lambda group: train(group, data(group.rank), **recipe))
    assert ended == [None] * world, ended
    return [record.getMessage() for record in caplog.records]


def drawn(index: int) -> Any:
    """Augmented by the global generator, which is keyed to what is computed."""
    return torch.tensor(float(index)), int(torch.randint(1000, ()))


def by_own_generator(index: int) -> Any:
    """Augmented by a generator that nobody seeded."""
    return torch.tensor(float(index)), random.Random().randrange(1 << 30)


@pytest.mark.parametrize("recipe", [{}, {"deterministic": True}])
@pytest.mark.parametrize("world", [2, 3])
def test_a_data_set_that_goes_by_rank_is_told_of_by_each_worker_once(
    world: int, recipe: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    said = told(caplog, world, lambda rank: Items(lambda n: torch.tensor(world * n + rank)), **recipe)
    assert len(said) == world
    assert all(OTHERS in each and each.startswith("step 0: ") for each in said)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(torch.tensor, id="the same"),
        pytest.param(lambda n: torch.tensor(n + random.Random().random()), id="floats are not compared"),
        pytest.param(drawn, id="drawn by the keyed generator"),
        pytest.param(by_own_generator, id="drawn by a generator of its own"),
    ],
)
def test_what_is_right_or_cannot_be_told_is_not_told_of(item: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog, 2, lambda rank: Items(item)) == []


def test_workers_without_samples_and_data_sets_that_cannot_be_read_so_are_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert told(caplog, 5, lambda rank: Items(torch.tensor, 3), deterministic=True) == []

    def read_on(read: set[int]) -> Callable[[int], Any]:
        """One whose last sample can only be read behind the one before, as in a file that is read on."""

        def item(n: int) -> Any:
            assert n < LENGTH - 1 or n - 1 in read
            read.add(n)
            return torch.tensor(n)

        return item

    assert told(caplog, 2, lambda rank: Items(read_on(set()))) == []


class Carried(Items):
    """One that joiners are handed, so what a worker has of it before is nothing to compare."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def test_a_data_set_that_is_handed_over_is_not_compared(caplog: pytest.LogCaptureFixture) -> None:
    data = [Carried(torch.tensor), Carried(lambda n: torch.tensor(n + 1))]
    with caplog.at_level(logging.WARNING, "fallow"):
        ended = together(2, lambda group: train(group, data[group.rank], state={"data": data[group.rank]}))
    assert ended == [None, None]
    assert caplog.records == []


def test_a_stream_that_goes_by_rank_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    said = told(caplog, 2, lambda rank: Stream(lambda: list(range(rank, 2 * LENGTH, 2))))
    assert len(said) == 2
    assert all(OTHERS in each for each in said)


def test_a_stream_that_shuffles_anew_each_time_is_told_of_and_a_seeded_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def shuffled(chance: random.Random) -> Stream:
        return Stream(lambda: chance.sample(range(LENGTH), LENGTH))

    said = told(caplog, 2, lambda rank: shuffled(random.Random()))
    assert len(said) == 2
    assert all(AGAIN in each for each in said)
    caplog.clear()
    assert told(caplog, 2, lambda rank: Stream(lambda: random.Random(3).sample(range(LENGTH), LENGTH))) == []


def test_alone_nothing_is_read_beside_the_steps() -> None:
    data = Items(torch.tensor)
    train(None, data)
    assert data.reads == 3 * 8
    assert fallow.connect(environment={}).is_main


def test_a_hash_is_of_what_is_exact_and_of_the_shapes_of_the_rest() -> None:
    same = [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])),
        (numpy.array([1.0]), numpy.array([1.5])),
        ({"a": [1, "b"]}, {"a": [1, "b"]}),
        (object(), object()),
        (1.5, 2.5),
    ]
    other = [
        (torch.tensor([1, 2]), torch.tensor([2, 1])),
        (torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.tensor([True]), torch.tensor([False])),
        (torch.arange(6).view(2, 3).T, torch.arange(6).view(3, 2)),
        (numpy.array([1]), numpy.array([2])),
        (numpy.array(["a"]), numpy.array(["b"])),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ([1, 2], (1, 2)),
        ("a", b"a"),
        (1, True),
        ([], None),
    ]
    assert all(_hash_of(one) == _hash_of(two) for one, two in same)
    assert all(_hash_of(one) != _hash_of(two) for one, two in other)
    around: list[Any] = []
    around.append(around)
    assert isinstance(_hash_of(around), int)
