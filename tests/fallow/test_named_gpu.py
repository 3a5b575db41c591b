"""A training on GPU 1 has nothing to do with GPU 0, the current one. By stand-ins for calls of torch."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install -c constraints.txt torch")

import fallow  # noqa: E402
from fallow.data.adapters import Asked, take_in  # noqa: E402
from fallow.data.content_check import ContentCheck  # noqa: E402
from fallow.errors import Mistake  # noqa: E402
from fallow.metrics.stopwatch import Stopwatch  # noqa: E402
from fallow.process_group import nccl_group, static  # noqa: E402
from fallow.requests import listener, memory  # noqa: E402
from fallow.state import checkpoint, rng  # noqa: E402
from fallow.state.replica import Replica  # noqa: E402
from fallow.state.rng import Stage  # noqa: E402
from fallow.types import Recipe  # noqa: E402
from tests.fallow.nccl_stand_in import StandIn  # noqa: E402

pytestmark = pytest.mark.quick

SECOND = torch.device("cuda:1")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> "list[torch.Generator]":
    """Two GPUs, of which the first is the current one; their generators."""

    def asked() -> bool:
        raise AssertionError("is_available() asks the driver; is_initialized() knows")

    generators = [torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", asked)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "default_generators", tuple(generators))
    return generators


@pytest.mark.usefixtures("gpus")
def test_a_gpu_that_is_named_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert static.place("cuda:1", {}) == SECOND
    assert static.place("cuda", {"LOCAL_RANK": "1"}) == SECOND
    assert static.place("cpu", {}) == torch.device("cpu")
    assert current == [1, 1]
    with pytest.raises(Mistake, match="sees 2 GPUs"):
        static.place("cuda:2", {})


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "cuda:1"])
def test_a_gpu_where_there_is_none_is_named_and_not_asserted(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(Mistake, match=f"connect.'{wanted}'.: this process sees no GPU; look at CUDA_VISIBLE"):
        static.place(wanted, {})


def test_dropout_is_keyed_on_the_gpu_that_computes_it(gpus: "list[torch.Generator]") -> None:
    before = torch.get_rng_state()
    try:
        rng.seed(3, 7, 2, device=SECOND)
        assert [each.initial_seed() for each in gpus] == [1, torch.initial_seed()]
        rng.seed(3, 8, 2)
        assert gpus[0].initial_seed() == torch.initial_seed(), "the current one, where none is named"
    finally:
        torch.set_rng_state(before)


def test_where_random_numbers_stand_is_saved_of_the_gpu_that_computes(gpus: "list[torch.Generator]") -> None:
    stood = rng.snapshot(SECOND)
    drawn = torch.rand(3, generator=gpus[1])
    first = gpus[0].get_state()
    rng.restore(stood, SECOND)
    assert torch.equal(torch.rand(3, generator=gpus[1]), drawn)
    assert torch.equal(gpus[0].get_state(), first)


class Counted(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """A stream of so many samples."""

    def __init__(self, samples: int):
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Any:
        return iter([torch.ones(2)] * self._samples)


@pytest.mark.slow
def test_all_random_numbers_are_keyed_on_the_device_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is named it is the current GPU's generator, and dropout on another draws as it likes."""
    seed, named = rng.seed, dict[Stage, set[Any]]()

    def noting(key: Any, step: int, micro_batch: int = 0, stage: Stage = Stage.MODEL, **where: Any) -> None:
        named.setdefault(stage, set()).add(where.get("device"))
        seed(key, step, micro_batch, stage, **where)

    monkeypatch.setattr(rng, "seed", noting)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = fallow.connect(environment={}).elastic(model, optimizer, global_batch=2, max_micro_batch=2)
    for _, batches in trainer.steps([torch.ones(2)] * 4, 2):
        for batch in batches:
            trainer.backward(model(batch).sum())
        trainer.step()
    trainer.evaluate([torch.ones(2)] * 4, lambda batch: model(batch).sum())
    trainer.evaluate(Counted(4), lambda batch: model(batch).sum())
    for _ in trainer.epochs(1):
        break
    intake = take_in([torch.ones(2)] * 4, Asked(), 2, 0, 3, device=torch.device("cpu"))
    ContentCheck().look(intake.reader, intake.order, 3)
    assert named == {stage: {torch.device("cpu")} for stage in Stage}


