"""The driver's lock on a training: how long it takes, a hundred times, and that the training goes on."""

import statistics
import time
from typing import Any

from advisor.engines.cuda_checkpoint import ProcessState
from advisor.engines.cuda_checkpoint_child import LibraryDriver
from tests.gpu import place
from tests.gpu.answers import is_so, told

TIMES, HELD_S, TIMEOUT_MS = (5, 0.01, 5000) if place.dry else (100, 0.05, 5000)


def main() -> dict[str, Any]:
    """Lock, wait, unlock; the first refusal ends it."""
    driver = LibraryDriver()
    took: list[float] = []
    with place.loads(("work", "train", 8)) as (training,):
        training.ask("rate")
        for _ in range(TIMES):
            begun_s = time.perf_counter()
            driver.lock(training.pid, TIMEOUT_MS)
            took.append((time.perf_counter() - begun_s) * 1000)
            time.sleep(HELD_S)
            driver.unlock(training.pid)
        time.sleep(0.5)
        rate = float(training.ask("rate")["rate"])
        state = driver.state(training.pid)
    return {
        "figures": [
            told("lock, median", statistics.median(took), "ms"),
            told("lock, the longest", max(took), "ms"),
            is_so("the training goes on", rate > 0, True),
            is_so("it runs", state is ProcessState.RUNNING, True),
        ]
    }
