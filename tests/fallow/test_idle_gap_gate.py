"""What a gate lets through, how much it lets into the queue, and what it takes a piece to last."""

import os
import threading
from collections.abc import Collection
from pathlib import Path

import pytest

from fallow.idle_gaps import page as pages
from fallow.idle_gaps.gate import AHEAD_S, PATIENCE, RESERVE, Gate
from fallow.idle_gaps.marks import FIRST_S, LITTLE_KNOWN
from tests.fallow.still_clock import Clock, page_at

pytestmark = pytest.mark.quick


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def page(tmp_path: Path, clock: Clock) -> pages.Page:
    return page_at(tmp_path, clock)


class Waited(Exception):
    """A gate has looked for long enough."""


def gate_for(page: pages.Page, clock: Clock, opens_after_s: float, gap_s: float) -> Gate:
    """A gate whose foreground opens a gap once it has waited so long, and again when that is over."""
    begun, looks = clock.s, 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 10_000:
            raise Waited
        clock.sleep(seconds)
        if clock.s - begun >= opens_after_s and page.left_s() == 0:
            page.open_gap(gap_s)

    return Gate(page, clock.now_s, sleep)


def run_piece(gate: Gate, clock: Clock, page: pages.Page, *lasted: float) -> None:
    """Runs of a piece that lasted so long, with a gap wide open."""
    for seconds in lasted:
        page.open_gap(50.0)
        gate.pass_through("a")
        clock.sleep(seconds)
        gate.end_piece()
    page.shut_gap()


def test_a_piece_longer_than_any_gap_takes_one_in_many_from_its_beginning(
    page: pages.Page, clock: Clock
) -> None:
    gate = gate_for(page, clock, 0.05, 0.01)
    run_piece(gate, clock, page, *[0.02] * LITTLE_KNOWN)
    begun = clock.s
    gate.pass_through("a")
    assert clock.s - begun == pytest.approx(PATIENCE * 0.010, rel=0.1)
    assert page.left_s() > 0.8 * 0.010


def test_a_first_run_that_took_long_costs_a_gap_or_two(page: pages.Page, clock: Clock) -> None:
    gate = gate_for(page, clock, 0.0, 0.01)
    run_piece(gate, clock, page, 0.2)
    begun = clock.s
    gate.pass_through("a")
    assert clock.s - begun < 2.5 * 0.010


def test_runs_that_met_the_foreground_do_not_keep_a_piece_out(page: pages.Page, clock: Clock) -> None:
    gate = gate_for(page, clock, 0.0, 0.01)
    run_piece(gate, clock, page, 5.0, 0.001, 0.001, 0.028, 0.001, 0.001, 0.001, 0.001)
    begun = clock.s
    gate.pass_through("a")
    assert clock.s - begun < 0.001


def test_a_gap_that_lasts_longer_than_usual_takes_only_what_may_be_late(
    page: pages.Page, clock: Clock
) -> None:
    gate = gate_for(page, clock, 1e9, 0.0)
    run_piece(gate, clock, page, *[0.001] * LITTLE_KNOWN)
    page.open_gap(0.0005, late_s=0.0012)
    gate.pass_through("a")
    clock.sleep(0.001)
    gate.end_piece()
    gate.pass_through("a")  # 0.5 ms after the end that was said
    gate.end_piece()
    page.open_gap(0.0005, late_s=0.0011)
    clock.sleep(0.001)
    with pytest.raises(Waited):
        gate.pass_through("a")


def test_a_gap_that_is_shut_is_shut_at_once(page: pages.Page, clock: Clock) -> None:
    page.open_gap(0.001, late_s=0.001)
    clock.sleep(0.01)
    assert page.room_s() == (0, pytest.approx(0.001))
    page.shut_gap()
    assert page.room_s() == (0, 0)
    page.open_gap(0.001, late_s=1.0)
    assert page.room_s() == (pytest.approx(0.001), 0)
    page.open_gap(0.001, late_s=0.001)
    clock.sleep(pages.LONGEST_GAP_S + 1)  # its foreground was killed
    assert page.room_s() == (0, 0)


