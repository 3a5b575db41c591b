"""The spool of a node: what was kept survives, it is bounded, and no number is given twice."""

import os
import resource
from pathlib import Path

import pytest

from collector.sources.nodes.terms import Term
from service.node.spool import ROW_BYTES, Spool, SpoolLimits, SpoolTrouble

AMPLE = SpoolLimits(most_bytes=1 << 20, most_ms=3_600_000)


def add(spool: Spool, at_ms: int, page: bytes = b"page") -> int:
    return spool.add(at_ms=at_ms, width_ms=10_000, boot="b", steady_ms=at_ms, page=page)


def numbers(spool: Spool) -> list[int]:
    return [record.sequence for record in spool.next(0)]


def test_what_was_kept_is_there_after_a_kill_and_comes_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AMPLE)
    assert [add(spool, at) for at in (1, 2, 3)] == [1, 2, 3]
    again = Spool(tmp_path, AMPLE)  # the first was never closed
    assert [(each.sequence, each.at_ms, each.page) for each in again.next(1)] == [
        (2, 2, b"page"),
        (3, 3, b"page"),
    ]
    assert again.name == spool.name


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AMPLE)
    add(spool, 1)
    add(spool, 2)
    spool.forget(2)
    assert numbers(spool) == []
    assert add(Spool(tmp_path, AMPLE), 3) == 3


def test_the_oldest_go_beyond_the_room_and_are_counted(tmp_path: Path) -> None:
    size = ROW_BYTES + 12  # zlib's 12 bytes of b"page"
    spool = Spool(tmp_path, SpoolLimits(most_bytes=3 * size, most_ms=3_600_000))
    for at_ms in range(1, 6):
        add(spool, at_ms)
    assert numbers(spool) == [3, 4, 5]
    assert (spool.state.waiting, spool.state.oldest_ms, spool.state.lost) == (3, 3, 2)
    assert Spool(tmp_path, AMPLE).state.lost == 2


def test_the_oldest_go_beyond_the_hours(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SpoolLimits(most_bytes=1 << 20, most_ms=100))
    add(spool, 1)
    add(spool, 200)
    assert numbers(spool) == [2]


def test_an_older_file_that_was_put_back_is_another_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AMPLE)
    before = spool.name
    add(spool, 1)
    spool.forget(7)  # the head has stored numbers that this file never gave
    assert spool.name != before
    assert numbers(spool) == [1]


def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "spool.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(SpoolTrouble, match="move it away"):
        Spool(tmp_path, AMPLE)


def test_a_full_disk_costs_the_tick_and_not_the_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AMPLE)
    add(spool, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "spool.sqlite-wal").stat().st_size, limits[1]))
    try:
        with pytest.raises(SpoolTrouble):
            add(spool, 2, os.urandom(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert add(spool, 3) > 1
    assert [each.at_ms for each in spool.next(0)] == [1, 3]


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    Spool(tmp_path, AMPLE)
    assert (tmp_path / "spool.sqlite").stat().st_mode & 0o077 == 0


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("somebody's")
    (tmp_path / "spool.sqlite").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpoolTrouble, match="cannot be made"):
        Spool(tmp_path, AMPLE)


def test_what_is_stored_stays_for_a_head_that_is_restored_from_a_back_up(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SpoolLimits(most_bytes=1 << 20, most_ms=3_600_000, stored_ms=100))
    for at_ms in (1, 150, 200, 250):
        add(spool, at_ms)
    spool.forget(3)
    assert numbers(spool) == [3, 4], "of what is stored only the last 100 ms"
    assert (spool.state.waiting, spool.state.oldest_ms, spool.state.lost) == (1, 250, 0)
    spool.forget(2)  # restored: it has stored less than before
    assert spool.state.waiting == 2


def test_what_is_stored_goes_first_and_is_no_loss(tmp_path: Path) -> None:
    size = ROW_BYTES + 12
    spool = Spool(tmp_path, SpoolLimits(most_bytes=3 * size, most_ms=3_600_000, stored_ms=3_600_000))
    for at_ms in (1, 2, 3):
        add(spool, at_ms)
    spool.forget(2)
    add(spool, 4)
    add(spool, 5)
    assert (numbers(spool), spool.state.lost) == ([3, 4, 5], 0)
    add(spool, 6)
    assert (numbers(spool), spool.state.lost) == ([4, 5, 6], 1)


def test_the_newest_head_is_remembered_until_the_token_is_another(tmp_path: Path) -> None:
    spool = Spool(tmp_path, AMPLE)
    head = Term(epoch=1, start=2, word="w", seal="s")
    spool.by_credential("token")
    spool.heard(head)
    again = Spool(tmp_path, AMPLE)
    again.by_credential("token")
    assert again.head == head
    again.by_credential("another token")
    assert again.head is None


def test_an_older_file_that_was_put_back_sends_nothing_again_that_it_knows_as_stored(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SpoolLimits(most_bytes=1 << 20, most_ms=3_600_000, stored_ms=3_600_000))
    for at_ms in (1, 2, 3):
        add(spool, at_ms)
    spool.forget(2)
    spool.forget(9)
    assert numbers(spool) == [3]
