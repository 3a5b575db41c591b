"""A training with Transformers' Trainer, resized or hurt, learns what its own learns in one process."""

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install -c constraints.txt .[test]"
)

from tests.fallow.driven import Kill, Resize, drive, started  # noqa: E402
from tests.fallow.plugged import EPOCHS, STEPS_PER_EPOCH, lines_of  # noqa: E402

SCRIPT = str(Path(__file__).with_name("transformers_train.py"))
SAVED_AT, LOGGED_EVERY = 6 * STEPS_PER_EPOCH, 10


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The diary of Transformers' own Trainer."""
    out = tmp_path_factory.mktemp("fixed") / "out"
    started([sys.executable, SCRIPT], out, FIXED="1")
    return out


def assert_equal(path: Path, fixed: Path, *, missing: int = 0, since: int = 0) -> None:
    """The same losses, rates and end; of ``missing`` workers that died a line may not have been written."""
    told, expected = lines_of(path), {line["step"]: line for line in lines_of(fixed)}
    assert len(expected) == EPOCHS * STEPS_PER_EPOCH
    assert len({line["step"] for line in told}) >= len(expected) - since - missing
    for line in told:
        other = expected[line["step"]]
        assert abs(line["loss"] - other["loss"]) < 1e-12, (line, other)
        assert abs(line["rate"] - other["rate"]) < 1e-15, (line, other)
    ends = [torch.load(f"{each}.pt") for each in (path, fixed)]
    for name, value in ends[0].items():
        assert torch.allclose(value, ends[1][name], rtol=0, atol=1e-12), name
    kept, its = (state_of(each) for each in (path, fixed))
    assert kept["best_global_step"] == its["best_global_step"]
    assert kept["best_metric"] == pytest.approx(its["best_metric"], rel=1e-6)
    assert [row["step"] for row in kept["log_history"]] == [row["step"] for row in its["log_history"]]
    for row, other in zip(kept["log_history"], its["log_history"], strict=True):
        if since < row["step"] < since + LOGGED_EVERY:
            continue  # Transformers counts a log's mean loss anew when it resumes
        for figure in {"loss", "eval_loss", "grad_norm"} & {*row, *other}:
            assert row[figure] == pytest.approx(other[figure], rel=1e-5), (figure, row, other)


def state_of(path: Path) -> dict[str, object]:
    last = EPOCHS * STEPS_PER_EPOCH
    found = Path(f"{path}.kept") / f"checkpoint-{last}" / "trainer_state.json"
    state: dict[str, object] = json.loads(found.read_text())
    return state


@pytest.mark.long  # what one worker learns, the resized training shows too
def test_alone_it_equals_transformers_own(tmp_path: Path, fixed: Path) -> None:
    started([sys.executable, SCRIPT], tmp_path / "out")
    assert_equal(tmp_path / "out", fixed)


def test_resized_and_hurt_it_equals_transformers_own(tmp_path: Path, fixed: Path) -> None:
    out = tmp_path / "out"
    # Early ones, and slow steps: on a loaded machine a joiner takes half a minute to come.
    events = [Resize(5, 3), Resize(15, 2), Kill(25, 0), Resize(35, 1)]
    driven = drive(
        [SCRIPT],
        events,
        lambda: len(lines_of(out)),
        preload=["fallow.plugins.transformers"],
        variables={"OUT": str(out), "STEP_S": "0.15"},
    )
    assert driven.exit_code == 0, driven.journal
    assert driven.world_sizes >= {1, 2, 3}
    assert_equal(out, fixed, missing=1)


@pytest.mark.long
def test_it_goes_on_from_what_transformers_saved(tmp_path: Path, fixed: Path) -> None:
    kept = Path(f"{fixed}.kept") / f"checkpoint-{SAVED_AT}"
    assert kept.is_dir()
    started([sys.executable, SCRIPT], tmp_path / "out", RESUME=str(kept))
    assert [line["step"] for line in lines_of(tmp_path / "out")] == list(
        range(SAVED_AT, EPOCHS * STEPS_PER_EPOCH)
    )
    assert_equal(tmp_path / "out", fixed, since=SAVED_AT)
