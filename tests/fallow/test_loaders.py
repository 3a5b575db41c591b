"""A loader's own way to choose samples is followed, or refused: never other samples than torch would read."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from fallow.data.adapters import Asked, take_in  # noqa: E402
from fallow.data.batch_plan import BatchPlan  # noqa: E402
from fallow.data.feed import Feed  # noqa: E402
from fallow.errors import DataError  # noqa: E402
from fallow.types import Recipe  # noqa: E402

pytestmark = pytest.mark.quick

BATCH = 4


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, length: int):
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class FirstHalf:
    """A batch sampler of a script's own."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1, 2, 3], [4, 5, 6, 7]])

    def __len__(self) -> int:
        return 2


class Buckets(BatchSampler):
    """One that inherits torch's."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[3, 2, 1], [0]])


class Backwards(SequentialSampler):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7, -1, -1))


class Seeded(RandomSampler):
    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(20, generator=torch.Generator().manual_seed(3)).tolist())


DATA = Numbers(20)


def epoch(source: Any, **asked: Any) -> list[int]:
    """What a training reads in one epoch, in its order."""
    intake = take_in(source, Asked(**asked), BATCH, 0, 0)
    steps = intake.order.steps_per_epoch
    feed, cut = Feed(intake, steps, None), BatchPlan(recipe=Recipe(global_batch=BATCH, max_micro_batch=BATCH))
    read = [feed.fetch(piece).tolist() for step in range(steps) for piece in feed.open(cut, step)[1]]
    return [sample for micro in read for sample in micro]


UNFOLLOWED: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (lambda: {"batch_sampler": FirstHalf()}, "FirstHalf"),
    (lambda: {"batch_sampler": Buckets(SequentialSampler(DATA), 4, False)}, "Buckets"),
    (lambda: {"batch_sampler": BatchSampler(Backwards(DATA), 4, False)}, "Backwards"),
    (lambda: {"sampler": RandomSampler(DATA, num_samples=8)}, "RandomSampler of 8 out of 20 samples"),
    (lambda: {"sampler": RandomSampler(DATA, num_samples=40)}, "RandomSampler of 40 out of 20 samples"),
    (
        lambda: {"sampler": RandomSampler(DATA, replacement=True, num_samples=40)},
        "RandomSampler with replacement",
    ),
    (lambda: {"sampler": RandomSampler(Numbers(8))}, "RandomSampler of 8 out of 20 samples"),
    (
        lambda: {"sampler": RandomSampler(Numbers(8), num_samples=20)},
        "RandomSampler of 8 out of 20 samples",
    ),
    (lambda: {"sampler": SequentialSampler(Numbers(8))}, "SequentialSampler of 8 out of 20 samples"),
    (lambda: {"sampler": Backwards(DATA)}, "Backwards"),
    (lambda: {"sampler": Seeded(DATA)}, "Seeded"),
    (lambda: {"sampler": [5, 3, 1]}, "list"),
    (lambda: {"sampler": torch.utils.data.WeightedRandomSampler([1.0] * 20, 20)}, "WeightedRandomSampler"),
]


@pytest.mark.parametrize(("options", "name"), UNFOLLOWED, ids=[name for _, name in UNFOLLOWED])
def test_a_sampler_that_a_resize_cannot_follow_is_refused(
    options: Callable[[], dict[str, Any]], name: str
) -> None:
    loader: DataLoader[Any] = DataLoader(DATA, **options())
    refused = f"draws samples with {name}, which a resize cannot follow. Pass order="
    with pytest.raises(DataError, match=refused):
        take_in(loader, Asked(), BATCH, 0, 0)
    with pytest.raises(DataError, match=refused):  # it says which samples, not only in which order
        take_in(loader, Asked(shuffle=True), BATCH, 0, 0)
    assert epoch(loader, order=lambda epoch: range(7, -1, -1)) == [7, 6, 5, 4, 3, 2, 1, 0]


FOLLOWED: list[tuple[str, Callable[[], dict[str, Any]], bool]] = [
    ("nothing", dict, False),
    ("shuffle", lambda: {"shuffle": True}, True),
    ("sequential", lambda: {"sampler": SequentialSampler(DATA)}, False),
    ("random", lambda: {"sampler": RandomSampler(DATA)}, True),
    ("random of all", lambda: {"sampler": RandomSampler(DATA, num_samples=20)}, True),
    ("random over the indices", lambda: {"sampler": RandomSampler(range(20))}, True),
    ("batches", lambda: {"batch_sampler": BatchSampler(RandomSampler(DATA), 5, False)}, True),
]


@pytest.mark.parametrize(("name", "options", "shuffled"), FOLLOWED, ids=[name for name, *_ in FOLLOWED])
def test_torchs_own_samplers_over_the_whole_data_set_are_followed(
    name: str, options: Callable[[], dict[str, Any]], shuffled: bool
) -> None:
    loader: DataLoader[Any] = DataLoader(DATA, **options())
    read = epoch(loader)
    assert sorted(read) == list(range(20))
    assert (read != list(range(20))) == shuffled
    assert epoch(loader, shuffle=False) == list(range(20))


def test_the_rest_that_a_batch_sampler_drops_is_dropped() -> None:
    loader: DataLoader[Any] = DataLoader(
        Numbers(22), batch_sampler=BatchSampler(RandomSampler(Numbers(22)), BATCH, drop_last=True)
    )
    assert len(epoch(loader)) == 20
    assert sorted(epoch(loader, drop_last=False)) == list(range(22))
    assert len(epoch(DataLoader(Numbers(22), batch_size=BATCH, drop_last=True))) == 20


class Batches(Numbers):
    def __getitem__(self, index: int) -> Any:
        return torch.arange(4 * index, 4 * index + 4)


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[Any]:
        return iter(torch.arange(20).split(4))


@pytest.mark.parametrize("data", [Batches(5), Stream()], ids=["indexed", "stream"])
def test_a_loader_of_ready_batches_is_refused(data: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        loader: DataLoader[Any] = DataLoader(data, batch_size=None)
    with pytest.raises(DataError, match=r"the loader has batch_size=None.*cannot be cut"):
        take_in(loader, Asked(), BATCH, 0, 0)
