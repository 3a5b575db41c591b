"""Terminals as the kernel has them: whose, when they were typed at, and whether they accept messages."""

import os
import time

import pytest

from collector.procfs.terminals import terminal_of, terminals, tty_of
from tests.collector.procfs.pseudo import seat


def test_a_terminal_with_a_session_is_found_and_is_its_owners() -> None:
    with seat() as there:
        (found,) = [each for each in terminals() if each.path == there.path]
        assert found.uid == os.getuid()
        assert found.takes_messages
        assert found.name == there.path.relative_to("/dev").as_posix()
    assert there.path not in {each.path for each in terminals()}


def test_mesg_n_is_seen() -> None:
    with seat(messages=False) as there:
        (found,) = [each for each in terminals() if each.path == there.path]
        assert not found.takes_messages


def test_typing_is_seen_and_output_is_not() -> None:
    with seat() as there:
        tty = tty_of(there.pid)
        assert tty
        os.utime(there.path, (1_000_000_000, 1_000_000_000))
        before = terminal_of(tty)
        assert before is not None and before.input_ms == 1_000_000_000_000
        there.type("hello")
        after = terminal_of(tty)
        assert after is not None
        assert abs(after.input_ms - time.time() * 1000) < 60_000


def test_process_that_is_another_one_by_now_has_no_terminal_here() -> None:
    with seat() as there:
        assert tty_of(there.pid, since_ms=0) is None
        assert tty_of(there.pid) is not None
    assert tty_of(there.pid) is None


@pytest.mark.parametrize("tty", [0, 0x101, 34816 + 255 + (0xFFF << 20)])
def test_what_is_no_terminal_here_is_none(tty: int) -> None:
    assert terminal_of(tty) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a terminal to somebody else")
def test_terminal_of_somebody_else_counts_only_with_a_process_of_theirs() -> None:
    with seat() as there:
        os.chown(there.path, 12345, -1)
        assert there.path not in {each.path for each in terminals()}
