"""A head that carries out one step on a job of Slurm's, and kills itself at one of Slurm's commands.

    python -m tests.campaign.head STORE JOB pause|resume INTENT AT before|after

Where the step has fewer commands it does so at its end.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from advisor.actions import Pause, Resume
from advisor.outcomes import Late
from collector.inventory.slurm_programs import answer
from collector.managers.model import Look
from collector.model import JobId
from tests.campaign.engine import engine_of, look_at
from tests.stores import open_store

LATE_S = 40.0


def main(words: Sequence[str]) -> None:
    """Take the step and look for its outcome, as a service does."""
    path, job, verb, intent, at, when = words
    calls = 0

    def run(command: Sequence[str], timeout_s: float) -> str:
        nonlocal calls
        calls += 1
        if calls == int(at) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return answer(command, timeout_s)
        finally:
            if calls == int(at):
                os.kill(os.getpid(), signal.SIGKILL)

    with open_store(Path(path)) as store:
        look: Look = look_at()
        engine = engine_of(store, run, lambda: (look,))
        id = JobId(job)
        engine.give(Pause(job=id) if verb == "pause" else Resume(job=id, gpus=()), int(intent))
        end_s = time.monotonic() + LATE_S
        while isinstance(engine.found(int(intent)), Late) and time.monotonic() < end_s:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
