"""A past, written down: days of dcgm-exporter history as OpenMetrics, and a real Prometheus that holds it."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from collector.arrow import History
from tests.collector.dcgm.dcgm_writer import Board, Dialect, Facts, labels_of
from tests.conftest import program

READY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One row of labels, scraped at ``at_ms``, with the facts of each scrape."""

    board: Board
    dialect: Dialect
    at_ms: tuple[int, ...]
    facts: Callable[[int], Facts]
    target: Mapping[str, str] = field(default_factory=lambda: {"job": "dcgm", "instance": "10.0.0.1:9400"})


def openmetrics(lives: Iterable[Life], more: Iterable[str] = ()) -> Iterator[str]:
    """The lives as OpenMetrics lines, one life and metric after the other, and ``more`` lines."""
    yield from more
    for life in lives:
        labels = {k: v for k, v in (labels_of(life.board, life.dialect) | dict(life.target)).items() if v}
        inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
        told = [(at, life.facts(at)) for at in life.at_ms]
        for quantity, word in life.dialect.words.items():
            head = f"{word.name}{{{inside}}}"
            for at, facts in told:
                value = getattr(facts, quantity)
                if value is not None:
                    yield f"{head} {word.said(value)} {at / 1000:.3f}\n"
    yield "# EOF\n"


def write_blocks(lives: Iterable[Life], folder: Path, more: Iterable[str] = ()) -> Path:
    """A Prometheus' data folder with the lives in it."""
    promtool = program("promtool", "prometheus")
    text = folder / "history.txt"
    with text.open("w") as file:
        file.writelines(openmetrics(lives, more))
    blocks = folder / "data"
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    text.unlink()
    return blocks


@contextmanager
def prometheus(data: Path, *flags: str) -> Iterator[str]:
    """The URL of a real Prometheus server over a data folder, on a free loopback port."""
    server = program("prometheus", "prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = data.parent / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    command = [
        server,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        *flags,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _await_ready(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _await_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"Prometheus did not become ready within {READY_S} s (exit code {process.poll()})")


class MemoryStore:
    """The least that an import can go into: keeps every row once, as the real store does."""

    def __init__(self) -> None:
        self.histories: list[History] = []
        self.ranges: list[tuple[str, int, int]] = []
        self._rows: set[tuple[str, int]] = set()

    def write_history(self, history: History) -> int:
        before = len(self._rows)
        samples = history.samples
        keys = zip(samples["uuid"].to_pylist(), samples["at_ms"].to_pylist(), strict=True)
        self._rows.update(keys)
        self.histories.append(history)
        return len(self._rows) - before

    def imported_ranges(self, origin: str) -> tuple[tuple[int, int], ...]:
        return tuple((start, end) for known, start, end in self.ranges if known == origin)

    def note_import(self, origin: str, from_ms: int, to_ms: int, rows_added: int) -> None:
        self.ranges.append((origin, from_ms, to_ms))
