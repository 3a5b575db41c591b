"""kill -9 of any worker at every point of the protocol: the training goes on, and learns the same."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.membership import Limits  # noqa: E402
from fallow.process_group import local_copy  # noqa: E402
from fallow.workers.pool import WorkerPool  # noqa: E402
from tests.fallow.crew import Outcome, training  # noqa: E402
from tests.fallow.devices import NAME  # noqa: E402
from tests.fallow.ledger import audit  # noqa: E402
from tests.thinned import thinned  # noqa: E402

SCRIPT = Path(__file__).with_name("crash_train.py")
ROOT = Path(__file__).parents[2]
LIMITS = Limits(start_ms=60_000, connect_ms=10_000, switch_ms=10_000, report_ms=10_000)
DEADLINE_S = 90
STEPS = 45

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
    "w0/amid-hear/0",
    "w0/amid-hear/1",
    "w1/before-receive/0",
    "w1/before-read/0",
    "w1/after-read/0",
    "w1/after-receive/0",
    "w0/before-switched/0",
    "w1/after-switched/0",
    "w2/before-ready/0",
    "w2/after-ready/0",
    "w2/before-connect/0",
    "w2/after-connect/0",
    "w2/before-receive/0",
    "w2/before-read/0",
    "w2/after-read/0",
    "w2/after-receive/0",
    "w2/before-switched/0",
    "w2/after-switched/0",
    "w0/before-connect/1",
    "w1/after-connect/1",
    "w0/before-send/1",
    "w0/amid-send/3",
    "w0/amid-hear/3",
    "w0/after-send/1",
    "w0/after-switched/1",
    "w1/before-switched/1",
    "w0/before-sum-of-2/2",
    "w0/after-sum-of-2/2",
    "w1/before-sum-of-2/2",
    "w1/after-sum-of-2/2",
    "w2/before-sum-of-3/3",
    "w2/after-sum-of-3/3",
    "w1/amid-step/5",
    "w0/before-sum-of-2/0",
    "w1/before-proof/0",
    "w0/after-proof/0",
    "w1/after-sum-of-3/0",
    "w2/before-sum-of-3/0",
    "w0/before-proof/1",
    "w1/after-proof/1",
    "w2/before-proof/0",
    "w2/after-proof/0",
    "w2/start/0",
    "w2/warm-up/0",
    "w0/before-sum-of-3/2 w1/before-lost/0",
    "w1/after-sum-of-3/2 w0/after-lost/0",
    "w0/before-sum-of-3/2 w1/before-connect/2",
    "w0/after-sum-of-3/2 w2/before-switched/1",
    "w1/before-switched/1 w2/before-proof/0",
    "w0/before-proof/1 w1/before-proof/1",
]
# From three workers, the last two leave while w3 and w4 wait as spares and join: both at once.
JOIN_AND_LEAVE = [
    "w0/after-connect/1",
    "w1/before-switched/1",
    "w1/after-switched/1",
    "w2/before-connect/1",
    "w2/after-connect/1",
    "w2/before-switched/1",
    "w3/before-connect/0",
    "w3/after-connect/0",
    "w3/before-receive/0",
    "w3/after-receive/0",
    "w3/before-switched/0",
    "w0/before-send/1",
    "w0/after-switched/1",
]


@pytest.fixture(scope="module")
def nursery() -> Iterator[WorkerPool]:
    parent = WorkerPool([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    yield parent
    parent.close()


@pytest.fixture(scope="module")
def reference() -> dict[str, object]:
    outcome = Outcome()
    training(STEPS, device="cpu", max_grad_norm=None, schedule=False)({}, outcome)
    assert outcome.parameters is not None
    return dict(outcome.parameters)


class Watched:
    """A training that must end in time, its controller, and what may be checked when it has."""

    def __init__(self, nursery: WorkerPool, folder: Path, crash: str, *, workers: int, spare: int = 0):
        self.out, self.ledger = folder / "end.pt", folder / "ledger"
        pace = "0.1" if spare else "0.02"  # steps must be left when a spare is ready, on a busy machine too
        variables = {"CRASH": crash, "OUT": str(self.out), "LEDGER": str(self.ledger), "PACE_S": pace}
        variables[local_copy.ENV_SWITCH] = "0" if "parcel" in crash else "1"
        self.controller = Controller(
            lambda own: nursery.spawn({**own, **variables}),
            workers=workers,
            maximum=4,
            spare=spare,
            limits=LIMITS,
        )
        self._deadline_s = time.monotonic() + DEADLINE_S

    def in_time(self) -> None:
        assert time.monotonic() < self._deadline_s, self.controller.journal

    def check(self, reference: dict[str, object], failures: int) -> None:
        learned = torch.load(self.out)
        for name, value in reference.items():
            assert torch.allclose(learned[name], value, rtol=0, atol=1e-12), name
        account = audit(self.ledger, STEPS, 331, 48)
        repeated = sum(times - 1 for times in account.attempts.values())
        assert repeated <= failures, "more than the step in flight was repeated"


EVERY = 3 if NAME == "cpu" else 13
"""On another device the same places once more, a few of each kind in every run: a case takes 4 s there."""


@pytest.mark.parametrize("crash", thinned(CRASHES, EVERY))
def test_a_worker_killed_anywhere_changes_nothing_that_is_learned(
    crash: str, nursery: WorkerPool, reference: dict[str, object], tmp_path: Path
) -> None:
    if NAME != "cpu" and any(word in crash for word in ("-read/", "-hear/")):
        pytest.skip(f"on the device {NAME} nobody reads a neighbour's memory")
    watched = Watched(nursery, tmp_path, crash, workers=2)

    def poll(controller: Controller) -> None:
        if controller.view.generation and controller.view.target == 2:
            controller.resize(3)
        watched.in_time()

    controller = watched.controller
    assert controller.run(poll) == 0, (controller.exit_reason, controller.journal)
    killed = sum("ended with -9" in line for line in controller.journal)
    assert killed == len(crash.split()), "\n".join(controller.journal)
    watched.check(reference, failures=killed)


@pytest.mark.parametrize("crash", ["", *thinned(JOIN_AND_LEAVE, EVERY)])
def test_joining_and_leaving_at_once_survives_kills_as_well(
    crash: str, nursery: WorkerPool, reference: dict[str, object], tmp_path: Path
) -> None:
    watched = Watched(nursery, tmp_path, crash, workers=3, spare=1)
    asked = False

    def poll(controller: Controller) -> None:
        nonlocal asked
        view = controller.view
        ready = [member for member, worker in view.workers.items() if worker.phase.value == "ready"]
        if view.generation and view.pending is None and ready and not asked:
            asked = True
            controller.release(view.members[1])
        watched.in_time()

    controller = watched.controller
    assert controller.run(poll) == 0, (controller.exit_reason, controller.journal)
    plans = [line for line in controller.journal if "Publish(Plan(number=2" in line]
    assert plans, controller.journal
    assert "members=('w0', 'w2', 'w3')" in plans[0], "one plan both lets go and takes in"
    killed = sum("ended with -9" in line for line in controller.journal)
    assert killed == len(crash.split()), "\n".join(controller.journal)
    watched.check(reference, failures=killed)
