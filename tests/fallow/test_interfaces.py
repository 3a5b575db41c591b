"""The network interface of sums: that of the route to the controller, never loopback."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fallow.protocol import ENV_INTERFACE
from fallow.workers import interfaces
from fallow.workers.interfaces import GLOO, NCCL, interface_of, only_here, socket_variables, was_chosen

ROOT = Path(__file__).parents[2]


def test_loopback_and_an_address_of_nobody_here_set_nothing() -> None:
    assert interface_of("127.0.0.1") == "lo" and interface_of(interfaces.ELSEWHERE) is None
    for host in ("", "127.0.0.1", "127.0.1.1", "::1", "localhost", interfaces.ELSEWHERE):
        assert socket_variables(host, {}) == {}


def test_what_a_person_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "interface_of", lambda host: "ib0")
    ours = {GLOO: "ib0", NCCL: "=ib0", ENV_INTERFACE: "ib0"}
    assert socket_variables("10.1.0.7", {}) == ours and not was_chosen(ours) and not was_chosen({})
    assert socket_variables("10.1.0.7", {GLOO: "eth1"}) == {NCCL: "=ib0"}
    assert socket_variables("10.1.0.7", {NCCL: "^docker"}) == {GLOO: "ib0", ENV_INTERFACE: "ib0"}
    assert was_chosen({GLOO: "eth1"}) and was_chosen({GLOO: "eth1", ENV_INTERFACE: "ib0"})


def test_a_name_that_is_loopback_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's /etc/hosts has 127.0.1.1 for the machine's own name."""
    known = {"node1": ["127.0.1.1"], "node2": ["127.0.1.1", "10.0.0.2"], "localhost": ["127.0.0.1"]}

    def found(host: str, port: object, **more: object) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    assert only_here("node1") == "127.0.1.1"
    for host in ("node2", "localhost", "nobody", "127.0.0.1", "10.0.0.2"):
        assert only_here(host) is None


SITE = """
ip link set lo up
ip link add docker0 type veth peer name one && ip link set one up
ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up
ip link add fabric type veth peer name two && ip link set two up
ip addr add 10.9.0.5/24 dev fabric && ip link set fabric up
ip addr add 10.9.1.5/24 dev fabric label fabric:2 && ip -6 addr add fd00::5/64 dev fabric nodad
ip route add default via 172.17.0.9
exec "$0" -c "$1"
"""
ASKS = """
import json
from fallow.workers.interfaces import interface_of, route_address, socket_variables
all = "10.9.0.5", "10.9.1.5", "fd00::5", "172.17.0.1", "127.0.0.1", "10.9.0.6"
told = [interface_of(each) for each in all]
print(json.dumps([told, route_address("10.9.0.77"), route_address(), socket_variables("10.9.1.5", {})]))
"""


def test_a_machine_of_several_networks_uses_the_one_that_leads_there() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs root, ip, unshare; on Debian: iproute2, util-linux")
    asked = ["unshare", "--net", "sh", "-e", "-c", SITE, sys.executable, ASKS]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    names, near, other, told = json.loads(done.stdout)
    assert names == ["fabric", "fabric", "fabric", "docker0", "lo", None]
    assert (near, other) == ("10.9.0.5", "172.17.0.1")
    assert told == {GLOO: "fabric", NCCL: "=fabric", ENV_INTERFACE: "fabric"}
