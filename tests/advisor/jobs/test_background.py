"""A background job's entry and stay: no lease, back to its queue, and figures that come both or not at all.

Statements: put_harvest, expire_harvests.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.jobs import lifecycle
from advisor.jobs.background import memory_seen, must_leave, open_gaps, stay_of
from advisor.jobs.harvest_store import HarvestStore
from advisor.jobs.lifecycle import Unable, leased, silent, submitted, with_command, with_report
from advisor.jobs.model import (
    CancelCommand,
    Elasticity,
    IdleGapCounts,
    JobRecord,
    JobState,
    PauseCommand,
    Report,
    RequeueCommand,
    StartCommand,
)
from advisor.state.model import ActionClass, ClusterState, Gpu, IdleGaps, Job, ProjectName
from collector.model import GpuUuid, JobId, NodeName
from collector.store.statements import statement
from tests.advisor.jobs.job_store_world import LAUNCHER, submission
from tests.stores import open_store

GIB = 1 << 30
GPU, FRONT, SWEEP = GpuUuid("GPU-0"), JobId("fallow:1"), JobId("fallow:2")
START = StartCommand(number=1, gpus=(GPU,), beside=FRONT, page="/dev/shm/page")


def counts(**changes: object) -> IdleGapCounts:
    return replace(IdleGapCounts(gpu=GPU, page="/dev/shm/page", steps=200), **changes)  # type: ignore[arg-type]


def report(state: JobState, number: int, **changes: object) -> Report:
    made = Report(at_ms=0, launcher=LAUNCHER, state=state, acknowledged=number)
    return replace(made, **changes)  # type: ignore[arg-type]


def waiting() -> JobRecord:
    wanted = submission(background=True, mobility=Elasticity.RIGID, max_gpus=1, memory_bytes=4 * GIB)
    return submitted(SWEEP, wanted, 0)


def there(steps: int = 50, work_s: float | None = 0.1) -> JobRecord:
    """It computes, and says what it has done."""
    told = report(JobState.RUNNING, 1, idle_gaps=(counts(steps=steps, work_s=work_s),))
    return with_report(with_command(waiting(), START, 5), told, 10)


def front(ratio: float | None = 1.01, **changes: object) -> JobRecord:
    told = report(JobState.RUNNING, 0, idle_gaps=(counts(slowdown_ratio=ratio, alone_s=0.2, gaps_s=0.1),))
    made = JobRecord(id=FRONT, submission=submission(), state=JobState.RUNNING, gpus=(GPU,), report=told)
    return replace(made, **changes)  # type: ignore[arg-type]


def seen(**changes: object) -> ClusterState:
    gaps = {GPU: IdleGaps(page="/dev/shm/page", steps=200)}
    host = Job(id=FRONT, project=ProjectName("vision"), user="anna", memory_bytes=GIB, idle_gaps=gaps)
    host = replace(host, **changes)  # type: ignore[arg-type]
    guest = Job(id=SWEEP, project=ProjectName("vision"), user="anna", memory_bytes=4 * GIB)
    gpu = Gpu(uuid=GPU, node=NodeName("here"), memory_bytes=80 * GIB)
    return ClusterState(as_of_ms=0, gpus={GPU: gpu}, jobs={FRONT: host}, background={SWEEP: guest})


def test_it_holds_no_lease_and_goes_back_to_its_queue_though_it_is_rigid() -> None:
    entry = there()
    assert entry.state is JobState.RUNNING and not leased(entry) and entry.beside == FRONT
    assert lifecycle.attained_gpu_s(entry, 10_000_000) == 0
    left = with_report(with_command(entry, RequeueCommand(number=2), 20), report(JobState.PENDING, 2), 30)
    assert left.state is JobState.PENDING and left.beside is None and left.beside_gpu is None
    with pytest.raises(Unable, match="no GPUs of its own"):
        with_command(entry, PauseCommand(number=2), 20)
    with pytest.raises(Unable, match="others' idle gaps"):
        with_command(waiting(), replace(START, beside=None), 5)
    with pytest.raises(Unable, match="no other job"):
        with_command(submitted(FRONT, submission(), 0), START, 5)


def test_its_end_is_awaited_as_others_are_while_something_of_it_may_live() -> None:
    assert with_command(there(), CancelCommand(number=2), 20).state is JobState.RUNNING
    lost = silent(there(), 20, "its launcher is gone")
    assert lost.state is JobState.RUNNING and lifecycle.vacated(lost, 30).state is JobState.ENDED


def test_gates_are_open_only_while_all_of_it_holds() -> None:
    entry = there()
    assert open_gaps(front(), [entry]).gpus == (GPU,)
    shut = [
        (front(alone=True), entry),
        (front(gpus=()), entry),
        (front(state=JobState.ENDED), entry),
        (front(), waiting()),
        (front(), with_command(entry, RequeueCommand(number=2), 20)),
        (front(), silent(entry, 20, "gone")),
        (silent(front(), 20, "gone"), entry),
    ]
    assert [open_gaps(host, [guest]).gpus for host, guest in shut] == [()] * len(shut)


def test_another_account_reads_the_page_of_the_gpu_that_it_is_sent_to() -> None:
    assert open_gaps(front(), [there()]).readers == (), "an account reads its own pages"
    guest = there()
    bobs = replace(guest, submission=replace(guest.submission, user="bob"))
    assert open_gaps(front(), [bobs]).readers == ((GPU, "bob"),)
    assert open_gaps(front(alone=True), [bobs]).readers == ()


def test_who_is_there_leaves_when_one_of_two_owners_no_longer_shares() -> None:
    def why(host: bool, guest: bool) -> str:
        state = seen(may_share=host)
        bobs = replace(state.background[SWEEP], user="bob", may_share=guest)
        state = replace(state, background={SWEEP: bobs})
        return must_leave(there(), {FRONT: front(), SWEEP: there()}, state, {}) or ""

    assert why(True, True) == ""
    assert f"anna has not let {FRONT} share" in why(False, True)
    assert f"bob has not let {SWEEP} share" in why(True, False)


def test_a_background_job_that_counts_more_than_its_time_is_not_believed() -> None:
    told = there(steps=1000, work_s=3600.0)
    stay = stay_of(told, {FRONT: front(), SWEEP: told}, (told.started_ms or 0) + 60_000)
    assert stay is not None and stay.harvested_gpu_s == pytest.approx(60.0)


def test_who_has_to_leave_and_why() -> None:
    def why(host: JobRecord | None, state: ClusterState, held: dict[JobId, dict[GpuUuid, int]]) -> str | None:
        entry = there()
        known = {SWEEP: entry} if host is None else {FRONT: host, SWEEP: entry}
        return must_leave(entry, known, state, held)

    assert why(front(), seen(), {}) is None
    assert why(None, seen(), {}) == f"{FRONT} has ended"
    assert why(silent(front(), 20, "gone"), seen(), {}) == f"the launcher of {FRONT} is gone"
    assert "left its GPU" in (why(front(gpus=()), seen(), {}) or "")
    assert "wants nobody" in (why(front(alone=True), seen(), {}) or "")
    withdrawn = seen(opted_out=frozenset({ActionClass.BACKGROUND}))
    assert "wants nobody" in (why(front(), withdrawn, {}) or "")
    assert "protects" in (why(front(), seen(protected=True), {}) or "")
    slow = seen(idle_gaps={GPU: IdleGaps(page="/p", steps=1000, slowdown_ratio=1.3)})
    assert "1.30 of its own time" in (why(front(), slow, {}) or "")
    assert "asked for 4 GiB" in (why(front(), seen(), {SWEEP: {GPU: 6 * GIB}}) or "")
    short = {SWEEP: {GPU: 4 * GIB}, FRONT: {GPU: 75 * GIB + GIB // 2}}
    assert "runs short" in (why(front(), seen(), short) or "")


@pytest.mark.parametrize(
    ("used_gib", "leaves"),
    [(78.5, False), (79.0, False), (79.01, True), (80.0, True), (None, False)],
)
def test_a_guest_leaves_while_the_foreground_still_has_memory_whoever_holds_it(
    used_gib: float | None, leaves: bool
) -> None:
    """Of 80 GiB one has to be free. Whose each byte is, is not known of a background job."""
    used = None if used_gib is None else round(used_gib * GIB)
    state = seen()
    state = replace(state, gpus={GPU: replace(state.gpus[GPU], memory_used_bytes=used)})
    why = must_leave(there(), {FRONT: front(), SWEEP: there()}, state, {})
    assert (why is not None) is leaves
    assert why is None or ("memory runs short" in why and "80 GiB" in why)


def test_what_a_guest_held_where_memory_ran_short_is_what_it_needs_from_then_on() -> None:
    """79.5 of 80 GiB are in use, 20 of them the foreground's."""
    entry, state = there(), seen()
    entries = {FRONT: front(), SWEEP: entry}
    short = replace(state, gpus={GPU: replace(state.gpus[GPU], memory_used_bytes=79 * GIB + GIB // 2)})
    theirs = {FRONT: {GPU: 20 * GIB}}
    assert memory_seen(entry, entries, short, theirs) == 59 * GIB + GIB // 2
    assert memory_seen(entry, entries, short, {}) is None, "nobody knows what the foreground holds"
    assert memory_seen(entry, entries, state, theirs) is None


def test_what_it_gives_and_what_it_costs_are_told_together_or_not_at_all(tmp_path: Path) -> None:
    entries = {FRONT: front(), SWEEP: there()}
    stay = stay_of(there(), entries, 99_999)
    assert stay is not None and stay.harvested_gpu_s == pytest.approx(5.0) and stay.slowdown_ratio == 1.01
    for half in (
        stay_of(there(), {FRONT: front(ratio=None), SWEEP: there()}, 99_999),
        stay_of(there(work_s=None), entries, 99_999),
    ):
        assert half is not None and (half.step_s, half.slowdown_ratio, half.harvested_gpu_s) == (None,) * 3
    with open_store(tmp_path / "store.duckdb") as store:
        book = HarvestStore(store)
        book.put(half)
        book.put(stay)
        assert book.stays() == (stay,), "one row a stay, the newest word"
        with store.writing("a test") as connection:
            connection.execute(statement("expire_harvests"), {"before_ms": 100_000})
        assert book.stays() == ()
