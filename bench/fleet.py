"""Many nodes that push to one head over real HTTP: is each tick stored before the next, and how long is an
outage caught up.

One process plays all nodes (`fallow node`'s requests, their pages made beforehand); the head is a real
service beside it. The bound is what reading the same pages alone costs one core here: a head can't be faster.

    python bench/fleet.py [--nodes 1000] [--gpus 8] [--ticks 4] [--outage 12] [--tick 10]
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import aiohttp  # noqa: E402

from collector.dcgm.endpoint import Endpoint  # noqa: E402
from collector.metrics_endpoint import exposition  # noqa: E402
from collector.model import Allocation, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName  # noqa: E402
from collector.snapshot import Snapshot  # noqa: E402
from collector.sources.nodes.wire import Batch, Record, pack  # noqa: E402
from collector.sources.peer import heard  # noqa: E402
from service.api import tokens  # noqa: E402
from service.control.interface import Role  # noqa: E402
from service.data_folder import announced  # noqa: E402

MARK_MS = 1_800_000_000_000
MARK = b" 1800000000\n"
"""How the time of ``MARK_MS`` ends a line of a page: it is put in the place of each tick's."""
AT_ONCE = 64
"""Requests under way, as many as a head lets wait (``service.api.nodes``)."""
DAY_MS = 86_400_000


