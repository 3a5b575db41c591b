"""Whatever a model keeps in buffers, and however it changes them, is the same in all workers."""

import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.job import Job  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from fallow.state.buffers import Buffers  # noqa: E402
from fallow.state.replica import Replica  # noqa: E402
from fallow.types import Recipe  # noqa: E402
from tests.fallow.crew import Outcome, run, task, until_resized  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

pytestmark = pytest.mark.quick

nn = torch.nn
INF = float("inf")
Found = dict[str, "torch.Tensor"]


class Keeping(nn.Module):
    """Every kind of buffer, changed in place or by putting another there, and some that never change."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4).double()
        with torch.no_grad():
            self.layer.weight.copy_(torch.arange(12.0).view(4, 3) / 12)
            self.layer.bias.fill_(0.1)
        for name, value in {
            "put": torch.zeros(3, dtype=torch.float64),
            "within": torch.zeros(3, dtype=torch.float64),
            "wave": torch.zeros(1, dtype=torch.complex128),
            "seen": torch.tensor(0),
            "counted": torch.tensor(0, dtype=torch.int32),
            "histogram": torch.zeros(4, dtype=torch.int64),
            "met": torch.zeros(2, dtype=torch.bool),
            "mask": torch.full((4, 4), -INF, dtype=torch.float64).triu(1),
            "thirds": torch.tensor([0.1, 1 / 3, float("nan")], dtype=torch.float64),
            "places": torch.arange(50).remainder(7),
        }.items():
            self.register_buffer(name, value, persistent=name not in ("within", "histogram"))

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        mean = x.mean(0)
        y = self.layer(x) @ torch.softmax(self.mask, -1)
        self.put = 0.9 * self.put + 0.1 * (mean + 0 * y.sum())  # with the graph that made it
        self.within.mul_(0.9).add_(0.1 * mean)
        self.wave.data.mul_(0.9).add_(0.1 * torch.complex(mean[:1], mean[1:2]))
        self.seen = self.seen + len(x)
        self.counted += len(x)
        self.histogram += torch.bincount((x[:, 0] * 4).long(), minlength=4)
        self.met |= torch.tensor([True, False])
        return y


def samples(count: int = 25) -> list["torch.Tensor"]:
    generator = torch.Generator().manual_seed(1)
    return list(torch.rand(count, 3, generator=generator, dtype=torch.float64))


def train(job: Job, deterministic: bool, model: "nn.Module | None" = None) -> Found:
    """Two epochs of 12, 12 and 1 samples: in the last step of each, one worker alone computes."""
    model = model or Keeping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = job.elastic(model, optimizer, global_batch=12, max_micro_batch=2, deterministic=deterministic)
    for _, batches in trainer.steps(samples(), epochs=2):
        for x in batches:
            trainer.backward(model(x).square().mean())
        trainer.step()
    return {
        name: value.detach().clone() for name, value in (*model.named_buffers(), *model.named_parameters())
    }


def bits(tensor: "torch.Tensor") -> list[int]:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.flatten().contiguous().view(torch.uint8).tolist()


def assert_same_bits(one: Found, other: Found) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert bits(value) == bits(other[name]), name


@pytest.mark.parametrize("world", [2, 3])
def test_all_buffers_have_the_bits_of_a_single_worker_when_asked(world: int) -> None:
    alone = train(fallow.connect(environment={}), deterministic=True)
    assert bits(alone["put"]) == bits(alone["within"])
    for found in together(world, lambda group: train(Job(None, True, CPU, group), deterministic=True)):
        assert isinstance(found, dict), found
        assert_same_bits(found, alone)


@pytest.mark.parametrize("world", [2, 3])
def test_no_worker_has_other_buffers_and_what_counts_is_counted_once(world: int) -> None:
    alone = train(fallow.connect(environment={}), deterministic=False)
    found = together(world, lambda group: train(Job(None, True, CPU, group), deterministic=False))
    for each in found:
        assert isinstance(each, dict), each
        assert_same_bits(each, found[0])  # type: ignore[arg-type]
        for name in ("seen", "counted", "histogram", "met", "mask", "thirds", "places"):
            assert bits(each[name]) == bits(alone[name]), name
        torch.testing.assert_close(each["put"], each["within"], rtol=0, atol=1e-15)
        assert each["wave"].real.item() == pytest.approx(each["put"][0].item(), abs=1e-15)
        torch.testing.assert_close(each["layer.weight"], alone["layer.weight"], rtol=0, atol=1e-12)


class Growing(nn.Module):
    """A cache that is as long as this worker needed, one that is made late, and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1).double()
        self.register_buffer("cache", torch.zeros(1), persistent=False)
        self.register_buffer("late", None, persistent=False)
        self.register_buffer("mean", torch.zeros(3).double())
        self.length = 1

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        self.cache = torch.ones(self.length)
        self.late = torch.ones(self.length)
        self.mean = x.mean(0)
        return self.layer(x)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_cache_of_another_length_is_each_workers_own(deterministic: bool) -> None:
    def work(group: Group) -> Found:
        model = Growing()
        model.length = 2 + group.rank
        return train(Job(None, True, CPU, group), deterministic, model)

    found = together(2, work)
    assert [len(each["cache"]) for each in found] == [2, 3]  # type: ignore[index]
    assert bits(found[0]["mean"]) == bits(found[1]["mean"])  # type: ignore[index]


