"""Messages in any order between real processes: resized, moved and killed while a seed delays every word.

FALLOW_SEEDS asks for more seeds than the few of every day; the name of a test that fails ends with its seed.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from fallow import protocol  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.controller.membership import Limits  # noqa: E402
from fallow.workers.pool import WorkerPool  # noqa: E402
from tests.fallow.crew import Outcome, training  # noqa: E402
from tests.fallow.ledger import audit  # noqa: E402
from tests.fallow.postman import postman  # noqa: E402

SCRIPT = Path(__file__).with_name("crash_train.py")
ROOT = Path(__file__).parents[2]
LIMITS = Limits(start_ms=60_000, connect_ms=10_000, switch_ms=10_000, report_ms=10_000)
SEEDS = int(os.environ.get("FALLOW_SEEDS", "2"))
DEADLINE_S = 90
STEPS = 40


@pytest.fixture(scope="module")
def nursery() -> Iterator[WorkerPool]:
    parent = WorkerPool([str(SCRIPT)], {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    yield parent
    parent.close()


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "deterministic"])
def reference(request: pytest.FixtureRequest) -> tuple[bool, dict[str, Any]]:
    torch.set_num_threads(1)
    outcome = Outcome()
    train = training(STEPS, max_grad_norm=None, schedule=False, deterministic=request.param)
    train({}, outcome)
    assert outcome.parameters is not None
    return request.param, outcome.parameters


class Fate:
    """What befalls a training, drawn from a seed: another world, a worker let go, one killed."""

    def __init__(self, seed: int, ledger: Path):
        self._order = random.Random(seed)
        self._ledger = ledger
        self._due = sorted(self._order.sample(range(2, STEPS - 5), 4))
        self._deadline_s = time.monotonic() + DEADLINE_S
        self.victims: set[str] = set()

    def strike(self, controller: Controller) -> None:
        """Called by the controller each round."""
        assert time.monotonic() < self._deadline_s, controller.journal
        if not self._due or not self._ledger.exists():
            return
        if self._ledger.read_text().count('"commit"') < self._due[0]:
            return
        self._due.pop(0)
        staying, drawn = self._staying(controller), self._order.random()
        if drawn < 0.35 and len(staying) > 1:
            victim = self._order.choice(staying)
            self.victims.add(victim)
            controller.processes[victim].kill()
        elif drawn < 0.5 and len(staying) > 1:
            controller.release(self._order.choice(staying))
        else:
            controller.resize(self._order.randint(1, 4))

    def _staying(self, controller: Controller) -> list[protocol.MemberId]:
        """Who holds the state for good: were all of them killed, the training would be over."""
        view = controller.view
        wanted = view.members if view.pending is None else view.pending.plan.members
        return [m for m in view.members if m in wanted and m not in self.victims | view.unwanted]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_word_comes_first_processes_learn_the_same(
    seed: int, reference: tuple[bool, dict[str, Any]], nursery: WorkerPool, tmp_path: Path
) -> None:
    deterministic, expected = reference
    out, ledger = tmp_path / "end.pt", tmp_path / "ledger"
    variables = {"OUT": str(out), "LEDGER": str(ledger), "STEPS": str(STEPS)}
    variables |= {"DETERMINISTIC": "1"} if deterministic else {}

    def spawn(own: Any) -> Any:
        return nursery.spawn({**own, **variables})

    controller = Controller(spawn, workers=1 + seed % 3, maximum=4, spare=seed % 2, limits=LIMITS)
    fate = Fate(seed, ledger)
    with postman(controller.address, seed) as address:
        variables[protocol.ENV_STORE] = address
        assert controller.run(fate.strike) == 0, (controller.exit_reason, controller.journal)
    for name, value in torch.load(out).items():
        if deterministic:
            assert torch.equal(value, expected[name]), name
        else:
            assert torch.allclose(value, expected[name], rtol=0, atol=1e-12), name
    account = audit(ledger, STEPS, 331, 48)
    repeated = sum(times - 1 for times in account.attempts.values())
    assert repeated <= len(fate.victims), "more than the steps in flight were repeated"