@dataclass
class Node:
    """One node as the player keeps it."""

    name: str
    secret: str
    page: bytes
    number: int = 0
    received: int = 0
    stored: int = 0
    waiting: list[Record] = field(default_factory=list)
    echo: tuple[int, int] = (0, 0)

    def measure(self, at_ms: int, width_ms: int) -> None:
        """A tick into the spool."""
        self.number += 1
        content = self.page.replace(MARK, b" %.3f\n" % (at_ms / 1000))
        record = Record(
            sequence=self.number, at_ms=at_ms, width_ms=width_ms, boot="b", steady_ms=at_ms, page=content
        )
        self.waiting.append(record)

    def body(self) -> bytes:
        """The next request: a greeting first, then what waits, in parts of at most a hundred ticks."""
        now = now_ms()
        records = (
            [each for each in self.waiting if each.sequence > self.received][:100] if self.echo[0] else []
        )
        return pack(
            Batch(
                spool="bench",
                machine=self.name,
                boot="b",
                version="0.1.0",
                sent_ms=now,
                steady_ms=now,
                after=self.received,
                echo_ms=self.echo[0],
                held_ms=now - self.echo[1],
                records=tuple(records),
            )
        )

    @property
    def is_stored(self) -> bool:
        """Whether the head has all of it for good."""
        return self.stored == self.number


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, usual in (("nodes", 1000), ("gpus", 8), ("ticks", 4), ("outage", 12), ("tick", 10)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fallow-fleet-") as folder:
        data = Path(folder) / "head"
        data.mkdir(mode=0o700)
        (data / "fallow.toml").write_text(f"[collect]\nslurm = false\ntick_s = {options.tick}\n")
        nodes = [_node(data, at, options.gpus) for at in range(options.nodes)]
        bound_ms = _bound_ms(nodes[0])
        print(
            f"{options.nodes} nodes of {options.gpus} GPUs, a tick of {options.tick} s, pages of "
            f"{len(nodes[0].page) / 1000:.1f} kB; reading one page alone: {bound_ms:.2f} ms of a core, "
            f"{bound_ms * options.nodes / 1000:.2f} s a tick of all"
        )
        head = _head(data)
        try:
            asyncio.run(_play(nodes, data, head.pid, options, bound_ms))
        finally:
            head.send_signal(signal.SIGTERM)
            head.wait(60)


async def _play(
    nodes: Sequence[Node], data: Path, pid: int, options: argparse.Namespace, bound_ms: float
) -> None:
    width_ms = options.tick * 1000
    said = announced(data)
    assert said is not None
    # A connection for each request, as a node has: it pushes once a tick.
    async with aiohttp.ClientSession(
        said.url, connector=aiohttp.TCPConnector(limit=AT_ONCE, force_close=True)
    ) as session:
        took: list[float] = []
        await _all(session, nodes, took)
        for at in range(options.ticks):
            began_s, cpu_s, took = time.monotonic(), _cpu_s(pid), []
            for node in nodes:
                node.measure(now_ms(), width_ms)
            await _all(session, nodes, took)
            pushed_s = time.monotonic() - began_s
            await asyncio.sleep(max(0.0, options.tick - (time.monotonic() - began_s)))
            took.sort()
            print(
                f"tick {at}: all {len(nodes)} pushed in {pushed_s:.2f} s, "
                f"p50 {1000 * took[len(took) // 2]:.0f} ms, "
                f"p99 {1000 * took[int(len(took) * 0.99)]:.0f} ms a request; the head took "
                f"{_cpu_s(pid) - cpu_s:.2f} s of processor time in this tick"
            )
        await _caught_up(session, nodes)
        for back in range(options.outage, 0, -1):
            for node in nodes:
                node.measure(now_ms() - back * width_ms + width_ms // 2, width_ms)
        ticks = options.outage * len(nodes)
        began_s, cpu_s = time.monotonic(), _cpu_s(pid)
        await _caught_up(session, nodes)
        print(
            f"an outage of {options.outage} ticks ({ticks} in all) is stored after "
            f"{time.monotonic() - began_s:.1f} s, "
            f"{_cpu_s(pid) - cpu_s:.1f} s of the head's processor time; reading the pages alone: "
            f"{ticks * bound_ms / 1000:.1f} s"
        )


async def _caught_up(session: aiohttp.ClientSession, nodes: Sequence[Node]) -> None:
    while left := [node for node in nodes if not node.is_stored]:
        await _all(session, left, [])
        await asyncio.sleep(1)


async def _all(session: aiohttp.ClientSession, nodes: Sequence[Node], took: list[float]) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def push(node: Node) -> None:
        async with room:
            began_s = time.monotonic()
            headers = {"Authorization": f"Bearer {node.secret}", "Content-Type": "application/octet-stream"}
            async with session.post("/v1/nodes/ticks", data=node.body(), headers=headers) as response:
                found = await response.json()
            took.append(time.monotonic() - began_s)
            if response.status == 200:
                node.received, node.stored = found["received"], found["stored"]
                node.echo = found["now_ms"], now_ms()
                node.waiting = [each for each in node.waiting if each.sequence > node.stored]
            elif response.status not in (429, 503):  # busy: it comes again
                raise SystemExit(f"{node.name}: HTTP {response.status}: {found}")

    await asyncio.gather(*map(push, nodes))


def _node(data: Path, at: int, gpus: int) -> Node:
    name = f"n{at}"
    _, secret = tokens.add(data, user=name, role=Role.NODE, span_ms=DAY_MS, now_ms=now_ms())
    own = tuple(
        Gpu(uuid=GpuUuid(f"GPU-{name}-{i}"), node=NodeName(name), index=i, memory_total_bytes=80 << 30)
        for i in range(gpus)
    )
    samples = tuple(
        GpuSample(
            uuid=gpu.uuid,
            at_ms=MARK_MS,
            width_ms=10_000,
            gpu_utilization_ratio=0.5,
            utilization_ratio=0.4,
            memory_used_bytes=40 << 30,
            power_mw=300_000,
            temperature_c=60,
            sm_clock_mhz=1_400,
        )
        for gpu in own
    )
    held = tuple(Allocation(uuid=gpu.uuid, holder=Holder(job=JobId(f"pid:{name}/7@9"))) for gpu in own)
    page = exposition(Snapshot(at_ms=MARK_MS, gpus=own, samples=samples, allocations=held))
    return Node(name=name, secret=secret, page=page)


def _bound_ms(node: Node) -> float:
    """Processor time of reading one page, in a process that does nothing else."""
    endpoint = Endpoint(url=node.name, fallback_node=NodeName(node.name), interval_ms=10_000, most_gpus=64)
    pages = [node.page.replace(MARK, b" %.3f\n" % (at + MARK_MS / 1000)) for at in range(100)]
    began_s = time.process_time()
    for at, page in enumerate(pages):
        endpoint, _ = heard(endpoint, page, MARK_MS + at * 1000, "nodes")
    return (time.process_time() - began_s) * 1000 / len(pages)


def _head(data: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "service.cli", "serve", "--source", "nodes", "--data", str(data)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FALLOW_")}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    end_s = time.monotonic() + 60
    while announced(data) is None:
        if process.poll() is not None or time.monotonic() > end_s:
            raise SystemExit("the head does not answer")
        time.sleep(0.2)
    time.sleep(2)
    return process


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def now_ms() -> int:
    """The calendar, which is the steady clock of these nodes as well."""
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
