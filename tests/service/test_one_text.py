"""A value reads alike through every door; what is expected is written out by hand."""

import json
from io import StringIO

import pytest
from rich.console import Console

from analytics.findings import judge
from analytics.model import Evidence
from analytics.thresholds import Thresholds
from service.alerts.messages import Turn, text_of
from service.alerts.model import Incident
from service.cli.findings import draw
from service.config.alerting import ReceiverConfig
from service.pages.parts.evidence import told
from service.reports.model import Measure
from service.reports.values import written
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, past, then
from tests.service.alerts.alert_parts import condition

EVIDENCE = {
    "idle_s": 11_400,
    "late_s": 45,
    "gone_s": 100_000,
    "used_ratio": 0.004,
    "memory_bytes": 12.5 * 1024**3,
    "wasted_gpu_hours": 1234.5,
}
SHOWN = {
    "idle": "3 h 10 min",
    "late": "45 s",
    "gone": "1 d 3 h",
    "used": "0.4%",
    "memory": "12.5 GiB",
    "wasted": "1,234 GPU-hours",
}


def test_a_page_writes_evidence_so() -> None:
    assert dict(told(EVIDENCE)) == SHOWN


def test_an_alert_writes_evidence_so() -> None:
    held = tuple(Evidence(name=name, value=value) for name, value in EVIDENCE.items())
    case = Incident(number=1, condition=condition(evidence=held), opened_ms=NOON_MS)
    message = text_of(case, Turn.OPENED, ReceiverConfig())
    assert "; ".join(f"{what} {much}" for what, much in SHOWN.items()) in message


def test_a_finding_writes_a_length_of_time_so() -> None:
    quiet_since_ms = NOON_MS - 11_400_000
    of = claim(10.0, busy_until_ms=quiet_since_ms)
    verdict = judge(past(of, bins=bins(utilization=then((240, 0.0)))), NOON_MS, Thresholds(), TICK_MS)
    (sentence,) = (each.sentence for each in verdict.findings)
    assert "3 h 10 min" in sentence


@pytest.mark.parametrize(
    ("value", "measure", "shown"),
    [
        (0.004, Measure.RATIO, "0.4%"),
        (0.9496, Measure.COVERAGE, "94.9%"),
        (12.5 * 1024**3, Measure.BYTES, "12.5 GiB"),
        (1234.5, Measure.HOURS, "1,234 GPU-hours"),
        (12.5, Measure.MONEY, "12.50 EUR"),
        (12.3, Measure.ENERGY, "12.3 kWh"),
    ],
)
def test_a_report_writes_its_values_so(value: float, measure: Measure, shown: str) -> None:
    assert written(value, measure, "EUR") == shown


def test_the_command_line_writes_its_cells_so() -> None:
    numbers = {
        "coverage_ratio": 0.9496, "active_ratio": 0.004, "runs": 1250, "run_longest_minutes": 190,
        "gap_longest_minutes": 100_000 / 60,
    }  # fmt: skip
    row = {"user_name": "ann", "job": "a", "job_name": None, "kind": "steady", "reason": None}
    out = StringIO()
    Console(width=200, file=out).print(draw([{**row, "evidence": json.dumps(numbers)}]))
    line = out.getvalue().splitlines()[-1].split()
    assert line == ["ann", "a", "steady", "94.9%", "0.4%", "\u2013", "1,250", "3", "h", "27", "h"]
