"""A training with Lightning, alone or resized or hurt, learns what a plain loop learns."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")
pytest.importorskip("lightning", reason="lightning is not installed: pip install -c constraints.txt .[test]")

from tests.fallow.driven import Kill, Resize, Stop, drive, started
from tests.fallow.plugged import STEPS_PER_EPOCH, assert_equals_plain_loop, assert_same_bits, lines_of

SCRIPT = str(Path(__file__).with_name("lightning_train.py"))


def test_alone_it_equals_the_plain_loop(tmp_path: Path) -> None:
    started([sys.executable, SCRIPT], tmp_path / "out", EPOCHS="3")
    assert_equals_plain_loop(tmp_path / "out", epochs=3)


@pytest.mark.long
def test_under_torchrun_it_equals_the_plain_loop(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", SCRIPT]
    started(torchrun, tmp_path / "out", EPOCHS="3")
    assert_equals_plain_loop(tmp_path / "out", epochs=3)
    assert {line["world_size"] for line in lines_of(tmp_path / "out")} == {3}


def test_resized_it_equals_the_plain_loop(tmp_path: Path) -> None:
    out = tmp_path / "out"
    resizes = [Resize(10, 3), Resize(40, 2), Resize(70, 4), Resize(100, 1)]
    driven = drive(
        [SCRIPT], resizes, lambda: len(lines_of(out)), preload=["lightning"], variables={"OUT": str(out)}
    )
    assert driven.exit_code == 0, driven.journal
    assert driven.world_sizes >= {1, 2, 3, 4}
    assert_equals_plain_loop(out)
    for line in lines_of(out):
        assert line["epoch"] == line["step"] // STEPS_PER_EPOCH
    validated = [line["validated"] for line in lines_of(out)][-1]
    assert validated == list(range(2 * STEPS_PER_EPOCH, validated[-1] + 1, 2 * STEPS_PER_EPOCH))


@pytest.mark.long
def test_deterministic_with_workers_killed_and_idle_it_has_the_same_bits(tmp_path: Path) -> None:
    out, alone = tmp_path / "out", tmp_path / "alone"
    bitwise = {"DETERMINISTIC": "1"}
    events = [Kill(10, 1), Resize(30, 4), Kill(60, 0), Kill(80, 2), Resize(100, 2)]
    driven = drive(
        [SCRIPT],
        events,
        lambda: len(lines_of(out)),
        workers=2,
        preload=["lightning"],
        variables={"OUT": str(out), **bitwise},
    )
    assert driven.exit_code == 0, driven.journal
    assert 4 in driven.world_sizes, "an epoch's last batch has 3 pieces: one of 4 workers has nothing to do"
    started([sys.executable, SCRIPT], alone, **bitwise)
    assert_same_bits(out, alone, killed=3)


@pytest.mark.long
def test_stopped_in_a_world_of_two_and_resumed_alone_it_equals_the_plain_loop(tmp_path: Path) -> None:
    out, kept = tmp_path / "out", {"CHECKPOINT": str(tmp_path / "kept.pt")}
    driven = drive(
        [SCRIPT],
        [Stop(60)],
        lambda: len(lines_of(out)),
        workers=2,
        preload=["lightning"],
        variables={"OUT": str(out), **kept},
    )
    assert driven.exit_code != 0, "a training that was stopped is not finished"
    assert 60 <= len(lines_of(out)) < 30 * STEPS_PER_EPOCH
    started([sys.executable, SCRIPT], out, **kept)
    steps = [line["step"] for line in lines_of(out)]
    assert steps == sorted(set(steps)), "it went on where it was"
    assert_equals_plain_loop(out)
