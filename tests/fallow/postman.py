"""Carries what workers and their controller's store say to each other, and dawdles as a seed tells it to.

A proxy between real processes: every worker connects to it in place of the store. Words on one connection
keep their order, as TCP keeps it; words on different connections overtake each other.
"""

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

DELAYS_S = (0.0,) * 12 + (0.001, 0.004, 0.004, 0.015, 0.06)


@contextmanager
def postman(store: str, seed: int) -> Iterator[str]:
    """The address to give to workers in place of ``store``, host:port, while the block lasts."""
    host, port = store.rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    ends: list[socket.socket] = []
    taker = threading.Thread(target=_take, args=(listener, (host, int(port)), seed, ends), daemon=True)
    taker.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        taker.join()
        for end in ends:
            end.close()


def _take(listener: socket.socket, store: tuple[str, int], seed: int, ends: list[socket.socket]) -> None:
    number = 0
    while True:
        try:
            worker, _ = listener.accept()
            inner = socket.create_connection(store)
        except OSError:
            return
        ends += [worker, inner]
        for one, other, way in ((worker, inner, "there"), (inner, worker, "back")):
            for end in (one, other):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            order = random.Random(f"{seed} {number} {way}")
            threading.Thread(target=_carry, args=(one, other, order), daemon=True).start()
        number += 1


def _carry(source: socket.socket, sink: socket.socket, order: random.Random) -> None:
    try:
        while words := source.recv(65536):
            time.sleep(order.choice(DELAYS_S))
            sink.sendall(words)
        sink.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
