"""Where a step runs: a real GPU, or, in a dry run, the pretend device and the stand-in drivers.

``pretends`` and ``pretend_process`` tell the stand-in driver what a load would do to a GPU; on a real one
they do nothing. Everything else asks the driver, whichever it is.
"""

import contextlib
import fcntl
import importlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.gpu import forks
from tests.gpu.answers import Missing
from tests.gpu.standing_in import DRY, IDLE_W

ROOT = Path(__file__).parents[2]
GIB, MIB = 1 << 30, 1 << 20
READY_S, ANSWER_S, END_S = 90.0, 60.0, 10.0
TRY_DRIVER = "FALLOW_GPU_TRY_DRIVER"
"""Set by ``--try-driver``: processes of the run's own are checkpointed under a driver that nobody tried."""
dry = DRY in os.environ
HOGS = ("jaxhog", "tfhog")
"""Known by the libraries that they map, and jobs in a session of their own by their command: never forked."""
EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
ALLOCATORS: dict[str, dict[str, str]] = {"plain": {}} | ({} if dry else {"expandable": EXPANDABLE})
"""PyTorch's allocator as it comes, and the one that grows its segments; the pretend device has neither."""


def lacking(need: str) -> str | None:
    """Why something that a step needs is not here; ``None`` when it is."""
    match need:
        case "torch":
            return _without_torch()
        case "nvml":
            return None if nvml_handle() is not None else "no NVIDIA driver answers: see `fallow doctor`"
        case "nccl":
            return _without_nccl()
        case "jax":
            return None if find_spec("jax") or dry else "JAX is not installed; pip install 'jax[cuda12]'"
        case "libcuda":
            return _without_libcuda()
        case "mps":
            here = dry or shutil.which("nvidia-cuda-mps-control")
            return None if here else "nvidia-cuda-mps-control is not installed"
        case "service":
            absent = [name for name in ("duckdb", "fastapi", "uvicorn") if find_spec(name) is None]
            return f"{', '.join(absent)} not installed" if absent else None
        case "two GPUs":
            # The pretend device is one: dry, both workers are on it.
            count = 2 if dry else torch().cuda.device_count()
            return None if count > 1 else f"{count} GPU only: workers over NCCL were not tried"
        case _:
            raise ValueError(f"nobody knows how to look for {need!r}")


def so_far(figures: Sequence[Mapping[str, Any]]) -> None:
    """Say what is known already, so that a step that is cut loses no more than what it was doing."""
    sys.stdout.write(f"\n{json.dumps({'figures': list(figures)})}\n")
    sys.stdout.flush()


def torch() -> Any:
    """torch, with the pretend device in a dry run."""
    found = importlib.import_module("torch")
    if dry:
        importlib.import_module("tests.fallow.pretend")
    return found


def torch_device() -> Any:
    """The device of this step, ready to be used."""
    return torch().device("pretend" if dry else "cuda:0")


def synchronize() -> None:
    """Wait until the device has done all."""
    torch().get_device_module(torch_device().type).synchronize()


def devices(*numbers: int) -> str:
    """These of the devices that this run may see, for CUDA_VISIBLE_DEVICES of another process.

    By the names that they have in ours, MIG instances too. Raises Missing where there are fewer.
    """
    names = _visible()
    if names is None:
        return ",".join(map(str, numbers))
    if len(names) <= max(numbers):
        raise Missing(f"CUDA_VISIBLE_DEVICES names {len(names)} devices, and {max(numbers) + 1} are needed")
    return ",".join(names[number] for number in numbers)


def _visible() -> tuple[str, ...] | None:
    """What CUDA_VISIBLE_DEVICES names, ``None`` where it is not set. Dry, there is none to name."""
    words = None if dry else os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if words is None else tuple(word.strip() for word in words.split(",") if word.strip())


