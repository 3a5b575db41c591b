"""Jobs that had ended before an import, as Prometheus brings them: called what a service would have.

Ten jobs, each labelled by hand before the rule was written. A sample a minute, no processes (an exporter
tells none), GPUs of 80 GiB and 700 W. All ended at 20:00; the records go on until 22:00, with free GPUs.

==========  ========  ===============================================================  ===============
job         GPUs      what it did                                                      is
==========  ========  ===============================================================  ===============
crash       0         18 h: every five minutes 2 GiB are taken for a minute, and       crash-loop
                      nothing is computed
sleep       1         18 h: 20 GiB taken, nothing computed                             sleeping-batch
hang        2         8 h at 60% of its SMs and 400 W; then 10 h of a kernel that      may-hang
                      never ends: 100% GPU utilization, SMs at 1%, 95 W
hog         3         6 h: 72 of 80 GiB, its SMs at 10%, memory controller at 2%.      low-saturation
                      A hog is not known: a server that reserves looks the same
low         4         6 h: its SMs at 12%                                              low-saturation
server      5         18 h: five minutes of each hour at 40%                           rarely-used
part        6 to 9    6 h: the first at 80%, the others hold 4 GiB and do nothing      uses-part
straggler   10 to 13  6 h: kernels run on three all the time, on the last 40% of it    straggler
worked      14        18 h at 85%                                                      nothing
unmeasured  15        6 h of rows with memory and without any utilization              nothing
==========  ========  ===============================================================  ===============
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, to_table
from collector.model import GpuSample, JobKind
from collector.store.database import Store
from service.cli import main
from service.config.file import load
from service.schemas.service import ImportPlan
from service.usecases import imports
from service.usecases.judge import judge_imported, judge_pasts
from tests.collector.store.store_parts import GIB, T0, at_path, held, history, sample
from tests.stores import open_store

pytestmark = pytest.mark.slow

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
BEGIN = T0 // (24 * HOUR_MS) * 24 * HOUR_MS
OVER = BEGIN + 20 * HOUR_MS
END = BEGIN + 22 * HOUR_MS
WINDOW = {"from_ts": BEGIN, "to_ts": END}

JOBS: dict[str, tuple[range, int, JobKind | None]] = {
    "crash": (range(1), 18, JobKind.BATCH),
    "sleep": (range(1, 2), 18, JobKind.BATCH),
    "hang": (range(2, 3), 18, JobKind.BATCH),
    "hog": (range(3, 4), 6, JobKind.BATCH),
    "low": (range(4, 5), 6, JobKind.BATCH),
    "server": (range(5, 6), 18, JobKind.INFERENCE),
    "part": (range(6, 10), 6, JobKind.BATCH),
    "straggler": (range(10, 14), 6, JobKind.BATCH),
    "worked": (range(14, 15), 18, JobKind.BATCH),
    "unmeasured": (range(15, 16), 6, JobKind.BATCH),
}
"""Its GPUs, for how many hours it held them, and what it is."""
CALLED = {
    "crash": {"crash-loop"},
    "sleep": {"sleeping-batch"},
    "hang": {"may-hang"},
    "hog": {"low-saturation"},
    "low": {"low-saturation"},
    "server": {"rarely-used"},
    "part": {"uses-part"},
    "straggler": {"straggler"},
    "worked": set(),
    "unmeasured": set(),
}
VERDICTS = {
    "crash": "crashed and started again and again, and never computed",
    "sleep": "did not compute",
    "hang": "; it may hang, or have hung",
    "low": "filled 12% of its GPUs while it did",
    "part": "used 1 of 4 GPUs",
    "straggler": "worked unevenly: one part of its GPUs may wait for the other",
    "worked": "worked",
    "unmeasured": "not judged: 0% of its time was measured",
}
WORK = {"memory_controller_ratio": 0.3, "memory_used_bytes": 30 * GIB, "power_mw": 400_000}
REST = {"memory_controller_ratio": 0.0, "gpu_utilization_ratio": 0.0, "power_mw": 70_000}


def row(gpu: int, minute: int, at_ms: int) -> GpuSample:
    """What the exporter tells of a GPU in a minute of its job."""

    def of(busy: float | None, **changes: Any) -> GpuSample:
        told = {"width_ms": MINUTE_MS, "process_count": None, **changes}
        return sample(gpu, at_ms, busy, **told)

    if gpu == 0:
        return of(0.0, **REST, memory_used_bytes=2 * GIB if minute % 5 == 0 else 0)
    if gpu == 1:
        return of(0.0, **REST, memory_used_bytes=20 * GIB)
    if gpu == 2:
        spins = {"gpu_utilization_ratio": 1.0, "memory_used_bytes": 30 * GIB, "power_mw": 95_000}
        return of(0.6, **WORK) if minute < 8 * 60 else of(0.01, **spins, memory_controller_ratio=0.0)
    if gpu == 3:
        return of(0.1, memory_used_bytes=72 * GIB, memory_controller_ratio=0.02)
    if gpu == 4:
        return of(0.12, memory_controller_ratio=0.2)
    if gpu == 5:
        return of(0.4, **WORK) if minute % 60 < 5 else of(0.0, **REST, memory_used_bytes=30 * GIB)
    if 6 < gpu < 10:
        return of(0.0, **REST, memory_used_bytes=4 * GIB)
    if gpu == 13:
        return of(0.3, **WORK | {"gpu_utilization_ratio": 0.4})
    if gpu == 15:
        return of(None, memory_used_bytes=4 * GIB)
    return of(0.85 if gpu == 14 else 0.8, **WORK, gpu_utilization_ratio=1.0)


def store_past(store: Store) -> None:
    samples, intervals = [], []
    for job, (gpus, hours, kind) in JOBS.items():
        began = OVER - hours * HOUR_MS
        for gpu in gpus:
            given = held(gpu, job)
            given = replace(given, holder=replace(given.holder, kind=kind))
            intervals.append(HeldInterval(allocation=given, from_ms=began, to_ms=OVER))
            for at_ms in range(BEGIN + MINUTE_MS, END + 1, MINUTE_MS):
                if began < at_ms <= OVER:
                    samples.append(row(gpu, (at_ms - began) // MINUTE_MS - 1, at_ms))
                else:
                    free = {"memory_used_bytes": 0, "process_count": None, "power_mw": 70_000}
                    samples.append(sample(gpu, at_ms, 0.0, width_ms=MINUTE_MS, **free))
    told = history(samples, intervals, source="prometheus")
    limited = tuple(replace(gpu, power_limit_mw=700_000) for gpu in told.gpus)
    store.write_history(replace(told, gpus=limited, samples=to_table(samples)))
    store.note_import("http://prometheus:9090", BEGIN, END, len(samples))


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("past")
    with open_store(at_path(folder)) as store:
        store_past(store)
        config = load(None, {}).config
        assert judge_pasts(config, store) == 1
        judge_imported(config, store)
    yield folder


def found(folder: Path) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = {job: set() for job in JOBS}
    with open_store(at_path(folder)) as store, store.reader() as reader:
        for each in run(reader, "findings", WINDOW).to_pylist():
            kinds[str(each["job"]).removeprefix("slurm:")].add(each["kind"])
            assert each["closed_at"] is not None
    return kinds


def told(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main([*words, "--data", str(folder)])
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("job", JOBS)
def test_an_ended_job_of_an_imported_past_is_called_what_it_was(past: Path, job: str) -> None:
    kinds = found(past)[job]
    assert kinds >= CALLED[job]
    if not CALLED[job]:
        assert not kinds


@pytest.mark.parametrize("job", VERDICTS)
def test_its_verdict_says_so_too(past: Path, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    span = ("--since", "2026-09-21T00:00", "--until", "2026-09-21T22:00")
    assert VERDICTS[job] in told(past, capsys, "job", f"slurm:{job}", *span)


def test_each_door_tells_of_the_crash_loop(past: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From 02:00 to 20:00 are 18 h, all of them empty; it could have been told after six, at 08:00."""
    span = ("--since", "2026-09-21T00:00", "--until", "2026-09-21T22:00")
    assert "crash-loop n0:0 · user-crash" in told(past, capsys, "findings", "--all", *span)
    wasted = told(past, capsys, "waste", *span)
    assert "user-crash 18.0" in wasted and "Crash loop: slurm:crash over" in wasted
    explained = told(past, capsys, "explain", "slurm:crash")
    assert "Found 2026-09-21 08:00: user-crash (job slurm:crash) has held GPU 0 of n0" in explained


