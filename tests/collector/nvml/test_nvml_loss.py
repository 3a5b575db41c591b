"""Loss: GPUs that fall off the bus, crash or hang whoever asks, drivers that are away, and coming back."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.model import (
    NodeName,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.nvml import device_changes
from collector.sources.nvml.source import FIRST_WAIT_MS, RETRY_LOST_MS, NvmlSource
from tests.collector.nvml.conftest import START_MS, Watch, Watched
from tests.driver.driver import (
    ABORT,
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    SEGFAULT,
    UNKNOWN,
)

FD_SETSIZE = 1024
ENOUGH = 2 * FD_SETSIZE
RESIDENT_LIMIT_KIB = 60 * 1024


def kinds(reading: Reading) -> list[tuple[str, str]]:
    return [(event.kind, event.uuid) for event in reading.events]


def lose(w: Watched, slot: int, handle_code: int = 0) -> None:
    gpu = w.driver.gpu(slot)
    gpu.lost, gpu.crash_when_lost, gpu.lost_handle_code = 1, 1, handle_code


def unavailable(w: Watched, step_ms: int = 10_000) -> Unavailable:
    outcome = w.tick(step_ms)
    assert isinstance(outcome, Unavailable), outcome
    return outcome


def test_a_lost_gpu_is_told_once_leaves_a_gap_each_tick_and_the_others_go_on(watch: Watch) -> None:
    w = watch(gpus=3)
    w.read()
    lose(w, 1)
    uuid = w.driver.gpu(1).uuid
    first, second = w.read(), w.read()
    for reading in (first, second):
        assert {row.uuid for row in reading.samples} == {w.driver.gpu(0).uuid, w.driver.gpu(2).uuid}
        assert [(gap.uuid, gap.to_ms - gap.from_ms) for gap in reading.gaps] == [(uuid, 10_000)]
        assert "lost" in reading.gaps[0].reason
        assert uuid in {gpu.uuid for gpu in reading.gpus}
    assert (kinds(first), kinds(second)) == ([(device_changes.LOST, uuid)], [])


def test_a_gpu_lost_before_the_first_tick_stands_on_its_node(watch: Watch) -> None:
    w = watch(gpus=2)
    uuid = w.driver.gpu(1).uuid
    w.driver.fail("nvmlDeviceGetUtilizationRates", GPU_IS_LOST, gpu=1)
    first, second = w.read(), w.read()
    for reading in (first, second):
        assert {(gpu.uuid, gpu.node, gpu.index) for gpu in reading.gpus if gpu.uuid == uuid} == {
            (uuid, "node-a", 1)
        }
        assert [(gap.uuid, gap.node) for gap in reading.gaps] == [(uuid, "node-a")]
    assert (kinds(first), kinds(second)) == ([(device_changes.LOST, uuid)], [])


def test_the_handle_of_a_lost_gpu_is_not_touched_again(watch: Watch) -> None:
    w = watch(gpus=2)
    w.read()
    lose(w, 1)
    w.read()
    pid = w.source.child_pid
    w.driver.forget_calls()
    for _ in range(6):
        w.read()
    assert w.driver.gpu(1).calls() == 0
    assert w.source.child_pid == pid  # the stand-in aborts who asks a lost GPU again


@pytest.mark.parametrize("code", [GPU_IS_LOST, UNKNOWN])
def test_a_handle_that_cannot_be_fetched_costs_only_its_gpu(watch: Watch, code: int) -> None:
    w = watch(gpus=3)
    w.driver.fail("handle", code, gpu=1)
    reading = w.read()
    assert {row.uuid for row in reading.samples} == {w.driver.gpu(0).uuid, w.driver.gpu(2).uuid}


@pytest.mark.parametrize("how", [ABORT, SEGFAULT])
def test_a_gpu_that_crashes_whoever_asks_costs_only_itself(watch: Watch, how: int) -> None:
    w = watch(gpus=3)
    w.read()
    w.driver.fail("nvmlDeviceGetTemperature", how, gpu=1)
    reading = w.read()
    assert {row.uuid for row in reading.samples} == {w.driver.gpu(0).uuid, w.driver.gpu(2).uuid}
    uuid = w.driver.gpu(1).uuid
    assert kinds(reading) == [(device_changes.LOST, uuid)]
    assert "was ended by SIG" in reading.gaps[0].reason
    assert "GPU 1" in reading.gaps[0].reason
    w.driver.forget_calls()
    w.read()
    assert w.driver.gpu(1).calls() == 0


def test_a_gpu_that_hangs_whoever_asks_costs_one_tick(watch: Watch) -> None:
    w = watch(gpus=2, timeout_s=0.3)
    while not isinstance(w.tick(), Reading):
        pass
    w.driver.fail("nvmlDeviceGetTemperature", 0, gpu=1, delay_s=60)
    outcome = unavailable(w)
    assert "gave no answer in 0.3 s while it asked GPU 1" in outcome.reason
    assert outcome.duration_ms < 5000
    readings = [w.tick() for _ in range(20)]
    reading = next(one for one in readings if isinstance(one, Reading))
    assert {row.uuid for row in reading.samples} == {w.driver.gpu(0).uuid}


def test_a_lost_gpu_is_asked_for_again_after_a_while_and_its_return_is_told(watch: Watch) -> None:
    w = watch(gpus=2)
    w.read()
    lose(w, 1)
    w.read()
    pid = w.source.child_pid
    w.driver.gpu(1).lost = 0
    assert len(w.read(RETRY_LOST_MS // 2).samples) == 1
    reading = w.read(RETRY_LOST_MS)
    assert w.source.child_pid != pid
    assert kinds(reading) == [(device_changes.RETURNED, w.driver.gpu(1).uuid)]
    assert reading.gaps == ()
    pid = w.source.child_pid
    w.read(RETRY_LOST_MS * 4)
    assert w.source.child_pid == pid


def test_a_gpu_that_stays_lost_is_asked_for_ever_more_rarely(watch: Watch) -> None:
    w = watch(gpus=2)
    w.read()
    lose(w, 1, GPU_IS_LOST)
    pids = set()
    for _ in range(36):
        w.read(RETRY_LOST_MS // 3)
        pids.add(w.source.child_pid)
    assert 3 <= len(pids) <= 5


def test_a_child_that_cannot_be_started_is_a_reason_and_no_exception(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = watch()
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert "could not be started" in unavailable(w).reason
    monkeypatch.undo()
    for name, value in w.driver.variables().items():
        monkeypatch.setenv(name, value)
    assert w.read(FIRST_WAIT_MS * 2).samples


def test_a_child_that_ends_at_once_is_a_reason_and_no_exception(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = watch()
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert "ended with status 1" in unavailable(w).reason


def test_a_child_that_is_killed_is_replaced_at_the_next_tick(watch: Watch) -> None:
    w = watch()
    w.read()
    subprocess.run(["kill", "-9", str(w.source.child_pid)], check=True)
    assert "SIGKILL" in unavailable(w).reason
    assert w.read().samples[0].temperature_c == 35


def test_a_child_is_read_in_a_service_with_thousands_of_open_connections(
    watch: Watch, crowd: Callable[[], None]
) -> None:
    w = watch()
    w.read()
    crowd()
    w.source.close()
    assert w.read().samples


@pytest.fixture
def crowd() -> Iterator[Callable[[], None]]:
    """Take all descriptors under 1024, the most that select(2) can wait for."""
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < ENOUGH:
        pytest.skip(f"only {hard} descriptors may be open here, not {ENOUGH}: raise the limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, ENOUGH), hard))

    def take() -> None:
        while not taken or taken[-1] < FD_SETSIZE:
            taken.append(os.open(os.devnull, os.O_RDONLY))

    yield take
    for each in taken:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_when_every_gpu_is_taken_away_the_driver_is_down_and_tried_again_later(watch: Watch) -> None:
    w = watch(gpus=2)
    w.read()
    for function in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2"):
        w.driver.fail(function, UNKNOWN)
    down = unavailable(w)
    assert "daemon-reload" in down.reason
    assert "next try in" in unavailable(w, FIRST_WAIT_MS // 2).reason
    starts = w.driver.calls("nvmlInitWithFlags")
    for _ in range(60):
        unavailable(w)
    assert w.driver.calls("nvmlInitWithFlags") - starts <= 6
    w.driver.heal()
    w.now_ms += 600_000
    assert len(w.read().samples) == 2


def test_no_driver_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    if any(
        Path(folder, "libnvidia-ml.so.1").exists() for folder in ("/usr/lib", "/usr/lib/x86_64-linux-gnu")
    ):
        pytest.skip("this machine has a driver")
    source = NvmlSource(node=NodeName("node-a"))
    outcome = source.read(START_MS)
    source.close()
    assert isinstance(outcome, Unavailable)
    assert "install the NVIDIA driver" in outcome.reason


def test_a_driver_that_is_not_loaded_is_said_with_what_to_do(watch: Watch) -> None:
    w = watch()
    w.driver.fail("nvmlInitWithFlags", DRIVER_NOT_LOADED)
    assert "modprobe nvidia" in unavailable(w).reason


def test_a_slow_driver_is_waited_for_over_several_ticks(watch: Watch) -> None:
    w = watch(timeout_s=0.2)
    w.driver.fail("nvmlInitWithFlags", 0, times=1, delay_s=0.8)
    outcomes = [w.tick()]
    while not isinstance(outcomes[-1], Reading):
        outcomes.append(w.tick())
    waiting = [one for one in outcomes if isinstance(one, Unavailable)]
    assert len(waiting) >= 2
    assert all("persistence mode" in one.reason for one in waiting)
    assert w.driver.calls("nvmlInitWithFlags") == 1


def test_a_driver_that_was_unloaded_under_us_is_initialized_again(watch: Watch) -> None:
    w = watch()
    w.read()
    w.driver.fail("nvmlDeviceGetCount_v2", 1, times=1)
    assert "unloaded" in unavailable(w).reason
    assert w.read(FIRST_WAIT_MS * 2).samples[0].temperature_c == 35


def test_a_machine_without_gpus_reads_as_empty(watch: Watch) -> None:
    reading = watch(gpus=0).read()
    assert (reading.gpus, reading.samples, reading.gaps) == ((), (), ())


def test_closing_ends_the_child_and_a_second_time_is_safe(watch: Watch) -> None:
    w = watch()
    w.read()
    pid = w.source.child_pid
    w.source.close()
    w.source.close()
    assert not Path(f"/proc/{pid}").exists()


def test_the_child_is_small_and_imports_nothing_heavy(watch: Watch, process: Callable[[], int]) -> None:
    w = watch(gpus=8)
    for slot in range(8):
        w.driver.gpu(slot).metrics(sm=50)
        w.driver.gpu(slot).process(process())
    for _ in range(3):
        w.read()
    status = Path(f"/proc/{w.source.child_pid}/status").read_text()
    resident_kib = int(status.split("VmHWM:")[1].split()[0])
    assert resident_kib < RESIDENT_LIMIT_KIB
    maps = Path(f"/proc/{w.source.child_pid}/maps").read_text()
    assert not any(heavy in maps for heavy in ("numpy", "pyarrow", "duckdb", "pandas"))
