"""Many exporters asked at once: how many answer in time, how long all take, and the processor time of asking.

One process answers on a port for each endpoint with the page of an 8-GPU exporter; another asks them all by
the collector's own fetcher, tick after tick. Beside it a bare client on asyncio's streams, which does nothing
but read the bytes, on the same ports in the same run.

    python bench/endpoints.py [--endpoints 1000] [--ticks 4] [--json]
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.scrape import boards  # noqa: E402
from collector.dcgm.fetch import Body, Fetcher, Limits, Request  # noqa: E402
from tests.collector.dcgm.dcgm_writer import CLASSIC, exposition  # noqa: E402

WALL_S, CPU_S = 2.0, 2.5
"""To reach at 1,000 endpoints, the parsing included (about 1.2 s of processor time of its own)."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--endpoints", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, room))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(options.endpoints, theirs), daemon=True)
    server.start()
    ports = ours.recv()
    try:
        rows = [*_fetched(ports, options.ticks), *_bare(ports, options.ticks)]
    finally:
        server.kill()
        server.join()
    if options.json:
        print(json.dumps(rows))
        return
    print(f"targets at 1,000: all answered, {WALL_S} s, {CPU_S} s of processor time with parsing")
    for row in rows:
        print(
            f"{row['client']:8} tick {row['tick']}: {row['answered']:5} of {len(ports)} answered, "
            f"{row['wall_s']:6.2f} s, {row['cpu_s']:6.2f} s of processor time"
        )


def _fetched(ports: list[int], ticks: int) -> list[dict[str, Any]]:
    requests = [Request(url=f"http://127.0.0.1:{port}/metrics") for port in ports]
    fetcher = Fetcher(Limits())
    rows = []
    for tick in range(ticks):
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        answers = fetcher.fetch(requests)
        answered = sum(isinstance(answer, Body) for answer in answers)
        rows.append(_row("fetcher", tick, answered, began_s, began_cpu_s))
    fetcher.close()
    return rows


def _bare(ports: list[int], ticks: int) -> list[dict[str, Any]]:
    async def one(port: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        content = await reader.readexactly(size)
        writer.close()
        return len(content) == size

    async def all_of_them() -> int:
        return sum(await asyncio.gather(*map(one, ports)))

    rows = []
    for tick in range(ticks):
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        rows.append(_row("bare", tick, asyncio.run(all_of_them()), began_s, began_cpu_s))
    return rows


def _row(client: str, tick: int, answered: int, began_s: float, began_cpu_s: float) -> dict[str, Any]:
    wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    return {"client": client, "tick": tick, "answered": answered, "wall_s": wall_s, "cpu_s": cpu_s}


def serve(count: int, tell: Any) -> None:
    """Answer on ``count`` free ports, which go through ``tell``, until the process ends."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    page = exposition(boards(), CLASSIC).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (
        len(page),
        page,
    )

    class Answering(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport: Any = transport
            self.asked = b""

        def data_received(self, data: bytes) -> None:
            self.asked += data
            while b"\r\n\r\n" in self.asked:
                self.asked = self.asked.partition(b"\r\n\r\n")[2]
                self.transport.write(answer)

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(Answering, "127.0.0.1", 0, backlog=64) for _ in range(count)]
        tell.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.Event().wait()

    asyncio.run(listen())


if __name__ == "__main__":
    main()