def rest_three_hours(store: Store) -> None:
    """A job that did nothing for three hours, and an hour in which nobody had its GPU; imported in two."""
    rows = [
        sample(1, at, 0.0, width_ms=MINUTE_MS, **REST)
        for at in range(BEGIN + MINUTE_MS, BEGIN + 4 * HOUR_MS + 1, MINUTE_MS)
    ]
    whole = HeldInterval(allocation=held(1, "rested"), from_ms=BEGIN, to_ms=BEGIN + 3 * HOUR_MS)
    store.write_history(history(rows, [whole], source="prometheus"))
    store.note_import("http://p", BEGIN, BEGIN + 2 * HOUR_MS, 1)
    store.note_import("http://p", BEGIN + 2 * HOUR_MS, BEGIN + 4 * HOUR_MS, 1)


def test_an_import_that_was_stopped_while_it_judged_is_made_whole_by_a_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(part: float) -> None:
        assert 0 <= part < 1
        raise KeyboardInterrupt

    with open_store(at_path(tmp_path)) as store:
        rest_three_hours(store)
        with pytest.raises(KeyboardInterrupt):
            judge_pasts(load(None, {}).config, store, tell=stop)
        assert closed(store) == []
    nothing_to_read = ImportPlan(origin="http://p", step_ms=MINUTE_MS, todo_ms=0)
    monkeypatch.setattr(imports, "plan", lambda store, order: nothing_to_read)
    span = ("--since", "2026-09-21T00:00", "--until", "2026-09-21T04:00")
    words = ("import", "prometheus", "--url", "http://p", *span)
    assert "nothing to do" in told(tmp_path, capsys, *words)
    with open_store(at_path(tmp_path)) as store:
        assert closed(store) == []
    told(tmp_path, capsys, *words, "--yes")
    with open_store(at_path(tmp_path)) as store:
        assert len(closed(store)) == 1
        assert judge_pasts(load(None, {}).config, store) == 0


def test_a_past_is_judged_once_and_again_when_the_rules_have_changed(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        rest_three_hours(store)
        config = load(None, {}).config
        assert judge_pasts(config, store) == 1  # what adjoins is one past
        (first,) = closed(store)
        assert judge_pasts(config, store) == 0
        assert closed(store) == [first]
        stricter = replace(config, findings=replace(config.findings, start_limit_s=HOUR_MS * 4 // 1000))
        assert judge_pasts(stricter, store) == 1
        assert closed(store) == []


def closed(store: Store) -> list[tuple[str, int, int]]:
    with store.reader() as reader:
        found = run(reader, "findings", {"from_ts": BEGIN, "to_ts": END, "open": False}).to_pylist()
    return [(each["kind"], each["opened_at"].timestamp(), each["closed_at"].timestamp()) for each in found]
