"""One step, in a process of its own: ``python -m tests.gpu.one NAME`` prints its answer as one JSON line.

When whoever started it closes the pipe on its standard input, it ends by itself, and its loads with it.
"""

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from typing import Any

from tests.gpu import forks, place
from tests.gpu.answers import Missing
from tests.gpu.table import Step, step_named

FRAMES = -5
"""The innermost ones: what a load said before it stands in the same few lines."""


def main(name: str) -> int:
    """0 whenever a line was printed."""
    step = step_named(name)
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    try:
        answer = answer_of(step)
    except Missing as missing:
        answer = {"missing": str(missing)}
    except Exception:
        traceback.print_exc(limit=FRAMES)
        return 1
    finally:
        place.at_rest()
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
    sys.stdout.flush()
    return 0


def answer_of(step: Step) -> dict[str, Any]:
    """What it measures, here and now. Raises Missing when something that it needs is not here."""
    for need in step.needs:
        lacking = place.lacking(need)
        if lacking is not None:
            raise Missing(lacking)
    answer: dict[str, Any] = importlib.import_module(f"tests.gpu.steps.{step.name}").main()
    return answer


def _end_with_the_pipe() -> None:
    """By the descriptor: a thread in ``sys.stdin`` would hold its lock while the interpreter ends."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stderr.flush()
    if forks.here is not None:
        forks.here.end()
    os._exit(code)  # a driver's own threads may take long to end; the answer is out
