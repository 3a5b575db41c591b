"""A machine on the stand-in driver, its source, and a clock that both share."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.model import (
    GpuSample,
    NodeName,
    ProcessSample,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.nvml.source import NvmlOptions, NvmlSource
from tests.driver.driver import CompilerMissing, Driver

START_MS = 1_800_000_000_000
TICK_MS = 10_000


class Watched:
    """A source on a stand-in machine; ``tick`` lets time pass for both and reads."""

    def __init__(self, driver: Driver, options: NvmlOptions) -> None:
        self.driver = driver
        self.source = NvmlSource(node=NodeName("node-a"), options=options)
        self.now_ms = START_MS
        self.driver.clock_us = START_MS * 1000

    def tick(self, step_ms: int = TICK_MS) -> Reading | Unavailable:
        self.now_ms += step_ms
        self.driver.clock_us = self.now_ms * 1000
        return self.source.read(self.now_ms)

    def read(self, step_ms: int = TICK_MS) -> Reading:
        reading = self.tick(step_ms)
        assert isinstance(reading, Reading), reading
        return reading

    def sample(self, slot: int = 0, step_ms: int = TICK_MS) -> GpuSample:
        uuid = self.driver.gpu(slot).uuid
        return next(row for row in self.read(step_ms).samples if row.uuid == uuid)

    def ago_us(self, ms: float) -> int:
        """A timestamp of the driver's clock, this long before the *next* tick."""
        return int((self.now_ms + TICK_MS - ms) * 1000)


Watch = Callable[..., Watched]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Make a machine: ``watch(gpus=2, old=False, **options)``."""
    made: list[Watched] = []

    def make(gpus: int = 1, *, old: bool = False, **options: object) -> Watched:
        try:
            driver = Driver(tmp_path, gpus=gpus, old=old)
        except CompilerMissing as missing:
            pytest.skip(str(missing))
        for name, value in driver.variables().items():
            monkeypatch.setenv(name, value)
        settings = {"processes_every": 1, "host_pids": True, **options}
        made.append(Watched(driver, NvmlOptions(**settings)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for watched in made:
        watched.source.close()
        watched.driver.close()


@pytest.fixture
def process() -> Iterator[Callable[[], int]]:
    """Start a real process that does nothing; its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1].pid

    yield start
    for one in started:
        one.kill()
        one.wait()


def of(reading: Reading, pid: int) -> list[ProcessSample]:
    """The process samples of one pid."""
    assert reading.process_samples is not None
    return [row for row in reading.process_samples if row.key.pid == pid]
