"""An imported past counts at once: found, advised on, replayed and reported, with no service running."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.collector.backfill.past import Life, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts
from tests.service.conftest import fallow

pytestmark = pytest.mark.process

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
START_MS = 1_763_000_000_000 // HOUR_MS * HOUR_MS
HOURS = 20
END_MS = START_MS + HOURS * HOUR_MS


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M")


WINDOW = ["--since", iso(START_MS), "--until", iso(END_MS)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Twenty hours of two exporters, imported: a pod that never computes, an empty one, one at work."""
    folder = tmp_path_factory.mktemp("counts")
    facts = {
        "notebook": Facts(gpu_utilization_ratio=0.0, memory_used_bytes=39_000 * MIB),
        "debug": Facts(gpu_utilization_ratio=0.0, memory_used_bytes=0),
        "train": Facts(gpu_utilization_ratio=0.9, memory_used_bytes=39_000 * MIB),
    }
    lives = [
        Life(
            board=Board(
                uuid=f"GPU-{n}",
                index=0,
                node=f"node-{n}",
                holders={"namespace": "nlp", "pod": pod, "container": "c"},
            ),
            dialect=CLASSIC,
            at_ms=tuple(range(START_MS + MINUTE_MS - 7_000 * n, END_MS + 1, MINUTE_MS)),
            facts=lambda at_ms, told=told: told,
            target={"job": "dcgm", "instance": f"10.0.0.{n}:9400"},
        )
        for n, (pod, told) in enumerate(facts.items())
    ]
    with prometheus(write_blocks(lives, folder)) as url:
        done = fallow("import", "prometheus", *WINDOW, "--url", url, "--yes", data=folder / "data")
    assert done.returncode == 0, done.stderr
    yield folder / "data"


def rows(data: Path, *words: str) -> list[dict[str, Any]]:
    done = fallow(*words, "--json", data=data)
    assert done.returncode == 0, done.stderr
    read: list[dict[str, Any]] = json.loads(done.stdout)
    return read


def test_findings_are_there_with_the_hours_of_the_whole_past(data: Path) -> None:
    found = {row["job"]: row for row in rows(data, "findings")}
    assert {job: row["kind"] for job, row in found.items()} == {
        "pod:nlp/notebook": "held-idle",
        "pod:nlp/debug": "allocated-empty",
    }
    assert all(HOURS - 0.3 < row["judged_gpu_hours"] <= HOURS for row in found.values())
    assert all(" at least" in row["sentence"] for row in found.values()), (
        "they held it when the records begin"
    )


def test_nobody_of_an_old_past_is_starting_up(data: Path) -> None:
    advised = {row["job"] for row in rows(data, "advise")}
    assert advised == {"pod:nlp/notebook", "pod:nlp/debug"}
    shown = fallow("advise", data=data).stdout
    assert "nothing recorded says how much they would give back" in shown, "no gain is made up"
    assert shown.count("gain not known") == 2 and "if all were followed" not in shown
    said = fallow("explain", "pod:nlp/notebook", data=data)
    assert "starting up" not in said.stdout
    assert "pod:nlp/notebook is somebody's pod notebook of project nlp" in said.stdout
    assert "Whether it is a terminal, a server or a batch job is not known" in " ".join(said.stdout.split())
    assert "It has been idle for at least 20 h" in said.stdout


def test_what_never_worked_would_have_been_given_back(data: Path) -> None:
    told = next(row for row in rows(data, "whatif", *WINDOW) if row["action"] == "tell")
    # who never worked counts from where no excuse is left: six hours after the start (docs/findings.md)
    assert 2 * (HOURS - 6.3) < told["gpu_hours"] <= 2 * (HOURS - 6)


def test_report_on_the_file_names_them(data: Path) -> None:
    done = fallow("report", "cluster-week", *WINDOW, "--format", "md", "--out", "-", data=data)
    assert done.returncode == 0, done.stderr
    assert "notebook" in done.stdout and "debug" in done.stdout
