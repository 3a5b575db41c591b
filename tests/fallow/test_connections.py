"""A peer that is cut off: a wait for it ends when its group is ended, and no other connection is touched."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from fallow.process_group import connections
from fallow.process_group import group as groups
from fallow.process_group.collectives import Group, GroupBroken
from fallow.process_group.connections import Connections

WORLD = 3
CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows its sockets")


def connected(store: dist.Store) -> list[Group]:
    """A group of WORLD workers, all in this process."""
    with ThreadPoolExecutor(WORLD) as threads:
        made = [threads.submit(groups.connect, store, rank, WORLD, CPU, "127.0.0.1") for rank in range(WORLD)]
        return [each.result() for each in made]


def test_a_wait_for_a_peer_that_says_nothing_ends_with_its_group_and_others_go_on() -> None:
    broken, whole = connected(dist.HashStore()), connected(dist.HashStore())
    failed: list[float] = []
    tensors = [torch.ones(1000) for _ in range(WORLD)]

    def wait(rank: int) -> None:
        with pytest.raises(GroupBroken):
            broken[rank].all_reduce([tensors[rank]])
        failed.append(time.monotonic())

    waiting = [threading.Thread(target=wait, args=(rank,)) for rank in (0, 1)]  # the third says nothing
    for thread in waiting:
        thread.start()
    time.sleep(0.2)
    assert not failed, "a step may last for two minutes"
    began_s = time.monotonic()
    for rank in (0, 1):
        broken[rank].abort()
    for thread in waiting:
        thread.join(5)
    assert len(failed) == 2 and max(failed) - began_s < 2
    with ThreadPoolExecutor(WORLD) as threads:
        sums = [torch.ones(4) for _ in range(WORLD)]
        list(threads.map(lambda rank: whole[rank].all_reduce([sums[rank]]), range(WORLD)))
    assert all(bool((each == WORLD).all()) for each in sums)
    for group in (*broken, *whole):
        group.abort()


def test_only_connections_at_a_listed_address_are_shut() -> None:
    def pair(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]

    with (
        closing(socket.create_server(("127.0.0.1", 0))) as ours,
        closing(socket.create_server(("127.0.0.1", 0))) as strange,
    ):
        mine, other = pair(ours), pair(strange)
        assert Connections(listening=frozenset({ours.getsockname()})).shut() == 2
        mine[0].settimeout(5)
        assert mine[0].recv(1) == b"", "it ended at once"
        other[0].sendall(b"x")
        assert other[1].recv(1) == b"x"
        ours.settimeout(5)
        for each in pair(ours):  # who listens goes on listening
            each.close()
        for each in (*mine, *other):
            each.close()


def test_a_connection_is_watched_by_the_kernel() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as ours:
        near = socket.create_connection(ours.getsockname())
        far = ours.accept()[0]
        assert Connections(listening=frozenset({ours.getsockname()})).watch(6) == 2
        for each in (near, far):
            assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 6_000
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            each.close()


def test_a_listener_is_told_only_where_one_alone_is_new() -> None:
    made, address = connections.listener_of(lambda: socket.create_server(("127.0.0.1", 0)))
    with closing(made):
        assert address == made.getsockname()
        assert connections.read(connections.written(address)) == address
    nothing, address = connections.listener_of(lambda: None)
    assert nothing is address is None and connections.read(connections.written(None)) is None
    two, address = connections.listener_of(lambda: [socket.create_server(("127.0.0.1", 0)) for _ in range(2)])
    assert address is None
    for each in two:
        each.close()
