"""Without a GPU there is nothing to measure, release or cap, and that is said as None, not as zero."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402

pytestmark = pytest.mark.quick


def test_without_a_gpu_memory_is_not_measured_and_nothing_is_released() -> None:
    job = fallow.connect(environment={})
    assert job.memory.measure().reserved_bytes is None
    freed = job.memory.release()
    assert freed.freed_bytes is None
    assert freed.before == freed.after
    job.memory.limit(0.5)


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, float("nan")])
def test_a_fraction_that_makes_no_sense_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="above 0 and is at most 1"):
        fallow.connect(environment={}).memory.limit(fraction)
