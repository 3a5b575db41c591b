"""The last of all: SIGKILL of one of two MPS clients, and what becomes of the other and of the daemon."""

import os
import signal
import time
from typing import Any

from tests.gpu import place
from tests.gpu.answers import told
from tests.gpu.mps import daemon

AFTER_S = 0.2 if place.dry else 5.0


def main() -> dict[str, Any]:
    """Two that compute; one is killed."""
    with daemon() as variables:
        wanted = (("work", "product", 4096),) * 2
        with place.loads(*wanted, environment=variables) as (victim, other):
            other.ask("rate")
            os.kill(victim.pid, signal.SIGKILL)
            victim.process.wait(10)
            place.pretend_process(victim.pid, None)
            time.sleep(AFTER_S)
            try:
                rate = float(other.ask("rate", wait_s=5.0)["rate"])
                fate = "goes on" if rate > 0 else "stands still"
            except (RuntimeError, TimeoutError, BrokenPipeError) as error:
                fate = f"ended too: {error}"
    return {"figures": [told("the other client", fate)]}
