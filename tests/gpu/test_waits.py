"""That a wait for the device which a plain loop has not is counted, whichever of CUDA's calls it is."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from tests.gpu import place  # noqa: E402
from tests.gpu.waits import Counting, more_waits, waits_in  # noqa: E402

PLAIN = ["aten::item", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaLaunchKernel"]


@pytest.mark.quick
@pytest.mark.parametrize("wait", ["cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize"])
def test_one_wait_more_does_not_hold_and_the_same_number_does(wait: str) -> None:
    ours = [name for name in PLAIN if name != "cudaStreamSynchronize"] + ["cudaEventSynchronize"]
    assert more_waits("", waits_in(ours), waits_in(PLAIN))["held"], "one is read by an event, the other so"
    assert more_waits("", waits_in([*ours, wait]), waits_in(PLAIN))["held"] is False
    assert waits_in(["cudaEventQuery", "cudaStreamWaitEvent", "cudaEventRecord"]) == 0, "nobody waits there"


@pytest.mark.slow
def test_the_waits_of_the_chosen_steps_are_counted_by_a_real_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU a range of that name stands in for CUDA's call."""
    monkeypatch.setattr(place, "dry", False)

    def a_step(waits: int) -> float:
        counting = Counting(2, 5)
        for step in range(8):
            with counting:
                for _ in range(waits if 2 <= step < 5 else 9):
                    with torch.profiler.record_function("cudaEventSynchronize"):
                        torch.ones(2).add_(1)
        return counting.a_step

    assert (a_step(1), a_step(2)) == (1.0, 2.0)
