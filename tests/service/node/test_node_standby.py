"""A head dies, a standby takes over from a back-up, the old one comes back: real services, nothing twice."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver.driver import CompilerMissing
from tests.nodes_site import ROOT, Machine, Site, can_be, site, standby, until

pytestmark = [pytest.mark.process, pytest.mark.long]

ASK = """
import sys
from pathlib import Path
from service.client.jobs import connect_acting
found = connect_acting(Path(sys.argv[1])).acting()
print(found.acting, found.because)
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Site]:
    if missing := can_be():
        pytest.skip(missing)
    try:
        with site(tmp_path) as made:
            yield made
    except CompilerMissing as missing:
        pytest.skip(str(missing))


def acting(head: Machine) -> str:
    """Whether a head acts, and why it doesn't."""
    inside = ["ip", "netns", "exec", head.space, sys.executable, "-c", ASK, str(head.data)]
    done = subprocess.run(inside, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() or done.stderr


def test_a_standby_takes_over_and_the_old_head_refuses_to_act(fleet: Site, tmp_path: Path) -> None:
    with standby(fleet, tmp_path) as spare:
        fleet.start_head()
        for name in fleet.nodes:
            fleet.start_node(name)
        until("the head acts", lambda: acting(fleet.head).startswith("True"))
        fleet.head.stop()
        shutil.rmtree(spare.data)
        shutil.copytree(fleet.head.data, spare.data)
        fleet.start_head()  # a start that the back-up doesn't know, and ticks that only this store has
        until("more ticks", lambda: all(fleet.settled(name) for name in fleet.nodes))
        time.sleep(3)
        fleet.head.stop(signal.SIGKILL)

        fleet.move_address(spare)
        fleet.start_head(spare)
        until("a copy is refused", lambda: "began on a copy of this store" in fleet.nodes["gpu-a"].log())
        assert acting(spare).startswith("False") and "began on a copy of this store" in acting(spare)
        spare.stop()
        said = fleet.ask_head("store", "take-over", "--yes", head=spare)
        assert "took over at" in said, said
        fleet.start_head(spare)
        until("the standby acts", lambda: acting(spare).startswith("True"))

        fleet.start_head(address=fleet.head.address)
        assert "another head may have taken over" in acting(fleet.head), "nobody pushes to it"
        fleet.nodes["gpu-b"].stop()
        fleet.start_node("gpu-b", f"http://{fleet.head.address}:9475")
        until("the old head is told", lambda: "took over at" in acting(fleet.head))
        refused = fleet.told_head("start-acting", head=fleet.head)
        assert "takes no orders any more" in refused and "the head on standby" in refused, refused
        assert "the head on standby" in fleet.told_head("status", head=fleet.head)
        assert "orders are refused" in fleet.told_head("doctor", head=fleet.head)
        assert "takes no orders" not in fleet.told_head("start-acting", head=spare)
        until("the node says so", lambda: "it answered HTTP 409: node gpu-b" in fleet.nodes["gpu-b"].log())
        fleet.head.stop()
        fleet.start_head(address=fleet.head.address)
        assert "took over at" in acting(fleet.head), "also after a restart"
        fleet.nodes["gpu-b"].stop()
        fleet.start_node("gpu-b")

        until("all is stored", lambda: all(fleet.settled(name) for name in fleet.nodes))
        for node in fleet.nodes.values():
            node.stop()
        fleet.audit.look()
        time.sleep(2.5 * fleet.tick_s)
        spare.stop()
        for name in fleet.nodes:
            stored = fleet.stored(name, spare)
            assert sorted(set(stored)) == stored, "a row stands there twice"
            assert set(stored) == fleet.audit.rows(name)
        assert "Traceback" not in fleet.head.log() + spare.log()
