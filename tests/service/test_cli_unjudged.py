"""``fallow findings`` on what was not judged: a line, the list, and a store from before it was kept."""

import json
from pathlib import Path

import pytest

from service.cli.verb_findings import not_judged
from service.client import connect
from service.client.errors import StoreOlder
from tests.analytics.world import B0, END_MS, fill
from tests.service.test_cli_verbs import fallow

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
        store.write_unjudged([ROW], END_MS)
    return tmp_path


def test_a_gpu_with_two_reasons_is_counted_once() -> None:
    rows = [{"uuid": "g", "verdict": "unknown", "reason": reason} for reason in ("a", "b")]
    assert not_judged(rows) == "not judged: 1 GPU (a: 1; b: 1); see --unknown"
    assert not_judged([]) == "not judged: nothing"


def test_findings_tell_what_was_not_judged(data: Path) -> None:
    shown = fallow("findings", data=data).stdout
    assert "not judged: 1 GPU (only 60% of the last 30 min were measured: 1)" in " ".join(shown.split())
    listed = fallow("findings", "--unknown", data=data).stdout
    assert "unknown" in listed and "for held-idle" in listed
    (row,) = json.loads(fallow("findings", "--unknown", "--json", data=data).stdout)
    assert (row["uuid"], row["reason"], row["kinds"]) == (B0, ROW["reason"], "held-idle")


def test_a_store_from_before_says_so_plainly(data: Path) -> None:
    with fill(data / "older") as store, store.reader() as connection:
        connection.execute("DROP TABLE unjudged")
        connection.execute("DROP TABLE patterns")
    done = fallow("findings", data=data / "older")
    assert (done.returncode, "older Fallow" in done.stdout) == (0, True)
    asked = fallow("findings", "--unknown", data=data / "older")
    assert asked.returncode == 2
    assert "older Fallow wrote this store" in asked.stderr and "Traceback" not in asked.stderr
    with connect(data / "older") as client, pytest.raises(StoreOlder):
        client.query("patterns")
