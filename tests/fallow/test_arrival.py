"""Newcomers are handed the state amid a step: they idle in it, the others don't, and no bit differs."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402

import fallow  # noqa: E402
from fallow import arrival, handover, parcels  # noqa: E402
from fallow.cut import Cut  # noqa: E402
from fallow.group import Group  # noqa: E402
from fallow.recipe import Recipe  # noqa: E402
from tests.fallow.crew import SEEDING, Outcome, Run, Train, run, task  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402
from tests.fallow.test_handover import assert_same, odd_state  # noqa: E402

STEPS = 50
PACE_S = 0.02  # long enough for newcomers to come while there are steps left
RESIZES = {4: 2, 12: 4, 20: 1, 28: 3}
Meddle = Callable[[nn.Module, int], None]


@dataclass
class Shares:
    """How many micro-batches each worker had in each step of each group that it committed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    had: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def note(self, generation: int, step: int, count: int) -> None:
        with self.lock:
            self.had.setdefault((generation, step), []).append(count)

    def arrivals(self) -> dict[tuple[int, int], list[int]]:
        """The steps in which somebody had nothing to do."""
        return {key: sorted(counts) for key, counts in self.had.items() if 0 in counts}


def large_network() -> nn.Module:
    """With weights that travel from where they lie, as small ones don't; and with running statistics."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(12, 6000), nn.Tanh(), nn.BatchNorm1d(6000), nn.Linear(6000, 4)
    ).double()  # fmt: skip


def trained(deterministic: bool, shares: Shares, meddle: Meddle = lambda model, step: None) -> Train:
    """A training as a user would write it, by a user who may meddle with the model as each step begins."""

    def train(environment: Mapping[str, str], outcome: Outcome) -> None:
        with SEEDING:
            model = large_network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        job = fallow.connect(environment=environment)
        trainer = job.elastic(
            model,
            optimizer,
            global_batch=24,
            max_micro_batch=4,
            deterministic=deterministic,
            max_grad_norm=1.0,
        )
        for step, batches in trainer.steps(task(), STEPS):
            meddle(model, step)
            count, generation = 0, trainer.generation
            for x, y in batches:
                trainer.backward(nn.functional.cross_entropy(model(x), y))
                count += 1
            if environment:
                time.sleep(PACE_S)
            done = trainer.step()
            if done is not None:
                outcome.steps.append(done)
                shares.note(generation, step, count)
        outcome.parameters = {name: value.clone() for name, value in model.state_dict().items()}

    return train


def alone(meddle: Meddle = lambda model, step: None) -> Outcome:
    outcome = Outcome()
    torch.set_num_threads(1)
    trained(True, Shares(), meddle)({}, outcome)
    return outcome


@pytest.fixture(scope="module")
def reference() -> Outcome:
    return alone()


@pytest.fixture(autouse=True)
def amid_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(arrival.ENV_LEAST_BYTES, "0")


def assert_learned_alike(done: Run, reference: Outcome) -> None:
    assert done.exit_code == 0, done.journal
    assert done.finished
    assert reference.parameters is not None
    expected = {step.number: step.loss for step in reference.steps}
    for outcome in done.finished:
        assert outcome.parameters is not None
        for name, value in reference.parameters.items():
            assert torch.equal(outcome.parameters[name], value), name
    for outcome in done.outcomes:
        assert outcome.error is None
        assert all(step.loss == expected[step.number] for step in outcome.steps)


def test_a_training_that_grows_amid_its_steps_has_the_bits_of_one_that_never_grew(reference: Outcome) -> None:
    shares = Shares()
    done = run(trained(True, shares), 1, RESIZES)
    assert_learned_alike(done, reference)
    assert not [line for line in done.journal if "recover=True" in line], done.journal
    assert [counts.count(0) for counts in shares.arrivals().values()] == [1, 2, 2], "in its first step alone"


def test_in_the_plain_mode_newcomers_idle_as_well_and_their_model_is_that_of_the_others() -> None:
    shares = Shares()
    done = run(trained(False, shares), 2, {5: 4})
    assert done.exit_code == 0, done.journal
    first, *others = done.finished
    assert len(others) == 3
    assert first.parameters is not None
    for other in others:
        assert other.parameters is not None
        assert all(torch.equal(other.parameters[name], value) for name, value in first.parameters.items())
    assert list(shares.arrivals().values()) == [[0, 0, 3, 3]]


def halve_by_autograd(model: nn.Module, step: int) -> None:
    with torch.no_grad():
        model[0].weight.mul_(1 - 1 / (step + 2))


def halve_behind_its_back(model: nn.Module, step: int) -> None:
    model[0].weight.data.mul_(1 - 1 / (step + 2))


@pytest.mark.parametrize("meddle", [halve_by_autograd, halve_behind_its_back])
def test_a_parameter_that_the_script_changes_amid_the_step_is_noticed_and_nothing_is_learned_from_it(
    meddle: Meddle, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every step changes it in place as it begins, while the state leaves; a step taken twice would show."""
    done = run(trained(True, Shares(), meddle), 1, RESIZES)
    assert_learned_alike(done, alone(meddle))
    assert not [line for line in done.journal if "recover=True" in line], done.journal
    if meddle is halve_by_autograd:
        assert "is handed over between two steps instead" in capfd.readouterr().err


