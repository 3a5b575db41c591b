"""What launchers and readers wait for at a busy service, and what the service itself takes.

A real service on a simulated cluster, in a process of its own, asked over its Unix socket: 10,000 jobs wait,
200 launchers hold a stream each and report every 5 s, and readers ask for queue, jobs and leases meanwhile.
Every request is a connection of its own, as the launcher's are. ``--quick`` has 1,000 jobs, and less time.

    python bench/service.py [--json] [--quick]

What it takes over half an hour with jobs coming and going is bench/soak.py's.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.client.local import health  # noqa: E402
from service.client.transport import UNIX  # noqa: E402

CONFIG = """
[collect]
tick_s = 2
[simulated]
nodes = 4
gpus_per_node = 8
backfill_days = 0
[modes]
schedule = "auto"
"""
LAUNCHERS = 200
REPORT_S = 5.0
READERS = 5
SUBMITTERS = 50
START_TARGET_S, STOP_TARGET_S, API_TARGET_MS, CYCLE_TARGET_S = 2.0, 2.0, 100.0, 1.0
READS = ("/v1/queue?limit=100", "/v1/jobs?limit=50", "/v1/leases", "/v1/whoami", "/v1/acting")

Figure = dict[str, Any]


@dataclass
class Service:
    """A service of this benchmark."""

    process: "subprocess.Popen[bytes]"
    socket: Path
    start_s: float
    start_cpu_s: float

    def resident_mib(self) -> float:
        """Memory that it wrote to. Pages of libraries are left out: they count or not by who else runs."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        kib = {line.split()[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
        return kib["Private_Dirty:"] / 1024


@dataclass
class Seen:
    """Milliseconds of each request, by what was asked; each cycle's seconds; and what went wrong."""

    took_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cycles_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    jobs, seconds = (1_000, 20.0) if options.quick else (10_000, 60.0)
    figures = {**lived(1 if options.quick else 3), **loaded(jobs, seconds)}
    show(figures, as_json=options.json)


