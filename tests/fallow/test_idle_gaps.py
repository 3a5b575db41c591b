"""Gaps of a foreground, who may fill them, and what keeps the gate shut."""

import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from fallow.idle_gaps import page as pages
from fallow.idle_gaps.announce import ENV_PAGE, Announcer, announcer
from fallow.idle_gaps.guard import CONTROL_EVERY, FIRST_CONTROLS, LEAST_SHARE, Guard
from tests.fallow.still_clock import Clock, page_at

pytestmark = pytest.mark.quick


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def page(tmp_path: Path, clock: Clock) -> pages.Page:
    return page_at(tmp_path, clock)


# -- the page ---------------------------------------------------------------------------------------------


def test_a_gap_is_open_until_it_ends(page: pages.Page, clock: Clock) -> None:
    assert page.left_s() == 0
    page.open_gap(0.01)
    assert page.left_s() == pytest.approx(0.01)
    clock.sleep(0.004)
    assert page.left_s() == pytest.approx(0.006)
    clock.sleep(0.007)
    assert page.left_s() == 0
    page.open_gap(5)
    page.shut_gap()
    assert page.left_s() == 0


def test_the_guards_share_and_the_switch_count(page: pages.Page) -> None:
    page.open_gap(1)
    page.end_step(alone_s=None, recent_s=None, share=0.25)
    assert page.left_s() == pytest.approx(0.25)
    assert page.slowdown is None
    page.allow(is_allowed=False)
    assert page.left_s() == 0


def test_a_new_page_lets_nobody_in(tmp_path: Path, clock: Clock) -> None:
    with pages.create(tmp_path / "new", clock.now_ns) as made:
        made.open_gap(1)
        assert made.left_s() == 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_both_sides_see_the_same_page(tmp_path: Path, page: pages.Page, clock: Clock) -> None:
    with pages.attach(tmp_path / "page", clock.now_ns) as other:
        other.open_gap(2)
        assert page.left_s() == pytest.approx(2)
        page.end_background_step()
        assert other.steps == (1, 1)
        assert other.slowdown == pytest.approx(1.02)


@pytest.mark.parametrize(
    "place, word",
    [
        (0, struct.pack("<q", pages.MARK + 1)),
        (pages.GAP_ENDS, struct.pack("<q", 2**62)),
        (pages.GAP_ENDS, struct.pack("<q", -(2**62))),
        (pages.SHARE, struct.pack("<d", float("nan"))),
        (pages.SHARE, struct.pack("<d", 7.0)),
        (pages.SHARE, struct.pack("<d", -1.0)),
        (pages.ALLOWED, struct.pack("<q", 3)),
    ],
)
def test_what_is_out_of_range_keeps_the_gate_shut(
    tmp_path: Path, page: pages.Page, place: int, word: bytes
) -> None:
    page.open_gap(1)
    assert page.left_s() > 0
    with (tmp_path / "page").open("r+b") as file:
        file.seek(8 * place)
        file.write(word)
    assert page.left_s() == 0


def test_only_a_page_of_ones_own_is_attached(tmp_path: Path) -> None:
    pages.create(tmp_path / "page").close()
    (tmp_path / "link").symlink_to(tmp_path / "page")
    (tmp_path / "short").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "other").write_bytes(bytes(pages.SIZE))
    (tmp_path / "other").chmod(0o600)
    for name in ("none", "link", "short", "fifo", "other", "."):
        with pytest.raises(pages.PageError):
            pages.attach(tmp_path / name)
    (tmp_path / "page").chmod(0o666)
    with pytest.raises(pages.PageError, match="written by others"):
        pages.attach(tmp_path / "page")
    with pytest.raises(pages.PageError, match="File exists"):
        pages.create(tmp_path / "page")


# -- the guard --------------------------------------------------------------------------------------------


def run(guard: Guard, steps: int, alone_s: float, cost: float) -> list[float]:
    """Steps that take ``cost`` times the share longer with somebody beside them; the shares."""
    shares = []
    for _ in range(steps):
        shares.append(guard.share)
        guard.end_step(alone_s * (1 + cost * guard.share))
    return shares


