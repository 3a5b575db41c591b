"""A state that cannot be handed over is said at the start; one that comes to be so ends no training."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.errors import StateError  # noqa: E402
from fallow.process_group.collectives import Group  # noqa: E402
from fallow.process_group.state_transfer import check_portable, receive_state, send_state  # noqa: E402
from tests.fallow.crew import run, training  # noqa: E402
from tests.fallow.driven import Resize, drive  # noqa: E402
from tests.fallow.ranks import CPU, together  # noqa: E402

STEPS = 60
SCRIPT = """
import json, os, time, torch, fallow
from pathlib import Path

class Turning:
    '''Can be handed over until the training has begun.'''
    begun = False
    def state_dict(self):
        if not self.begun:
            return {"n": 3}
        if os.environ["TURNS"] == "raises":
            raise KeyError("gone")
        return {"n": 3, "fn": lambda x: x}
    def load_state_dict(self, state):
        pass

extra = Turning()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = fallow.connect().elastic(
    model, optimizer, global_batch=4, max_micro_batch=2, state={"e": extra}
)
data = torch.utils.data.TensorDataset(torch.ones(8, 2))
for step, batches in trainer.steps(data, int(os.environ["STEPS"])):
    extra.begun = True
    for (x,) in batches:
        trainer.backward(model(x).mean())
    done = trainer.step()
    if done is not None and trainer.rank == 0:
        with Path(os.environ["DONE"]).open("a") as file:
            file.write(json.dumps([step, done.world_size]) + "\\n")
    time.sleep(0.05)
"""


class Extra:
    def __init__(self, **state: Any):
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Unready:
    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError("nothing to tell yet")

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def elastic(**options: Any) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fallow.connect(environment={}).elastic(model, optimizer, global_batch=4, max_micro_batch=4, **options)


def test_a_driven_training_whose_state_cannot_be_handed_over_says_so_at_its_start() -> None:
    done = run(training(5, state={"e": Extra(n=3, fn=lambda x: x)}), workers=1)
    assert done.exit_code == 1
    assert isinstance(done.outcomes[0].error, StateError)
    assert str(done.outcomes[0].error).startswith("state['e']['fn'] is a function that cannot be handed to")


def test_a_training_with_a_path_says_at_its_start_what_it_could_not_save(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"^state\['e'\]\['fn'\] is a builtins.function"):
        elastic(state={"e": Extra(fn=lambda x: x)}, checkpoint=tmp_path / "saved.pt")
    with pytest.raises(StateError, match=r"^state\['e'\]\['where'\] is a pathlib"):
        elastic(state={"e": Extra(where=tmp_path)}, checkpoint=tmp_path / "saved.pt")
    elastic(state={"e": Unready(), "f": Extra(n=3)}, checkpoint=tmp_path / "saved.pt")


def test_a_training_alone_is_asked_for_no_state() -> None:
    elastic(state={"e": Extra(fn=lambda x: x)})


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"extra": {"e": {"n": 3, "fn": lambda x: x}}}, r"state\['e'\]\['fn'\] is a function"),
        ({"extra": {"e": [1, ({"lock": threading.Lock()},)]}}, r"state\['e'\]\[1\]\[0\]\['lock'\] is a lock"),
        ({"model": {"w": torch.ones(2)}, "schedulers": [{"fn": 0}, lambda: 0]}, r"schedulers\[1\] is a"),
        ({"schedulers": [{"fn": print}, lambda: 0]}, r"schedulers\[0\]\['fn'\] is a builtin"),
        ({"step": 3, "extra": {"e": {(lambda: 0): 1}}}, r"state\['e'\] is a dict"),
        (threading.Lock(), "the state is a lock"),
    ],
)
def test_what_cannot_be_handed_over_is_named_before_anything_is_sent(state: Any, told: str) -> None:
    with pytest.raises(StateError, match=told):
        check_portable(state)

    def work(group: Group) -> object:
        if group.rank:
            return receive_state(group, 0, None, CPU)
        with pytest.raises(StateError, match=told):
            send_state(group, 1, state, CPU)
        return send_state(group, 1, {"step": 3}, CPU)

    assert together(2, work) == [0, {"step": 3}]


def test_a_state_that_holds_itself_is_said() -> None:
    around: dict[str, Any] = {}
    around["again"] = around
    with pytest.raises(StateError, match="RecursionError"):
        check_portable({"extra": around})


def test_a_state_of_tensors_and_plain_things_can_be_handed_over() -> None:
    check_portable({"extra": {"e": [torch.ones(3), torch.float16, None, {1: ("a", 2.0)}, {3}, CPU]}})


@pytest.mark.parametrize(("workers", "turns"), [(1, "unpicklable"), (1, "raises"), (2, "unpicklable")])
def test_a_training_that_can_no_longer_be_handed_over_goes_on_as_it_is(
    workers: int, turns: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = tmp_path / "done"

    def steps() -> list[list[int]]:
        return [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []

    ended = drive(
        [str(tmp_path / "train.py")],
        [Resize(5, workers + 1), Resize(20, workers + 1), Resize(40, 1)],
        lambda: len(steps()),
        workers=workers,
        variables={"STEPS": str(STEPS), "DONE": str(done), "TURNS": turns},
    )
    assert ended.exit_code == 0, ended.journal
    assert [step for step, _ in steps()] == list(range(STEPS)), "no step was lost or repeated"
    assert {world for _, world in steps()} == {1, workers}
    reason = "state_dict() raised KeyError: 'gone'" if turns == "raises" else "state['e']['fn'] is a function"
    settled = [line for line in ended.journal if "Settle(" in line]
    assert len(settled) == 2, "asked twice, told twice"
    assert all("w0 cannot hand the training over" in line for line in settled)
    assert all(reason.replace("'", "\\'") in line or reason in line for line in settled), settled
    assert not any("w0 ended with 1" in line for line in ended.journal), ended.journal
