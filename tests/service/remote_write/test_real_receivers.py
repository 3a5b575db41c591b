"""A running service that pushes to a real Prometheus, and to a real VictoriaMetrics that goes and returns."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.collector.backfill.past import prometheus
from tests.conftest import program
from tests.service.conftest import SMALL, Running, start, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

TICK = "fallow_collector_tick_timestamp_seconds"
Samples = list[tuple[float, float]]


def samples(url: str, query: str) -> dict[str, Samples]:
    """Raw samples of the last hour by GPU: time and value."""
    answer = httpx.get(f"{url}/api/v1/query", params={"query": f"{query}[1h]"}, trust_env=False).json()
    return {
        row["metric"].get("uuid", ""): [(float(at), float(value)) for at, value in row["values"]]
        for row in answer["data"]["result"]
    }


def pushing(folder: Path, url: str) -> Running:
    """A simulated service that pushes each tick, without a past."""
    small = SMALL.replace("backfill_days = 1", "backfill_days = 0")
    return start(folder, config=f'{small}\n[remote_write]\nurl = "{url}"\nevery_s = 1\n')


@contextmanager
def victoria(data: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A VictoriaMetrics on this folder and port, which shows what it was told at once."""
    server = program("victoria-metrics", "victoria-metrics")
    flags = (f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s")
    process = subprocess.Popen([server, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("VictoriaMetrics answers", lambda: answers(port))
        yield process
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_a_prometheus_has_every_tick_with_its_own_time(tmp_path: Path) -> None:
    with prometheus(tmp_path / "tsdb", "--web.enable-remote-write-receiver") as url:
        service = pushing(tmp_path / "data", f"{url}/api/v1/write")
        try:
            until("it has ticks", lambda: len(samples(url, TICK).get("", ())) >= 4)
            told = samples(url, TICK)[""]
            gpus = samples(url, 'fallow_gpu_memory_used_bytes{simulated="true",instance!=""}')
        finally:
            service.stop()
    assert [at for at, _ in told] == pytest.approx([value for _, value in told], abs=0.002)
    assert len(gpus) == 4, "two machines of two GPUs, marked as invented"


def test_a_victoria_that_was_away_has_what_came_meanwhile(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = tmp_path / "victoria"
    url = f"http://127.0.0.1:{port}"
    service: Running | None = None
    try:
        with victoria(data, port) as server:
            service = pushing(tmp_path / "data", f"{url}/api/v1/write")
            until("it has ticks", lambda: len(samples(url, TICK).get("", ())) >= 3)
            before = samples(url, TICK)[""]
            server.terminate()
            server.wait()
            away_s = time.time()
            until("some wait", lambda: waiting(service) > 0 and time.time() > away_s + 3)
        back_s = time.time()
        with victoria(data, port):
            until("none waits", lambda: waiting(service) == 0)
            until("they are there", lambda: len(samples(url, TICK).get("", ())) >= len(before) + 2)
            after = samples(url, TICK)[""]
    finally:
        if service is not None:
            service.stop()
    times = [at for at, _ in after]
    assert times == sorted(set(times)), "once and in order"
    assert any(away_s < at < back_s - 1 for at in times), "a tick of the time in which it was away"


def waiting(service: Running) -> float:
    """The samples that wait, by the service's own page."""
    _, _, page = service.get("/metrics", **service.bearer())
    line = next(each for each in page.decode().splitlines() if each.startswith("fallow_remote_write_waiting"))
    return float(line.rpartition(" ")[2])
