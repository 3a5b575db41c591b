"""The patterns and what was not judged, from the hand-made world through the store to the named queries."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.assess import assess, pattern_rows, unjudged_rows
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.store.database import Store
from collector.store.judgements import Judgement
from tests.analytics.world import A0, B0, END_MS, MINUTE_MS, fill

T = Thresholds(start_limit_s=1800)
END = datetime.fromtimestamp(END_MS / 1000, UTC).replace(tzinfo=None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fill(tmp_path) as world:
        with world.reader() as reader:
            # A terminal that has never computed has two hours; the world's has had it for one.
            analysis = assess(reader, END_MS, T, MINUTE_MS)
        judgement = Judgement(patterns=pattern_rows(analysis, T), unjudged=unjudged_rows(analysis))
        world.write_judgement(judgement, END_MS)
        yield world


def asked(store: Store, name: str, **params: object) -> list[dict[str, object]]:
    with store.reader() as reader:
        return run(reader, name, params).to_pylist()


def test_patterns(store: Store) -> None:
    rows = {row["job"]: row for row in asked(store, "patterns")}
    fit = rows["slurm:1"]
    assert (fit["kind"], fit["as_of"]) == ("unclear", END), "an hour of work, and 62 minutes of silence since"
    numbers = json.loads(str(fit["evidence"]))
    assert (numbers["runs"], numbers["run_longest_minutes"]) == (1, 60)
    assert numbers["active_ratio"] == pytest.approx(60 / 122)  # rolled up until 14:02
    assert numbers["utilization_active_mean_ratio"] == pytest.approx(0.8)
    assert (numbers["coverage_ratio"], fit["reason"]) == (1.0, None)
    shell = rows["slurm:3"]
    assert (shell["kind"], shell["reason"]) == (
        "unknown",
        "only 75.8% of the 1 h 2 min of GPU time it held were measured",
    )


def test_patterns_are_filtered_by_holder_and_by_hardware(store: Store) -> None:
    assert {row["job"] for row in asked(store, "patterns", node="b")} == {"slurm:3"}
    assert {row["user_name"] for row in asked(store, "patterns", user="ana")} == {"ana"}
    assert asked(store, "patterns", project="nobody's") == []


def test_unjudged(store: Store) -> None:
    (row,) = asked(store, "unjudged")
    assert (row["uuid"], row["verdict"], row["kinds"]) == (B0, "unknown", "allocated-empty")
    assert row["reason"] == "only 60% of the last 30 min were measured"
    assert row["held_by"] == "slurm:3"
    assert asked(store, "unjudged", node="a") == []


def test_each_writing_replaces_what_was_said_before(store: Store) -> None:
    starting = {"uuid": A0, "job": "slurm:1", "verdict": "starting", "kinds": [], "reason": "starting up"}
    store.write_judgement(Judgement(unjudged=[starting]), END_MS + MINUTE_MS)
    (row,) = asked(store, "unjudged", user="ana")
    assert (row["verdict"], row["job"], row["as_of"]) == ("starting", "slurm:1", END + timedelta(minutes=1))
    assert asked(store, "patterns") == []


def test_a_gpu_or_job_that_is_not_known_changes_nothing(store: Store) -> None:
    before = asked(store, "unjudged"), asked(store, "patterns")
    with pytest.raises(KeyError):
        row = {"uuid": "GPU-x", "verdict": "unknown", "kinds": [], "reason": "r"}
        store.write_judgement(Judgement(unjudged=[row]), END_MS)
    with pytest.raises(KeyError):
        row = {"job": "slurm:x", "kind": "steady", "window_from_ms": 0, "window_to_ms": 1}
        store.write_judgement(Judgement(patterns=[row]), END_MS)
    assert (asked(store, "unjudged"), asked(store, "patterns")) == before