def nvml_handle() -> Any:
    """The first device that CUDA shows this run, by NVML, a MIG instance too; ``None`` without a driver."""
    import pynvml

    name = (_visible() or ("0",))[0]
    try:
        pynvml.nvmlInit()
        if name.isdecimal():
            return pynvml.nvmlDeviceGetHandleByIndex(int(name))
        return pynvml.nvmlDeviceGetHandleByUUID(name)
    except pynvml.NVMLError:
        return None


def used_bytes() -> int:
    """Memory of the GPU in use, by the driver."""
    import pynvml

    return int(pynvml.nvmlDeviceGetMemoryInfo(nvml_handle()).used)


def held_bytes(pid: int) -> int | None:
    """What the driver says a process holds; ``None`` when it does not list it, or does not say."""
    import pynvml

    listed = pynvml.nvmlDeviceGetComputeRunningProcesses(nvml_handle())
    found = next((each.usedGpuMemory for each in listed if each.pid == pid), None)
    return None if not found else int(found)


def uuid() -> str:
    """The first GPU's."""
    import pynvml

    return str(pynvml.nvmlDeviceGetUUID(nvml_handle()))


@contextlib.contextmanager
def watching(tick_s: float = 1.0) -> Iterator[Callable[[], Any]]:
    """The collector's own source: each call waits a tick and gives its reading."""
    from collector.model import NodeName
    from collector.reading import Reading
    from collector.sources.nvml.source import NvmlOptions, NvmlSource

    options = NvmlOptions(tick_ms=round(tick_s * 1000), processes_every=1, timeout_s=30)
    source = NvmlSource(node=NodeName("here"), options=options)

    def read() -> Reading:
        time.sleep(tick_s)
        outcome = source.read(time.time_ns() // 1_000_000)
        if not isinstance(outcome, Reading):
            raise Missing(f"NVML gives no reading: {outcome}")
        return outcome

    try:
        yield read
    finally:
        source.close()


def start(words: Sequence[str], **settings: Any) -> Any:
    """``subprocess.Popen`` of ``python -m``; a fork of what has read the modules already, in a dry run."""
    return (subprocess.Popen if forks.here is None else forks.here.popen)(words, **settings)


def asked(words: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """A ``python -m`` that was waited for, with its words. Raises TimeoutExpired; it was told to end then."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT)
        try:
            code = process.wait(timeout_s)
        finally:
            process.terminate()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(words), code, out.read(), err.read())


class Load:
    """A program of ``tests/gpu/loads`` that is driven by pipes and ends when they close.

    ``wait``: until it is ready; else ``await_ready`` does. ``own_session``: a job of its own, by its session.
    ``prefix``: a command that runs it.
    """

    def __init__(
        self,
        name: str,
        *arguments: object,
        environment: dict[str, str] | None = None,
        wait: bool = True,
        own_session: bool = False,
        prefix: Sequence[str] = (),
    ) -> None:
        command = [*prefix, sys.executable, "-m", f"tests.gpu.loads.{name}", *map(str, arguments)]
        is_looked_at = bool(own_session or prefix or name in HOGS)
        self.process = (subprocess.Popen if is_looked_at else start)(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            start_new_session=own_session,
        )
        if wait:
            self.await_ready()

    def await_ready(self, wait_s: float = READY_S) -> None:
        """Until it has its memory. Raises Missing when it cannot be here; it has ended then."""
        try:
            self._line("to be ready", wait_s)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def ask(self, *words: object, wait_s: float = ANSWER_S) -> dict[str, Any]:
        """Tell it something and take its answer. Raises Missing when it has none to give."""
        self.tell(*words)
        return self._line(f"to {words[0]}", wait_s)

    def tell(self, *words: object) -> None:
        """Tell it something; ``answer`` waits."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self, wait_s: float = ANSWER_S) -> dict[str, Any]:
        """The answer to what it was told."""
        return self._line("for its answer", wait_s)

    def end(self) -> int | None:
        """By its pipe, then SIGTERM; it is never killed here (see ``run``). Its status."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        for last in (False, True):
            try:
                return self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                if not last:
                    self.process.terminate()
        return None

    def _line(self, what: str, wait_s: float) -> dict[str, Any]:
        import select

        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], wait_s)[0]:
            raise TimeoutError(f"the load {self.process.args} took over {wait_s:g} s {what}")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait(END_S)
            raise RuntimeError(f"the load {self.process.args} ended with {code}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise Missing(answer["missing"])
        return answer


@contextlib.contextmanager
def loads(*wanted: tuple[object, ...], environment: dict[str, str] | None = None) -> Iterator[list[Load]]:
    """Start these (name and arguments) side by side, and end them."""
    made: list[Load] = []
    try:
        for name, *arguments in wanted:
            made.append(Load(str(name), *arguments, environment=environment, wait=False))
        for load in made:
            load.await_ready()
        yield made
    finally:
        for load in made:
            load.end()


def pretends(**fields: float) -> None:
    """Set fields of the stand-in GPU; GPM's (``sm``, ``occupancy``, ``graphics`` and so on) in percent."""
    metrics = {"graphics": 1, "sm": 2, "occupancy": 3, "tensor": 5, "dram": 10}
    with _standin() as gpu:
        for name, value in fields.items():
            if gpu is not None and name in metrics:
                gpu.gpm[metrics[name]] = value
            elif gpu is not None:
                setattr(gpu, name, int(value))


def gpm_percents(numbers: Sequence[int]) -> list[float]:
    """What the stand-in GPU's GPM metrics are now, by NVML's numbers."""
    with _standin() as gpu:
        return [float(gpu.gpm[number]) for number in numbers]


def at_rest() -> None:
    """The stand-in GPU does nothing any more, as a real one when its loads have ended."""
    pretends(sm=0, occupancy=0, graphics=0, tensor=0, dram=0, utilization=0, power_mw=IDLE_W * 1000)


def pretend_process(pid: int, size: int | None, *, sm: int = 0) -> None:
    """The stand-in driver lists this process with so much memory; ``None``: no more."""
    from tests.driver import layout

    with _standin() as gpu:
        if gpu is None:
            return
        listed = [gpu.processes[at] for at in range(gpu.process_count)]
        kept = [(one.memory, one.pid, one.sm) for one in listed if one.pid != pid]
        if size is not None:
            kept.append((size, pid, sm))
        for at, (memory, number, share) in enumerate(kept):
            gpu.processes[at] = layout.Listed(memory, number, 1, 0xFFFFFFFF, 0xFFFFFFFF, share, 0)
        gpu.process_count = len(kept)
        gpu.memory_used = sum(memory for memory, _, _ in kept)


def known_to_cuda() -> None:
    """The stand-in libcuda knows this process from now on, and that it runs."""
    if dry and "STANDIN_CUDA" in os.environ:
        Path(os.environ["STANDIN_CUDA"], str(os.getpid())).write_text("0\n")


@contextlib.contextmanager
def _standin() -> Iterator[Any]:
    """The stand-in driver's first GPU, for one at a time; ``None`` on a real machine."""
    if not dry:
        yield None
        return
    from tests.driver import layout

    with Path(os.environ["FALLOW_DRIVER_STATE"]).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        memory = mmap.mmap(file.fileno(), 0)  # goes with whoever looks at it last
        yield layout.State.from_buffer(memory).gpus[0]


def _without_torch() -> str | None:
    if find_spec("torch") is None:
        return "torch is not installed"
    return None if dry or torch().cuda.is_available() else "this torch finds no CUDA device"


def _without_nccl() -> str | None:
    if dry:  # a stand-in of torch's group over NCCL is played
        return None
    distributed = importlib.import_module("torch.distributed")
    return None if distributed.is_nccl_available() else "this torch was built without NCCL"


def _without_libcuda() -> str | None:
    from advisor.engines.cuda_checkpoint_child import LibraryDriver, NoDriver

    try:
        LibraryDriver()
    except NoDriver as error:
        return str(error)
    return None
