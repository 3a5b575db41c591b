"""The Prometheus rules and the Grafana page name metrics that exist; a real Prometheus answers them all."""

import http.server
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from collector.metrics_endpoint import CONTENT_TYPE, exposition
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Event,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
)
from collector.reading import Reading, Tick
from collector.snapshot import Snapshot, after
from service.control.activity import Counts
from service.control.metrics import Facts, ServiceFacts, acting_exposition, service_exposition
from service.server.finding_metrics import Judged, finding_exposition
from tests.collector.backfill.past import prometheus
from tests.conftest import program

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "prometheus" / "fallow-rules.yml"
BOARD = json.loads((PACKAGING / "grafana" / "fallow.json").read_text())
RECORDED = set(re.findall(r"record: (\S+)", RULES.read_text()))
PANELS = list(BOARD["panels"])
TARGETS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
WAIT_S = 30


def snapshot(at_ms: int) -> Snapshot:
    """Two GPUs, one held and busy, one held and idle, one event."""
    gpus = tuple(
        Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName("n1"), index=n, model="H100", memory_total_bytes=80 << 30)
        for n in (0, 1)
    )
    samples = tuple(
        GpuSample(
            uuid=gpu.uuid,
            at_ms=at_ms,
            width_ms=10_000,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=busy,
            memory_used_bytes=1 << 30,
            power_mw=90_000,
            ecc_uncorrected=0,
            process_count=1,
            flags=("made-up",) if busy else (),
        )
        for gpu, busy in zip(gpus, (0.8, 0.0), strict=True)
    )
    events = tuple(
        Event(uuid=gpus[0].uuid, at_ms=at_ms, kind=kind, detail="d")
        for kind in ("xid", "gpu-lost", "gpu-returned")
    )
    holders = [Holder(job=JobId(f"slurm:{n}"), user=f"u{n}", project="vision") for n in (0, 1)]
    given = tuple(
        Allocation(uuid=gpu.uuid, holder=holder, source=ClaimSource.SLURM)
        for gpu, holder in zip(gpus, holders, strict=True)
    )
    reading = Reading(source="nvml", at_ms=at_ms, gpus=gpus, samples=samples, events=events, duration_ms=2.0)
    tick = Tick(at_ms=at_ms, width_ms=10_000, outcomes=(reading,), allocations=given)
    return after(Snapshot(), tick, duration_ms=3.0)


def page(at_ms: int) -> bytes:
    """All that a service which acts tells on ``/metrics``."""
    counts = Counts(
        cycles=3,
        failed_cycles=1,
        cycle_s=2.5,
        actions={("start", "done"): 2},
        in_progress=1,
        refusals={("reclaim", "kept"): 1},
    )
    facts = Facts(
        entries=(),
        counts=counts,
        now_ms=at_ms,
        switched_off=False,
        last_cycle_s=0.5,
        undelivered=1,
        oldest_s=60.0,
    )
    own = ServiceFacts(
        store_bytes=1 << 20, wal_bytes=0, connections={"tcp": 1, "socket": 2}, refused_requests={403: 1}
    )
    row = {"kind": "held-idle", "findings": 2, "gpus": 2, "wasted_gpu_hours": 30.0}
    found = finding_exposition(Judged(at_ms=at_ms, rows=(row,)), at_ms)
    return (
        exposition(snapshot(at_ms), version="1") + found + acting_exposition(facts) + service_exposition(own)
    )


@contextmanager
def metrics() -> Iterator[str]:
    """The address of a page of metrics."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(int(time.time() * 1000))
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_promtool_accepts_the_rules_and_what_they_say() -> None:
    tool = program("promtool", "prometheus")
    for order in (["check", "rules", RULES.name], ["test", "rules", "fallow-rules-test.yml"]):
        done = subprocess.run([tool, *order], cwd=RULES.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_page_of_a_service_that_acts() -> None:
    tool = program("promtool", "prometheus")
    done = subprocess.run([tool, "check", "metrics"], input=page(10**12), capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_in_the_files_is_one_that_fallow_has() -> None:
    known = set(re.findall(r"^# TYPE (\S+)", page(10**12).decode(), re.M))
    texts = [RULES.read_text(), *(expr for _, expr in TARGETS)]
    named = {name for text in texts for name in re.findall(r"\b(fallow_\w+)(?=[{ \[)]|$)", text)}
    assert named, "no metric was found in the files"
    assert named <= known, sorted(named - known)
    assert set(re.findall(r"fallow:[\w:]+", " ".join(texts))) <= RECORDED


def test_every_panel_is_explained_and_fits_its_row() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.fixture(scope="module")
def queried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that scrapes a page of metrics each second and applies the rules as often."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "rules.yml").write_text(re.sub(r"interval: \w+", "interval: 1s", RULES.read_text()))
    with metrics() as page:
        setting = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [
                {"job_name": "fallow", "honor_labels": True, "static_configs": [{"targets": [page]}]}
            ],
        }
        with prometheus(folder / "data", "--web.enable-lifecycle") as url:
            (folder / "prometheus.yml").write_text(json.dumps(setting))
            httpx.post(f"{url}/-/reload", trust_env=False)
            yield url


@pytest.mark.parametrize(
    ("title", "expr"), TARGETS, ids=[f"{title}-{n}" for n, (title, _) in enumerate(TARGETS)]
)
def test_a_real_prometheus_has_an_answer_for_each_panel(queried: str, title: str, expr: str) -> None:
    asked = expr.replace("$node", ".*")
    deadline = time.monotonic() + WAIT_S
    while True:
        said = httpx.get(f"{queried}/api/v1/query", params={"query": asked}, trust_env=False).json()
        assert said["status"] == "success", said
        if said["data"]["result"] or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert said["data"]["result"], f"{title}: nothing for {asked}"
