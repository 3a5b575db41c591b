"""A saved training goes on as if it had never stopped, and a crash while saving loses nothing."""

import itertools
import multiprocessing
import os
import random
import resource
import time
from collections import Counter, OrderedDict
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.errors import LoopError, StateError  # noqa: E402
from fallow.state import checkpoint  # noqa: E402
from fallow.trainer import Trainer  # noqa: E402
from tests.fallow.crew import Outcome, Train, noisy_network, run, task, training  # noqa: E402

CPU = torch.device("cpu")


def taken(train: Train) -> Outcome:
    outcome = Outcome()
    train({}, outcome)
    return outcome


class Stop(Exception):
    pass


def stopped_after(steps: int, path: Path) -> None:
    """Train some steps, save, and stop in the middle."""
    done = 0

    def count(trainer: object) -> None:
        nonlocal done
        done += 1
        if done == steps:
            trainer.save()  # type: ignore[attr-defined]
            raise Stop

    with pytest.raises(Stop):
        training(30, after_step=count, checkpoint=path)({}, Outcome())


@pytest.mark.parametrize("world", [1, 3])
def test_a_training_resumed_at_any_world_size_equals_one_that_never_stopped(
    tmp_path: Path, world: int
) -> None:
    reference = taken(training(30))
    stopped_after(11, tmp_path / "state.pt")
    done = run(training(30, checkpoint=tmp_path / "state.pt"), world)
    assert done.exit_code == 0, done.journal
    for outcome in done.finished:
        assert [step.number for step in outcome.steps] == list(range(11, 30))
        for name, value in reference.parameters.items():
            assert torch.allclose(outcome.parameters[name], value, rtol=0, atol=1e-12), name


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint.save(path, {"step": 2, "w": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoint.load(path, CPU) == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.pt"]


def test_a_checkpoint_cut_short_anywhere_is_said_and_not_trained_over(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1, "w": torch.zeros(1000)})
    whole = path.read_bytes()
    for length in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(checkpoint.CheckpointDamaged, match="or move it away to start anew"):
            checkpoint.load(path, CPU)


def test_a_single_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1, "w": torch.arange(3000.0)})
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(checkpoint.CheckpointDamaged):
            checkpoint.load(path, CPU)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other accounts need root")
def test_a_checkpoint_that_another_account_may_have_planted_is_not_trained_on(tmp_path: Path) -> None:
    stranger, colleague = 65_533, 65_532
    shared = tmp_path / "shared"
    shared.mkdir()
    path = shared / "state.pt"
    checkpoint.save(path, {"step": 1})
    assert checkpoint.load(path, CPU) == {"step": 1}

    shared.chmod(0o1777)
    assert checkpoint.load(path, CPU) == {"step": 1}, "our own, in a folder like /tmp"
    os.chown(path, stranger, -1)
    with pytest.raises(StateError, match=r"belongs to account 65533.*every account .* can write to"):
        checkpoint.load(path, CPU)
    link = shared / "latest.pt"
    link.symlink_to(tmp_path / "own.pt")
    checkpoint.save(tmp_path / "own.pt", {"step": 2})
    os.lchown(link, stranger, -1)
    with pytest.raises(StateError, match="every account"):
        checkpoint.load(link, CPU)

    shared.chmod(0o2770)
    os.chown(path, colleague, -1)
    assert checkpoint.load(path, CPU) == {"step": 1}, "a colleague's, where only colleagues write"
    path.chmod(0o666)
    with pytest.raises(StateError, match="is a file that every account"):
        checkpoint.load(path, CPU)


