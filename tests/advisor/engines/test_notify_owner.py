"""Telling on terminals: real ones, whole messages, and nothing on them that could do harm."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engines.notify_owner import Notice, TerminalNotifier, Told, as_terminal_text, plain, tell
from collector.model import JobId
from collector.procfs.terminals import terminals
from tests.collector.procfs.pseudo import Seat, seat

NOTICE = Notice(
    job=JobId("pid:here/7@1"), user="ann", uid=os.getuid(), message="It idles for 1 h.", hint="fallow keep it"
)


def only(there: Seat) -> TerminalNotifier:
    """A way that knows this terminal alone: tests write on nobody else's."""
    return TerminalNotifier(lambda: [each for each in terminals() if each.path == there.path])


def test_owner_reads_the_message_whole() -> None:
    with seat() as there:
        told = only(there).notify(NOTICE)
        assert told == Told(reached=(f"terminal {there.path.relative_to('/dev')}",))
        shown = there.read_until("fallow keep it")
    assert "Message from Fallow about pid:here/7@1:" in shown
    assert "It idles for 1 h." in shown


def test_mesg_n_is_respected_by_root_as_well() -> None:
    with seat(messages=False) as there:
        told = only(there).notify(NOTICE)
        assert told.reached == ()
        assert "accepts no messages (mesg n)" in told.missed[0]
        assert "Fallow" not in there.type("quiet")


def test_mesg_n_between_looking_and_writing_is_respected() -> None:
    with seat() as there:
        found = [each for each in terminals() if each.path == there.path]
        there.path.chmod(0o600)
        told = TerminalNotifier(lambda: found).notify(NOTICE)
        assert told.reached == () and "mesg n" in told.missed[0]


def test_terminal_that_is_somebody_elses_by_now_is_not_written_on() -> None:
    with seat() as there:
        found = [replace(each, device=each.device + 1) for each in terminals() if each.path == there.path]
        told = TerminalNotifier(lambda: found).notify(NOTICE)
        assert told.reached == () and "somebody else's by now" in told.missed[0]


def test_name_that_points_elsewhere_is_not_followed(tmp_path: Path) -> None:
    with seat() as there:
        link = tmp_path / "tty"
        link.symlink_to(there.path)
        found = [replace(each, path=link) for each in terminals() if each.path == there.path]
        assert TerminalNotifier(lambda: found).notify(NOTICE).reached == ()


def test_stopped_terminal_is_not_waited_for() -> None:
    with seat() as there:
        os.write(there.hand, b"\x13")  # Ctrl-S
        way = only(there)
        outcomes = [way.notify(replace(NOTICE, message="x" * 500)) for _ in range(40)]
        assert all(len(each.reached) + len(each.missed) == 1 for each in outcomes)


def test_owner_at_no_terminal_and_unknown_owner_are_not_reached() -> None:
    way = TerminalNotifier(lambda: [])
    assert way.notify(NOTICE) == Told(missed=("terminal: ann is logged in at none",))
    assert way.notify(replace(NOTICE, uid=None)).missed == ("terminal: the owner's account is not known",)


def test_without_any_way_nobody_is_reached() -> None:
    assert tell(NOTICE, []) == Told(missed=("no way of telling is switched on",))


@pytest.mark.parametrize(
    "nasty",
    [
        "\x1b]0;owned\x07",
        "a\x9b31mred",
        "line\r\noverwritten",
        "\u202egnirts",
        "bell\x07",
        "nul\x00",
        "\ud800",
    ],
)
def test_no_control_character_reaches_a_terminal(nasty: str) -> None:
    text = as_terminal_text(replace(NOTICE, job=JobId(nasty), message=nasty, hint=nasty))
    inner = [char for char in text.replace("\r\n", "").replace("\r", "") if not char.isprintable()]
    assert inner == []
    assert "\r\n" not in plain(nasty)
    text.encode()


def test_message_is_bounded() -> None:
    assert len(plain("x" * 1_000_000)) == 600
