"""Processes: what the driver's lists and samples get wrong, and what is made of them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.model import NodeName, ProcessType
from collector.sources.nvml.assemble import Assembly
from collector.sources.nvml.convert import UNIFIED
from collector.sources.nvml.identity import ProcessStarts
from collector.sources.nvml.process_list import (
    ABOVE_BOARD,
    DEAD,
    FOREIGN,
    GARBLED,
    GONE,
    SCALED,
    UNSEEN,
    Presence,
    judge,
)
from collector.sources.nvml.wire import MEASURES
from tests.collector.nvml.conftest import Watch, of
from tests.driver.driver import (
    BOTH,
    COMPUTE,
    FUNCTION_NOT_FOUND,
    GIB,
    GRAPHICS,
    INSUFFICIENT_SIZE,
    LAYOUT_R535,
    LAYOUT_SWAPPED,
    MPS,
    NO_PERMISSION,
    NOT_AVAILABLE,
    NOT_SUPPORTED,
    UNKNOWN,
)

Start = Callable[[], int]
UNUSED_PID = (1 << 22) - 1


def started_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_process_is_its_pid_and_its_start_time(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid, 3 * GIB)
    reading = w.read()
    boot_s = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if "btime" in line
    )
    (row,) = of(reading, pid)
    assert row.key.started_ms == boot_s * 1000 + started_ticks(pid) * 1000 // os.sysconf("SC_CLK_TCK")
    assert row.memory_used_bytes == 3 * GIB
    assert reading.processes is not None
    assert [one.key for one in reading.processes] == [row.key]
    assert reading.samples[0].process_count == 1


def test_process_lists_are_read_on_their_own_slower_tick(watch: Watch, process: Start) -> None:
    w = watch(processes_every=3)
    w.driver.gpu(0).process(process())
    looked = [w.read() for _ in range(7)]
    assert [reading.samples[0].process_count for reading in looked] == [1, None, None, 1, None, None, 1]
    assert [reading.process_samples is None for reading in looked] == [False, True, True] * 2 + [False]
    assert looked[3].process_samples[0].width_ms == 30_000  # type: ignore[index]
    assert w.driver.calls("nvmlDeviceGetComputeRunningProcesses_v3") == 3


def test_looked_and_found_none_is_zero_and_not_unknown(watch: Watch) -> None:
    reading = watch().read()
    assert reading.samples[0].process_count == 0
    assert (reading.processes, reading.process_samples) == ((), ())


def test_no_new_process_sample_is_no_error(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid)
    for _ in range(2):
        assert of(w.read(), pid)[0].sm_ratio is None
    assert w.driver.calls("nvmlDeviceGetProcessUtilization") == 2


def test_success_without_an_entry_is_no_error_either(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid)
    w.driver.gpu(0).empty_is_success = 1
    assert of(w.read(), pid)[0].sm_ratio is None


def test_a_list_that_grows_between_two_calls_is_asked_for_again(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    gpu.used([(w.ago_us(100 - i % 100), pid, 40) for i in range(100)])
    w.driver.fail("nvmlDeviceGetComputeRunningProcesses_v3", INSUFFICIENT_SIZE, times=1)
    assert of(w.read(), pid)[0].sm_ratio == 0.4


def test_only_samples_since_the_last_look_count(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    gpu.used([(w.ago_us(60_000), pid, 100), (w.ago_us(5000), pid, 20)])
    assert of(w.read(), pid)[0].sm_ratio == 0.2
    gpu.used([(w.ago_us(15_000), pid, 100), (w.ago_us(5000), pid, 50)])
    assert of(w.read(), pid)[0].sm_ratio == 0.5


def test_stale_garbage_and_strange_pids_are_left_out(watch: Watch, process: Start) -> None:
    w = watch()
    pid, other = process(), process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    old, new, newer = w.ago_us(2000), w.ago_us(1000), w.ago_us(0)
    gpu.used([(0, pid, 99), (old, pid, 101), (new, pid, 30), (newer, pid, 4294967295), (new, other, 90)])
    reading = w.read()
    assert of(reading, pid)[0].sm_ratio == 0.3
    assert of(reading, other) == []


def test_garbage_from_the_far_future_does_not_silence_later_samples(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    gpu.used([((1 << 63) - 1, 7, 50), (w.ago_us(1000), pid, 30)])
    w.read()
    gpu.used([(w.ago_us(1000), pid, 60)])
    assert of(w.read(), pid)[0].sm_ratio == 0.6


def test_several_samples_of_a_pid_are_averaged_over_time(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    gpu.used([(w.ago_us(2500), pid, 20), (w.ago_us(0), pid, 60)])
    assert of(w.read(), pid)[0].sm_ratio == 0.3


def test_the_shares_never_exceed_what_the_device_did(watch: Watch, process: Start) -> None:
    w = watch()
    one, two = process(), process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 60
    for pid in (one, two):
        gpu.process(pid)
    gpu.used([(w.ago_us(0), one, 60), (w.ago_us(0), two, 20)])
    reading = w.read()
    ratios = [of(reading, pid)[0].sm_ratio for pid in (one, two)]
    assert ratios == pytest.approx([0.45, 0.15])
    assert SCALED in reading.samples[0].flags


def test_swapped_pid_and_memory_drop_the_list_and_flag_it(watch: Watch, process: Start) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.process_layout = LAYOUT_SWAPPED
    gpu.process(process(), 3 * GIB)
    reading = w.read()
    assert reading.process_samples == ()
    assert reading.samples[0].process_count is None
    assert GARBLED in reading.samples[0].flags


def test_entries_shifted_by_r535_drop_the_list_and_flag_it(watch: Watch, process: Start) -> None:
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.process_layout = LAYOUT_R535
    for _ in range(3):
        gpu.process(process(), 3 * GIB)
    reading = w.read()
    assert reading.process_samples == ()
    assert GARBLED in reading.samples[0].flags


def test_more_memory_than_the_gpu_has_is_not_believed_of_a_process_that_is_there(
    watch: Watch, process: Start
) -> None:
    # cudaMallocManaged may give more than the board has (CUDA guide, "GPU Memory Oversubscription").
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid, 120 * GIB)
    reading = w.read()
    assert [row.memory_used_bytes for row in of(reading, pid)] == [None]
    assert (reading.samples[0].process_count, ABOVE_BOARD in reading.samples[0].flags) == (1, True)


@pytest.mark.parametrize(
    "entries",
    [
        [(7, 81 * GIB, "C"), (8, GIB, "C")],  # 8 is not there
        [(7, 300 << 32, "C")],  # the number of a process in the upper half
        [(0, 81 * GIB, "C")],
    ],
)
def test_more_memory_than_the_gpu_has_drops_a_list_that_is_wrong_elsewhere(
    entries: list[tuple[int, int | None, str]],
) -> None:
    assert judge(entries, 80 * GIB, {7}).flags == (GARBLED,)


@pytest.mark.parametrize(
    ("busy", "total", "flag"), [(0.8, None, UNSEEN), (0.01, 0, DEAD), (None, 0, DEAD), (0.0, 0, DEAD)]
)
def test_who_uses_the_gpu_is_alive_though_nobody_sees_it(
    busy: float | None, total: int | None, flag: str
) -> None:
    # nvidia-docker issue 1483: the driver lists pids that /proc does not show.
    found = judge([(7, 10 * GIB, "C")], 80 * GIB, set(), host_pids=True, busy_ratio=busy)
    assert (found.total, found.flags) == (total, (flag,))


def test_a_process_that_nobody_sees_is_unknown_where_the_gpu_works(watch: Watch) -> None:
    w = watch(host_pids=True)
    gpu = w.driver.gpu(0)
    gpu.process(UNUSED_PID, 10 * GIB)
    gpu.utilization = 80
    row = w.sample()
    assert (row.process_count, row.gpu_utilization_ratio) == (None, 0.8)
    assert UNSEEN in row.flags and DEAD not in row.flags


def test_a_garbled_list_costs_only_its_own_gpu(watch: Watch, process: Start) -> None:
    w = watch(gpus=2)
    pid = process()
    w.driver.gpu(0).process(0)
    w.driver.gpu(1).process(pid)
    reading = w.read()
    assert [row.process_count for row in reading.samples] == [None, 1]
    assert len(of(reading, pid)) == 1


def test_a_dead_pid_that_still_holds_memory_is_no_process(watch: Watch) -> None:
    # nvtop issue 70: the driver lists a pid that has ended, and its memory is not free.
    w = watch(host_pids=True)
    w.driver.gpu(0).process(UNUSED_PID, 10 * GIB)
    row = w.sample()
    assert row.process_count == 0
    assert DEAD in row.flags


def test_a_defunct_process_that_holds_memory_is_no_process(watch: Watch) -> None:
    w = watch(host_pids=True)
    with subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and nobody has asked for its code
        w.driver.gpu(0).process(child.pid, 10 * GIB)
        row = w.sample()
    assert row.process_count == 0


def test_dead_pids_are_unknown_where_they_may_be_another_namespaces() -> None:
    dead = [(7, GIB, "C")]
    assert judge(dead, 80 * GIB, set(), host_pids=None).total is None
    assert judge(dead, 80 * GIB, set(), host_pids=False).total == 1
    assert judge([(7, None, "C")], 80 * GIB, set()).total is None


def test_unified_memory_is_the_sum_of_the_processes(watch: Watch, process: Start) -> None:
    # GB10: nvmlDeviceGetMemoryInfo is not supported, the processes' own memory is told.
    w = watch()
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        w.driver.fail(name, NOT_SUPPORTED)
    for _ in range(2):
        w.driver.gpu(0).process(process(), 19 * GIB)
    row = w.sample()
    assert (row.memory_used_bytes, row.memory_total_bytes) == (38 * GIB, None)
    assert UNIFIED in row.flags


def test_unified_memory_of_a_process_that_tells_none_is_unknown(watch: Watch, process: Start) -> None:
    w = watch()
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        w.driver.fail(name, NOT_SUPPORTED)
    w.driver.gpu(0).process(process(), NOT_AVAILABLE)
    assert w.sample().memory_used_bytes is None


def test_a_list_of_nothing_but_unseen_pids_says_nothing(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).process(UNUSED_PID, NOT_AVAILABLE)
    row = w.sample()
    assert row.process_count is None
    assert UNSEEN in row.flags


def test_a_process_that_is_gone_is_cut_from_a_list_that_is_right(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    for listed in (pid, UNUSED_PID):
        w.driver.gpu(0).process(listed)
    row = w.sample()
    assert row.process_count == 1
    assert GONE in row.flags


def test_pids_of_another_namespace_are_counted_and_named_nobody(watch: Watch, process: Start) -> None:
    w = watch(host_pids=False)
    w.driver.gpu(0).process(process())
    reading = w.read()
    assert reading.process_samples == ()
    assert reading.samples[0].process_count == 1
    assert FOREIGN in reading.samples[0].flags


def test_a_pid_in_both_lists_is_one_process(watch: Watch, process: Start) -> None:
    w = watch()
    pid, only = process(), process()
    w.driver.gpu(0).process(pid, 2 * GIB, BOTH)
    w.driver.gpu(0).process(only, GIB, GRAPHICS)
    reading = w.read()
    assert [row.type for row in of(reading, pid)] == [ProcessType.BOTH]
    assert [row.type for row in of(reading, only)] == [ProcessType.GRAPHICS]
    assert of(reading, pid)[0].memory_used_bytes == 2 * GIB
    assert reading.samples[0].process_count == 2


def test_clients_of_an_mps_server_are_seen(watch: Watch, process: Start) -> None:
    w = watch()
    server, client = process(), process()
    w.driver.gpu(0).process(server, GIB, COMPUTE)
    w.driver.gpu(0).process(client, GIB, MPS)
    assert [row.type for row in of(w.read(), client)] == [ProcessType.COMPUTE]


def test_memory_that_is_not_available_is_unknown(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid, NOT_AVAILABLE)
    assert of(w.read(), pid)[0].memory_used_bytes is None


def test_an_old_driver_gives_its_lists_by_the_older_function(watch: Watch, process: Start) -> None:
    w = watch(old=True)
    pid = process()
    w.driver.gpu(0).process(pid, 2 * GIB)
    assert of(w.read(), pid)[0].memory_used_bytes == 2 * GIB


def test_a_driver_without_any_list_means_not_looked(watch: Watch, process: Start) -> None:
    w = watch()
    w.driver.gpu(0).process(process())
    for kind in ("Compute", "Graphics", "MPSCompute"):
        w.driver.fail(f"nvmlDeviceGet{kind}RunningProcesses_v3", FUNCTION_NOT_FOUND)
    assert [w.sample().process_count for _ in range(3)] == [None, None, None]
    assert w.driver.calls("nvmlDeviceGetComputeRunningProcesses_v3") == 1


def test_a_passing_failure_of_the_list_means_not_looked_this_time(watch: Watch, process: Start) -> None:
    w = watch()
    w.driver.gpu(0).process(process())
    w.driver.fail("nvmlDeviceGetComputeRunningProcesses_v3", UNKNOWN, times=1)
    assert [w.sample().process_count for _ in range(2)] == [None, 1]


def test_refused_process_utilization_is_not_asked_again(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid)
    w.driver.fail("nvmlDeviceGetProcessUtilization", NO_PERMISSION)
    assert [of(w.read(), pid)[0].sm_ratio for _ in range(3)] == [None, None, None]
    assert w.driver.calls("nvmlDeviceGetProcessUtilization") == 1


def test_more_processes_than_the_first_buffer_holds_are_all_read(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    for _ in range(40):
        w.driver.gpu(0).process(pid, GIB, BOTH)
    w.driver.fail("nvmlDeviceGetGraphicsRunningProcesses_v3", INSUFFICIENT_SIZE, times=2)
    assert of(w.read(), pid)[0].type is ProcessType.BOTH


def test_a_process_that_ended_is_absent_and_its_number_is_free_again(process: Start) -> None:
    starts = ProcessStarts()
    pid = process()
    assert starts.look([pid])[pid].presence is Presence.PRESENT
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert starts.look([pid])[pid].presence is Presence.ABSENT
    starts.close()
    starts.close()


def test_a_process_that_proc_hides_is_hidden_and_not_gone(tmp_path: Path, process: Start) -> None:
    (tmp_path / "stat").write_text("btime 1700000000\n")
    starts = ProcessStarts(tmp_path)
    pid = process()
    assert starts.look([pid])[pid].presence is Presence.HIDDEN
    assert starts.look([UNUSED_PID])[UNUSED_PID].presence is Presence.ABSENT
    starts.close()


def test_a_hidden_process_keeps_the_start_it_was_first_seen_with(tmp_path: Path, process: Start) -> None:
    (tmp_path / "stat").write_text("btime 1700000000\n")
    gathering = Assembly(NodeName("node-a"), ProcessStarts(tmp_path), host_pids=True)
    pid = process()
    line = ("GPU-0", [None] * len(MEASURES), [], [(pid, GIB, "C")], [])
    answer = {"devices": [line], "events": []}
    found = [gathering.gather(answer, at_ms, 10_000, looked=True)[1] for at_ms in (5_000, 15_000)]
    gathering.close()
    assert found[0] is not None
    assert found[1] is not None
    (first,), (second,) = found[0][0], found[1][0]
    assert first == second
    assert first.key.started_ms == 5_000
    assert "hidden" in first.unreadable[0]


def test_another_user_s_process_that_proc_hides_is_there(process: Start) -> None:
    pid = process() if os.geteuid() == 0 else 1
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder)
        empty.chmod(0o755)
        (empty / "stat").write_text("btime 1700000000\n")
        starts = ProcessStarts(empty)
        asker = os.fork()
        if asker == 0:
            if os.geteuid() == 0:
                os.setuid(65534)
            seen = starts.look([pid, UNUSED_PID])
            right = (seen[pid].presence, seen[UNUSED_PID].presence) == (Presence.HIDDEN, Presence.ABSENT)
            os._exit(0 if right else 1)
        assert os.waitpid(asker, 0)[1] == 0
