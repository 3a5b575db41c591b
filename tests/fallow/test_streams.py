"""A stream is known for one whatever else it has, and its own length is believed until it proves wrong."""

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils.data import ChainDataset, DataLoader, IterableDataset  # noqa: E402

from fallow.data.adapters import Asked, length, take_in  # noqa: E402
from fallow.data.batch_plan import BatchPlan  # noqa: E402
from fallow.data.feed import Feed  # noqa: E402
from fallow.errors import DataError, LoopError  # noqa: E402
from fallow.types import Recipe  # noqa: E402

pytestmark = pytest.mark.quick

BATCH = 4


class Bare(IterableDataset):  # type: ignore[type-arg]
    """A stream of ``real`` samples that knows no length."""

    def __init__(self, real: int):
        self.real = real

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.real))


class Long(Bare):
    """One that says how long it is."""

    def __init__(self, real: int, told: int | None = None):
        super().__init__(real)
        self.told = real if told is None else told

    def __len__(self) -> int:
        return self.told


class Unsaid(Bare):
    """One that has a place for its length, and nothing in it."""

    def __len__(self) -> int:
        raise NotImplementedError


def read(source: Any, steps: int | None = None, epochs: int | None = None, **asked: Any) -> list[list[int]]:
    """What each step of a training reads."""
    intake = take_in(source, Asked(**asked), BATCH, 0, 0)
    until = length(steps, epochs, intake.order)
    feed, cut = Feed(intake, until, None), BatchPlan(recipe=Recipe(global_batch=BATCH, max_micro_batch=BATCH))
    try:
        return [feed.fetch(piece).tolist() for step in range(until) for piece in feed.open(cut, step)[1]]
    finally:
        feed.close()


class Shuffled(IterableDataset):  # type: ignore[type-arg]
    """A stream that draws its order by the global generator when it begins, or with its first sample."""

    def __init__(self, kind: str):
        self.kind, self.first = kind, 0

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[int]:
        return self._lazily() if self.kind == "lazy" else iter(torch.randperm(24).tolist()[self.first :])

    def _lazily(self) -> Iterator[int]:
        yield from torch.randperm(24).tolist()


class Skipping(Shuffled):
    def skip(self, count: int) -> "Skipping":
        rest = Skipping(self.kind)
        rest.first = count
        return rest


@pytest.mark.parametrize(
    "source", [Shuffled("eager"), Shuffled("lazy"), Skipping("eager")], ids=["eager", "lazy", "skip()"]
)
def test_a_stream_that_draws_its_order_has_one_wherever_a_worker_begins(source: Any) -> None:
    """Two workers, and one that joins in the second half: generators stand elsewhere in each."""
    orders = []
    for world, rank, first_step, epoch in (
        (1, 0, 0, 0),
        (2, 0, 0, 0),
        (2, 1, 0, 0),
        (1, 0, 3, 0),
        (1, 0, 6, 1),
    ):
        torch.manual_seed(100 * world + 10 * rank + first_step)
        intake = take_in(source, Asked(), BATCH, 0, 7)
        feed = Feed(intake, 12, 7)
        recipe = Recipe(global_batch=BATCH, max_micro_batch=2)
        cut = BatchPlan(recipe=recipe, world_size=world, rank=rank)
        steps = range(first_step, 6 * epoch + 6)
        orders.append([feed.fetch(piece).tolist() for step in steps for piece in feed.open(cut, step)[1]])
    alone, first, second, late, next_epoch = orders
    assert sorted(sample for piece in alone for sample in piece) == list(range(24))
    assert [each for pair in zip(first, second, strict=True) for each in pair] == alone
    assert late == alone[6:]
    assert next_epoch != alone


TWO_EPOCHS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] * 2


def test_a_stream_with_a_length_is_a_stream_and_has_epochs() -> None:
    assert read(Long(10), epochs=2) == TWO_EPOCHS
    assert read(DataLoader(Long(10), batch_size=4), epochs=2) == TWO_EPOCHS
    assert read(DataLoader(Long(10), batch_size=4, num_workers=2), epochs=2) == TWO_EPOCHS
    assert read(DataLoader(Long(10), batch_size=4, drop_last=True), epochs=1) == TWO_EPOCHS[:2]


def test_streams_in_a_chain_are_a_stream_with_and_without_a_length() -> None:
    chain = ChainDataset([Bare(5), Bare(5)])
    assert read(chain, steps=2) == [[0, 1, 2, 3], [4, 0, 1, 2]]
    with pytest.raises(LoopError, match="this stream has no length"):
        read(chain, epochs=1)
    assert read(ChainDataset([Long(5), Long(5)]), epochs=1) == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]
    assert read(Unsaid(8), steps=2) == TWO_EPOCHS[:2]


def test_a_length_that_is_passed_wins_over_the_streams_own() -> None:
    assert read(Long(10, told=99), epochs=2, samples_per_epoch=10) == TWO_EPOCHS


def test_a_stream_is_not_given_an_order() -> None:
    for asked in ({"shuffle": True}, {"order": lambda epoch: range(10)}):
        with pytest.raises(DataError, match="a stream is read in its own order"):
            read(Long(10), epochs=1, **asked)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_that_is_shorter_than_it_says_is_said(workers: int) -> None:
    told = r"ended at sample 10 of epoch 0, though it says that it has 12.*Pass samples_per_epoch=10"
    with warnings.catch_warnings(action="ignore"), pytest.raises(DataError, match=told):
        read(Long(10, told=12), epochs=1, workers=workers)


def test_a_stream_that_is_longer_than_it_says_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="fallow"):
        assert read(Long(13, told=10), epochs=2) == TWO_EPOCHS
    (record,) = caplog.records
    assert "the stream says that it has 10 samples, but it has more" in record.getMessage()
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="fallow"):
        read(Long(10), epochs=2)
        read(Long(13), epochs=2, samples_per_epoch=10)
        read(Bare(13), epochs=2, samples_per_epoch=10)
    assert not caplog.records


class HuggingFace(Bare):
    """A stream as theirs: what it skips are other samples than those that come first."""

    def skip(self, count: int) -> "HuggingFace":
        return HuggingFace(self.real // 2)


HuggingFace.__module__ = "datasets.iterable_dataset"


def test_a_stream_whose_skip_is_known_to_be_wrong_is_read_instead() -> None:
    intake = take_in(HuggingFace(10), Asked(samples_per_epoch=10), BATCH, 0, 0)
    for rank in (0, 1):
        feed = Feed(intake, 3, None)
        recipe = Recipe(global_batch=BATCH, max_micro_batch=BATCH)
        cut = BatchPlan(recipe=recipe, world_size=2, rank=rank)
        got = [feed.fetch(piece).tolist() for step in range(3) for piece in feed.open(cut, step)[1]]
        assert got == [[[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [9]]][rank]
