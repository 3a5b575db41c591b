"""A process that Fallow did not start, paused and brought back by the service on its owner's word."""

import json
import time
from pathlib import Path
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, is_so, told
from tests.gpu.steps.service import CONFIG, fallow, serving

HELD_MIB = 2048
CONSENTED = CONFIG + '[foreign]\ncheckpoint = true\n[consent]\npreemptible = ["*"]\ncheckpointable = ["*"]\n'
SEEN_S, MOVED_S = (60.0, 60.0) if place.dry else (20.0, 30.0)


def main() -> dict[str, Any]:
    """Seen, paused with its memory off the GPU, and back with the same numbers."""
    figures: list[Figure] = []
    load = place.Load("work", "hold", HELD_MIB, own_session=True)
    paused = False
    try:
        before = load.ask("sum")["sum"]
        with serving(CONSENTED, figures) as (data, _):
            job = _job_on_gpu(data)
            figures.append(told("the job that it is", job))
            for verb in ("pause", "resume"):
                begun_s = time.monotonic()
                asked = fallow(data, verb, job)
                paused = verb == "pause"
                place.pretend_process(load.pid, None if paused else HELD_MIB * place.MIB)
                figures.append(is_so(f"fallow {verb}", asked.returncode, 0))
                figures.append(told(f"fallow {verb} says", (asked.stdout + asked.stderr).strip()[-300:]))
                figures.append(is_so(f"{verb}: its memory", _moved(load.pid, away=paused), True))
                figures.append(told(f"{verb}: from the order until then", time.monotonic() - begun_s, "s"))
                place.so_far(figures)
            same = load.ask("sum")["sum"] == before
            figures.append(is_so("the same numbers", same, True))
            paused = False
            actions = fallow(data, "actions")
            figures.append(told("fallow actions says", actions.stdout.strip()[-600:]))
    finally:
        if not paused:  # one that is paused cannot end: its last calls into CUDA would wait
            load.end()
    return {"figures": figures}


def _job_on_gpu(data: Path) -> str:
    """Whose the first GPU is; nobody else is on it. Raises RuntimeError when none is shown in time."""
    until_s = time.monotonic() + SEEN_S
    while time.monotonic() < until_s:
        asked = fallow(data, "status", "--json")
        jobs = [str(row["job"]) for row in json.loads(asked.stdout or "[]")]
        if "None" not in jobs[:1] and jobs:
            return jobs[0]
        time.sleep(0.5)
    raise RuntimeError(f"no job is shown on the GPU: {jobs} {asked.stderr[-300:]}")


def _moved(pid: int, *, away: bool) -> bool:
    until_s = time.monotonic() + MOVED_S
    while (place.held_bytes(pid) is None) is not away:
        if time.monotonic() > until_s:
            return False
        time.sleep(0.1)
    return True
