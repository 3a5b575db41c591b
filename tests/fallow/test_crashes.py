"""kill -9 of any worker at every point of the protocol: the training goes on, and learns the same."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.controller import Controller  # noqa: E402
from fallow.membership import Limits  # noqa: E402
from fallow.nursery import Nursery  # noqa: E402
from tests.fallow.crash_train import STEPS  # noqa: E402
from tests.fallow.crew import Outcome, training  # noqa: E402

SCRIPT = Path(__file__).with_name("crash_train.py")
ROOT = Path(__file__).parents[2]
LIMITS = Limits(start_ms=60_000, connect_ms=10_000, switch_ms=10_000, report_ms=10_000)
DEADLINE_S = 90

# Two founders, w0 and w1, and a joiner, w2, that is asked for at once. The number counts passes, from 0.
CRASHES = [
    "w0/before-ready/0",
    "w1/after-ready/0",
    "w1/before-connect/0",
    "w0/after-connect/0",
    "w0/before-send/0",
    "w0/amid-send/1",
    "w0/before-parcel/0",
    "w0/after-parcel/0",
    "w1/before-receive/0",
    "w1/after-receive/0",
    "w0/before-switched/0",
    "w1/after-switched/0",
    "w2/before-ready/0",
    "w2/after-ready/0",
    "w2/before-connect/0",
    "w2/after-connect/0",
    "w2/before-receive/0",
    "w2/after-receive/0",
    "w2/before-switched/0",
    "w2/after-switched/0",
    "w0/before-connect/1",
    "w1/after-connect/1",
    "w0/before-send/1",
    "w0/after-send/1",
    "w0/after-switched/1",
    "w1/before-switched/1",
    "w0/before-sum-of-2/2",
    "w0/after-sum-of-2/2",
    "w1/before-sum-of-2/2",
    "w1/after-sum-of-2/2",
    "w2/before-sum-of-3/3",
    "w2/after-sum-of-3/3",
    "w0/before-sum-of-3/2 w1/before-lost/0",
    "w1/after-sum-of-3/2 w0/after-lost/0",
    "w0/before-sum-of-3/2 w1/before-connect/2",
    "w0/after-sum-of-3/2 w2/before-switched/1",
]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    parent = Nursery([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    yield parent
    parent.close()


@pytest.fixture(scope="module")
def reference() -> dict[str, object]:
    outcome = Outcome()
    training(STEPS, max_grad_norm=None, schedule=False)({}, outcome)
    assert outcome.parameters is not None
    return dict(outcome.parameters)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_worker_killed_anywhere_changes_nothing_that_is_learned(
    crash: str, nursery: Nursery, reference: dict[str, object], tmp_path: Path
) -> None:
    out = tmp_path / "end.pt"
    controller = Controller(
        lambda variables: nursery.spawn({**variables, "CRASH": crash, "OUT": str(out)}),
        workers=2,
        maximum=3,
        limits=LIMITS,
    )
    began = time.monotonic()

    def poll(controller: Controller) -> None:
        if controller.view.generation and controller.view.target == 2:
            controller.resize(3)
        assert time.monotonic() - began < DEADLINE_S, controller.journal

    assert controller.run(poll) == 0, (controller.exit_reason, controller.journal)
    assert any("ended with -9" in line for line in controller.journal), controller.journal
    learned = torch.load(out)
    for name, value in reference.items():
        assert torch.allclose(learned[name], value, rtol=0, atol=1e-12), name
