"""A real Ray head on loopback with GPUs that aren't there; skips where Ray isn't installed."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

PATIENCE_S = 120
"""A head is up after 16 s on two quiet cores, and after 43 s on busy ones."""
GPUS = 4

TRAINING = """
import os, sys, time
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Within

ray.init(address="auto", log_to_driver=False)

@ray.remote(num_cpus=0)
class Actor:
    def has(self):
        return os.getpid(), sorted(ray.get_gpu_ids())

@ray.remote(num_cpus=0, num_gpus=1)
def task(said):
    with open(said, "w") as file:
        print(os.getpid(), sorted(ray.get_gpu_ids()), file=file)
    time.sleep(3600)

half = Actor.options(num_gpus=0.5).remote()
half_has = ray.get(half.has.remote())
group = placement_group([{"GPU": 1}, {"GPU": 1}], strategy="PACK", name="mine")
ray.get(group.ready())
strategy = Within(group, placement_group_bundle_index=0)
grouped = Actor.options(num_gpus=1, scheduling_strategy=strategy).remote()
grouped_has = ray.get(grouped.has.remote())
running = task.remote(sys.argv[1] + ".task")
while not os.path.exists(sys.argv[1] + ".task"):
    time.sleep(0.1)
waiting = placement_group([{"GPU": 4}, {"GPU": 4}], name="big")
tasks = [task.remote("/dev/null") for _ in range(3)]
with open(sys.argv[1] + ".new", "w") as file:
    print([half_has, grouped_has], file=file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(3600)
"""
"""It writes what its actors have, by their own word: pid and GPUs."""


@dataclass
class RayCluster:
    """A head; ``folder`` is the cluster's own, whose name stands in the arguments of all its processes."""

    folder: Path
    port: int
    dashboard: int
    blocks: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.dashboard}"

    def start(self) -> None:
        """Blocks until the dashboard knows the head."""
        program = Path(sys.executable).parent / "ray"
        told = (self.folder / "ray.log").open("ab")
        words = (
            *(f"--port={self.port}", f"--num-gpus={GPUS}", "--num-cpus=4", f"--temp-dir={self.folder / 't'}"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={self.dashboard}", "--disable-usage-stats"),
            "--object-store-memory=100000000",
        )
        environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        self.blocks.append(
            subprocess.Popen(
                (program, "start", "--head", "--block", *words),
                stdout=told,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        )
        self.until("the head is there", lambda: bool(self._nodes()))

    def _nodes(self) -> object:
        try:
            with urlopen(f"{self.url}/api/v0/nodes?timeout=5", timeout=10) as answer:
                return json.load(answer)["data"]["result"]["result"]
        except (URLError, OSError, ValueError, KeyError, TypeError):
            return None

    def submit(self, name: str, entrypoint: str, **metadata: str) -> None:
        """Blocks until it is taken: right after its start a head refuses jobs (HTTP 500)."""
        body = {"entrypoint": entrypoint, "submission_id": name, "metadata": metadata}
        asked = Request(
            f"{self.url}/api/jobs/", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )

        def is_taken() -> bool:
            try:
                with urlopen(asked, timeout=60) as answer:
                    return bool(answer.status == 200)
            except HTTPError as error:
                return b"already exists" in error.read()

        self.until(f"{name} is taken", is_taken)

    def pids(self, word: str = "") -> list[int]:
        """The cluster's processes that have ``word`` in their arguments."""
        return [pid for pid, (_, line) in _processes().items() if str(self.folder) in line and word in line]

    def _all(self) -> set[int]:
        """Those, and what hangs below them: agents and workers have titles of their own."""
        processes = _processes()
        found = {pid for pid, (_, line) in processes.items() if str(self.folder) in line}
        while more := {pid for pid, (parent, _) in processes.items() if parent in found} - found:
            found |= more
        return found

    def kill(self) -> None:
        """End all of it at once, as a machine does that loses power."""
        for pid in self._all():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for block in self.blocks:
            block.wait()
        self.blocks.clear()
        self.until("nothing of it is left", lambda: not self._all())

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > ends_at:
                raise AssertionError(
                    f"{what}: not in {PATIENCE_S} s\n{(self.folder / 'ray.log').read_text()}"
                )
            time.sleep(0.5)


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head that is up; skips, naming what brings it, where Ray isn't installed."""
    if importlib.util.find_spec("ray") is None or not (Path(sys.executable).parent / "ray").exists():
        pytest.skip("Ray is not installed; pip install -c constraints.txt '.[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets below it have 107 characters
    cluster = RayCluster(folder=folder, port=_free_port(), dashboard=_free_port())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _processes() -> dict[int, tuple[int, str]]:
    """By pid the parent's, and the arguments."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                found[int(entry.name)] = parent, line
    return found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