def test_at_first_nobody_computes_beside_the_foreground_and_then_at_each_control() -> None:
    shares = run(Guard(), 100, 0.1, 0.0)
    assert shares[:FIRST_CONTROLS] == [0.0] * FIRST_CONTROLS
    shut = [step for step, share in enumerate(shares) if share == 0 and step >= FIRST_CONTROLS]
    assert shut == list(range(CONTROL_EVERY, 100, CONTROL_EVERY))


def test_a_foreground_that_keeps_its_speed_gives_all_of_its_gaps() -> None:
    assert run(Guard(), 100, 0.1, 0.01)[-1] == 1.0


def test_a_foreground_that_slows_down_gives_less_until_it_does_not() -> None:
    guard = Guard()
    run(guard, 100, 0.1, 0.0)
    late = run(guard, 400, 0.1, 0.4)
    open_shares = [share for share in late[100:] if share]
    assert max(open_shares) * 0.4 < 0.12
    assert min(open_shares) >= LEAST_SHARE


def test_the_first_change_comes_within_twenty_steps() -> None:
    guard = Guard()
    run(guard, 81, 0.1, 0.0)
    shares = [share for share in run(guard, 20, 0.1, 0.5) if share]
    assert any(after < before for before, after in pairwise(shares))


def test_a_foreground_that_became_slower_itself_is_not_blamed_on_its_guest() -> None:
    guard = Guard()
    run(guard, 100, 0.1, 0.0)
    run(guard, 8 * CONTROL_EVERY, 0.2, 0.0)
    assert run(guard, 60, 0.2, 0.0)[-1] == 1.0


# -- announcing -------------------------------------------------------------------------------------------


def steps(announcer: Announcer, clock: Clock, page: pages.Page, number: int) -> list[float]:
    """Steps of 10 ms of work, 5 ms of a sum and 3 ms of the script; what was left at each sum's beginning."""
    left = []
    for _ in range(number):
        announcer.begin_step()
        clock.sleep(0.010)
        with announcer.gap("sum"):
            left.append(page.left_s())
            clock.sleep(0.005)
        announcer.end_step()
        clock.sleep(0.003)
    return left


def test_gaps_are_announced_once_they_are_known_and_not_in_controls(page: pages.Page, clock: Clock) -> None:
    left = steps(Announcer(page, now_s=clock.now_s), clock, page, 45)
    assert left[:FIRST_CONTROLS] == [0.0] * FIRST_CONTROLS
    assert left[10] == pytest.approx(0.005 * 0.5)
    assert left[-1] == pytest.approx(0.005 * 0.8, abs=0.001)
    assert left[21] == 0 or left[20] == 0
    assert page.steps[0] == 45


def test_a_gap_that_begins_before_the_gpu_is_done_is_not_announced(page: pages.Page, clock: Clock) -> None:
    announcer = Announcer(page, is_waiting=lambda: False, now_s=clock.now_s)
    assert not any(steps(announcer, clock, page, 45))


def test_a_gap_that_became_short_is_no_longer_announced(page: pages.Page, clock: Clock) -> None:
    announcer = Announcer(page, now_s=clock.now_s)
    steps(announcer, clock, page, 30)
    for _ in range(20 * CONTROL_EVERY):
        announcer.begin_step()
        clock.sleep(0.01)
        with announcer.gap("sum"):
            last = page.left_s()
            clock.sleep(0.0001)
        announcer.end_step()
    assert last == 0


def test_without_a_page_nothing_is_done() -> None:
    announcer = Announcer(None)
    announcer.begin_step()
    with announcer.gap("sum"):
        pass
    announcer.end_step()


def test_a_process_with_several_gpus_announces_on_the_page_of_its_models(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    names = ["GPU-a", "MIG-b_1"]
    own = [pages.create(folder / name) for name in names]
    seen = {ENV_PAGE: str(folder), "CUDA_VISIBLE_DEVICES": "GPU-a, MIG-b/1"}
    for device, page in zip(("meta:0", "meta:1"), own, strict=True):
        announcer(torch.device(device), seen).end_step(0.1)
        announcer(torch.device(device), seen).end_step(0.1)
        assert page.steps[0] == 2
    announcer(torch.device("meta"), seen).end_step(0.1)
    assert [page.steps[0] for page in own] == [3, 2]
    announcer(torch.device("meta:2"), seen).end_step(0.1)
    assert "no page for meta:2: CUDA_VISIBLE_DEVICES names 2" in caplog.text
    assert [page.steps[0] for page in own] == [3, 2]
