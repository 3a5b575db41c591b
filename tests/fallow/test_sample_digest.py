"""That a step was computed of its samples, each once, is checked in every world, before any update."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.data import sample_digest  # noqa: E402
from fallow.data.sample_digest import MODULI, hash_of  # noqa: E402
from fallow.errors import DataError  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick
nn = torch.nn
BATCH = 12


def train(
    group: Group | None,
    steps: int,
    data: Sequence[Any],
    order: Callable[[int], Sequence[Any]] | None = None,
    **recipe: Any,
) -> list[float]:
    """The losses of a training of this rank's own ``data`` in its own ``order``."""
    model = nn.Linear(1, 1).double()
    nn.init.constant_(model.weight, 0.5)  # not by the global generator, which threads share
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = Job(None, True, CPU, group).elastic(
        model, optimizer, **{"global_batch": BATCH, "max_micro_batch": 3, **recipe}
    )
    losses = []
    for _, batches in trainer.steps(data, steps, order=order, shuffle=False if order is None else None):
        before = model.weight.detach().clone()
        for x in batches:
            trainer.backward(model(x.double()[:, None]).square().mean())
        try:
            losses.append(trainer.step().loss)
        except DataError:
            assert torch.equal(model.weight, before), "nothing is updated by samples that are not the step's"
            raise
    return losses


def numbers(length: int) -> list[float]:
    return [float(n % 7) for n in range(length)]


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_order_that_each_worker_drew_for_itself_is_told_of_with_what_was_lost(deterministic: bool) -> None:
    def work(group: Group) -> list[float]:
        mine = list(range(24)) if group.rank == 0 else [*range(12, 24), *range(12)]
        return train(group, 2, numbers(24), lambda epoch: mine, deterministic=deterministic)

    first, second = together(2, work)
    # rank 0 computes 0 to 5 of the first step, rank 1 the second half of what it takes for the step: 18 to 23
    assert isinstance(first, DataError)
    assert isinstance(second, DataError)
    assert "step 0: the workers do not agree about its samples; nothing was updated. Of the 12" in str(first)
    assert "6 (6, 7, 8, 9, 10, 11) were read by nobody, and 6 (18, 19, 20, 21, 22, 23) once" in str(first)
    assert "6 (12, 13, 14, 15, 16, 17) were read by nobody, and 6 (0, 1, 2, 3, 4, 5) once" in str(second)


def test_an_order_that_differs_from_an_epoch_on_is_told_of_in_its_first_step() -> None:
    """As one that goes by a set of names does, whose order is drawn anew in each process."""

    def order(rank: int, epoch: int) -> list[int]:
        return random.Random(epoch if epoch < 2 else 100 * rank + epoch).sample(range(36), 36)

    told = together(3, lambda group: train(group, 9, numbers(36), lambda epoch: order(group.rank, epoch)))
    assert all(isinstance(each, DataError) and "step 6: the workers do not" in str(each) for each in told)


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "recipe", [{}, {"deterministic": True}, {"balance_by_speed": True}, {"max_micro_batch": 12}]
)
def test_what_is_right_is_never_told_of_however_it_is_cut(world: int, recipe: dict[str, Any]) -> None:
    """Sets that don't divide, workers without a sample, repeated samples, keys for numbers."""
    keyed = {("a", n): float(n) for n in range(30)}
    keys = list(keyed)

    def work(group: Group | None) -> list[list[float]]:
        drawn = [random.Random(5).randrange(26) for _ in range(26)]
        return [
            train(group, 5, numbers(26), **recipe),
            train(group, 5, numbers(26), lambda epoch: drawn, **recipe),
            train(group, 3, numbers(14), **recipe),  # its last step has two samples, for up to five workers
            train(group, 2, keyed, lambda epoch: keys, **recipe),  # type: ignore[arg-type]
        ]

    alone = work(None)
    for learned in together(world, work):
        assert isinstance(learned, list), learned
        for mine, theirs in zip(learned, alone, strict=True):
            assert mine == pytest.approx(theirs, abs=1e-12)


def test_hashes_ride_exactly_in_the_narrowest_sum_of_the_most_workers() -> None:
    assert max(MODULI) * 4096 < 2**24, "float32 has 24 bits"
    assert all(all(modulus % n for n in range(2, 64)) for modulus in MODULI), "primes"


def test_a_hash_is_that_of_the_samples_however_they_are_cut_and_no_small_exchange_leaves_it() -> None:
    whole = list(range(100, 148))
    assert hash_of(whole) == hash_of(reversed(whole)) == hash_of(whole[:7]) + hash_of(whole[7:])
    wrong = {
        tuple(sorted([*(set(whole) - {lost}), more]))
        for lost in whole
        for more in range(90, 160)
        if lost != more
    }
    pairs = {  # what a sum of the numbers themselves would not tell: one more here, one less there
        tuple(sorted([*(set(whole) - {a, b}), a + d, b - d]))
        for a in whole[::3] for b in whole[::5] for d in (1, 2, 7) if a != b and {a + d, b - d} != {a, b}
    }  # fmt: skip
    expected = [hash_of(whole) % modulus for modulus in MODULI]
    taken = [each for each in wrong | pairs if [hash_of(each) % modulus for modulus in MODULI] == expected]
    assert len(wrong | pairs) > 3000
    assert not taken


def test_alone_it_is_looked_at_in_the_first_steps_and_costs_nothing_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[int] = []
    real = sample_digest.hash_of
    monkeypatch.setattr(sample_digest, "hash_of", lambda samples: hashed.append(1) or real(samples))
    model = nn.Linear(1, 1).double()
    trainer = fallow.connect(environment={}).elastic(
        model, torch.optim.SGD(model.parameters(), lr=0.01), global_batch=BATCH, max_micro_batch=3
    )
    seen = []
    for _, batches in trainer.steps(numbers(120), 10):
        for x in batches:
            trainer.backward(model(x.double()[:, None]).square().mean())
        trainer.step()
        seen.append(len(hashed))
    assert seen[2] == seen[-1] > 0


def test_a_batch_that_the_script_got_twice_is_told_of_alone_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bookkeeping itself: of 12 samples the first three are given out in place of the last."""
    from fallow.data.feed import Feed

    real, first = Feed.fetch, []

    def fetch(self: Feed, piece: Any) -> Any:
        first.append(piece)
        return real(self, first[0] if piece.micro.index == 3 else piece)

    monkeypatch.setattr(Feed, "fetch", fetch)
    with pytest.raises(
        DataError, match=r"3 \(9, 10, 11\) were read by nobody, and 3 \(0, 1, 2\) once too often"
    ):
        train(None, 1, numbers(24))
