"""``fallow findings`` on what was not judged: a line, the list, and a store from before it was kept."""

import json
from pathlib import Path

import pytest

from analytics import text
from collector.store.judgements import Judgement
from service.cli.findings import not_judged
from service.client import connect
from service.errors import StoreOlder
from tests.analytics.world import B0, END_MS, fill
from tests.service.conftest import verb

ROW = {
    "uuid": B0,
    "job": None,
    "verdict": "unknown",
    "kinds": ["held-idle"],
    "reason": "only 60% of the last 30 min were measured",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with fill(tmp_path) as store:
        store.write_judgement(Judgement(unjudged=[ROW]), END_MS)
    return tmp_path


def test_a_gpu_with_two_reasons_is_counted_once() -> None:
    rows = [{"uuid": "g", "verdict": "unknown", "reason": reason} for reason in ("a", "b")]
    assert not_judged(rows) == "not judged: 1 GPU (a: 1; b: 1); see --unknown"
    assert not_judged([]) == "not judged: nothing"


def test_findings_tell_what_was_not_judged(data: Path) -> None:
    shown = verb("findings", data=data).stdout
    assert "not judged: 1 GPU (only 60% of the last 30 min were measured: 1)" in " ".join(shown.split())
    listed = verb("findings", "--unknown", data=data).stdout
    assert "unknown" in listed and "for held-idle" in listed
    (row,) = json.loads(verb("findings", "--unknown", "--json", data=data).stdout)
    assert (row["uuid"], row["reason"], row["kinds"]) == (B0, ROW["reason"], "held-idle")


@pytest.mark.slow
def test_nothing_judged_yet_and_judged_long_ago_are_not_the_same_as_nothing_found(data: Path) -> None:
    with fill(data / "new"):
        pass
    done = verb("findings", data=data / "new")
    assert (done.returncode, done.stdout.startswith("Nothing was judged yet")) == (0, True), done.stdout
    assert "0 open findings, nothing was judged yet" in " ".join(
        verb("status", data=data / "new").stdout.split()
    )
    old = verb("findings", data=data).stdout
    assert "judged last" in old and "may be over" in old and "No open findings." in old


def test_a_store_from_before_says_so_plainly(data: Path) -> None:
    with fill(data / "older") as store, store.reader() as connection:
        for table in ("unjudged", "patterns", "judged"):
            connection.execute(f"DROP TABLE {table}")
    done = verb("findings", data=data / "older")
    assert (done.returncode, "older Fallow" in done.stdout) == (0, True), done.stdout
    asked = verb("findings", "--unknown", data=data / "older")
    assert asked.returncode == 2
    assert "older Fallow wrote this store" in asked.stderr and "Traceback" not in asked.stderr
    with connect(data / "older") as client, pytest.raises(StoreOlder):
        client.query("patterns")


def test_findings_tell_how_each_holder_works_and_why_that_is_unknown(data: Path) -> None:
    with fill(data / "patterns") as store:
        row = {"kind": "saturated", "window_from_ms": END_MS - 3_600_000, "window_to_ms": END_MS}
        seen = {"coverage_ratio": 1.0, "active_ratio": 0.9, "runs": 2, "run_longest_minutes": 400}
        why = {"kind": "unknown", "reason": "only 76% were measured"}
        video = {**seen, "utilization_active_mean_ratio": 0.0, "on_engines": True}
        encodes = {**row, "kind": "steady", "job": "pod:lm/x", "evidence": video}
        found = [{**row, "job": "slurm:1", "evidence": seen}, encodes, {**row, **why, "job": "slurm:3"}]
        store.write_judgement(Judgement(patterns=found), END_MS)
    shown = verb("findings", "--patterns", data=data / "patterns").stdout
    assert "shell: only 76% were measured" in shown
    assert [line.split()[:6] for line in shown.splitlines() if line.startswith("ana")] == [
        ["ana", "fit", "saturated", "100%", "90%", text.NOTHING]
    ]
    (encoder,) = (line for line in shown.splitlines() if "steady" in line)
    assert "video" in encoder and "0%" not in encoder.replace("100%", "").replace("90%", "")
    assert "video: worked on video engines" in shown
    rows = json.loads(verb("findings", "--patterns", "--json", data=data / "patterns").stdout)
    assert [(each["job"], each["kind"]) for each in rows] == [
        ("pod:lm/x", "steady"),
        ("slurm:1", "saturated"),
        ("slurm:3", "unknown"),
    ]
    assert verb("findings", "--patterns", "--unknown", data=data).returncode == 2


def test_a_store_whose_patterns_had_no_reason_yet_says_so_plainly(data: Path) -> None:
    with fill(data / "middle") as store, store.reader() as connection:
        connection.execute("ALTER TABLE patterns DROP COLUMN reason")
    asked = verb("findings", "--patterns", data=data / "middle")
    assert (asked.returncode, "older Fallow wrote this store" in asked.stderr) == (2, True), asked.stderr
