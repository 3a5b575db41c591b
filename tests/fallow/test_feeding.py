"""Every sample of an epoch is read exactly once, whatever the resizes, by any process, from any source."""

import contextlib
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402

from fallow.data import prefetch  # noqa: E402
from fallow.data.adapters import Asked, take_in  # noqa: E402
from fallow.data.batch_plan import BatchPlan  # noqa: E402
from fallow.data.feed import Feed  # noqa: E402
from fallow.errors import DataError  # noqa: E402
from fallow.types import Recipe  # noqa: E402
from tests.fallow.weights import costs_of  # noqa: E402


class Numbers:
    """A map-style data set whose samples are their own indices."""

    def __init__(self, length: int, delay_s: float = 0.0):
        self.length, self.delay_s = length, delay_s

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.length:
            raise IndexError(index)
        time.sleep(self.delay_s)
        return index


class Counting(IterableDataset):  # type: ignore[type-arg]
    """A stream that shares itself out over loader processes, as many do, and can only be read on."""

    def __init__(self, length: int):
        self.length, self.epoch = length, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        inside = get_worker_info()
        first, step = (0, 1) if inside is None else (inside.id, inside.num_workers)
        return iter(range(1000 * self.epoch + first, 1000 * self.epoch + self.length, step))


class Skipping(Counting):
    """One whose data set skips: it gives another that begins later."""

    def __init__(self, length: int, first: int = 0):
        super().__init__(length)
        self.first = first

    def skip(self, count: int) -> "Skipping":
        other = Skipping(self.length, self.first + count)
        other.set_epoch(self.epoch)
        return other

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(super().__iter__(), self.first, None)


class Leaping(Counting):
    """One whose iterator skips."""

    def __iter__(self) -> Iterator[int]:
        return Leaper(1000 * self.epoch, 1000 * self.epoch + self.length)


class Leaper:
    def __init__(self, position: int, end: int):
        self.position, self.end, self.read = position, end, 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.position >= self.end:
            raise StopIteration
        self.position, self.read = self.position + 1, self.read + 1
        return self.position - 1

    def skip(self, count: int) -> None:
        self.position += count


World = tuple[int, tuple[float, ...] | None]
"""A world size, and the weights of its ranks."""


def recipe(global_batch: int, cap: int, deterministic: bool = False) -> Recipe:
    return Recipe(global_batch=global_batch, max_micro_batch=cap, deterministic=deterministic)


def read(
    source: Any, asked: Asked, recipe: Recipe, worlds: list[World], feeds: dict[int, Feed] | None = None
) -> list[list[list[int]]]:
    """For each step, in the world it is taken in: all ranks' micro-batches, as read by each rank's feed."""
    feeds = {} if feeds is None else feeds
    steps = []
    for step, (world, weights) in enumerate(worlds):
        of_step = []
        for rank in range(world):
            if rank not in feeds:  # a joiner: it begins here
                feeds[rank] = Feed(take_in(source, asked, recipe.global_batch, 0, 0), len(worlds), None)
            cut = BatchPlan(recipe=recipe, world_size=world, rank=rank, costs=costs_of(weights))
            _, pieces = feeds[rank].open(cut, step)
            of_step += [torch.as_tensor(feeds[rank].fetch(piece)).tolist() for piece in pieces]
        steps.append(of_step)
    for feed in feeds.values():
        feed.close()
    return steps


def flat(of_step: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(of_step))


@st.composite
def trainings(draw: st.DrawFn) -> tuple[int, Recipe, list[World], bool]:
    length = draw(st.integers(1, 60))
    global_batch = draw(st.integers(1, 40))
    asked = recipe(global_batch, draw(st.integers(1, 40)), draw(st.booleans()))
    worlds: list[World] = []
    for _ in range(draw(st.integers(1, 12))):
        size = draw(st.integers(1, 6))
        weights = draw(st.none() | st.lists(st.floats(0.1, 10), min_size=size, max_size=size).map(tuple))
        worlds.append((size, weights))
    return length, asked, worlds, draw(st.booleans())


