"""A saved training goes on as if it had never stopped, and a crash while saving loses nothing."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow import checkpoint  # noqa: E402
from tests.fallow.crew import Outcome, Train, run, training  # noqa: E402

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


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1})

    class Unsavable:
        def __reduce__(self) -> object:
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        checkpoint.save(path, {"step": 2, "what": Unsavable()})
    assert checkpoint.load(path, CPU) == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.pt"]


def test_a_damaged_checkpoint_is_said_and_not_trained_over(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    checkpoint.save(path, {"step": 1, "w": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(checkpoint.CheckpointDamaged, match="move it away"):
        checkpoint.load(path, CPU)


def test_no_checkpoint_is_a_fresh_start(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path / "none.pt", CPU) is None