def test_a_small_state_is_handed_over_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(arrival.ENV_LEAST_BYTES)
    shares = Shares()
    assert run(trained(True, shares), 1, {4: 2}).exit_code == 0
    assert not shares.arrivals()


def test_only_a_large_state_and_a_short_step_are_worth_it() -> None:
    large = {"model": torch.empty(arrival.LEAST_BYTES, dtype=torch.uint8)}
    assert arrival.is_worth_it(large, 1.0, {})
    assert not arrival.is_worth_it({"model": torch.empty(10)}, 1.0, {})
    assert not arrival.is_worth_it(large, arrival.LONGEST_STEP_S + 1, {}), "they had better help"
    assert not arrival.is_worth_it(large, None, {}), "nobody knows yet how long a step takes"


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.data())
def test_who_idles_leaves_the_whole_step_to_the_others(
    batch: int, cap: int, working: int, data: st.DataObject
) -> None:
    idle = data.draw(st.frozensets(st.integers(0, working), max_size=3))
    world = working + len(idle)
    recipe = Recipe(global_batch=batch, max_micro_batch=cap, deterministic=data.draw(st.booleans()))
    cut = Cut(recipe=recipe, world_size=world, idle=idle, weights=(1.0,) * world)
    others = replace(cut, world_size=working, idle=frozenset(), weights=None)
    shape, smaller = cut.shape(batch), others.shape(batch)
    assert all(not shape.ranks[rank] for rank in idle)
    assert tuple(part for rank, part in enumerate(shape.ranks) if rank not in idle) == smaller.ranks


def test_a_state_that_is_sent_without_waiting_arrives_as_it_was() -> None:
    def work(group: Group) -> object:
        if group.rank == 0:
            departure = handover.start_state(group, 1, odd_state(), CPU)
            departure.wait()
            return departure.is_untouched()
        return handover.receive_state(group, 0, None, CPU)

    untouched, state = together(2, work)
    assert untouched is True
    assert_same(state, odd_state())


def test_what_is_sent_from_where_it_lies_is_watched_and_what_was_copied_need_not_be() -> None:
    weights = torch.randn(parcels.ALONE_BYTES)
    tiny, turned = torch.zeros(3), torch.randn(512, 256).t()
    before = turned.clone()

    def work(group: Group) -> object:
        if group.rank == 1:
            return handover.receive_state(group, 0, None, CPU)
        state = {"weights": weights, "tiny": tiny, "turned": turned}
        departure = handover.start_state(group, 1, state, CPU)
        tiny.add_(1)
        turned.add_(1)
        copied = departure.is_untouched()
        departure.wait()
        weights.detach().mul_(2)
        return copied, departure.is_untouched()

    seen, state = together(2, work)
    assert seen == (True, False)
    assert isinstance(state, dict)
    assert torch.equal(state["tiny"], torch.zeros(3))
    assert torch.equal(state["turned"], before)


@given(st.integers(0, 40), st.integers(0, 3), st.data())
def test_a_changed_bit_changes_the_fingerprint(size: int, offset: int, data: st.DataObject) -> None:
    whole = torch.arange(size + 7, dtype=torch.float32)
    state: dict[str, Any] = {"a": whole[offset : offset + size + 3], "b": [torch.ones(2, 2).t()]}
    before = handover.fingerprint(state)
    assert handover.fingerprint({"a": state["a"].clone(), "b": [torch.ones(2, 2)]}) == before
    state["a"].view(torch.int32)[data.draw(st.integers(0, size + 2))] ^= 1 << data.draw(st.integers(0, 30))
    assert handover.fingerprint(state) != before


def test_a_fingerprint_tells_which_tensor_is_which() -> None:
    one, other = torch.ones(4), torch.zeros(4)
    assert handover.fingerprint([one, other]) != handover.fingerprint([other, one])
    assert handover.fingerprint([]) == handover.fingerprint([]) == 0
