"""PyTorch's cache, given back when somebody asks from outside."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from fallow.control_server import ask
from tests.gpu import place
from tests.gpu.answers import Figure, at_least, is_so, told

CACHED_MIB = 4096
ANSWER_S = 60.0


def main() -> dict[str, Any]:
    """With the allocator as it comes, and with expandable segments."""
    figures: list[Figure] = []
    for name, settings in place.ALLOCATORS.items():
        figures += _asked(name, settings)
    return {"figures": figures}


def _asked(name: str, settings: dict[str, str]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job-0"
        before = place.used_bytes()
        environment = {**settings, "FALLOW_JOB_SOCKET": str(path)}
        with place.loads(("caching", CACHED_MIB), environment=environment) as (job,):
            cached = place.used_bytes() - before
            begun_s = time.monotonic()
            answer = json.loads(ask(path, ["release-caches"], timeout_s=ANSWER_S))
            took_s = time.monotonic() - begun_s
            if place.dry:
                job.ask("empty")
            left = place.used_bytes() - before
            kept = job.ask("sum")["sum"]
    return [
        at_least(
            f"{name}: given back by the driver's figures",
            (cached - left) / place.MIB,
            0.95 * CACHED_MIB,
            "MiB",
        ),
        told(f"{name}: seconds", took_s, "s"),
        told(f"{name}: what the job says", str(answer)),
        is_so(f"{name}: what was in use is whole", kept, float(1 << 20)),
    ]
