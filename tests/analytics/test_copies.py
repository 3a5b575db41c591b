"""Memory that is read or written while nothing computes: copies are work, and no computing.

Six hours in rows of half a minute, counted on paper before the rule was made:

=======  ==============================================  =====================================================
job      its GPU                                         by hand, in GPU-hours
=======  ==============================================  =====================================================
stages   1 h of 50%, then memory read 30%, SMs at 0      used 0.5, low saturation 5.0 (copied 5.0), idle 0
copies   memory read 30% for six hours                   used 0, low saturation 6.0 (copied 6.0), idle 0
rests    1 h of 50%, then memory at 1%: a reading        used 0.5, idle 5.0
unseen   1 h of 50%, its memory's traffic not measured   used 0.5, idle 5.0
cycles   no controller; DRAM active 20% for six hours    low saturation 6.0 (copied 6.0), idle 0
stopped  memory read 30% for three hours, then nothing   low saturation 3.0 (copied 3.0), idle 3.0
=======  ==============================================  =====================================================
"""

from collections.abc import Callable, Iterator

import pytest

from analytics.assess import assess
from analytics.job_verdict import verdict
from analytics.model import FindingKind
from analytics.query import Connection, run
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
from tests.stores import open_store

BIN_MS, HOUR_MS = 30_000, 3_600_000
START_MS = 1_793_145_600_000 // HOUR_MS * HOUR_MS
END_MS = START_MS + 6 * HOUR_MS
GIB = 1 << 30
ALL = {"from_ts": START_MS, "to_ts": END_MS}
Levels = tuple[float, float | None, float | None]
"""Of a row: SM active and GPU utilization, the memory controller's time, the memory's active cycles."""


def worked_first(rest: Levels) -> Callable[[int], Levels]:
    return lambda n: (0.5, 0.2, None) if n < 120 else rest


PEOPLE: dict[str, Callable[[int], Levels]] = {
    "stages": worked_first((0.0, 0.3, None)),
    "copies": lambda n: (0.0, 0.3, None),
    "rests": worked_first((0.0, 0.01, None)),
    "unseen": lambda n: (0.5 if n < 120 else 0.0, None, None),
    "cycles": lambda n: (0.0, None, 0.2),
    "stopped": lambda n: (0.0, 0.3 if n < 360 else 0.0, None),
}
LOW = {"stages": 5.0, "copies": 6.0, "rests": 0.0, "unseen": 0.0, "cycles": 6.0, "stopped": 3.0}
IDLE = {"stages": 0.0, "copies": 0.0, "rests": 5.0, "unseen": 5.0, "cycles": 0.0, "stopped": 3.0}


def rows(name: str, levels: Callable[[int], Levels]) -> Iterator[GpuSample]:
    for n in range((END_MS - START_MS) // BIN_MS + 4):  # two minutes more, so that the last hour is rolled up
        sm, controller, dram = levels(n)
        yield GpuSample(
            uuid=GpuUuid(name),
            at_ms=START_MS + (n + 1) * BIN_MS,
            width_ms=BIN_MS,
            rung=Basis.SM_ACTIVE,
            utilization_ratio=sm,
            sm_active_ratio=sm,
            gpu_utilization_ratio=sm,
            memory_controller_ratio=controller,
            dram_active_ratio=dram,
            memory_used_bytes=20 * GIB,
            process_count=1,
        )


def history() -> History:
    gpus = tuple(
        Gpu(uuid=GpuUuid(name), node=NodeName("n"), index=n, memory_total_bytes=80 * GIB)
        for n, name in enumerate(PEOPLE)
    )
    holds = tuple(
        HeldInterval(
            allocation=Allocation(
                uuid=GpuUuid(name),
                holder=Holder(job=JobId(name), user=name, kind=JobKind.BATCH),
                source=ClaimSource.SLURM,
            ),
            from_ms=START_MS,
            to_ms=None,
        )
        for name in PEOPLE
    )
    samples = sorted(
        (each for name, levels in PEOPLE.items() for each in rows(name, levels)), key=lambda each: each.at_ms
    )
    return History(source="file", gpus=gpus, samples=to_table(samples), held=holds)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with open_store(tmp_path_factory.mktemp("copies") / "fallow.duckdb") as store:
        store.write_history(history())
        with store.reader() as reader:
            yield reader


def test_the_ledger_has_the_hours_that_were_counted_by_hand(ask: Connection) -> None:
    told = {row["key"]: row for row in run(ask, "ledger_by_job", ALL).to_pylist()}
    assert {job: round(told[job]["low_saturation_gpu_hours"], 6) for job in PEOPLE} == LOW
    assert {job: round(told[job]["wasted_gpu_hours"], 6) for job in PEOPLE} == IDLE
    assert told["stages"]["used_gpu_hours"] == pytest.approx(0.5)
    assert told["copies"]["used_gpu_hours"] == 0.0


@pytest.mark.parametrize("level", ["1m", "1h"])
def test_copies_are_kept_apart_in_minutes_and_hours(ask: Connection, level: str) -> None:
    found = ask.execute(
        f"SELECT uuid, sum(copied_ms) / 3600000, bool_and(copied_ms <= faint_ms) "
        f"FROM rollup_{level} JOIN gpus USING (gpu_id) WHERE ts < epoch_ms(?::BIGINT) GROUP BY uuid",
        [END_MS],
    ).fetchall()
    assert {uuid: hours for uuid, hours, _ in found} == LOW
    assert all(is_part for *_, is_part in found)


def test_nobody_who_copies_is_told_to_be_idle_and_who_has_stopped_is(ask: Connection) -> None:
    # Six hours after its start nothing more is forgiven: ten minutes before, who has only copied may prepare.
    found = assess(ask, END_MS - 600_000, Thresholds(), tick_ms=BIN_MS).findings
    kinds = {str(each.uuid): each.kind for each in found}
    assert kinds == {
        "copies": FindingKind.RARELY_USED,
        "cycles": FindingKind.RARELY_USED,
        "rests": FindingKind.HELD_IDLE,
        "unseen": FindingKind.HELD_IDLE,
        "stopped": FindingKind.NOT_STARTED,
    }
    sentences = {str(each.uuid): each.sentence for each in found}
    assert sentences["copies"] == (
        "copies (job copies) computes nothing on GPU 1 of n, whose memory was read or written 30% of the "
        "time over the last 1 h: copies, or the reads of another GPU. It is in use, and a share of a GPU or "
        "a run without a GPU would do."
    )


def test_a_jobs_verdict_says_that_it_copied(ask: Connection) -> None:
    told = {row["job"]: verdict(row) for row in run(ask, "jobs", ALL).to_pylist()}
    assert told["copies"] == "copied, and did not compute"
    assert told["stages"] == "worked; copied, and did not compute, for 83% of its time"
    assert told["stopped"] == "idle for 50% of its time"
    assert told["rests"] == "idle for 83% of its time"


def test_now_it_copies_and_is_not_idle(ask: Connection) -> None:
    now = {row["uuid"]: (row["state"], row["copies_ratio"]) for row in run(ask, "gpus_now", {}).to_pylist()}
    assert now["copies"] == ("low-saturation", pytest.approx(0.3))
    assert now["cycles"] == ("low-saturation", pytest.approx(0.2))
    assert now["rests"] == ("held-idle", None) and now["unseen"] == ("held-idle", None)
    assert now["stopped"] == ("held-idle", None)