def test_a_pass_that_is_not_counted_leaves_no_trace() -> None:
    """Loops of frameworks compute something in a worker without micro-batches, too."""

    def work(group: Group) -> Found:
        model = Keeping()
        trainer = Job(None, True, CPU, group).elastic(
            model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=1, max_micro_batch=1
        )
        for _, batches in trainer.steps(samples(4), epochs=1):
            if not trainer.micro_batches:
                model(torch.full((7, 3), 0.5, dtype=torch.float64))
            for x in batches:
                trainer.backward(model(x).square().mean())
            trainer.step()
        return {name: value.detach().clone() for name, value in model.named_buffers()}

    first, second = together(2, work)
    assert_same_bits(first, second)  # type: ignore[arg-type]
    assert first["seen"].item() == 4  # type: ignore[index]


def test_a_step_that_is_not_committed_puts_back_what_was_replaced_too() -> None:
    model = Keeping()
    model.register_buffer("expanded", torch.tensor([0.1]).expand(5))  # nobody can write to it
    buffers = Buffers(model)
    model(torch.rand(5, 3, dtype=torch.float64))
    before = {name: (value, value.detach().clone()) for name, value in model.named_buffers()}
    buffers.keep()
    for _ in range(2):
        model(torch.rand(5, 3, dtype=torch.float64))
    buffers.rewind()
    for name, value in model.named_buffers():
        assert value is before[name][0]
        assert bits(value.detach()) == bits(before[name][1])


