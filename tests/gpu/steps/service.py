"""The service on this driver, end to end: it measures, leases, explains, adds up and stops acting."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, is_so, told

UP_S, VERB_S = (60.0, 60.0) if place.dry else (30.0, 20.0)
CLI = (sys.executable, "-m", "service.cli")
CONFIG = "[collect]\nslurm = false\ninventory_every_s = 1\n[acting]\nevery_s = 1\n"
JOB = "import os; print('GPU', os.environ['CUDA_VISIBLE_DEVICES'])"


def main() -> dict[str, Any]:
    """In a folder of its own, on the loopback."""
    figures: list[Figure] = []
    with serving(CONFIG, figures) as (data, seen):
        figures += _verbs(data, seen)
    return {"figures": figures}


@contextlib.contextmanager
def serving(config: str, figures: list[Figure]) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """A service with that configuration: its folder and the GPUs it shows. Its start and end are figures."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        (data / "fallow.toml").write_text(config)
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
        command = [*CLI, "serve", "--source", "nvml", "--tick", "1", "--data", str(data), "--log-to-file"]
        begun_s = time.monotonic()
        service = place.start(command, cwd=place.ROOT, stdin=subprocess.DEVNULL)
        try:
            seen = _until_seen(data, service)
            up_s = time.monotonic() - begun_s
            figures.append(told("from its start to the first GPU that it shows", up_s, "s"))
            yield data, seen
        finally:
            service.terminate()
            code = service.wait(30)
        figures.append(is_so("the service's status at its end", code, 0))


def _verbs(data: Path, seen: list[dict[str, Any]]) -> list[Figure]:
    jobs = [fallow(data, "run", "--gpus", "1", "--", sys.executable, "-c", JOB) for _ in range(2)]
    expected = place.uuid()
    return [
        is_so("GPUs that it shows", any(expected in str(row) for row in seen), True),
        is_so("two jobs ran on a GPU that was leased to them", [job.returncode for job in jobs], [0, 0]),
        is_so("the first job's GPU", "GPU" in jobs[0].stdout, True),
        *(
            is_so(f"fallow {verb}", fallow(data, *verb.split()).returncode, 0)
            for verb in ("ledger", "advise")
        ),
        is_so("fallow stop-acting", fallow(data, "stop-acting", "--yes").returncode in (0, 2), True),
    ]


def _until_seen(data: Path, service: Any) -> list[dict[str, Any]]:
    until_s = time.monotonic() + UP_S
    while time.monotonic() < until_s:
        if service.poll() is not None:
            raise RuntimeError(f"the service ended with {service.returncode}; what it said stands above")
        asked = fallow(data, "status", "--json")
        if asked.returncode == 0 and (rows := json.loads(asked.stdout or "[]")):
            return list(rows)
        time.sleep(0.5)
    log = data / "service.log"
    raise RuntimeError(f"no GPU is shown: {log.read_text()[-500:] if log.exists() else asked.stderr[-500:]}")


def fallow(data: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A verb on that folder's service, waited for."""
    return place.asked([*CLI, *words[:1], "--data", str(data), *words[1:]], VERB_S)
