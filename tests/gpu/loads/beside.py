"""A foreground that leaves its GPU idle half of the time, or a training behind it.

    python -m tests.gpu.loads.beside train | serve | behind

``train`` waits for its data as long as it computes, under ``fallow``'s trainer; ``serve`` answers requests
that come at random, as many as take half of its time; ``behind`` trains without a pause, and listens.
``pace`` finds that wait, or the seconds between requests, or is told it. ``go`` forgets what was measured;
``report`` says it: seconds a unit by p50 and p99, and units a second. It rests until ``go``.
"""

import contextlib
import os
import statistics
import sys
import time
from typing import Any

from tests.gpu import place
from tests.gpu.loads.fronts import Behind, Front, Serving, Training
from tests.gpu.loads.pipe import Words, serve

REST_S = 0.005
DRY_MIB = 500


def main(kind: str) -> None:
    """Work of that kind, until the pipe closes."""
    front: Front = {"train": Training, "serve": Serving, "behind": Behind}[kind](place.torch())
    place.pretend_process(os.getpid(), DRY_MIB * place.MIB)
    front.warm()
    took, state = list[float](), {"rests": True, "since_s": time.monotonic()}

    def told(words: Words) -> dict[str, Any]:
        if words[0] == "pace":
            if len(words) > 1:
                front.pace = float(words[1])
            else:
                front.calibrate()
            return {"pace": front.pace}
        if words[0] == "report":
            cut = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else [0.0] * 99
            rate = len(took) / (time.monotonic() - state["since_s"])
            return {"p50": cut[49], "p99": cut[98], "rate": rate, "count": len(took)}
        took.clear()
        front.clear()
        state.update(rests=words[0] == "rest", since_s=time.monotonic())
        return {"rests": state["rests"]}

    def work() -> None:
        if state["rests"]:
            time.sleep(REST_S)
        else:
            took.append(front.once())

    with contextlib.suppress(KeyboardInterrupt):
        serve(told, work)
    place.pretend_process(os.getpid(), None)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # a training that is left amid a step has nothing to end well
