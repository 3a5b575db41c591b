"""Who counts items and who doesn't is known to all workers, before anything is updated."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.errors import LossError  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick

nn = torch.nn
ONE = torch.ones(3, dtype=torch.float64)
Count = float | None


def step(group: Group, counts: tuple[Count, ...], deterministic: bool, samples: int) -> str:
    """One step in which each rank passes its own count; what it was told, once nothing was updated."""
    model = nn.Linear(3, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Job(None, True, CPU, group).elastic(
        model, optimizer, global_batch=samples, max_micro_batch=2, deterministic=deterministic
    )
    _, batches = next(trainer.steps([ONE] * samples, 1))
    before = model.weight.detach().clone()
    for x in batches:
        trainer.backward(model(x).square().mean(), count=counts[group.rank])
    with pytest.raises(LossError) as told:
        trainer.step()
    assert torch.equal(model.weight, before)
    return str(told.value)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("counts", [(100.0, None), (None, 100.0), (0.0, None)])
def test_all_stop_when_only_some_pass_a_count(counts: tuple[Count, ...], deterministic: bool) -> None:
    told = together(2, lambda group: step(group, counts, deterministic, samples=8))
    assert told == [told[0]] * 2
    assert "2 of all workers' 4 micro-batches passed a count to backward(); nothing" in str(told[0])


@pytest.mark.parametrize("deterministic", [True, False])
def test_all_stop_when_there_is_nothing_to_count_one_without_samples_too(deterministic: bool) -> None:
    told = together(3, lambda group: step(group, (0.0, 0.0, 0.0), deterministic, samples=2))
    assert told == [told[0]] * 3
    assert "the counts of all micro-batches sum to 0" in str(told[0])