def test_a_checkpoint_is_a_file_that_torch_reads(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.pt"
    size = checkpoint.save(path, {"step": 1, "w": torch.arange(10.0)})
    assert size == path.stat().st_size
    assert torch.equal(torch.load(path)["w"], torch.arange(10.0))


def save_for_ever(path: Path, told: Connection) -> None:
    torch.set_num_threads(1)
    for step in itertools.count():
        checkpoint.save(path, {"step": step, "w": torch.full((500_000,), float(step))})
        told.send(step)


def test_kill_9_at_any_moment_of_a_save_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    chance = random.Random(2)
    forking = multiprocessing.get_context("fork")
    for _ in range(12):
        mine, theirs = forking.Pipe(duplex=False)
        saver = forking.Process(target=save_for_ever, args=(path, theirs))
        saver.start()
        told = [mine.recv() for _ in range(chance.randint(1, 4))][-1]
        time.sleep(chance.uniform(0, 0.01))  # somewhere in the next save
        saver.kill()
        saver.join()
        state = checkpoint.load(path, CPU)
        assert state is not None
        assert state["step"] >= told
        assert torch.equal(state["w"], torch.full((500_000,), float(state["step"])))
    checkpoint.save(path, {"step": 0})
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.pt"]  # what was half written is swept up


def test_the_half_written_file_of_another_training_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / ".state.pt.abcdefgh.part"
    other.write_bytes(b"being written")
    checkpoint.save(tmp_path / "state", {"step": 0})
    assert other.exists()


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ({"extra": {"mine": {"x": object()}}}, r"state\['extra'\]\['mine'\]\['x'\] is a builtins.object"),
        ([1, Fraction(1, 2)], r"state\[1\] is a fractions.Fraction"),
        ({Fraction(1): 0}, r"a key of state is a fractions.Fraction"),
    ],
)
def test_what_could_not_be_read_back_is_refused_before_it_is_saved(
    tmp_path: Path, thing: object, message: str
) -> None:
    with pytest.raises(StateError, match=message):
        checkpoint.save(tmp_path / "state.pt", thing)
    assert not list(tmp_path.iterdir())


def test_what_is_saved_can_be_read_back(tmp_path: Path) -> None:
    state = {
        "numbers": (1, 2.5, True, None, 1j, "text", b"bytes"),
        "counts": Counter([3, 3, 4]),
        "types": [torch.float16, torch.device("cpu"), torch.Size([2, 3])],
        4: OrderedDict(a={1, 2}),
    }
    checkpoint.save(tmp_path / "state.pt", state)
    assert checkpoint.load(tmp_path / "state.pt", CPU) == state


def elastic(path: Path, **options: Any) -> Trainer:
    model = torch.nn.Linear(12, 4).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    asked = {"global_batch": 48, "max_micro_batch": 7, **options}
    return fallow.connect(environment={}).elastic(model, optimizer, checkpoint=path, **asked)


OTHERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"global_batch": 64}, {}, "global_batch is 64 here and was 48 there"),
    ({"seed": 1}, {}, "seed is 1 here and was 0 there"),
    ({"deterministic": True}, {}, "deterministic is True here and was False there"),
    ({}, {"shuffle": False}, "shuffle is False here and was True there"),
    ({}, {"data": task(200)}, "samples is 200 here and was 331 there"),
]


@pytest.mark.parametrize(("options", "feeding", "message"), OTHERS, ids=[message for *_, message in OTHERS])
def test_a_checkpoint_of_another_recipe_is_not_gone_on_from(
    tmp_path: Path, options: dict[str, Any], feeding: dict[str, Any], message: str
) -> None:
    path = tmp_path / "state.pt"
    stopped_after(3, path)
    trainer = elastic(path, **options)
    feeding = dict(feeding)
    with pytest.raises(StateError, match=message):
        next(trainer.steps(feeding.pop("data", task()), 30, **feeding))


def test_a_checkpoint_of_another_model_is_said(tmp_path: Path) -> None:
    stopped_after(3, tmp_path / "state.pt")
    with pytest.raises(StateError, match=r"of step 3 does not fit this training: .*Linear"):
        next(elastic(tmp_path / "state.pt").steps(task(), 30))


def test_another_cap_is_gone_on_with_where_it_changes_nothing(tmp_path: Path) -> None:
    stopped_after(3, tmp_path / "state.pt")
    rest = taken(training(30, checkpoint=tmp_path / "state.pt", max_micro_batch=5))
    reference = taken(training(30))
    assert rest.parameters is not None
    assert reference.parameters is not None
    for name, value in reference.parameters.items():
        assert torch.allclose(rest.parameters[name], value, rtol=0, atol=1e-12), name


