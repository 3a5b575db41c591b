"""A driven training tells its scheduler how it goes, without being asked to, and what its script adds."""

import json
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.controller.controller import Controller  # noqa: E402
from fallow.metrics.report import EVERY_S, Reporter  # noqa: E402
from tests.fallow.crew import LIMITS, Outcome, ThreadWorker, task  # noqa: E402

pytestmark = pytest.mark.quick


def test_what_is_measured_goes_out_once_in_a_while_and_only_then_is_measured() -> None:
    sent: list[dict[str, Any]] = []
    measured: list[float] = []
    reporter = Reporter(lambda report: sent.append(dict(report)))
    for now_s in (0.0, 0.3, 0.9, EVERY_S, EVERY_S + 0.1, 3 * EVERY_S):
        reporter.measured(now_s, lambda now_s=now_s: measured.append(now_s) or {"step": now_s})  # type: ignore[misc]
    assert measured == [0.0, EVERY_S, 3 * EVERY_S]
    assert [report["step"] for report in sent] == measured


def test_what_the_script_told_goes_out_at_once_and_stays_and_wins() -> None:
    sent: list[dict[str, Any]] = []
    reporter = Reporter(lambda report: sent.append(dict(report)))
    reporter.measured(0.0, lambda: {"step": 1, "remaining_steps": 9})
    reporter.tell({"remaining_steps": 4, "tokens_per_s": 2.5})
    reporter.measured(EVERY_S, lambda: {"step": 2, "remaining_steps": 8})
    assert sent[1] == {"step": 1, "remaining_steps": 4, "tokens_per_s": 2.5}
    assert sent[2] == {"step": 2, "remaining_steps": 4, "tokens_per_s": 2.5}


def test_alone_nothing_is_even_measured() -> None:
    Reporter(None).measured(0.0, lambda: pytest.fail("measured for nobody"))
    fallow.connect(environment={}).report(step_time_s=0.1)


def test_a_controller_can_read_how_its_training_goes() -> None:
    def train(environment: Any, outcome: Outcome) -> None:
        model = torch.nn.Linear(12, 4).double()
        job = fallow.connect(environment=environment)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = job.elastic(model, optimizer, global_batch=48, max_micro_batch=7)
        for step, batches in trainer.steps(task(), 40):
            for x, y in batches:
                trainer.backward(torch.nn.functional.cross_entropy(model(x), y))
            trainer.step()
            job.report(tokens_per_s=100.0 + step)
            if step == 30:
                read.wait()

    read = threading.Event()  # by the controller: the training may be over before it looks, else
    workers: dict[str, ThreadWorker] = {}
    seen: list[dict[str, Any]] = []

    def spawn(environment: Any) -> Any:
        return workers.setdefault(environment["FALLOW_MEMBER"], ThreadWorker(train, environment))

    def poll(controller: Controller) -> None:
        seen.extend(
            json.loads(told) for member in controller.view.members if (told := controller.report(member))
        )
        if any("step" in report for report in seen) and any("tokens_per_s" in report for report in seen):
            read.set()

    controller = Controller(spawn, workers=2, maximum=2, limits=LIMITS)
    assert controller.run(poll) == 0, controller.journal
    whole = [report for report in seen if "step" in report]
    assert whole, seen
    assert {"remaining_steps", "world_size", "step_time_s", "samples_per_s"} <= set(whole[0])
    assert all(report["step"] + report["remaining_steps"] == 40 for report in whole)
    assert all(report["memory_reserved_bytes"] is None for report in whole)  # no GPU: not measured, not 0
    assert any("tokens_per_s" in report for report in seen)
