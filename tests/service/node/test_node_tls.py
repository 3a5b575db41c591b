"""A node pushes through a real HTTPS front (nginx) whose certificate a private CA signed; and to no other."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.config.node import NodeConfig
from service.node.push import HeadAway, Machine, Pusher, steady_ms
from service.node.spool import Spool, SpoolLimits
from tests.collector.nodes.nodes_world import page
from tests.conftest import program
from tests.service.conftest import Running, fallow, is_well, start, stop_well, until
from tests.service.node.fronts import front

pytestmark = [pytest.mark.process, pytest.mark.slow]

HEAD = "[collect]\ntick_s = 1\nslurm = false\n"


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Running]:
    made = start(tmp_path / "head", ("--source", "nodes"), HEAD)
    try:
        until("the head is well", lambda: is_well(made))
        yield made
    finally:
        stop_well(made)


def pusher(tmp_path: Path, token: Path, url: str, ca_file: str) -> Pusher:
    spool = Spool(tmp_path / "node", SpoolLimits(most_bytes=1 << 20, most_ms=3_600_000))
    now_ms = time.time_ns() // 1_000_000
    spool.add(at_ms=now_ms, width_ms=1000, boot="b", steady_ms=steady_ms(), page=page(now_ms))
    config = NodeConfig(head=url, token=f"${{file:{token}}}", ca_file=ca_file)
    return Pusher(config, spool, Machine(machine="m", boot="b"))


def test_a_node_speaks_with_a_head_behind_https_that_its_own_ca_vouches_for(
    head: Running, tmp_path: Path
) -> None:
    for name, package in (("nginx", "nginx-light"), ("openssl", "openssl")):
        program(name, package)
    token = tmp_path / "token"
    token.write_text(fallow("token", "add", "--user", "gpu-a", "--role", "node", data=head.data).stdout)
    with front(tmp_path / "front", head.url) as made:
        for url, ca_file in ((made.url, ""), (made.url_by_another_name, str(made.ca_file))):
            with pytest.raises(HeadAway, match="did not prove to be the head"):
                pusher(tmp_path, token, url, ca_file).turn()
        assert head.client().rows("nodes") == [], "nothing was sent to whom nobody vouches for"
        pusher(tmp_path, token, made.url, str(made.ca_file)).turn()
        until("its ticks are stored", lambda: bool(head.client().rows("nodes")))
        assert head.client().rows("nodes")[0]["node"] == "gpu-a"
    with pytest.raises(HeadAway, match="refused"):
        pusher(tmp_path, token, made.url, str(made.ca_file)).turn()
