"""Whether a service that runs for long stays as it was: memory, threads, open files, and the store's size.

A real service on a simulated cluster whose calendar runs 100 times as fast: its ticks, findings, sealed days
and retention come as often as in 50 hours. Meanwhile people submit, pause, resume, resize and cancel jobs,
others look at queue, jobs and charts, and launchers (without workers: they say that they did as they were
told) run them, end, or vanish without a word. Seeded.

Flat is what does not grow from one day of the calendar to the next (a quarter of an hour each): within a
day the store grows, because a day is sealed as a whole, and the engine keeps its blocks at hand. Two more
things grow to a limit and stay there: the jobs that are known after their end, and the store until its
oldest days go as fast as new ones come. So as many jobs as the service remembers end before the measuring
begins, and the store begins with as many days, at the step of the live ones, as it will ever keep. All of it
is read once before the measuring, as it has been in a service that is long up: the engine keeps what it read.

The growth is that of a day's mean. Single moments go up and down by tens of MiB with what is asked just then;
what a service keeps is seen when it has given the rest back, so the growth of the tenth of a day's moments at
which it takes least stands beside.

    python bench/soak.py [--minutes 30] [--speed 100] [--jobs 40] [--seed 0] [--json] [--quick]
"""

import argparse
import asyncio
import itertools
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from advisor.jobs.job_store import ENDED_KEPT, FORGOTTEN_AT_ONCE  # noqa: E402
from bench.service import Figure, Service, cpu_s, figure, service, show  # noqa: E402
from bench.using.people import Heard, person, reader, told  # noqa: E402
from collector.attribution import effective  # noqa: E402
from collector.clock import SystemClock  # noqa: E402
from collector.scrape_loop import Loop, LoopDependencies, Timing  # noqa: E402
from collector.sources.simulated.cluster import SimulatedCluster  # noqa: E402
from collector.store.database import open_store  # noqa: E402