def check(
    steps: list[list[list[int]]], length: int, asked: Recipe, number: Any = lambda sample: sample
) -> None:
    """The rules, from what was read: the cap, the sizes of steps, and each sample once an epoch."""
    per_epoch = -(-length // asked.global_batch)
    for at, of_step in enumerate(steps):
        assert all(1 <= len(micro) <= asked.max_micro_batch for micro in of_step)
        first = (at % per_epoch) * asked.global_batch
        assert sum(map(len, of_step)) == min(asked.global_batch, length - first)
    for start in range(0, len(steps), per_epoch):
        epoch = steps[start : start + per_epoch]
        seen = Counter(number(sample) for of_step in epoch for micro in of_step for sample in micro)
        assert max(seen.values()) == 1
        if len(epoch) == per_epoch:
            assert set(seen) == set(range(length))


@given(trainings())
@settings(deadline=None)
def test_each_sample_of_an_epoch_is_read_once_under_any_schedule_of_resizes(
    case: tuple[int, Recipe, list[World], bool],
) -> None:
    length, asked, worlds, shuffle = case
    steps = read(Numbers(length), Asked(shuffle=shuffle), asked, worlds)
    check(steps, length, asked)
    fixed = read(Numbers(length), Asked(shuffle=shuffle), asked, [(1, None)] * len(worlds))
    assert [flat(of_step) for of_step in steps] == [flat(of_step) for of_step in fixed]
    if asked.deterministic:
        assert steps == fixed  # the very same pieces


@given(trainings(), st.sampled_from([Counting, Skipping, Leaping]))
@settings(deadline=None, max_examples=50)
def test_a_stream_gives_each_sample_once_however_it_skips(
    case: tuple[int, Recipe, list[World], bool], kind: type[Counting]
) -> None:
    length, asked, worlds, _ = case
    steps = read(kind(length), Asked(samples_per_epoch=length), asked, worlds)
    check(steps, length, asked, lambda sample: sample % 1000)
    per_epoch = -(-length // asked.global_batch)
    for at, of_step in enumerate(steps):
        first = (at % per_epoch) * asked.global_batch
        wanted = [1000 * (at // per_epoch) + n for n in range(first, min(first + asked.global_batch, length))]
        assert flat(of_step) == wanted


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("source", [Numbers(97), Counting(97), Leaping(97)], ids=lambda s: type(s).__name__)
def test_loader_processes_read_the_same_through_many_resizes(source: Any, deterministic: bool) -> None:
    chance = random.Random(5)
    worlds: list[World] = []
    while len(worlds) < 60:
        world = chance.randint(1, 4)
        weights = tuple(chance.uniform(0.5, 2) for _ in range(world)) if chance.random() < 0.3 else None
        worlds += [(world, weights)] * chance.randint(1, 5)
    length = None if isinstance(source, Numbers) else 97
    ahead = read(source, Asked(workers=2, samples_per_epoch=length), recipe(20, 3, deterministic), worlds)
    direct = read(source, Asked(samples_per_epoch=length), recipe(20, 3, deterministic), worlds)
    assert ahead == direct


def test_what_was_read_ahead_is_used_after_a_resize_if_it_is_still_wanted(tmp_path: Path) -> None:
    source = Noting(40, tmp_path / "read")
    worlds: list[World] = [(1, None)] * 2 + [(2, None)] * 2
    steps = read(source, Asked(workers=1, prefetch=4), recipe(10, 2, deterministic=True), worlds)
    check(steps, 40, recipe(10, 2))
    reads = Counter((tmp_path / "read").read_text().split())
    twice = sum(count - 1 for count in reads.values())
    # Of four pieces that rank 0 had under way when it shrank to three of five, only rank 1's are read again.
    assert 0 < twice <= 2 * 2 + 2 * 2


class Noting(Numbers):
    def __init__(self, length: int, path: Path):
        super().__init__(length)
        self.path = path

    def __getitem__(self, index: int) -> int:
        with self.path.open("a") as file:
            file.write(f"{index}\n")
        return super().__getitem__(index)


def test_a_step_that_is_taken_again_reads_its_samples_again() -> None:
    asked = Asked(workers=1)
    feed = Feed(take_in(Numbers(40), asked, 10, 0, 0), 4, None)
    cut = BatchPlan(recipe=recipe(10, 4))
    first = [feed.fetch(piece).tolist() for piece in feed.open(cut, 1)[1]]
    again = [feed.fetch(piece).tolist() for piece in feed.open(cut, 1)[1]]
    feed.close()
    assert first == again


def test_half_a_step_left_unread_does_not_disturb_the_next() -> None:
    feed = Feed(take_in(Numbers(40), Asked(workers=2), 10, 0, 0), 4, None)
    alone, wide = BatchPlan(recipe=recipe(10, 2)), BatchPlan(recipe=recipe(10, 2), world_size=3, rank=2)
    feed.fetch(feed.open(alone, 0)[1][0])
    got = [feed.fetch(piece).tolist() for piece in feed.open(wide, 0)[1]]
    got += [feed.fetch(piece).tolist() for piece in feed.open(alone, 1)[1]]
    feed.close()
    direct = Feed(take_in(Numbers(40), Asked(), 10, 0, 0), 4, None)
    wanted = [direct.fetch(piece).tolist() for piece in direct.open(wide, 0)[1]]
    wanted += [direct.fetch(piece).tolist() for piece in direct.open(alone, 1)[1]]
    assert got == wanted


class Opened(Numbers):
    """How often a file is open in the process that reads."""

    def __init__(self, path: str) -> None:
        super().__init__(2)
        self.path = path

    def __getitem__(self, index: int) -> int:
        opened = 0
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone
            with contextlib.suppress(OSError):
                opened += os.readlink(f"/proc/self/fd/{number}") == self.path  # noqa: PTH115
        return opened


def test_of_a_loader_all_but_the_batch_size_is_taken() -> None:
    loader: DataLoader[Any] = DataLoader(
        Numbers(30),
        batch_size=4,
        collate_fn=lambda rows: [-row for row in rows],
        num_workers=1,
        drop_last=True,
    )
    steps = read(loader, Asked(), recipe(20, 7), [(1, None)] * 2)
    assert steps == [[[-n for n in range(7)], [-n for n in range(7, 14)], [-n for n in range(14, 20)]]] * 2
    shuffled: DataLoader[Any] = DataLoader(Numbers(30), shuffle=True)
    (of_step,) = read(shuffled, Asked(), recipe(30, 30), [(1, None)])
    assert of_step[0] != list(range(30))
    assert sorted(of_step[0]) == list(range(30))


def test_code_in_loader_processes_sees_its_own_data_set_and_process(tmp_path: Path) -> None:
    def note(worker: int) -> None:
        inside = get_worker_info()
        (tmp_path / str(worker)).write_text(
            f"{type(inside.dataset).__name__} {inside.num_workers} {os.getpid()}"
        )

    feed = Feed(take_in(Numbers(30), Asked(workers=2, worker_init=note), 20, 0, 0), 1, None)
    feed.fetch(feed.open(BatchPlan(recipe=recipe(20, 5)), 0)[1][0])
    feed.close()
    noted = [(tmp_path / name).read_text().split() for name in ("0", "1")]
    assert [words[:2] for words in noted] == [["Numbers", "2"]] * 2
    assert os.getpid() not in [int(words[2]) for words in noted]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_loader_processes_let_go_of_the_gpus_they_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """While one has it open, the driver keeps the memory of a worker that died."""
    device = tmp_path / "nvidia0"
    monkeypatch.setattr(prefetch, "GPU_DEVICES", str(tmp_path / "nvidia"))
    with device.open("w") as held:
        loader: DataLoader[Any] = DataLoader(
            Opened(str(device)), num_workers=1, multiprocessing_context=method
        )
        (of_step,) = read(loader, Asked(shuffle=False), recipe(2, 2), [(1, None)])
        assert of_step == [[0, 0]], "none is open in the loader's process"
        os.fstat(held.fileno())  # and here it still is


def test_many_at_once_are_asked_for_where_the_data_set_can() -> None:
    class Bulk(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [100 + index for index in indices]

    (of_step,) = read(Bulk(9), Asked(shuffle=False), recipe(9, 9), [(1, None)])
    assert of_step == [[100 + n for n in range(9)]]


def test_a_stream_is_not_read_where_it_can_leap() -> None:
    source = Leaping(1_000)
    feed = Feed(take_in(source, Asked(samples_per_epoch=1000), 100, 0, 0), 10, None)
    cut = BatchPlan(recipe=recipe(100, 10), world_size=10, rank=7)
    for step in range(10):
        (piece,) = feed.open(cut, step)[1]
        assert feed.fetch(piece).tolist() == list(range(100 * step + 70, 100 * step + 80))
    reader: Any = feed._supply._reader  # type: ignore[attr-defined]
    assert reader._iterator.read == 100


BAD: list[tuple[Any, Asked, str]] = [
    (Numbers(0), Asked(), "0 samples gives no global batch"),
    (Numbers(5), Asked(drop_last=True), "drop_last drops the only one"),
    (3.5, Asked(), "float can be neither indexed"),
    (Numbers(20), Asked(samples_per_epoch=3), "a length of its own"),
    (Counting(20), Asked(shuffle=True), "a stream is read in its own order"),
    (Numbers(20), Asked(workers=-1), "at least 0 processes"),
    (Numbers(20), Asked(workers=1, prefetch=0), "at least 0 processes"),
    (
        DataLoader(Numbers(20), sampler=torch.utils.data.SubsetRandomSampler(range(5))),
        Asked(),
        "SubsetRandomSampler, which a resize cannot follow. Pass order=",
    ),
]


@pytest.mark.parametrize(("source", "asked", "message"), BAD, ids=[message for *_, message in BAD])
def test_what_cannot_be_trained_on_is_said(source: Any, asked: Asked, message: str) -> None:
    with pytest.raises((DataError, ValueError), match=message):
        take_in(source, asked, 10, 0, None)


def test_a_data_set_that_shrinks_is_said() -> None:
    source = Numbers(40)
    feed = Feed(take_in(source, Asked(shuffle=False), 10, 0, 0), 4, None)
    source.length = 13
    cut = BatchPlan(recipe=recipe(10, 10))
    feed.fetch(feed.open(cut, 0)[1][0])
    with pytest.raises(DataError, match=r"samples up to 19, but the data set has 13 now and had 40"):
        feed.fetch(feed.open(cut, 1)[1][0])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_ends_early_is_said(workers: int) -> None:
    feed = Feed(take_in(Counting(25), Asked(workers=workers), 10, 0, 0), 10, None)
    cut = BatchPlan(recipe=recipe(10, 10))
    for step in (0, 1):
        feed.fetch(feed.open(cut, step)[1][0])
    with pytest.raises(DataError, match=r"ended at sample 25 of epoch 0; step 2 needs 5 more"):
        feed.fetch(feed.open(cut, 2)[1][0])
    feed.close()


def test_an_order_of_another_length_is_said() -> None:
    asked = Asked(order=lambda epoch: list(range(20 + epoch)))
    feed = Feed(take_in(Numbers(40), asked, 10, 0, 0), 10, None)
    with pytest.raises(DataError, match=r"order\(1\) gave 21 indices where order\(0\) gave 20"):
        feed.open(BatchPlan(recipe=recipe(10, 10)), 2)


def test_an_error_in_the_data_set_is_the_users_own(tmp_path: Path) -> None:
    class Broken(Numbers):
        def __getitem__(self, index: int) -> int:
            raise OSError(f"cannot read image {index}")

    for workers in (0, 1):
        feed = Feed(take_in(Broken(40), Asked(workers=workers), 10, 0, 0), 10, None)
        with pytest.raises(OSError, match="cannot read image"):
            feed.fetch(feed.open(BatchPlan(recipe=recipe(10, 10)), 0)[1][0])
        feed.close()


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
@pytest.mark.parametrize("workers", [0, 1])
def test_asking_for_pinned_memory_where_there_is_no_gpu_changes_nothing(workers: int) -> None:
    worlds: list[World] = [(1, None)] * 2 + [(2, None)] * 2
    asked = Asked(workers=workers, pin_memory=True)
    assert read(Numbers(40), asked, recipe(10, 3), worlds) == read(
        Numbers(40), Asked(), recipe(10, 3), worlds
    )


def test_loader_processes_may_be_spawned_instead_of_forked() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(30))
    loader: DataLoader[Any] = DataLoader(data, num_workers=1, multiprocessing_context="spawn")
    feed = Feed(take_in(loader, Asked(), 10, 0, 0), 3, None)
    cut = BatchPlan(recipe=recipe(10, 10))
    got = [feed.fetch(feed.open(cut, step)[1][0])[0].tolist() for step in range(3)]
    feed.close()
    assert got == [list(range(first, first + 10)) for first in (0, 10, 20)]
