"""The service: one process that owns the store, samples, does its chores and answers over HTTP.

Here it is started: its store is opened while all that it is made of is imported (``components``).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import collector.store.database  # noqa: F401  here, not by two threads at once
from service.server import assemble
from service.server.memory_limits import share_heaps
from service.server.shutdown import Ending
from service.server.startup import Orders, ServiceRefused, make_data_dir
from service.store.open import own_store

__all__ = ["Orders", "ServiceRefused", "serve"]

ORGANS = "service.server.components"


def serve(orders: Orders, stop: threading.Event | None = None) -> None:
    """Run until SIGTERM, SIGINT or ``stop``. Blocks. Raises ``ServiceRefused`` when it cannot start."""
    ending = Ending(stop)
    ending.hear_signals()
    share_heaps()
    clock = assemble.clock_of(orders.config)
    make_data_dir(orders.data)
    with _imported(ORGANS), own_store(orders.data, orders.config) as store:
        if ending.is_asked:
            return
        from service.server.components import live

        live(orders, store, clock, ending)


@contextmanager
def _imported(module: str) -> Iterator[None]:
    """A module is imported beside the block; whatever becomes of that, no process ends amid an import."""
    beside = threading.Thread(target=import_module, args=(module,), name="fallow-imports", daemon=True)
    beside.start()
    try:
        yield
    finally:
        beside.join()
