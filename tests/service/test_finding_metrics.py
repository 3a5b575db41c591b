"""Findings by kind on ``/metrics``: bounded labels, hours that count once, nothing that is not known."""

from pathlib import Path

import pytest

from analytics.model import FindingKind
from analytics.query import run
from collector.store.judgements import Judgement
from service.server.finding_metrics import KEPT_MS, LATE_MS, Judged, finding_exposition, finding_metrics
from tests.service import one_sum_world as world
from tests.service.alerts.test_alerts_desk import Hands
from tests.stores import open_store

END_S = world.END_MS / 1000


def values(page: bytes) -> dict[str, float]:
    lines = (line for line in page.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_an_hour_counts_once_in_a_kind_and_a_finding_of_a_job_has_all_its_gpus(tmp_path: Path) -> None:
    with open_store(world.fill(tmp_path) / "fallow.duckdb") as store, store.reader() as reader:
        rows = run(reader, "findings_by_kind", {"from_ts": world.NOON, "to_ts": world.END}).to_pylist()
    found = {row["kind"]: (row["findings"], row["gpus"], row["wasted_gpu_hours"]) for row in rows}
    assert found == {
        "held-idle": (2, 2, pytest.approx(4.0)),
        "low-saturation": (1, 1, pytest.approx(2.0)),
        "uses-part": (1, 2, pytest.approx(4.0)),
    }


def test_each_kind_is_told_with_no_label_but_its_name_and_zero_where_nothing_is_open(tmp_path: Path) -> None:
    with open_store(world.fill(tmp_path) / "fallow.duckdb") as store:
        clock = Hands(at_ms=world.END_MS - 1)
        page = finding_metrics(store, clock)
        told = values(page())
        assert told["fallow_judged_timestamp_seconds"] == END_S
        assert told['fallow_findings{kind="held-idle"}'] == 2
        assert told['fallow_findings_gpus{kind="uses-part"}'] == 2
        assert told['fallow_findings_wasted_gpu_seconds{kind="uses-part"}'] == pytest.approx(4.0 * 3600)
        assert 'fallow_findings_wasted_gpu_seconds{kind="intruder"}' not in told
        for kind in FindingKind:
            assert told[f'fallow_findings{{kind="{kind.value}"}}'] >= 0
        assert len(told) <= 1 + 3 * len(FindingKind)
        store.write_judgement(Judgement(), world.END_MS + 1)
        assert values(page()) == told, "within a minute nobody asks the store again"
        clock.at_ms += KEPT_MS
        assert values(page())['fallow_findings{kind="held-idle"}'] == 0


def test_what_was_not_judged_or_not_lately_is_not_told(tmp_path: Path) -> None:
    with open_store(tmp_path / "fallow.duckdb") as store:
        assert finding_metrics(store, Hands())() == b""
    judged = Judged(at_ms=0, rows=({"kind": "held-idle", "findings": 1, "gpus": 1, "wasted_gpu_hours": 1.0},))
    assert 'kind="held-idle"' in finding_exposition(judged, LATE_MS).decode()
    assert list(values(finding_exposition(judged, LATE_MS + 1))) == ["fallow_judged_timestamp_seconds"]
