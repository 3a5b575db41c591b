"""A child that a test forks may collect its garbage, whatever its parent had open."""

import gc
import os

import duckdb


def test_a_forked_child_leaves_the_connections_of_its_parent_alone() -> None:
    connection = duckdb.connect()
    connection.execute("SELECT sum(range) FROM range(1_000_000)").fetchall()
    ring: list[object] = [connection]
    ring.append(ring)
    del ring, connection  # unreachable, and not collected yet
    child = os.fork()
    if child == 0:
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