def test_a_checkpoint_has_the_random_numbers_of_the_gpu_that_the_model_is_on(
    gpus: "list[torch.Generator]",
) -> None:
    model = torch.nn.Linear(2, 1)
    recipe = Recipe(global_batch=2, max_micro_batch=2, seed=0)
    replica = Replica(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    replica.device = SECOND  # as of a model that lies there
    state = replica.state(generators=True)
    drawn = torch.rand(3, generator=gpus[1])
    torch.rand(3, generator=gpus[0])
    stood = gpus[0].get_state()
    replica.load(state)
    assert torch.equal(torch.rand(3, generator=gpus[1]), drawn)
    assert torch.equal(gpus[0].get_state(), stood), "another's numbers would be drawn again"


def test_the_stopwatch_marks_the_stream_of_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[Any] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None: ...

        def record(self, stream: Any = "the current GPU's") -> None:
            marked.append(stream)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: f"stream of {device}")
    watch = Stopwatch(SECOND)
    watch.start()
    watch.stop()
    assert marked == ["stream of cuda:1"] * 2


@pytest.mark.usefixtures("gpus")
def test_who_listens_tells_of_the_gpu_that_holds_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked in a thread of its own, whose current GPU is always the first."""
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: [0, 1 << 30][device])
    assert listener._device() == SECOND


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The current GPU, as ``torch.cuda.device`` and ``set_device`` move it; the last is the one in force."""
    at = [0]

    def exchange(index: int) -> int:
        before = at[-1]
        at.append(index)
        return before

    monkeypatch.setattr(torch.cuda, "_exchange_device", exchange)
    monkeypatch.setattr(torch.cuda, "_maybe_exchange_device", exchange)
    return at


@pytest.mark.usefixtures("gpus")
def test_caches_are_given_back_on_the_gpu_that_holds_them(
    monkeypatch: pytest.MonkeyPatch, current: list[int]
) -> None:
    """In a thread of its own the first GPU is the current one, and would get a context of half a GiB."""
    emptied: list[int] = []
    for name in ("memory_reserved", "memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda device: 0)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=1 << 30)
    )
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(current[-1]))
    memory.JobMemory(SECOND).release()
    assert emptied == [1]
    assert current[-1] == 0, "the script's own stays"


def test_who_looks_after_exchanges_stands_on_the_gpu_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that is asked where no GPU is current has CUDA open the first one."""
    stood, looked = dict[str, Any](), threading.Event()

    class Late:
        def query(self) -> bool:
            stood.setdefault("asked on", stood.get(threading.current_thread().name))
            looked.set()
            return True

        def synchronize(self) -> None: ...

    def stand(device: Any) -> None:
        stood[threading.current_thread().name] = torch.device(device)

    monkeypatch.setattr(torch.cuda, "set_device", stand)
    monkeypatch.setattr(nccl_group, "LOOK_S", 0.01)
    store = torch.distributed.HashStore()
    group = nccl_group.NcclGroup(StandIn(store, 0, 1), store, 0.0, Late, device=SECOND)
    group.start_all_reduce(torch.ones(1)).wait()
    assert looked.wait(20)
    group.abort()
    assert stood["asked on"] == SECOND


def test_what_is_copied_to_its_place_stays_on_the_cpu_when_it_is_read(tmp_path: Path) -> None:
    """Adam's step count is left where it is given, and a GPU is waited for twice for each, each step."""
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([parameter])
    parameter.grad = torch.ones(2)
    optimizer.step()
    checkpoint.save(tmp_path / "state.pt", {"optimizer": optimizer.state_dict()})
    read = checkpoint.load(tmp_path / "state.pt", torch.device("meta"))
    assert read is not None
    assert {value.device.type for value in read["optimizer"]["state"][0].values()} == {"cpu"}
