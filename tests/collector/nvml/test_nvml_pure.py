"""The pure parts, over many inputs: shares, process lists, rings' windows, restarts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model import ProcessType
from collector.sources.nvml import source
from collector.sources.nvml.process_list import (
    LARGEST_PID,
    USES_OF_STRANGERS,
    believed,
    judge,
    union,
    within_device,
)
from collector.sources.nvml.processes import mean_over_time, shares
from collector.sources.nvml.readers import believable, summarize
from collector.sources.nvml.source import LONGEST_RETRY_LOST_MS, LONGEST_WAIT_MS, Restarts

PIDS = st.integers(1, 50)
ENTRIES = st.lists(
    st.tuples(st.integers(-5, LARGEST_PID + 5), st.none() | st.integers(0, 200), st.sampled_from("CG"))
)
HOST_PIDS = st.sampled_from([True, False, None])


@given(st.dictionaries(PIDS, st.floats(0, 1)), st.none() | st.floats(0, 1))
def test_shares_fit_into_the_device_and_keep_their_proportions(
    by_pid: dict[int, float], device: float
) -> None:
    limit = 1.0 if device is None else device
    fitted, scaled = within_device(by_pid, device)
    assert sum(fitted.values()) <= limit + 0.010001
    assert fitted.keys() == by_pid.keys()
    assert all(0 <= fitted[pid] <= by_pid[pid] + 1e-9 for pid in by_pid)
    assert scaled == (fitted != by_pid) or not any(by_pid.values())


@given(st.lists(st.tuples(st.integers(101, 500), st.integers(0, 100)), min_size=1))
def test_a_mean_over_time_lies_between_its_samples(points: list[tuple[int, int]]) -> None:
    mean = mean_over_time(points, 100)
    values = [value for _, value in points]
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9


def test_a_sample_stands_for_the_time_since_the_one_before_it() -> None:
    assert mean_over_time([(400, 100), (200, 0)], 100) == pytest.approx(200 / 3)


@given(st.lists(st.tuples(PIDS, st.integers(101, 500), st.integers(0, 100))), st.sets(PIDS))
def test_only_running_pids_have_a_share(uses: list[tuple[int, int, int]], running: set[int]) -> None:
    found, flags = believed(shares(uses, 100), running, foreign=False)
    assert found.keys() == {pid for pid, _, _ in uses} & running
    assert all(0 <= ratio <= 1 for ratio in found.values())
    assert flags == ()


@given(st.lists(st.tuples(PIDS, st.floats(0, 100))), st.sets(PIDS))
def test_in_another_namespace_one_unlisted_pid_makes_every_use_unbelievable(
    uses: list[tuple[int, float]], listed: set[int]
) -> None:
    found, flags = believed(uses, listed, foreign=True)
    strangers = {pid for pid, _ in uses} - listed
    assert flags == ((USES_OF_STRANGERS,) if strangers else ())
    assert found.keys() == (set() if strangers else {pid for pid, _ in uses})


@given(ENTRIES, st.none() | st.integers(1, 100), st.sets(st.integers(1, LARGEST_PID)), HOST_PIDS)
def test_a_verdict_never_names_a_process_that_cannot_be(
    entries: list[tuple[int, int | None, str]], total: int | None, there: set[int], host_pids: bool | None
) -> None:
    verdict = judge(entries, total, there, host_pids=host_pids)
    assert {held.pid for held in verdict.held} <= there
    assert len({held.pid for held in verdict.held}) == len(verdict.held)
    if verdict.held:
        assert verdict.total == len(verdict.held)
        assert all(0 < held.pid <= LARGEST_PID for held in verdict.held)
        assert all((held.memory_used_bytes or 0) <= (total or 200) for held in verdict.held)
    if verdict.total is None:
        assert verdict.flags
    if verdict.total == 0 and entries:  # pids that are dead and hold memory
        assert host_pids is True
        assert all(one.memory_used_bytes for one in union(entries))


@given(ENTRIES)
def test_a_union_holds_each_pid_once_with_its_largest_memory(
    entries: list[tuple[int, int | None, str]],
) -> None:
    held = {one.pid: one for one in union(entries)}
    assert held.keys() == {pid for pid, _, _ in entries}
    for pid, one in held.items():
        known = [memory for other, memory, _ in entries if other == pid and memory is not None]
        kinds = {kind for other, _, kind in entries if other == pid}
        assert one.memory_used_bytes == max(known, default=None)
        assert (one.type is ProcessType.BOTH) == (kinds == {"C", "G"})


@given(st.lists(st.integers(0, 100), min_size=1))
def test_a_window_lies_within_its_samples(values: list[int]) -> None:
    window = summarize(1_000, 1_000 * len(values), values, max(values), 0)
    assert min(values) <= window.mean <= window.highest == max(values)
    assert (window.busy == 0) == (window.highest == 0)
    assert not window.partial


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2**32 - 1))), st.integers(0, 100))
def test_believable_samples_are_new_percentages(samples: list[tuple[int, int]], since: int) -> None:
    stamps, values = believable([t for t, _ in samples], [v for _, v in samples], since)
    assert len(stamps) == len(values) == sum(t > since and v <= 100 for t, v in samples)
    assert all(stamp > since for stamp in stamps)


@given(st.lists(st.none() | st.integers(0, 7), max_size=40))
def test_waits_and_pauses_are_bounded_whatever_fails(blamed: list[int | None]) -> None:
    state, now_ms = Restarts(), 1_000_000
    for index in blamed:
        state = source.failed(state, now_ms, touching=index, reason="crashed")
        assert 0 <= source.must_wait_ms(state, now_ms) <= LONGEST_WAIT_MS
        now_ms += 400_000
        avoid, state = source.starting(state, now_ms)
        assert avoid <= state.avoided.keys()
        assert all(held.pause_ms <= LONGEST_RETRY_LOST_MS for held in state.avoided.values())
        assert not source.wants_fresh_child(state, now_ms)


def test_a_clock_that_is_set_back_does_not_prolong_the_pause_of_a_lost_gpu() -> None:
    lost = source.noticed_lost(Restarts(), 10_000_000, 3, "fell off the bus")
    assert not source.wants_fresh_child(lost, 10_000_001)
    assert source.wants_fresh_child(lost, 10_000_000 - 3_600_000)
    avoid, tried = source.starting(lost, 10_000_000 - 3_600_000)
    assert avoid == frozenset()
    assert not source.wants_fresh_child(tried, 10_000_001 - 3_600_000), "and then a pause as any other"


def test_a_clock_that_is_set_back_does_not_prolong_a_wait() -> None:
    state = source.failed(Restarts(), 10_000_000, touching=None, reason="down")
    assert source.must_wait_ms(state, 10_000_000) > 0
    assert source.must_wait_ms(state, 0) == 0
