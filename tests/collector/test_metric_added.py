"""A metric that is not there, added in a copy as docs/dev/add-metric.md says, is seen everywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.collector.metric_files import EXPORT, TIMELINES

ROOT = Path(__file__).parents[2]
NAME, COLUMN_TYPE, DEGREES = "memory_temperature_c", "SMALLINT", 64
LIST = "collector/metrics.py"
BASE = "collector/store/schema/base.sql"
COPIED = ("collector", "analytics", "advisor", "service", "fallow", "tests/collector")
LABELS = '{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="node-1"}'
PAGE = f"DCGM_FI_DEV_GPU_UTIL{LABELS} 37\nDCGM_FI_DEV_MEMORY_TEMP{LABELS} {DEGREES}\n"
LOOK = """
import csv, json, sys
from pathlib import Path

import collector
from analytics import query
from collector.dcgm.endpoint import Endpoint, heard
from collector.metrics_endpoint import exposition
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from collector.sources import peer
from collector.sources.nvml.probe import MEASURES
from collector.store.database import open_store
from service.charts.timelines import lanes_of

name, page, folder = sys.argv[1], Path(sys.argv[2]).read_bytes(), Path(sys.argv[3])
at_ms = 1_790_000_000_000 // 60_000 * 60_000 + 60_000
fresh = Endpoint(url="http://node-1/metrics", fallback_node="node-1", interval_ms=30_000)
news = heard(fresh, page, at_ms)[1]
reading = Reading(source="dcgm", at_ms=at_ms, gpus=news.gpus, samples=news.samples)
tick = Tick(at_ms=at_ms, width_ms=10_000, outcomes=(reading,))
exposed = exposition(after(Snapshot(), tick, duration_ms=1.0))
window = {"uuid": "GPU-a", "from_ts": at_ms - 60_000, "to_ts": at_ms, "step_s": 60}
with open_store(folder / "fallow.duckdb") as store:
    store.write_tick(tick)
    with store.reader() as connection:
        stored = connection.execute(f"SELECT {name}, typeof({name}) FROM samples_all").fetchall()
        steps = query.run(connection, "gpu_timeline", window).to_pylist()
    store.export(folder / "out", "csv", at_ms - 60_000, at_ms)
with (folder / "out" / "samples.csv").open(newline="") as file:
    rows = list(csv.DictReader(file))
heard_again = peer.heard(fresh, exposed, at_ms + 1_000, "fallow")[1]
json.dump(
    {
        "from": collector.__file__,
        "read": [getattr(each, name) for each in news.samples],
        "stored": stored,
        "exported": [row[name] for row in rows],
        "exposed": [line for line in exposed.decode().splitlines() if "memory_temperature" in line],
        "by another Fallow": [getattr(each, name) for each in heard_again.samples],
        "steps": [step[name] for step in steps],
        "drawn": [
            (lane.title, lane.write(1.0))
            for lane in lanes_of()
            for trace in lane.traces
            if trace.column == name
        ],
        "doctor": dict(MEASURES).get(name),
    },
    sys.stdout,
)
"""


@pytest.mark.slow
def test_a_metric_added_by_the_checklist_is_read_stored_exported_exposed_and_printed(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    before = copied(scratch)
    added(scratch)
    python(scratch, "-m", "tests.collector.metric_files")
    python(scratch, "-m", "tests.collector.store.base_schema")
    changed = {path for path, text in texts(scratch).items() if text != before.get(path)}
    (migration,) = changed - {LIST, EXPORT, BASE, *TIMELINES}
    assert migration.startswith("collector/store/schema/") and changed >= {EXPORT, BASE, *TIMELINES}

    (tmp_path / "page").write_text(PAGE)
    seen = json.loads(python(scratch, "-c", LOOK, NAME, str(tmp_path / "page"), str(tmp_path)))
    assert Path(seen.pop("from")).is_relative_to(scratch)
    (help_line, type_line, value_line) = seen.pop("exposed")
    assert help_line.startswith("# HELP fallow_gpu_memory_temperature_celsius ")
    assert type_line == "# TYPE fallow_gpu_memory_temperature_celsius gauge"
    assert value_line.endswith(f"}} {DEGREES}")
    assert seen == {
        "read": [DEGREES],
        "stored": [[DEGREES, COLUMN_TYPE]],
        "exported": [str(DEGREES)],
        "by another Fallow": [DEGREES],
        "steps": [float(DEGREES)],
        "drawn": [["Temperature", "1 °C"]],
        "doctor": "memory temperature",
    }
    with exporter() as url:
        printed = json.loads(python(scratch, "-c", COLLECT, str(tmp_path / "none"), f"dcgm={url}"))
    assert [(row["uuid"], row[NAME]) for row in printed] == [("GPU-a", DEGREES)]


COLLECT = """
import sys
from service.cli import main

sys.exit(main(["collect", "--once", "--json", "--data", sys.argv[1], "--source", sys.argv[2]]))
"""


def copied(scratch: Path) -> dict[str, str]:
    """Lay a copy of the product, and of what writes the files; its texts by path."""
    for name in COPIED:
        shutil.copytree(ROOT / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "tests/__init__.py"):
        if (ROOT / name).exists():
            shutil.copyfile(ROOT / name, scratch / name)
    return texts(scratch)


def added(scratch: Path) -> None:
    """What the checklist says to write, word by word, in the copy."""
    field, column = block("python"), block("sql")
    listed = (scratch / LIST).read_text()
    assert NAME in field and NAME in column and NAME not in listed
    last = "    flags: tuple[str, ...] = ()\n"
    assert listed.count(last) == 1
    (scratch / LIST).write_text(listed.replace(last, indent(field, "    ") + last))
    schema = scratch / "collector/store/schema"
    newest = max(int(path.name.partition("_")[0]) for path in schema.glob("[0-9]*.sql"))
    (schema / f"{newest + 1:03}_memory_temperature.sql").write_text(column)


@cache
def block(language: str) -> str:
    """The checklist's one block of this language."""
    checklist = (ROOT / "docs" / "dev" / "add-metric.md").read_text()
    (found,) = re.findall(rf"^ *```{language}\n(.*?)^ *```", checklist, flags=re.DOTALL | re.MULTILINE)
    return dedent(found)


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for pattern in ("*.py", "*.sql")
        for path in folder.rglob(pattern)
    }


def python(scratch: Path, *arguments: str) -> str:
    """What a Python that has the copy alone of ours prints."""
    environment = {**os.environ, "PYTHONPATH": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=scratch,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Page(BaseHTTPRequestHandler):
    """An exporter."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing is said of each request."""


@contextmanager
def exporter() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
