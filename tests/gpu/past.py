"""One reading kept as if it had gone on for 35 minutes, and what Fallow finds and advises then.

A hog is judged by half an hour, and a step has a minute. So the reading is a real one, its time is not.
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.model import (
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading
from tests.gpu import place

TICK_MS, TICKS = 30_000, 70
EARLIER_MS = 2 * TICK_MS * TICKS
CONFIG = "[collect]\ntick_s = 30\nslurm = false\n"
"""A tick of a bin's width writes least; nothing is advised on a job in its first half hour."""
VERB_S = 60


class Kept:
    """``collector.source.Source`` that gives one reading again and again, each time as of now."""

    name = "kept"

    def __init__(self, reading: Reading, earlier_ms: int = EARLIER_MS) -> None:
        bare = (*reading.processes, *(reading.process_samples or ()))
        self._keys = {each.key: _earlier(each.key, earlier_ms) for each in bare}
        self._reading = replace(reading, source=self.name)

    def read(self, now_ms: int) -> Reading:
        """The same, now; its processes are older than the past that is made of it."""
        kept = self._reading
        processes: tuple[Process, ...] = tuple(replace(p, key=self._keys[p.key]) for p in kept.processes)
        used: tuple[ProcessSample, ...] = tuple(
            replace(p, key=self._keys[p.key], at_ms=now_ms, width_ms=TICK_MS)
            for p in kept.process_samples or ()
        )
        samples = tuple(replace(each, at_ms=now_ms, width_ms=TICK_MS) for each in kept.samples)
        return replace(
            kept, at_ms=now_ms, samples=samples, gaps=(), processes=processes, process_samples=used
        )

    def close(self) -> None:
        """Nothing is open."""


class Hands:
    """A clock that is moved by hand."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        """UTC."""
        return self.at_ms

    def monotonic_ms(self) -> int:
        """The same."""
        return self.at_ms

    def sleep(self, seconds: float) -> None:
        """At once."""
        self.at_ms += round(seconds * 1000)


def said_of(reading: Reading) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What `fallow findings --json` and `fallow advise --json` say of a store that holds it. Needs DuckDB."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        (data / "fallow.toml").write_text(CONFIG)
        _stored(reading, data)
        return _rows(data, "findings"), _rows(data, "advise", "--all")


def _stored(reading: Reading, data: Path) -> None:
    from collector.scrape_loop import Loop, LoopDependencies, Timing
    from collector.store.database import open_store
    from service.config.file import load
    from service.sources.described import Described
    from service.sources.making import make_attribute
    from service.usecases.judge import judge_imported

    config = load(data / "fallow.toml").config
    described = Described(Kept(reading, earlier_ms=0), reading.gpus[0].node)
    seen = described.read(reading.at_ms)
    described.close()
    assert isinstance(seen, Reading)
    clock = Hands(time.time_ns() // 10**6 - TICK_MS * TICKS)
    with open_store(data / "fallow.duckdb") as store:
        ports = LoopDependencies(
            sources=(Kept(seen),), attribute=make_attribute(config), sink=store.write_tick
        )
        loop = Loop(ports, clock=clock, timing=Timing(tick_ms=TICK_MS))
        for _ in range(TICKS):
            loop.tick_once()
            clock.sleep(TICK_MS / 1000)
        loop.close()
        judge_imported(config, store)


def _rows(data: Path, verb: str, *flags: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "service.cli", verb, "--data", str(data), "--json", *flags]
    asked = place.asked(command, VERB_S)
    if asked.returncode:
        raise RuntimeError(f"fallow {verb}: {asked.stderr.strip()[-500:]}")
    found = json.loads(asked.stdout)
    return list(found) if isinstance(found, list) else [found]


def _earlier(key: ProcessKey, by_ms: int) -> ProcessKey:
    return replace(key, started_ms=key.started_ms - by_ms)