@contextmanager
def service(folder: Path, config: str = CONFIG) -> Iterator[Service]:
    """A service on a folder, simulated and measuring; stopped at the end. Its log is the folder's ``log``."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "fallow.toml").write_text(config)
    command = [sys.executable, "-m", "service.cli", "serve", "--data", str(data), "--source", "simulated"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    began = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=log)
    path = data / "fallow.sock"
    while not path.exists() or health(f"{UNIX}{path}") is None:
        if process.poll() is not None:
            sys.exit(f"service: it ended before it answered:\n{(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.01)
    start_s = time.monotonic() - began
    try:
        yield Service(process=process, socket=path, start_s=start_s, start_cpu_s=cpu_s(process.pid))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def lived(rounds: int) -> dict[str, Figure]:
    """Seconds from the command to the first answer, and from SIGTERM to the end."""
    starts, cpus, stops = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as made:
            starts.append(made.start_s)
            cpus.append(made.start_cpu_s)
            time.sleep(3)
            began = time.monotonic()
            made.process.send_signal(signal.SIGTERM)
            made.process.wait(timeout=60)
            stops.append(time.monotonic() - began)
    cpu = {"cpu_s": round(statistics.median(cpus), 2), "load": load()}
    return {
        "start_s": figure(statistics.median(starts), START_TARGET_S, cpu),
        "stop_s": figure(statistics.median(stops), STOP_TARGET_S, {"load": load()}),
    }


def loaded(jobs: int, seconds: float) -> dict[str, Figure]:
    """The 99th percentile of requests, and the slowest cycle, with everybody at it.

    The first two cycles seen then may have begun before, and count to those while the jobs came.
    """
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as made:
        return asyncio.run(_loaded(made, jobs, seconds))


async def _loaded(made: Service, jobs: int, seconds: float) -> dict[str, Figure]:
    filling, seen = Seen(), Seen()
    began = time.monotonic()
    watching = asyncio.create_task(watch_cycles(made.socket, math.inf, filling))
    names = await filled(made.socket, jobs, filling)
    filled_s = time.monotonic() - began
    watching.cancel()
    before = cpu_s(made.process.pid)
    await everybody(made, names[:LAUNCHERS], seconds, seen)
    busy = (cpu_s(made.process.pid) - before) / seconds
    burst = Seen()
    await asyncio.gather(*(submit(made.socket, f"burst-{n}", burst) for n in range(LAUNCHERS)))
    wrong = filling.wrong + seen.wrong + burst.wrong
    if wrong:
        print(f"service: {len(wrong)} requests went wrong, the first: {wrong[0]}", file=sys.stderr)
    every = [ms for each in seen.took_ms.values() for ms in each]
    beside: dict[str, object] = {what: round(p99(each), 1) for what, each in sorted(seen.took_ms.items())}
    beside |= {
        "requests": len(every),
        "median_ms": round(statistics.median(every), 1),
        "service_cores": round(busy, 2),
        "load": load(),
    }
    crowd = {
        "submits_a_second": round(jobs / filled_s),
        "last_of_200_at_once_ms": round(max(burst.took_ms["submit"])),
    }
    begun_before, cycles_s = seen.cycles_s[:2], seen.cycles_s[2:] or seen.cycles_s
    cycles = {
        "median_s": round(statistics.median(cycles_s), 3),
        "queued": jobs,
        "while_they_came_s": round(max(filling.cycles_s + begun_before), 3),
    }
    return {
        "api_p99_ms": figure(p99(every), API_TARGET_MS, beside, fine=not wrong),
        "submit_p99_ms": figure(p99(filling.took_ms["submit"]), API_TARGET_MS, crowd),
        "cycle_s": figure(max(cycles_s), CYCLE_TARGET_S, cycles),
    }


async def everybody(made: Service, names: list[str], seconds: float, seen: Seen) -> None:
    """Launchers with their streams and reports, readers, and somebody who watches the cycles."""
    until_s = time.monotonic() + seconds
    streams = [asyncio.create_task(listen(made.socket, name)) for name in names]
    await asyncio.gather(
        *(report(made.socket, name, at, until_s, seen) for at, name in enumerate(names)),
        *(read(made.socket, until_s, seen) for _ in range(READERS)),
        watch_cycles(made.socket, until_s, seen),
    )
    for each in streams:
        each.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


async def filled(path: Path, jobs: int, seen: Seen) -> list[str]:
    """So many jobs that wait, submitted by some at a time; their names."""
    numbers, names = iter(range(jobs)), []

    async def worker() -> None:
        for number in numbers:
            names.append(await submit(path, f"fill-{number}", seen))

    await asyncio.gather(*(worker() for _ in range(SUBMITTERS)))
    return names


async def submit(path: Path, nonce: str, seen: Seen) -> str:
    body = {
        "command": ["python", "train.py", "--epochs", "90"],
        "project": f"team{hash(nonce) % 7}",
        "min_gpus": 33,
        "max_gpus": 33,
        "nonce": nonce,
    }
    answer = await timed(path, "POST", "/v1/jobs", what="submit", seen=seen, body=body)
    return str(answer.get("job"))


async def report(path: Path, name: str, at: int, until_s: float, seen: Seen) -> None:
    await asyncio.sleep(REPORT_S * at / LAUNCHERS)
    body: dict[str, object] = {
        "launcher": {"node": "bench", "pid": 100_000 + at, "started_ms": 1},
        "state": "pending",
    }
    while time.monotonic() < until_s:
        body["at_ms"] = time.time_ns() // 1_000_000
        await timed(path, "POST", f"/v1/jobs/{name}/reports", what="report", seen=seen, body=body)
        await asyncio.sleep(REPORT_S)


async def read(path: Path, until_s: float, seen: Seen) -> None:
    while time.monotonic() < until_s:
        for what in READS:
            await timed(path, "GET", what, what=what.split("?")[0].rsplit("/", 1)[1], seen=seen)
        await asyncio.sleep(1)


async def watch_cycles(path: Path, until_s: float, seen: Seen) -> None:
    while time.monotonic() < until_s:
        said = await timed(path, "GET", "/v1/acting", what="acting", seen=seen)
        took_s = said.get("cycle_s")
        if took_s is not None and took_s not in seen.cycles_s[-1:]:
            seen.cycles_s.append(took_s)
        await asyncio.sleep(0.25)


async def listen(path: Path, name: str) -> None:
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(f"GET /v1/jobs/{name}/directives HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while await reader.read(65_536):
            pass
    finally:
        writer.close()


async def timed(
    path: Path, method: str, where: str, *, what: str, seen: Seen, body: object = None
) -> dict[str, Any]:
    """One request on a connection of its own; its milliseconds from connecting to the last byte are noted."""
    began = time.perf_counter()
    status, answer = await ask(path, method, where, body)
    seen.took_ms[what].append((time.perf_counter() - began) * 1000)
    if status // 100 != 2:
        seen.wrong.append(f"{what}: {status} {answer[:300]!r}")
        return {}
    found = json.loads(answer)
    return found if isinstance(found, dict) else {}


async def ask(path: Path, method: str, where: str, body: object = None) -> tuple[int, bytes]:
    """One request on a connection of its own: its status, 0 for none, and the answer's body."""
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {where} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        answer = await reader.read()
    finally:
        writer.close()
    words = answer.partition(b"\r\n")[0].split()
    return (int(words[1]) if len(words) > 1 else 0), answer.partition(b"\r\n\r\n")[2]


def cpu_s(pid: int) -> float:
    """Processor time that a process has taken."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def load() -> float:
    """Processes that want a core, on average over a minute: figures taken at more than there are say less."""
    return round(os.getloadavg()[0], 1)


def p99(values: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


def figure(value: float, target: float, beside: dict[str, Any], *, fine: bool = True) -> Figure:
    """One figure; smaller is better."""
    return {"value": round(value, 3), "target": target, "ok": fine and value <= target, "beside": beside}


def show(found: dict[str, Figure], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    for name, each in found.items():
        verdict = "ok" if each["ok"] else "MISSED"
        beside = ", ".join(f"{peer} {value}" for peer, value in each["beside"].items())
        print(f"{name:18}{each['value']:>10}  target {each['target']!s:<8}{verdict:7} {beside}")


if __name__ == "__main__":
    main()
