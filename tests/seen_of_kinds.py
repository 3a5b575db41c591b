"""``python -m tests.seen_of_kinds FOLDER KIND``: what all doors show of a finding and an alert of this kind.

One GPU for three hours, on which a job has nine processes; it is judged at the end, and its owner is told.
``tests/test_kinds_added.py`` has it run in a copy of the repository that knows a kind more.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import collector
from advisor.state.model import Use
from analytics.assess import assess, finding_rows
from analytics.model import Analysis, FindingKind
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
)
from collector.store.database import Store, open_store
from collector.store.judgements import Judgement
from service.alerts.lifecycle import Docket, Watch, follow
from service.alerts.messages import letters_of
from service.alerts.model import Patience
from service.alerts.rules import sight
from service.alerts.store import AlertStore
from service.charts.theme import palette
from service.cli import main
from service.client import connect
from service.config.alerting import AlertsConfig
from service.config.telling import DeliveryConfig
from service.pages.parts import open_alerts
from service.pages.parts.widgets import kind_label, tag_of_kind
from service.reports.build import Wanted, make
from service.reports.model import ReportKind, Span
from service.reports.render import plain
from service.server.finding_metrics import finding_metrics
from tests.service.alerts import alert_parts as parts

MINUTE_MS, PROCESSES = 60_000, 9
FROM, TO = datetime(2026, 11, 1, 12, tzinfo=UTC), datetime(2026, 11, 1, 15, tzinfo=UTC)
FROM_MS, TO_MS = (round(each.timestamp() * 1000) for each in (FROM, TO))
GPU = Gpu(uuid=GpuUuid("GPU-a"), node=NodeName("n1"), index=0, model="H100", memory_total_bytes=80 << 30)
JOB = Holder(job=JobId("slurm:1"), user="ann", project="vision", name="fit", kind=JobKind.BATCH)
SINCE = ["--since", "2026-11-01T12:00", "--until", "2026-11-02T12:00"]


class Then:
    """A clock that stands at the end."""

    def now_ms(self) -> int:
        return TO_MS + 1000

    def monotonic_ms(self) -> int:
        return TO_MS + 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits")


class Scene:
    """What the page of findings draws its tables by."""

    zone = UTC

    def when(self, at: datetime) -> str:
        return f"{at:%H:%M}"


def fill(store: Store) -> Analysis:
    """Measured, judged, and kept."""
    allocation = Allocation(uuid=GPU.uuid, holder=JOB, source=ClaimSource.SLURM)
    held = HeldInterval(allocation=allocation, from_ms=FROM_MS, to_ms=None)
    samples = to_table(_samples())
    store.write_history(History(source="hand", gpus=(GPU,), samples=samples, held=(held,)))
    with store.reader() as connection:
        analysis = assess(connection, TO_MS, Thresholds(), tick_ms=MINUTE_MS)
    store.write_judgement(Judgement(findings=list(finding_rows(analysis))), TO_MS)
    return analysis


def _samples() -> Iterator[GpuSample]:
    for at_ms in range(FROM_MS + MINUTE_MS, TO_MS + 3 * MINUTE_MS + 1, MINUTE_MS):
        yield GpuSample(
            uuid=GPU.uuid,
            at_ms=at_ms,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.6,
            gpu_utilization_ratio=0.9,
            sm_active_ratio=0.6,
            memory_used_bytes=30 << 30,
            power_mw=400_000,
            process_count=PROCESSES,
        )


def told(store: Store, kind: FindingKind) -> list[str]:
    """Have the alerts look at such a finding; the texts of what goes out."""
    config = AlertsConfig(to=("ops",), opens_after_s=0, dashboard_url="http://fallow")
    delivery = DeliveryConfig(people={"ann": "ops"}, routes={"ops": ("json://h",)})
    at_once = Patience(opens_after_ms=0, closes_after_ms=0, quiet_ms=0)
    job = parts.job(idle_since_ms=None, use=Use.ACTIVE)
    look = sight(parts.facts(parts.state(job), parts.finding(kind)), config, ())
    _, changes = follow(Docket(), Watch(), look, at_once)
    letters = [
        letter for change in changes for letter in letters_of(change, look.at_ms, (config, delivery), (), {})
    ]
    AlertStore(store).keep(changes, letters, look.at_ms)
    return [f"{letter.receiver.id}: {letter.title}\n{letter.text}" for letter in letters]


def printed(*words: str) -> str:
    """What the command line prints."""
    with redirect_stdout(StringIO()) as out:
        assert main(list(words)) == 0
    return out.getvalue()


def seen(folder: Path, kind: FindingKind) -> dict[str, object]:
    """Everything that is shown, by door."""
    with open_store(folder / "fallow.duckdb") as store:
        analysis, messages = fill(store), told(store, kind)
        metrics = finding_metrics(store, Then())().decode()
    reports = {}
    with connect(folder) as client:
        span = Span(start=FROM, end=TO)
        for report, user in ((ReportKind.MY_WEEK, "ann"), (ReportKind.CLUSTER_WEEK, None)):
            wanted = Wanted(kind=report, span=span, user=user)
            reports[report.value] = json.dumps(plain(make(client, wanted, TO)))
        rows = client.query("findings", from_ts=FROM, to_ts=TO)
        cases = client.query("alerts", from_ts=FROM, to_ts=parts.NOW_MS + MINUTE_MS)
    return {
        "from": collector.__file__,
        "judged": [finding.kind.value for finding in analysis.findings],
        "cli": printed("findings", "--data", str(folder), *SINCE),
        "cli alerts": printed("alerts", "--data", str(folder), *SINCE),
        "cli reference": printed("config", "--reference"),
        "page": [
            [kind_label(each), tag_of_kind(each, kind_label(each), palette(None))] for each in rows["kind"]
        ],
        "page alerts": open_alerts.table(cases, Scene()).to_json(),  # type: ignore[arg-type]
        "reports": reports,
        "metrics": [line for line in metrics.splitlines() if f'"{kind.value}"' in line],
        "messages": messages,
    }


if __name__ == "__main__":
    json.dump(seen(Path(sys.argv[1]), FindingKind(sys.argv[2])), sys.stdout)
