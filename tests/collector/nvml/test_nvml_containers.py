"""Processes as drivers tell of them in containers, on boards without the older call, and under MPS."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.model import NodeName
from collector.sources.nvml.assemble import Assembly
from collector.sources.nvml.identity import ProcessStarts
from collector.sources.nvml.probe import probe
from collector.sources.nvml.process_list import OWN_NAMESPACE, SCALED, USES_BY_SERVER, USES_OF_STRANGERS
from collector.sources.nvml.wire import MEASURES
from tests.collector.nvml.conftest import Watch, of
from tests.collector.procfs.proc_tree import ProcTree
from tests.driver.driver import COMPUTE, FUNCTION_NOT_FOUND, GIB, MPS, NOT_SUPPORTED

Start = Callable[[], int]
OLDER, NEWER = "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"
HOST_PID = 3_900_001


def test_a_listed_process_with_0_bytes_holds_an_unknown_amount(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid, 0)
    reading = w.read()
    assert of(reading, pid)[0].memory_used_bytes is None
    assert reading.samples[0].process_count == 1


def test_0_bytes_in_one_list_do_not_hide_what_the_other_says(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid, 0, COMPUTE)
    w.driver.gpu(0).process(pid, 3 * GIB, MPS)
    assert of(w.read(), pid)[0].memory_used_bytes == 3 * GIB


@pytest.mark.parametrize(("used", "count"), [(0, 0), (20 << 20, 0), (33 << 20, None), (11 * GIB, None)])
def test_an_empty_list_of_our_own_namespace_proves_nobody_only_without_memory(
    watch: Watch, used: int, count: int | None
) -> None:
    w = watch(host_pids=False)
    w.driver.gpu(0).memory_used = used
    row = w.sample()
    assert row.process_count == count
    assert (OWN_NAMESPACE in row.flags) == (count is None)


def test_an_empty_list_of_our_own_namespace_without_a_memory_is_unknown(watch: Watch) -> None:
    w = watch(host_pids=False)
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        w.driver.fail(name, NOT_SUPPORTED)
    assert w.sample().process_count is None


def test_on_the_host_an_empty_list_is_nobody(watch: Watch) -> None:
    w = watch(host_pids=True)
    w.driver.gpu(0).memory_used = 11 * GIB
    assert w.sample().process_count == 0


def test_in_a_namespace_of_our_own_the_sum_of_processes_is_not_the_memory(
    watch: Watch, process: Start
) -> None:
    w = watch(host_pids=False)
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        w.driver.fail(name, NOT_SUPPORTED)
    w.driver.gpu(0).process(process(), 19 * GIB)
    assert w.sample().memory_used_bytes is None


def test_in_a_namespace_of_our_own_uses_of_unlisted_pids_are_a_flag(watch: Watch, process: Start) -> None:
    w = watch(host_pids=False)
    gpu = w.driver.gpu(0)
    gpu.process(process(), 0)
    gpu.used([(w.ago_us(1000), HOST_PID, 90)])
    assert USES_OF_STRANGERS in w.sample().flags


@pytest.mark.parametrize("by_chance", [[], [(7, 40.0)]], ids=["strangers alone", "one number that fits"])
def test_uses_of_the_hosts_pids_are_never_shares(tmp_path: Path, by_chance: list[tuple[int, float]]) -> None:
    (tmp_path / "stat").write_text("btime 1700000000\n")
    tree = ProcTree(tmp_path)
    tree.add(7, opens=("/dev/nvidia0",))
    gathering = Assembly(NodeName("node-a"), ProcessStarts(tmp_path, foreign=True), host_pids=False)
    line = ("GPU-0", [None] * len(MEASURES), [], [(7, None, "C")], [(HOST_PID, 50.0), *by_chance])
    (sample,), processes = gathering.gather({"devices": [line], "events": []}, 5_000, 10_000, looked=True)
    gathering.close()
    assert processes is not None
    assert [(row.key.pid, row.sm_ratio) for row in processes[1]] == [(7, None)]
    assert USES_OF_STRANGERS in sample.flags


def test_on_the_host_an_ended_process_among_the_uses_is_no_stranger(watch: Watch, process: Start) -> None:
    w = watch()
    pid = process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    gpu.process(pid)
    gpu.used([(w.ago_us(1000), HOST_PID, 50), (w.ago_us(1000), pid, 40)])
    reading = w.read()
    assert of(reading, pid)[0].sm_ratio == 0.4
    assert USES_OF_STRANGERS not in reading.samples[0].flags


def test_where_the_older_call_is_not_supported_the_newer_one_is_asked(watch: Watch, process: Start) -> None:
    w = watch()
    pid, other = process(), process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 100
    for each in (pid, other):
        gpu.process(each)
    w.driver.fail(OLDER, NOT_SUPPORTED)
    gpu.used([(w.ago_us(500 - i), pid, 40) for i in range(100)])
    assert of(w.read(), pid)[0].sm_ratio == 0.4, "a hundred samples are more than the first buffer holds"
    gpu.used([(w.ago_us(15_000), pid, 100), (w.ago_us(5000), pid, 10), (w.ago_us(5000), other, 60)])
    reading = w.read()
    assert [of(reading, each)[0].sm_ratio for each in (pid, other)] == [0.1, 0.6]
    gpu.used([])
    assert of(w.read(), pid)[0].sm_ratio is None
    assert w.driver.calls(OLDER) == 1, "what is refused for good is not asked again"


def test_the_probe_names_the_call_that_says_what_each_process_uses(watch: Watch) -> None:
    w = watch()
    w.driver.fail(OLDER, NOT_SUPPORTED)
    (measure,) = (m for m in probe().gpus[0].measures if m.name == "process_utilization")
    assert measure.by == NEWER


@pytest.mark.parametrize("newer", [NOT_SUPPORTED, FUNCTION_NOT_FOUND])
def test_with_neither_call_the_use_of_processes_is_unknown_and_the_reason_kept(
    watch: Watch, process: Start, newer: int
) -> None:
    w = watch()
    pid = process()
    w.driver.gpu(0).process(pid)
    w.driver.fail(OLDER, NOT_SUPPORTED)
    w.driver.fail(NEWER, newer)
    assert [of(w.read(), pid)[0].sm_ratio for _ in range(2)] == [None, None]
    assert w.driver.calls(NEWER) == 1
    (measure,) = (m for m in probe().gpus[0].measures if m.name == "process_utilization")
    assert measure.by is None and "support" in (measure.reason or "")


def test_under_mps_the_use_stands_with_the_server_and_is_not_split(watch: Watch, process: Start) -> None:
    w = watch()
    server, one, two = process(), process(), process()
    gpu = w.driver.gpu(0)
    gpu.utilization = 80
    gpu.process(server, GIB, COMPUTE)
    for client in (one, two):
        gpu.process(client, 4 * GIB, MPS)
    gpu.used([(w.ago_us(1000), server, 80)])
    reading = w.read()
    assert [of(reading, each)[0].sm_ratio for each in (server, one, two)] == [0.8, None, None]
    assert USES_BY_SERVER in reading.samples[0].flags
    assert SCALED not in reading.samples[0].flags
    gpu.no_processes()
    gpu.process(one)
    assert USES_BY_SERVER not in w.sample().flags
