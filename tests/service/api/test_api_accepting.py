"""Whoever connects faster than connections are taken in does not keep the loop from everybody else."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import count, cycle
from pathlib import Path

import pytest

from service.client.accept_turn import TURN_S, AcceptTurn
from service.server.bounded_listener import Listener
from service.server.connection_limits import ConnectionLimits, ConnectionSlots
from service.server.peers import LocalPeers

COST_S = TURN_S / 5
COMING = 40


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[socket.socket]:
    folder = Path(f"/tmp/fallow-accept-{os.getpid()}")
    folder.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(str(folder / "s"))
        made.listen(COMING)
        made.setblocking(False)
        yield made
    (folder / "s").unlink()
    folder.rmdir()


class Shedding(ConnectionSlots):
    """Turns every other one away, as where somebody's allowance fills as fast as it is used."""

    def __init__(self) -> None:
        super().__init__(ConnectionLimits(total=100, of_one=100, reserved=0))
        self._says = cycle((True, False))

    def is_shed(self, person: str) -> bool:
        return next(self._says)


def callback(listener: Listener) -> int:
    """What asyncio's one callback takes in: it accepts until nothing waits (``_accept_connection``)."""
    taken = 0
    while True:
        try:
            made, _ = listener.accept()
        except BlockingIOError:
            return taken
        made.close()
        taken += 1


def test_one_callback_takes_in_no_more_than_its_time_allows(opened: socket.socket) -> None:
    ticks = count()
    turn = AcceptTurn(lambda: next(ticks) * COST_S)
    coming = []
    with closing(Listener(opened, Shedding(), LocalPeers(), turn)) as listener:
        listener.setblocking(False)
        for _ in range(COMING):
            coming.append(socket.socket(socket.AF_UNIX))
            coming[-1].connect(opened.getsockname())
        taken = []
        while sum(taken) < COMING // 2:
            taken.append(callback(listener))
        assert max(taken) <= TURN_S / COST_S, "a few, though more waited"
        assert callback(listener) == 0
    for each in coming:
        each.close()


def test_a_turn_begins_anew_when_nothing_waits() -> None:
    now_s = 0.0
    turn = AcceptTurn(lambda: now_s)
    assert turn.goes_on()
    now_s += TURN_S / 2
    assert turn.goes_on()
    turn.end()
    now_s += TURN_S
    assert turn.goes_on(), "what lay between two callbacks does not count"
    now_s += TURN_S
    assert not turn.goes_on() and turn.goes_on()
