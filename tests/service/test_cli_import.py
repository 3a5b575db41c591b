"""``fallow import prometheus`` against a real server: through a running service, and with none."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.collector.backfill.past import Life, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts
from tests.other_machines import other_machines
from tests.service.conftest import Running, fallow, is_well, start, until

pytestmark = pytest.mark.process

HOUR_MS, MINUTE_MS, STEP_MS = 3_600_000, 60_000, 30_000
START_MS = 1_763_000_000_000 // HOUR_MS * HOUR_MS
END_MS = START_MS + 2 * HOUR_MS
POD_RESTS_MS = START_MS + 30 * MINUTE_MS
POD_OVER_MS = START_MS + 90 * MINUTE_MS
GPUS = 2


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M")


WORDS = ["import", "prometheus", "--since", iso(START_MS), "--until", iso(END_MS), "--url"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two hours of two GPUs; a pod held the second one for 90 minutes, and worked in the first 30 of them."""
    times = range(START_MS + STEP_MS, END_MS + 1, STEP_MS)
    pod = {"namespace": "nlp", "pod": "debug", "container": "c"}
    parts: tuple[tuple[int, dict[str, str], int, int, float], ...] = (
        (0, {}, START_MS, END_MS, 0.5),
        (1, pod, START_MS, POD_RESTS_MS, 0.5),
        (1, pod, POD_RESTS_MS, POD_OVER_MS, 0.0),
        (1, {}, POD_OVER_MS, END_MS, 0.5),
    )
    lives = [
        Life(
            board=Board(uuid=f"GPU-{gpu}", index=gpu, node="node-1", holders=holders),
            dialect=CLASSIC,
            at_ms=tuple(at_ms for at_ms in times if begin_ms < at_ms <= end_ms),
            facts=lambda at_ms, busy=busy: Facts(
                gpu_utilization_ratio=busy, memory_used_bytes=1000 * MIB if busy else 0
            ),
        )
        for gpu, holders, begin_ms, end_ms, busy in parts
    ]
    blocks = write_blocks(lives, tmp_path_factory.mktemp("prometheus"))
    with prometheus(blocks) as url:
        yield url


@pytest.fixture(scope="module", params=["through a service", "with none"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    tmp_path = tmp_path_factory.mktemp("import")
    if request.param == "with none":
        yield tmp_path
        return
    with other_machines(nodes=1, gpus_per_node=1) as url:
        words = ("--source", f"fallow={url}/metrics")
        service: Running = start(tmp_path / "data", words, "[collect]\ntick_s = 1\nslurm = false\n")
        try:
            until("the service is well", lambda: is_well(service))
            yield service.data
        finally:
            _, complaints = service.stop()
    assert complaints == ""


def test_import_says_what_it_would_do_then_does_it_and_a_repeat_adds_nothing(server: str, data: Path) -> None:
    planned = fallow(*WORDS, server, data=data)
    assert planned.returncode == 0, planned.stderr
    assert "add --yes" in planned.stdout
    assert stored(data) == 0
    done = fallow(*WORDS, server, "--yes", data=data)
    assert done.returncode == 0, done.stderr
    assert f"{GPUS * 240:,} new samples of {GPUS} GPUs on 1 nodes" in done.stdout
    assert stored(data) == GPUS * 238
    again = fallow(*WORDS, server, "--yes", data=data)
    assert again.returncode == 0, again.stderr
    assert stored(data) == GPUS * 238


def test_a_job_that_had_ended_before_the_import_is_judged(server: str, data: Path) -> None:
    """Its GPU was empty for the last hour of its hold; in the rest of the records nobody has it."""
    assert fallow(*WORDS, server, "--yes", data=data).returncode == 0
    span = ["--since", iso(START_MS), "--until", iso(END_MS), "--json"]
    told: list[dict[str, object]] = []

    def judged() -> bool:
        told[:] = json.loads(fallow("findings", "--all", *span, data=data).stdout or "[]")
        return bool(told)

    until("the past is judged", judged)
    assert [(row["kind"], row["job"]) for row in told] == [("allocated-empty", "pod:nlp/debug")]
    assert told[0]["closed_at"] is not None


def test_server_that_is_not_there_is_named(data: Path) -> None:
    done = fallow(*WORDS, "http://127.0.0.1:9", "--yes", data=data)
    assert done.returncode == 2
    assert "http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_server_with_nothing_of_dcgm_is_refused_with_what_it_has(server: str, data: Path) -> None:
    words = ["import", "prometheus", "--since", "2001-01-01", "--until", "2001-01-02", "--url", server]
    done = fallow(*words, data=data)
    assert done.returncode == 2
    assert "nothing" in done.stderr


def stored(data: Path) -> int:
    """Samples of the imported GPUs, by the ledger: measured GPU-time over the step.

    The last minute is left out: it is rolled up when something comes after it.
    """
    words = ["ledger", "--by", "node", "--since", iso(START_MS), "--until", iso(END_MS - MINUTE_MS), "--json"]
    done = fallow(*words, data=data)
    if done.returncode != 0:
        return 0
    rows = [row for row in json.loads(done.stdout) if row["key"] == "node-1"]
    return round(sum(row["gpu_hours"] - row["unknown_gpu_hours"] for row in rows) * HOUR_MS / STEP_MS)
