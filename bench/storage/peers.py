"""Bytes a sample of a sealed day, beside Prometheus and VictoriaMetrics fed exactly the same values.

A *sample* is what Prometheus calls one: a value of one metric of one GPU at one time. The data is a stretch
of the simulated cluster (``collector.sources.simulated``, seed 0), 10 s apart. Ratios are ten-thousandths,
everything else integers, so no store rounds anything; nulls are not samples and are not sent.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collector.sources.simulated.cluster import SimulatedCluster
from collector.store.database import open_store

SEED = 0
STEP_MS = 10_000
DAY_MS = 86_400_000
TO_MS = 1_795_000_000_000 // DAY_MS * DAY_MS
KEYS = ("uuid", "gpu_id", "ts", "width_ms", "rung", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Bytes a sample; ``None`` where the peer is not installed."""

    samples: int
    rows: int
    ours: float
    lossless: bool
    prometheus: float | None
    victoria: float | None


def measure(nodes: int, hours: float) -> Bytes:
    """Seal the stretch, check that every value comes back, and feed the peers what was sealed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sealed, lossless = _seal(folder / "ours", nodes, hours)
        table = pq.read_table(sealed, partitioning=None)
        values = sum(len(table) - table[m].null_count for m in table.column_names if m not in KEYS)
        text = folder / "metrics.txt"
        return Bytes(
            samples=values,
            rows=len(table),
            ours=sealed.stat().st_size / values,
            lossless=lossless,
            prometheus=_per(values, _prometheus(folder / "prometheus", _openmetrics(table, text))),
            victoria=_per(values, _victoria(folder / "victoria", text, values)),
        )


def _seal(folder: Path, nodes: int, hours: float) -> tuple[Path, bool]:
    cluster = SimulatedCluster(seed=SEED, nodes=nodes, gpus_per_node=8)
    from_ms = TO_MS - round(hours * 3_600_000)
    ordered = "SELECT * FROM samples_all ORDER BY gpu_id, ts"
    with open_store(folder / "fallow.duckdb") as store:
        for history in cluster.history(from_ms, TO_MS - STEP_MS, STEP_MS):
            store.write_history(history)
        with store.reader() as connection:
            before = connection.sql(ordered).to_arrow_table()
        (day,) = store.seal_days(TO_MS)
        with store.reader() as connection:
            same = connection.sql(ordered).to_arrow_table().equals(before)
    return folder / day.path, same and day.samples == len(before)


def _openmetrics(table: pa.Table, out: Path) -> Path:
    """The samples as OpenMetrics text: a family a metric, a series a GPU, times in seconds."""
    seconds = pc.divide(table["ts"].cast(pa.int64()), 1_000_000).to_pylist()
    uuids = table["uuid"].to_pylist()
    with out.open("w") as file:
        for metric in table.column_names:
            if metric in KEYS:
                continue
            file.write(f"# TYPE gpu_{metric} gauge\n")
            file.writelines(_lines(metric, uuids, seconds, table[metric].to_pylist()))
        file.write("# EOF\n")
    return out


def _lines(metric: str, uuids: list[str], seconds: list[int], values: list[int | None]) -> Iterator[str]:
    for uuid, second, value in zip(uuids, seconds, values, strict=True):
        if value is not None:
            yield f'gpu_{metric}{{uuid="{uuid}"}} {value} {second}\n'


def _prometheus(folder: Path, text: Path) -> int | None:
    promtool = shutil.which("promtool")
    if promtool is None:
        return None
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h"]
    subprocess.run([*command, str(text), str(folder)], check=True, capture_output=True)
    return _size(folder)


def _victoria(folder: Path, text: Path, values: int) -> int | None:
    program = shutil.which("victoria-metrics")
    if program is None:
        return None
    port = _free_port()
    command = [program, f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}"]
    command += ["-retentionPeriod=100y", "-loggerLevel=ERROR"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}/health")
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/api/v1/import/prometheus", data=_in_ms(text), method="POST"
            )
            urllib.request.urlopen(request, timeout=600).close()
            for step in ("force_flush", "force_merge"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/internal/{step}", timeout=600).close()
            _wait_until_still(folder)
            kept = _count(f"http://127.0.0.1:{port}/api/v1/query")
            assert kept == values, f"VictoriaMetrics has {kept} of {values} samples"
        finally:
            server.terminate()
    return _size(folder / "data") + _size(folder / "indexdb")


def _count(url: str) -> int:
    """How many samples VictoriaMetrics answers for, so that no byte is counted for fewer."""
    asked = {"query": 'sum(count_over_time({__name__=~"gpu_.+"}[3d]))', "time": str(TO_MS // 1000)}
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(asked)}", timeout=600) as answer:
        return int(json.load(answer)["data"]["result"][0]["value"][1])


def _in_ms(text: Path) -> bytes:
    """The same lines with times in milliseconds, as Prometheus' exposition format has them."""
    lines = text.read_text().splitlines()
    return "\n".join(f"{line}000" for line in lines if not line.startswith("#")).encode() + b"\n"


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _wait_until_still(folder: Path) -> None:
    """Until merging has stopped: the size is the same five times in a row."""
    sizes = [-1]
    while (len(sizes) < 300 and len(set(sizes[-5:])) > 1) or len(sizes) < 6:
        time.sleep(0.2)
        sizes.append(_size(folder))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _size(folder: Path) -> int:
    """Bytes in files: data and index, which both are needed to read a sample again."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _per(values: int, size: int | None) -> float | None:
    return None if size is None else size / values
