"""A job on four GPUs is told of once, by every door, with each GPU's row below where there is room for it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from advisor.planner.observed import Observed
from analytics.assess import assess
from analytics.model import FindingKind
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
from service.cli import main
from service.client import Client, connect
from service.config.model import Config
from service.pages.parts.finding_messages import messages, wasted_by
from service.reports.build import Wanted, make
from service.reports.model import ReportKind, Span
from service.usecases.judge import judge
from tests.stores import open_store

MINUTE_MS, HOUR_MS, GIB = 60_000, 3_600_000, 1 << 30
END_MS = int(datetime(2026, 11, 2, 20, tzinfo=UTC).timestamp() * 1000)
START_MS = END_MS - 6 * HOUR_MS
JOB, ALONE = JobId("slurm:140"), JobId("slurm:7")
SAME = "The same on 3 more of its GPUs, 15.9 GPU-hours in all."
"""Four GPUs of 239 min each: the newest of the 240 idle minutes is not rolled up yet."""
FLAGS = ["--since", "2026-11-02T14:00", "--until", "2026-11-02T20:00"]
SPAN = Span(start=datetime(2026, 11, 2, 14, tzinfo=UTC), end=datetime(2026, 11, 2, 20, tzinfo=UTC))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported past: pat's four GPUs and ann's one, both busy for two hours and idle for four."""
    gpus = [
        Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NodeName("n"), index=n, memory_total_bytes=80 * GIB)
        for n in range(5)
    ]
    owners = [Holder(job=JOB, user="pat", kind=JobKind.BATCH)] * 4 + [
        Holder(job=ALONE, user="ann", kind=JobKind.BATCH)
    ]
    samples = [
        GpuSample(
            uuid=gpu.uuid,
            at_ms=START_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.5 if minute <= 120 else 0.0,
            memory_used_bytes=40 * GIB,
            process_count=1,
        )
        for gpu in gpus
        for minute in range(1, 361)
    ]
    held = tuple(
        HeldInterval(
            allocation=Allocation(uuid=gpu.uuid, holder=owner, share=1.0, source=ClaimSource.SLURM),
            from_ms=START_MS + 5 * MINUTE_MS,
            to_ms=None,
        )
        for gpu, owner in zip(gpus, owners, strict=True)
    )
    folder = tmp_path_factory.mktemp("one-message")
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(History(source="import", gpus=tuple(gpus), samples=to_table(samples), held=held))
        judge(Config(), store, END_MS)
    return folder


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[Client]:
    with connect(data) as opened:
        yield opened


def said(data: Path, capsys: pytest.CaptureFixture[str], *verb: str) -> str:
    assert main([*verb, "--data", str(data)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_findings_say_it_once_with_the_dearest_first(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(data, capsys, "findings", *FLAGS)
    assert "2 open findings" in shown, "one of each job, not one of each GPU"
    assert shown.count("pat (job") == 1 and "The same on 3 more GPUs: n:1, n:2, n:3." in shown
    assert shown.index("pat (job") < shown.index("ann (job"), "16 GPU-hours before 4"
    assert len(json.loads(said(data, capsys, "findings", *FLAGS, "--json"))) == 5


def test_the_verb_job_says_it_once_above_no_fewer_rows(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(data, capsys, "job", JOB, *FLAGS)
    assert shown.count("pat (job") == 1 and "The same on 3 more GPUs" in shown
    assert shown.count("held-idle") == 5, "each GPU's row, and the message"


def test_explain_says_it_once(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = said(data, capsys, "explain", JOB).partition("Advised")[0]
    assert facts.count("pat (job") == 1 and SAME in facts


def test_advice_is_of_the_job_and_says_so_of_all_its_gpus(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(data, capsys, "advise")
    assert "is idle on 4 GPUs on n" in shown and shown.count("pat (job") == 1
    assert SAME in shown


def test_pages_have_it_once_with_what_all_its_gpus_wasted(client: Client) -> None:
    found = client.query("findings", open=True, from_ts=SPAN.start, to_ts=SPAN.end)
    first, second = messages(found)
    assert [row.job for row in first] == [JOB] * 4 and [row.job for row in second] == [ALONE]
    assert wasted_by(first) == pytest.approx(4 * (wasted_by(second) or 0.0))


def test_reports_have_one_row_a_job(client: Client) -> None:
    report = make(client, Wanted(kind=ReportKind.CLUSTER_WEEK, span=SPAN), made_at=SPAN.end)
    wastes = next(table for table in report.tables if table.name == "wastes")
    assert [(row["job"], row["gpus"], row["kinds"]) for row in wastes.rows] == [
        (JOB, 4, "Held, idle"),
        (ALONE, 1, "Held, idle"),
    ]


def test_what_several_kinds_say_is_a_sentence_each(data: Path) -> None:
    with open_store(data / "fallow.duckdb") as store, store.reader() as connection:
        observed = Observed(analysis=assess(connection, END_MS, Thresholds(), MINUTE_MS))
    (told,) = observed.sentences_of(JOB)
    assert told.endswith(SAME)
    assert observed.sentences_of(JOB, (FindingKind.STRAGGLER,)) == ()
    (alone,) = observed.sentences_of(ALONE)
    assert "The same" not in alone


PARTLY = JobId("slurm:9")


@pytest.fixture(scope="module")
def partly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported past: ida's three GPUs, of which one works well and two have been idle for four hours."""
    gpus = [Gpu(uuid=GpuUuid(f"GPU-p{n}"), node=NodeName("p"), index=n) for n in range(3)]
    owner = Holder(job=PARTLY, user="ida", kind=JobKind.BATCH)
    samples = [
        GpuSample(
            uuid=gpu.uuid,
            at_ms=START_MS + minute * MINUTE_MS,
            width_ms=MINUTE_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=0.8 if place == 0 or minute <= 120 else 0.0,
            process_count=1,
        )
        for place, gpu in enumerate(gpus)
        for minute in range(1, 361)
    ]
    held = tuple(
        HeldInterval(
            allocation=Allocation(uuid=gpu.uuid, holder=owner, share=1.0, source=ClaimSource.SLURM),
            from_ms=START_MS,
            to_ms=None,
        )
        for gpu in gpus
    )
    folder = tmp_path_factory.mktemp("partly")
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(History(source="import", gpus=tuple(gpus), samples=to_table(samples), held=held))
        judge(Config(), store, END_MS)
    return folder


@pytest.mark.slow
def test_what_a_job_does_is_one_message_of_whatever_kinds(
    partly: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(said(partly, capsys, "findings", *FLAGS, "--json"))
    assert sorted(each["kind"] for each in listed) == ["held-idle", "held-idle", "uses-part"]
    for verb in (["findings", *FLAGS], ["job", PARTLY, *FLAGS], ["explain", PARTLY]):
        shown = said(partly, capsys, *verb).partition("Advised")[0]
        assert shown.count("was given 3 GPUs and uses 1 of them") == 1, verb
        assert "its processes have done nothing" not in shown, "the message names each idle GPU"
    shown = said(partly, capsys, "findings", *FLAGS)
    assert "1 open finding" in shown and "· 8.0 GPU-hours wasted" in shown
    with connect(partly) as client:
        (one,) = messages(client.query("findings", open=True, from_ts=SPAN.start, to_ts=SPAN.end))
    assert [each.kind for each in one] == ["uses-part", "held-idle", "held-idle"]
    assert wasted_by(one) == pytest.approx(8.0, abs=0.05)