CONFIG = """
[collect]
tick_s = 10
[simulated]
nodes = 12
gpus_per_node = 8
[modes]
schedule = "auto"
[acting]
silent_s = 5
launcher_grace_s = 10
[retention]
samples_days = 1
process_samples_days = 1
minutes_days = 2
[store]
memory_mib = 256
[rehearsal]
speed = {speed}
since_ms = {since_ms}
"""
GROWTH_TARGET_MIB, SPARE = 8.0, 8
LONG_S = 300.0
"""From here on flatness is asked for; a shorter soak shows whether it runs."""
SETTLES_S = 120.0
"""What is loaded when it is first needed has been by then."""
DAY_S, KEPT_DAYS, TICK_S = 86_400, 2, 10
NODES, GPUS_PER_NODE = 12, 8
SAMPLE_S = 2.0
ENDED_BEFORE, AT_ONCE = ENDED_KEPT + FORGOTTEN_AT_ONCE, 20
SPANS = (
    *(f"states_over_time?step_s={step_s}&" for step_s in (60, 3_600, 86_400)),
    *(
        f"{name}?"
        for name in ("ledger_by_gpu", "jobs", "people", "idle_stretches", "past_jobs", "project_use")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the service took at a moment, seconds after the start."""

    at_s: float
    private_mib: float
    resident_mib: float
    handles: int
    threads: int
    store_mib: float


@dataclass
class Lived(Heard):
    """What came of it all."""

    marks: list[Mark] = field(default_factory=list)
    settled_s: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--speed", type=float, default=100.0)
    parser.add_argument("--jobs", type=int, default=40, help="jobs alive at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="40 seconds: whether it runs, not whether it is flat"
    )
    options = parser.parse_args()
    seconds = 40.0 if options.quick else options.minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        if seconds >= LONG_S:
            keep_days(Path(folder))
        since_ms = now_ms()
        config = CONFIG.format(speed=options.speed, since_ms=since_ms)
        with service(Path(folder), config) as made:
            lived = asyncio.run(living(made, seconds, options.jobs, options.seed, since_ms))
            busy = cpu_s(made.process.pid) / (lived.marks[-1].at_s + lived.settled_s)
        said = (Path(folder) / "log").read_text().splitlines()
        lived.wrong += [line for line in said if re.search(r" (ERROR|CRITICAL) |^Traceback", line)]
    show(judged(lived, busy, options.speed), as_json=options.json)
    for each in lived.wrong[:5]:
        print(f"soak: {each}", file=sys.stderr)


def keep_days(folder: Path) -> None:
    """A store with the days before, up to the moment when it is done, as a service writes them."""
    (folder / "data").mkdir()
    cluster = SimulatedCluster(seed=0, nodes=NODES, gpus_per_node=GPUS_PER_NODE)
    step_ms = TICK_S * 1000
    clock = Stepped(now_ms() // step_ms * step_ms - KEPT_DAYS * DAY_S * 1000)
    with open_store(folder / "data" / "fallow.duckdb") as store:
        ports = LoopDependencies(sources=(cluster.source(),), attribute=effective, sink=store.write_tick)
        loop = Loop(ports, clock=clock, timing=Timing(tick_ms=step_ms))
        while clock.at_ms + step_ms <= now_ms():
            clock.at_ms += step_ms
            loop.tick_once()
        loop.close()


def now_ms() -> int:
    """UTC, milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class Stepped(SystemClock):
    """A calendar that stands where it is put."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        """Where it was put: UTC, milliseconds since the Unix epoch."""
        return self.at_ms


async def living(made: Service, seconds: float, jobs: int, seed: int, since_ms: int) -> Lived:
    """Everybody at once, for so long; ``since_ms`` is when the service's calendar began."""
    lived, names = Lived(), itertools.count()
    if seconds >= LONG_S:
        await grow_old(made, lived)
        await read_through(made, lived, since_ms)
    began = time.monotonic()
    tasks = [
        asyncio.create_task(person(made, random.Random(seed * 1000 + n), names, lived)) for n in range(jobs)
    ]
    tasks += [asyncio.create_task(reader(made, lived)) for _ in range(2)]
    try:
        if seconds >= LONG_S:
            await asyncio.sleep(SETTLES_S)
            began, lived.settled_s = began + SETTLES_S, SETTLES_S
        while (now_s := time.monotonic() - began) < seconds or not lived.marks:
            await asyncio.sleep(min(SAMPLE_S, max(0.1, seconds - now_s)))
            lived.marks.append(measured(made, time.monotonic() - began))
            if len(lived.marks) % 15 == 0:
                print(f"soak: {lived.marks[-1]}", file=sys.stderr, flush=True)
            ended = [task.exception() for task in tasks if task.done()]
            if ended:
                raise RuntimeError("somebody of the soak gave up") from ended[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return lived


async def grow_old(made: Service, lived: Lived) -> None:
    """As many jobs as a service remembers are submitted, for more GPUs than there are, and withdrawn."""
    numbers = iter(range(ENDED_BEFORE))

    async def somebody() -> None:
        for number in numbers:
            body = {
                "command": ["python", "train.py", str(number)],
                "project": f"team{number % 5}",
                "min_gpus": 1000,
                "max_gpus": 1000,
                "nonce": f"before-{number}",
            }
            answer = await told(made, "POST", "/v1/jobs", lived, body)
            if answer is not None:
                await told(made, "POST", f"/v1/jobs/{answer['job']}/cancel", lived, {})

    await asyncio.gather(*(somebody() for _ in range(AT_ONCE)))


async def read_through(made: Service, lived: Lived, until_ms: int) -> None:
    """All that is kept is asked for once: exported, and added up from its minutes, hours and days."""
    until_ms -= until_ms % 60_000
    from_ms = until_ms - KEPT_DAYS * DAY_S * 1000
    await told(made, "GET", f"/v1/export?from_ms={from_ms}&to_ms={until_ms}", lived)
    for question in SPANS:
        await told(made, "GET", f"/v1/query/{question}from_ts={from_ms}&to_ts={until_ms}", lived)


def measured(made: Service, at_s: float) -> Mark:
    """What the service takes now."""
    proc = Path(f"/proc/{made.process.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    stored = sum(each.stat().st_size for each in (made.socket.parent).rglob("*") if each.is_file())
    return Mark(
        at_s=at_s,
        private_mib=made.resident_mib(),
        resident_mib=int(status["VmRSS"].split()[0]) / 1024,
        handles=len(list((proc / "fd").iterdir())),
        threads=int(status["Threads"]),
        store_mib=stored / 1024**2,
    )


def judged(lived: Lived, busy_cores: float, speed: float) -> dict[str, Figure]:
    """The figures: memory from one day of the calendar to the next, and the most of the rest by thirds."""
    marks = lived.marks
    half = [mark for mark in marks if mark.at_s >= marks[-1].at_s / 2]
    first, last = marks[: max(1, len(marks) // 10)], half[-max(1, len(marks) // 10) :]
    beside: dict[str, Any] = {
        "first_mib": round(statistics.median(mark.private_mib for mark in first)),
        "last_mib": round(statistics.median(mark.private_mib for mark in last)),
        "least_growth_mib": round(grown(marks, DAY_S / speed, least), 1),
        "resident_mib": round(marks[-1].resident_mib),
        "minutes": round(marks[-1].at_s / 60, 1),
        "calendar_hours": round(marks[-1].at_s * speed / 3600, 1),
        "service_cores": round(busy_cores, 2),
    }
    stored = {"first": round(marks[0].store_mib, 1), **dict(sorted(lived.counted.items()))}
    fine = not lived.wrong
    return {
        "growth_mib": figure(
            grown(marks, DAY_S / speed, statistics.mean), GROWTH_TARGET_MIB, beside, fine=fine
        ),
        "handles_more": more([mark.handles for mark in half]),
        "threads_more": more([mark.threads for mark in half]),
        "store_mib": {"value": round(marks[-1].store_mib, 1), "target": None, "ok": fine, "beside": stored},
    }


def more(counts: Sequence[int]) -> Figure:
    """By how much the most of the last third exceeds the most of the first."""
    third = max(1, len(counts) // 3)
    before, after = max(counts[:third]), max(counts[-third:])
    return figure(after - before, SPARE, {"before": before, "after": after})


def grown(marks: Sequence[Mark], day_s: float, of_day: Callable[[Sequence[float]], float]) -> float:
    """By how much ``of_day`` of the last day exceeds that of the one before; of a short soak: its halves."""
    end_s, span_s = marks[-1].at_s, min(day_s, marks[-1].at_s / 2)
    later = [mark.private_mib for mark in marks if mark.at_s > end_s - span_s]
    before = [mark.private_mib for mark in marks if end_s - 2 * span_s < mark.at_s <= end_s - span_s]
    return of_day(later) - of_day(before) if later and before else 0.0


def least(mib: Sequence[float]) -> float:
    """The mean of the tenth of the moments at which it is least."""
    return statistics.mean(sorted(mib)[: max(1, len(mib) // 10)])


if __name__ == "__main__":
    main()
