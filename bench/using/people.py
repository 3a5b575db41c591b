"""Who uses a service that is soaked: people with jobs, their launchers, and others who look. Seeded.

Launchers have no workers: they say that they did as they were told.
"""

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.service import Service, ask

REPORT_S, READ_S = 5.0, 1.0
FATES = {"done": 50, "paused": 20, "resized": 10, "cancelled": 10, "vanished": 10}
"""What becomes of jobs, of a hundred. Who vanishes has half a GPU: the workers on a whole one are looked for
on the GPU itself, where here the simulated people's are."""
EXPECTED = (404, 409, 410, 422)
"""Answers to an order that came when its job had moved on: orders are given blindly here."""
READS = (
    "/v1/queue?limit=100",
    "/v1/jobs?limit=50",
    "/v1/leases",
    "/v1/plans",
    "/v1/actions",
    "/v1/acting",
    "/v1/query/gpus_now",
    "/v1/query/findings",
    "/metrics",
    "/healthz",
)


@dataclass
class Heard:
    """What the service answered: requests and fates counted, and what should not have been answered."""

    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def person(made: Service, chance: random.Random, names: "itertools.count[int]", heard: Heard) -> None:
    """Somebody who submits one job after another."""
    while True:
        number, gpus = next(names), chance.choice((1, 1, 1, 2, 3))
        fate = chance.choices(tuple(FATES), tuple(FATES.values()))[0]
        body = {
            "command": ["python", "train.py", str(number)],
            "project": f"team{number % 5}",
            "name": f"soak {number}",
            "min_gpus": 1,
            "max_gpus": gpus,
            "share": 0.5 if fate == "vanished" else 1.0,
            "mobility": "elastic",
            "preemptible": True,
            "may_share": True,
            "nonce": f"soak-{number}",
        }
        answer = await told(made, "POST", "/v1/jobs", heard, body)
        if answer is None:
            await asyncio.sleep(1)
            continue
        launcher = Launcher(made, str(answer["job"]), number, heard)
        await launcher.live(fate, chance)


class Launcher:
    """A launcher without workers: it acknowledges what it is told, for as long as its job takes."""

    def __init__(self, made: Service, job: str, number: int, heard: Heard) -> None:
        self._made, self._job, self._heard = made, job, heard
        self._self = {"node": "soak", "pid": 100_000 + number, "started_ms": 1}
        self._state, self._handled, self._gpus = "pending", 0, list[str]()
        self._ran, self._over = asyncio.Event(), asyncio.Event()

    async def live(self, fate: str, chance: random.Random) -> None:
        """From the queue to the job's end, whatever that is."""
        tasks = [asyncio.create_task(each) for each in (self._listen(), self._report_often())]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(chance.uniform(20, 40)):
                    await self._ran.wait()
                    await asyncio.sleep(chance.uniform(0.3, 4))
                    await self._meet(fate, chance)
            if fate == "vanished":
                self._heard.counted[fate] += 1
                return
            self._heard.counted[fate if self._ran.is_set() else "never started"] += 1
            if not self._over.is_set() and fate != "cancelled" and self._ran.is_set():
                await self._say(state="ended", exit_reason="done", exit_code=0)
            elif not self._over.is_set():
                await self._order("cancel", {})
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _meet(self, fate: str, chance: random.Random) -> None:
        match fate:
            case "paused":
                await self._order("pause", {"because": "somebody else is in a hurry"})
                await asyncio.sleep(chance.uniform(0.5, 3))
                await self._order("resume", {})
                await asyncio.sleep(chance.uniform(0.5, 3))
            case "resized":
                for gpus in (2, 1):
                    await self._order("resize", {"gpus": gpus})
                    await asyncio.sleep(chance.uniform(0.5, 2))
            case _:
                return

    async def _order(self, verb: str, body: dict[str, object]) -> None:
        await told(self._made, "POST", f"/v1/jobs/{self._job}/{verb}", self._heard, body)

    async def _say(self, **more: object) -> None:
        body = {
            "at_ms": time.time_ns() // 1_000_000,
            "launcher": self._self,
            "state": self._state,
            "acknowledged": self._handled,
            "gpus": self._gpus,
            **more,
        }
        await told(self._made, "POST", f"/v1/jobs/{self._job}/reports", self._heard, body)

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            await self._say()

    async def _listen(self) -> None:
        path = f"/v1/jobs/{self._job}/directives?names=2"
        reader, writer = await asyncio.open_unix_connection(str(self._made.socket))
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            while line := await reader.readline():
                if line.startswith(b'{"directive"'):
                    await self._carry_out(json.loads(line)["directive"])
        finally:
            self._over.set()
            writer.close()

    async def _carry_out(self, directive: dict[str, Any]) -> None:
        self._handled = directive["number"]
        match directive["is"]:
            case "Start" | "Resume" | "Reallocate":
                self._state, self._gpus = "running", directive["gpus"]
            case "Pause":
                self._state, self._gpus = "paused", []
            case "Requeue":
                self._state, self._gpus = "pending", []
            case "Cancel":
                await self._say(state="ended", exit_reason="cancelled")
                return
        await self._say()
        if self._state == "running":
            self._ran.set()


async def reader(made: Service, heard: Heard) -> None:
    """Somebody who looks at everything, again and again."""
    while True:
        for where in READS:
            await told(made, "GET", where, heard)
        await asyncio.sleep(READ_S)


async def told(
    made: Service, method: str, where: str, heard: Heard, body: object = None
) -> dict[str, Any] | None:
    """The answer to a request, where it is an object; what should not be answered is noted."""
    status, answer = await ask(made.socket, method, where, body)
    heard.counted["requests"] += 1
    if status // 100 == 2:
        found = json.loads(answer) if answer[:1] == b"{" else None
        return found if isinstance(found, dict) else None
    if where == "/healthz" and status == 503:
        heard.counted["degraded"] += 1  # a machine that is too busy for a tick every 0.1 s
    elif status not in EXPECTED:
        heard.wrong.append(f"{method} {where}: {status} {answer[:200]!r}")
    return None