class Device:
    """It works off a queue, in order, and its host launches without waiting."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free_s, self.most_s, self.idle_s = clock, clock.s, 0.0, 0.0

    def launch(self, seconds: float) -> None:
        self.idle_s += max(0.0, self.clock.s - self.free_s)
        self.free_s = max(self.clock.s, self.free_s) + seconds
        self.most_s = max(self.most_s, self.free_s - self.clock.s)

    def use(self, devices: Collection[object]) -> None: ...

    def mark(self) -> float:
        return max(self.clock.s, self.free_s)

    def is_done(self, mark: float) -> bool:
        return mark <= self.clock.s

    def wait(self, mark: float) -> None:
        self.clock.sleep(max(0.0, mark - self.clock.s))

    def between_s(self, earlier: float, later: float, devices: Collection[object]) -> float:
        return later - earlier


@pytest.mark.parametrize("lasts_s", [0.00003, 0.0003, 0.0008])
def test_a_bounded_amount_of_work_is_queued_and_the_device_does_not_wait(
    page: pages.Page, clock: Clock, lasts_s: float
) -> None:
    device = Device(clock)
    gate = Gate(page, clock.now_s, clock.sleep, device)

    def step() -> None:
        for name in range(50):
            gate.pass_through(name)
            clock.sleep(0.00001)  # the host
            device.launch(lasts_s)
        gate.end_step()

    for _ in range(LITTLE_KNOWN + 1):
        page.open_gap(10)
        step()
    device.most_s = device.idle_s = 0.0
    begun = clock.s
    for _ in range(20):
        page.open_gap(10)
        step()
    assert AHEAD_S / 2 < device.most_s <= AHEAD_S + 1e-9
    assert device.idle_s < 0.03 * (clock.s - begun)


def test_what_is_queued_ends_before_the_gap(page: pages.Page, clock: Clock) -> None:
    device = Device(clock)
    ends_s: float | None = None

    def sleep(seconds: float) -> None:
        nonlocal ends_s
        clock.sleep(seconds)
        if ends_s is None or clock.s > ends_s + 0.02:
            page.open_gap(0.005)
            ends_s = clock.s + 0.005

    gate = Gate(page, clock.now_s, sleep, device)
    late = []
    for run in range(2_000):
        gate.pass_through(run % 20)
        clock.sleep(0.00001)
        device.launch(0.0002)
        assert ends_s is not None
        if run > 20 * LITTLE_KNOWN:
            late.append(device.free_s - ends_s)
    assert max(late) <= 0


def test_a_gate_without_a_page_stays_shut(page: pages.Page, clock: Clock) -> None:
    gate = gate_for(page, clock, 0.0, 1.0)
    gate.pass_through("a")
    with pytest.raises(Waited):
        shut = gate_for(page, clock, 0.0, 1.0)
        shut.page = None
        shut.pass_through("a")


def test_a_piece_starts_only_if_it_ends_before_the_gap(page: pages.Page, clock: Clock) -> None:
    gate = gate_for(page, clock, 0.0, 0.1)
    for lasted in (0.03, 0.02, 0.01):
        gate.pass_through("a")
        clock.sleep(lasted)
        gate.end_piece()
    for _ in range(200):
        page.shut_gap()
        gate.pass_through("a")
        assert page.left_s() >= RESERVE * 0.03 - 1e-9
        clock.sleep(0.03)
        gate.end_piece()


def test_an_unknown_piece_needs_a_gap_of_some_length(page: pages.Page, clock: Clock) -> None:
    gate = gate_for(page, clock, 0.0, 0.5)
    page.open_gap(FIRST_S)
    gate.pass_through("new")
    assert page.left_s() > FIRST_S


def test_a_second_thread_waits_until_the_first_is_through(page: pages.Page, clock: Clock) -> None:
    page.open_gap(50)
    at_gate, may_go_on, through = threading.Event(), threading.Event(), threading.Event()

    class Slow(Device):
        def mark(self) -> float:
            at_gate.set()
            assert may_go_on.wait(10)
            return super().mark()

    gate = Gate(page, clock.now_s, clock.sleep, Slow(clock))

    def second() -> None:
        gate.pass_through("b")
        through.set()

    threads = [threading.Thread(target=gate.pass_through, args=("a",)), threading.Thread(target=second)]
    threads[0].start()
    assert at_gate.wait(10)
    at_gate.clear()
    threads[1].start()
    assert not at_gate.wait(0.2)
    may_go_on.set()
    for thread in threads:
        thread.join(10)
    assert through.is_set()


def test_beside_another_account_a_gate_reads_its_page_and_counts_on_its_own(
    page: pages.Page, clock: Clock, tmp_path: Path
) -> None:
    folder = tmp_path / f"fallow.{os.geteuid()}.1.abcd"
    folder.mkdir(mode=0o700)
    with pages.create(folder / "GPU-a", clock.now_ns) as host, pages.create(tmp_path / "counts") as counts:
        host.allow(is_allowed=True)
        host.end_step(alone_s=None, recent_s=None, share=1.0)
        host.open_gap(0.1)
        is_dead = False

        def sleep(seconds: float) -> None:
            if is_dead:
                raise Waited
            clock.sleep(seconds)

        with pages.attach_others(folder / "GPU-a", clock.now_ns) as read:
            gate = Gate(read, clock.now_s, sleep, counts=counts)
            for _ in range(4):
                gate.pass_through("a")
                clock.sleep(0.002)
                gate.end_step()
            clock.sleep(1)  # its foreground was killed amid the gap
            is_dead = True
            with pytest.raises(Waited):
                gate.pass_through("a")
        assert counts.steps == (0, 4) and counts.worked_s > 0
        assert host.steps == (1, 0) and host.worked_s == 0
