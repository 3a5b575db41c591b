"""The steps of ``tests.gpu.run`` as tests, on a real GPU: ``pytest tests/gpu -m gpu``. Both say one thing.

What a step misses is its reason to be skipped. Left out are those that fill a GPU for minutes or end a
daemon: ``run`` plays them in their order.
"""

import pytest

from tests.gpu import place
from tests.gpu.answers import Missing, verdict_of
from tests.gpu.one import answer_of
from tests.gpu.table import STEPS, Step

pytestmark = pytest.mark.gpu

LEFT_OUT = ("mps_kill", "pairs", "fill")


@pytest.mark.parametrize(
    "step", [step for step in STEPS if step.name not in LEFT_OUT], ids=lambda each: each.name
)
def test_step_holds(step: Step) -> None:
    if place.nvml_handle() is None:
        pytest.skip("no NVIDIA driver answers; run on a machine with a GPU")
    try:
        answer = answer_of(step)
    except Missing as missing:
        pytest.skip(str(missing))
    print(*answer.get("figures", ()), sep="\n")
    broken = [figure for figure in answer.get("figures", ()) if figure["held"] is False]
    assert verdict_of(answer.get("figures", ())) == "held", broken
