"""A joiner is nobody until it is taken in: it gets no step before, and no place in the job to ask for."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

from torch import nn  # noqa: E402

import fallow  # noqa: E402
from fallow import protocol  # noqa: E402
from fallow.errors import NotYetJoined  # noqa: E402
from fallow.process_group.variables import follow  # noqa: E402
from fallow.state.recorded_calls import Recorder, replay  # noqa: E402
from tests.fallow.crew import SEEDING, Outcome, network, run, task, until_resized  # noqa: E402

STEPS = 25
GROWS = {2: 3}


class Watched:
    """A training that notes what each worker was, whenever the script could ask."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self.seen: dict[str, list[tuple[int, int, int, bool]]] = {}
        self.calls: dict[str, int] = {}
        self._lock = threading.Lock()

    def train(self, environment: Mapping[str, str], outcome: Outcome) -> None:
        me = environment[protocol.ENV_MEMBER]
        with SEEDING:
            model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        job = fallow.connect(environment=environment)
        trainer = job.elastic(model, optimizer, global_batch=48, max_micro_batch=7)
        asked = ("rank", "world_size", "next_step", "epoch", "generation")
        self.refused[me] = sum(map(refuses, [trainer] * len(asked), asked)) + refuses(job, "is_main")
        self.seen[me] = []
        wait = until_resized(GROWS)
        model.register_forward_pre_hook(lambda *_: self._count(me))
        for step, batches in trainer.steps(task(), STEPS):
            self.seen[me].append((step, trainer.rank, trainer.world_size, job.is_main))
            for x, y in batches:
                trainer.backward(nn.functional.cross_entropy(model(x), y))
            done = trainer.step()
            if done is not None:
                outcome.steps.append(done)
                wait(trainer)
        outcome.parameters = {name: value.clone() for name, value in model.state_dict().items()}

    def _count(self, me: str) -> None:
        with self._lock:
            if not self.seen[me]:  # before the script was given any step
                self.calls[me] = self.calls.get(me, 0) + 1


def refuses(asked: Any, name: str) -> bool:
    with pytest.raises(NotYetJoined, match=r"inside the loop over trainer\.steps"):
        getattr(asked, name)
    return True


@pytest.mark.slow
@pytest.mark.process
def test_a_joiner_is_taken_in_before_its_first_step_is_given_out() -> None:
    watched = Watched()
    done = run(watched.train, workers=1, script=GROWS)
    assert done.exit_code == 0, done.journal
    assert set(watched.refused.values()) == {6}
    assert len(watched.refused) == 3
    assert watched.seen["w0"][0] == (0, 0, 1, True)
    for joiner in ("w1", "w2"):
        step, rank, world, is_main = watched.seen[joiner][0]
        assert step > 2
        assert rank > 0
        assert world == 3
        assert not is_main
    assert set(watched.calls) == {"w1", "w2"}  # warmed up none the less, with a call as others had seen it


@pytest.mark.quick
def test_calls_are_recorded_as_shapes_and_made_again_with_other_numbers_of_samples() -> None:
    class Branched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 6), nn.Linear(6, 2)
            self.called: list[Any] = []

        def forward(self, ids: Any, *, scale: float, extra: Any = None) -> Any:
            self.called.append((tuple(ids.shape), scale, extra))
            return {"out": self.head(self.table(ids)) * scale, "ids": ids}

    model = Branched()
    recorder = Recorder(model, samples=4)
    with torch.no_grad():
        model(torch.ones(4, 5, dtype=torch.int64), scale=2.0, extra=["word", (1, None)])
        model.head(torch.rand(4, 6))
    text = recorder.close()
    model(torch.ones(4, 5, dtype=torch.int64), scale=2.0)  # nothing listens any more
    assert text is not None
    model.called.clear()
    replay(model, text, samples=3, device=torch.device("cpu"))
    assert model.called == [((3, 5), 2.0, ["word", (1, None)])]
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.quick
def test_a_call_that_holds_an_object_is_not_recorded() -> None:
    class Called(nn.Module):
        def forward(self, graph: Any) -> Any:
            return graph

    model = Called()
    recorder = Recorder(model, samples=4)
    model(object())
    assert recorder.close() is None


@pytest.mark.quick
def test_what_frameworks_read_of_a_place_follows_the_group() -> None:
    variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    follow(variables, 0, 3)
    assert variables == {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}
