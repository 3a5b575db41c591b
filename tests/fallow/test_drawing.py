"""Whatever draws random numbers between the micro-batches of two steps draws the same in every worker."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from tests.fallow import drawing_train  # noqa: E402
from tests.fallow.drawing_train import PLACES  # noqa: E402
from tests.fallow.test_static_world import torchrun  # noqa: E402


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    """What each of two workers learned, by where it draws and whether to the bit."""
    out = tmp_path_factory.mktemp("drawing") / "learned"
    done = torchrun(2, Path(drawing_train.__file__), OUT=str(out))
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(f"{out}.{rank}") for rank in range(2)]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("where", PLACES)
def test_no_worker_drifts_away_however_the_update_draws(
    where: str, deterministic: bool, learned: list[dict[Any, Any]]
) -> None:
    first, second = (of_rank[where, deterministic] for of_rank in learned)
    assert same(first, second)


@pytest.mark.parametrize("where", PLACES)
def test_drawing_outside_of_micro_batches_keeps_the_bits_of_a_single_worker(
    where: str, learned: list[dict[Any, Any]]
) -> None:
    alone = drawing_train.train(fallow.connect(environment={}), where, deterministic=True)
    assert same(learned[0][where, True], alone)


def test_each_step_and_each_place_draws_other_numbers() -> None:
    drawn: list[float] = []

    def look(model: "torch.nn.Module") -> None:
        drawn.append(float(torch.rand(())))

    model = torch.nn.Linear(3, 1).double()
    trainer = fallow.connect(environment={}).elastic(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        global_batch=8,
        max_micro_batch=4,
        deterministic=True,
        on_gradient=look,
    )
    for _, batches in trainer.steps(drawing_train.samples(), 3):
        look(model)
        for x, y in batches:
            look(model)
            trainer.backward((model(x) - y).square().mean())
        look(model)
        trainer.step()
    assert len(set(drawn)) == 3 * 5