class Levelled(nn.Module):
    """Every micro-batch lifts levels that no ``state_dict`` shows, so that a step lifts them by one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 4).double()
        self.register_buffer("level", torch.zeros(2).double(), persistent=False)
        self.register_buffer("passes", torch.zeros(3, dtype=torch.int64), persistent=False)
        self.register_buffer("tilt", torch.ones(1).double().expand(12))  # nobody can write to it

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        self.level = self.level + 1
        self.passes[1] += 1
        return self.layer(x * self.tilt)


WORLDS = {3: 3, 9: 2, 14: 4}
"""Of a training that is driven: the workers asked for behind a step."""


def level(total: int, environment: Any, outcome: Outcome, stop: int | None = None, **recipe: Any) -> Levelled:
    model = Levelled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    job = fallow.connect(environment=environment)
    trainer = job.elastic(model, optimizer, global_batch=48, max_micro_batch=8, deterministic=True, **recipe)
    for step, batches in trainer.steps(task(), total):
        for x, y in batches:
            trainer.backward(nn.functional.cross_entropy(model(x), y))
        done = trainer.step()
        if done is not None:
            outcome.steps.append(done)
            if trainer.generation:
                until_resized(WORLDS)(trainer)
        if step + 1 == stop:
            trainer.save()
            break
    outcome.parameters = {name: value.clone() for name, value in model.named_buffers()}
    return model


def test_a_joiner_takes_over_what_no_state_dict_shows() -> None:
    alone = level(24, {}, Outcome())
    done = run(lambda environment, outcome: level(24, environment, outcome) and None, 1, WORLDS)
    assert done.exit_code == 0, done.journal
    seen = {step.world_size for outcome in done.outcomes for step in outcome.steps}
    assert seen == {1, 2, 3, 4}, done.journal
    for outcome in done.finished:
        assert outcome.parameters is not None
        assert torch.allclose(outcome.parameters["level"], torch.full((2,), 24.0).double(), rtol=0, atol=1e-9)
        assert_same_bits(outcome.parameters, dict(alone.named_buffers()))


def test_a_checkpoint_keeps_what_no_state_dict_shows(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    whole = level(14, {}, Outcome())
    level(14, {}, Outcome(), stop=5, checkpoint=path)
    later = level(14, {}, Outcome(), checkpoint=path)
    assert_same_bits(dict(later.named_buffers()), dict(whole.named_buffers()))


def test_a_checkpoint_from_before_those_were_kept_is_taken_up() -> None:
    model = Levelled()
    recipe = Recipe(global_batch=4, max_micro_batch=4)
    replica = Replica(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    state = replica.state()
    assert set(state.pop("buffers")) == {"level", "passes"}
    replica.load(state)
    state["buffers"] = {"level": torch.ones(3), "gone": torch.ones(1), "layer.none": torch.ones(1)}
    replica.load(state)  # other places, other shapes: left as they are
    assert model.level.tolist() == [0, 0]


class Moving(nn.Module):
    """A buffer of each kind; ``change`` moves some of them, or has one of another length for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.1, 1 / 3, float("nan"), -0.0]))
        self.register_buffer("wave", torch.zeros(2, dtype=torch.complex64))
        self.register_buffer("bins", torch.arange(5))
        self.register_buffer("seen", torch.arange(6) % 2 == 0)
        self.register_buffer("passes", torch.zeros(1, dtype=torch.int32))

    def change(self, chance: random.Random) -> None:
        for name, buffer in list(self._buffers.items()):
            assert buffer is not None
            length = {"mean": 4, "wave": 2, "bins": 5, "seen": 6, "passes": 1}[name]
            other = ~buffer if buffer.dtype == torch.bool else buffer + 1
            match chance.randrange(4):
                case 0 if len(buffer) == length:
                    buffer.copy_(other)
                case 1 if len(buffer) == length:
                    self._buffers[name] = other
                case 2:
                    self._buffers[name] = torch.cat([buffer, buffer])
                case 3:
                    self._buffers[name] = buffer[:length].clone()  # as it was, elsewhere


def settled(model: Moving, *, read: bool, seed: int) -> Found:
    """The buffers after two steps of three micro-batches, which one worker settles, reading marks or not."""
    chance, buffers = random.Random(seed), Buffers(model)
    for _ in range(2):
        buffers.keep()
        sums = [torch.zeros_like(like, device="cpu") for like in buffers.statistics]
        marks, moves = torch.zeros(buffers.marks), torch.zeros(buffers.counters)
        for _ in range(3):
            buffers.rewind()
            model.change(chance)
            for total, value in zip(sums, buffers.values(), strict=True):
                if value is not None:
                    total.add_(value * 0.3)  # not a third: to average what nobody changed would change it
            changes = buffers.look()
            marks += torch.tensor(changes.marks)
            moves += torch.tensor(changes.moves)
        buffers.rewind()
        if read:
            tables = buffers.settle(sums, marks.tolist(), moves.tolist())
            if tables:
                buffers.settle_tables(tables, buffers.movement(tables, CPU))
        else:
            buffers.settle_unread(sums, marks, moves)
    return {name: value.clone() for name, value in model.named_buffers()}


def test_what_one_worker_settles_unread_has_the_bits_of_what_is_read() -> None:
    for seed in range(80):
        assert_same_bits(settled(Moving(), read=False, seed=seed), settled(Moving(), read=True, seed=seed))


def test_buffers_that_share_memory_or_lie_elsewhere_are_read_before_they_are_settled() -> None:
    def may_stay_unread(**named: "torch.Tensor") -> bool:
        model = nn.Module()
        for name, value in named.items():
            model.register_buffer(name, value)
        return Buffers(model).settle_unread_on(CPU)

    base = torch.zeros(4)
    assert may_stay_unread(one=base, other=torch.zeros(4), empty=torch.zeros(0), none=torch.zeros(0))
    assert not may_stay_unread(one=base, part=base[:2])
    assert not may_stay_unread(wide=torch.zeros(1).expand(4))
    assert not may_stay_unread(one=base, away=torch.zeros(4, device="meta"))
