"""What one person's orders may add to what is kept, in a day: nobody fills the disk slowly either."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.api import tokens
from service.control.interface import Role
from tests.service.api.conftest import DAY_MS, Door, submission
from tests.service.conftest import is_well, start, until

pytestmark = pytest.mark.process

CONFIG = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
[api]
socket = "{socket}"
[limits]
kept_mib_per_day = 1
never_fitting = "wait"
"""
LONG = "x" * 60_000


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, traversable: Path) -> Iterator[Door]:
    path, data = traversable / "kept.sock", tmp_path_factory.mktemp("kept") / "data"
    made = start(data, config=CONFIG.format(socket=path))
    try:
        until("the service is well", lambda: is_well(made))
        found = Door(running=made, socket=path)
        for name, role in (
            ("bob", Role.USER),
            ("eve", Role.USER),
            ("ann", Role.USER),
            ("owen", Role.OPERATOR),
        ):
            _, found.secrets[name] = tokens.add(
                data, user=name, role=role, span_ms=DAY_MS, now_ms=time.time_ns() // 1_000_000
            )
        yield found
    finally:
        made.stop()


def submitted(door: Door, who: str, command: str = LONG) -> tuple[int, str]:
    body = submission(command=["echo", command])
    status, answer = door.ask("POST", "/v1/jobs", who=who, body=body)
    return status, str(answer)


def test_who_submits_much_text_waits_and_others_do_not(door: Door) -> None:
    told = [submitted(door, "eve") for _ in range(30)]
    taken = [status for status, _ in told if status < 300]
    assert 14 <= len(taken) <= 17, told
    status, why = told[-1]
    assert status == 429 and "limits.kept_mib_per_day" in why
    assert submitted(door, "eve", "short")[0] < 300, "a short one still has room"
    assert submitted(door, "bob")[0] < 300
    assert [submitted(door, "owen")[0] < 300 for _ in range(20)] == [True] * 20
    assert door.ask("GET", "/v1/jobs", who="eve")[0] == 200, "nobody is kept from asking"


def test_what_is_too_long_to_be_taken_is_said_to_be_so_and_takes_nothing(door: Door) -> None:
    for length in ("1048577", "9" * 19):
        status, answer = door.ask("POST", "/v1/jobs", who="ann", **{"Content-Length": length})
        assert (status, "bytes at most" in str(answer)) == (413, True), answer
    assert submitted(door, "ann")[0] < 300