def test_alone_even_random_numbers_go_on_where_they_stopped(tmp_path: Path) -> None:
    def train(steps: int, path: Path, stop: int | None) -> list[float]:
        torch.manual_seed(0)
        random.seed(0)
        model = noisy_network()
        optimizer = torch.optim.AdamW(model.parameters())
        job = fallow.connect(environment={})
        trainer = job.elastic(model, optimizer, global_batch=48, max_micro_batch=7, checkpoint=path)
        losses = []
        for step, batches in trainer.steps(task(), steps):
            for x, y in batches:
                noise = random.random()
                trainer.backward(torch.nn.functional.cross_entropy(model(x.float() + noise), y))
            losses.append(trainer.step().loss)
            if step + 1 == stop:
                job.checkpoint()
                break
        return losses

    whole = train(14, tmp_path / "none.pt", None)
    first = train(14, tmp_path / "state.pt", 5)
    assert first + train(14, tmp_path / "state.pt", None) == whole


def test_saving_without_a_path_or_training_or_in_mid_step_is_said(tmp_path: Path) -> None:
    job = fallow.connect(environment={})
    with pytest.raises(StateError, match=r"call job.elastic\(...\) first"):
        job.checkpoint()
    model = torch.nn.Linear(12, 4).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    job.elastic(model, optimizer, global_batch=4, max_micro_batch=4)
    with pytest.raises(StateError, match="pass checkpoint=PATH"):
        job.checkpoint()
    job = fallow.connect(environment={})
    trainer = job.elastic(
        model, optimizer, global_batch=4, max_micro_batch=4, checkpoint=tmp_path / "state.pt"
    )
    next(trainer.steps(task(), 3))
    with pytest.raises(LoopError, match=r"step 0 is half done: save after trainer.step\(\)"):
        job.checkpoint()


def test_what_was_thawed_or_frozen_on_the_way_is_taken_up_so(tmp_path: Path) -> None:
    def frozen() -> "tuple[torch.nn.Module, Trainer]":
        model = torch.nn.Linear(12, 4).double()
        model.weight.requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        job = fallow.connect(environment={})
        options = {"global_batch": 48, "max_micro_batch": 48, "checkpoint": tmp_path / "state.pt"}
        return model, job.elastic(model, optimizer, **options)

    model, trainer = frozen()
    for step, batches in trainer.steps(task(), 3):
        if step == 1:  # a worker that comes later never sees this step
            model.weight.requires_grad_(True)
            model.bias.requires_grad_(False)
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
        trainer.step()
    trainer.save()
    later, resumed = frozen()
    next(resumed.steps(task(), 6))
    assert (later.weight.requires_grad, later.bias.requires_grad) == (True, False)


def test_a_compiled_and_a_plain_model_share_checkpoints(tmp_path: Path) -> None:
    model = torch.nn.Linear(12, 4).double()
    compiled = torch.compile(model, backend="eager")
    options: dict[str, Any] = {"global_batch": 4, "max_micro_batch": 4, "checkpoint": tmp_path / "state.pt"}
    job = fallow.connect(environment={})
    trainer = job.elastic(compiled, torch.optim.SGD(compiled.parameters(), lr=0.1), **options)
    for _, batches in trainer.steps(task(), 2):
        for x, y in batches:
            trainer.backward(torch.nn.functional.cross_entropy(compiled(x), y))
        trainer.step()
    job.checkpoint()
    other = torch.nn.Linear(12, 4).double()
    resumed = fallow.connect(environment={}).elastic(
        other, torch.optim.SGD(other.parameters(), lr=0.1), **options
    )
    next(resumed.steps(task(), 3))
    assert resumed.next_step == 2
    assert torch.equal(other.weight, model.weight)


def test_no_checkpoint_is_a_fresh_start(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "none.pt", CPU) is None
