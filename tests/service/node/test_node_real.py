"""Real processes: a head and two nodes in network namespaces, killed and cut off; no row lost, none twice."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver.driver import CompilerMissing
from tests.nodes_site import Site, can_be, site, until, wrong_clock

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Site]:
    if missing := can_be():
        pytest.skip(missing)
    try:
        with site(tmp_path) as made:
            yield made
    except CompilerMissing as missing:
        pytest.skip(str(missing))


def test_nodes_push_exactly_once_through_kills_and_an_outage_of_the_head(fleet: Site) -> None:
    fleet.start_head()
    for name in fleet.nodes:
        fleet.start_node(name)
    until("both push", lambda: all(name in fleet.audit.seen for name in fleet.nodes))
    listens = ["ip", "netns", "exec", fleet.nodes["gpu-a"].space, "ss", "-Hltun"]
    assert subprocess.run(listens, capture_output=True, text=True, check=True).stdout == "", "a node listens"
    fleet.head.stop(signal.SIGKILL)
    fleet.cable("gpu-b", "down")
    fleet.nodes["gpu-a"].stop(signal.SIGKILL)
    fleet.start_node("gpu-a")
    until("gpu-a has a dozen", lambda: len(fleet.audit.numbers("gpu-a")) >= 12)
    fleet.start_head()
    fleet.cable("gpu-b", "up")
    time.sleep(1.5)
    fleet.head.stop(signal.SIGKILL)  # amid catching up
    fleet.start_head()
    for name in fleet.nodes:
        until(f"the head has stored what {name} has", lambda name=name: fleet.settled(name))  # type: ignore[misc]
    for node in fleet.nodes.values():
        node.stop()
    fleet.audit.look()
    last = {name: max(fleet.audit.rows(name), key=lambda row: row[1]) for name in fleet.nodes}
    time.sleep(2.5 * fleet.tick_s)  # what was pushed last is stored with the head's next tick
    fleet.head.stop()
    for name in fleet.nodes:
        stored = fleet.stored(name)
        assert sorted(set(stored)) == stored, "a row stands there twice"
        assert set(stored) == fleet.audit.rows(name)
        assert last[name] in stored
        assert all("did not measure" in reason for _, _, reason in fleet.gaps(name))
    assert "Traceback" not in fleet.head.log()


def test_a_node_whose_calendar_is_an_hour_wrong_is_stored_at_true_times_and_named(fleet: Site) -> None:
    variables = wrong_clock(-3600)
    if variables is None:
        pytest.skip("libfaketime is not installed; on Debian: apt-get install faketime")
    fleet.start_head()
    begun_ms = time.time_ns() // 1_000_000
    fleet.start_node("gpu-a", **variables)
    until("some ticks", lambda: len(fleet.audit.numbers("gpu-a")) >= 6)
    until("it is named", lambda: "behind this service's" in fleet.ask_head("status"))
    doctor = fleet.ask_head("doctor")
    assert "node gpu-a" in doctor and "set it by NTP" in doctor, doctor
    assert re.search(
        r"The head says: the clock of node gpu-a is (3599\.9|3600\.\d) s behind", fleet.nodes["gpu-a"].log()
    )
    fleet.nodes["gpu-a"].stop()
    time.sleep(2.5 * fleet.tick_s)
    fleet.head.stop()
    ended_ms = time.time_ns() // 1_000_000
    stored = sorted(at_ms for _, at_ms in fleet.stored("gpu-a"))
    assert len(stored) >= 10
    assert all(begun_ms - 2_000 <= at_ms <= ended_ms for at_ms in stored)
    told = sorted(at_ms + 3_600_000 for _, at_ms in fleet.audit.rows("gpu-a"))
    assert len(told) == len(stored)
    assert all(abs(one - other) <= 300 for one, other in zip(stored, told, strict=True))
