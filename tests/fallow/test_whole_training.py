"""A whole training that is resized and whose workers are killed ends with the fixed run's loss curve."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from bench.elastic import whole

STEPS, EVERY = 120, 30


@pytest.mark.parametrize(("mode", "seed"), [pytest.param("exact", 1, marks=pytest.mark.long), ("bitwise", 2)])
def test_a_training_resized_and_killed_at_random_learns_the_same_curve(
    mode: str, seed: int, tmp_path: Path
) -> None:
    plan = whole.disturbances(STEPS, EVERY, seed)
    assert any(each.kill_at is not None for each in plan)
    fixed = whole.undisturbed(tmp_path / "fixed", STEPS, mode)
    workers, deaths = whole.disturbed(tmp_path / "disturbed", STEPS, mode, plan)
    assert deaths == sum(each.kill_at is not None for each in plan)
    assert {step for log in workers.values() for step in log} == set(range(STEPS)) == fixed.keys()
    assert {done.world_size for log in workers.values() for done in log.values()} >= {p.workers for p in plan}
    assert fixed[STEPS - 1].loss < 0.7 * fixed[0].loss, "it must have learned something to compare"
    for name, log in workers.items():
        for step, done in log.items():
            if mode == "bitwise":
                assert done.loss == fixed[step].loss, (name, step)
            else:
                assert done.loss == pytest.approx(fixed[step].loss, rel=1e-10), (name, step)
