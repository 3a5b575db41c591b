"""What gives ready batches, or can be read only once, is no data set: it is refused before the first step."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import fallow  # noqa: E402
from fallow.errors import DataError  # noqa: E402

pytestmark = pytest.mark.quick

X, Y = torch.arange(96.0).view(48, 2), torch.arange(48.0)[:, None]


class Bar:
    """A progress bar as tqdm's is: an iterable with a length around another one."""

    def __init__(self, iterable: Any):
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __len__(self) -> int:
        return len(self.iterable)


def begin(data: Any, **asked: Any) -> Any:
    model = torch.nn.Linear(2, 1)
    trainer = fallow.connect(environment={}).elastic(
        model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=8, max_micro_batch=4
    )
    _, batches = next(trainer.steps(data, 2, **asked))
    return next(batches)


def batches() -> list[tuple[Any, Any]]:
    return [(X[at : at + 8], Y[at : at + 8]) for at in range(0, 48, 8)]


def test_ready_batches_and_iterators_are_refused() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=8)
    refused = {
        r"a Bar around a DataLoader \(\.iterable\).* pass the loader itself": Bar(loader),
        r"a generator, which can be read only once": (pair for pair in batches()),
        r"a zip, which can be read only once": zip(X, Y, strict=True),
        r"a \w+, which can be read only once": iter(loader),
    }
    for message, data in refused.items():
        with pytest.raises(DataError, match=message):
            begin(data)


def test_a_list_that_looks_like_one_of_batches_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "fallow")
    begin(list(zip(X, Y, strict=True)))
    begin(TensorDataset(X, Y))
    begin([(row, row) for row in X])
    assert not caplog.records
    begin(batches())
    assert "a list whose items look like ready batches, of 8 rows each" in caplog.text


def test_an_order_drawn_from_the_global_generator_is_refused() -> None:
    with pytest.raises(DataError, match=r"order\(0\) gave other indices when it was asked again"):
        begin(TensorDataset(X, Y), order=lambda epoch: torch.randperm(48).tolist())
    seeded = lambda epoch: torch.randperm(48, generator=torch.Generator().manual_seed(epoch))  # noqa: E731
    begin(TensorDataset(X, Y), order=seeded)


def test_a_sample_that_is_none_is_named() -> None:
    data = [None if at % 5 == 3 else X[at] for at in range(48)]
    keep = lambda samples: torch.stack([each for each in samples if each is not None])  # noqa: E731
    with pytest.raises(DataError, match=r"the data set gave None for sample 3 \(step 0\)"):
        begin(data, collate=keep, shuffle=False)
