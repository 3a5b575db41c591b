"""An id that two people use one after the other is two jobs: hours go to who held at the time."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from collector.arrow import HOLDER_SAMPLE_SCHEMA, HeldInterval
from collector.model import Allocation, ClaimSource, Holder, HolderSample, JobId, NodeName, ProcessKey
from collector.store.runs import Naming, named_intervals, run_of
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, history, sample, tick, uuid
from tests.stores import open_store

HOUR_MS = 3_600_000
TRAIN = JobId("pod:ns/train")
WHO = (
    "SELECT h.job, h.user_name, g.uuid, (epoch_ms(a.from_ts) - ?) / 10000, (epoch_ms(a.to_ts) - ?) / 10000 "
    "FROM allocations a JOIN holders h USING (holder_id) JOIN gpus g USING (gpu_id) ORDER BY a.from_ts"
)


def train(number: int, user: str | None) -> Allocation:
    return Allocation(uuid=uuid(number), holder=Holder(job=TRAIN, user=user), source=ClaimSource.KUBERNETES)


def interval(number: int, user: str | None, from_h: float, to_h: float | None) -> HeldInterval:
    to_ms = None if to_h is None else T0 + round(to_h * HOUR_MS)
    return HeldInterval(allocation=train(number, user), from_ms=T0 + round(from_h * HOUR_MS), to_ms=to_ms)


def again(from_ms: int) -> str:
    return f"{TRAIN}@{from_ms // 1000}"


def test_the_one_person_who_comes_again_has_the_one_job() -> None:
    runs = [(TRAIN, "ann"), (JobId(f"{TRAIN}@9"), "bob")]
    assert run_of(Holder(job=TRAIN, user="ann"), runs, 99_000) == TRAIN
    assert run_of(Holder(job=TRAIN, user="bob"), runs, 99_000) == f"{TRAIN}@9"
    assert run_of(Holder(job=TRAIN, user="eve"), runs, 9_000) == f"{TRAIN}@10", "the id is free"
    assert run_of(Holder(job=TRAIN), runs, 99_000) == f"{TRAIN}@9", "a word without a person is the newest's"
    lease = replace(train(0, "bob"), source=ClaimSource.LEASE)
    assert Naming(lambda _: runs[:1]).named(lease, 0) == lease, "ids that Fallow gives are its own"


def test_who_is_named_late_is_the_same_person() -> None:
    assert run_of(Holder(job=TRAIN, user="ann"), [(TRAIN, None)], 0) == TRAIN


def test_a_past_of_two_people_under_one_id_is_two_jobs_in_whatever_order_it_is_told(tmp_path: Path) -> None:
    held = (interval(1, "bob", 8, 12), interval(0, "ann", 0, 6))
    did = [
        {"uuid": uuid(number), "job": TRAIN, "at_ms": T0 + hour * HOUR_MS, "width_ms": TICK_MS}
        for number, hour in ((0, 3), (1, 9))
    ]
    told = history([sample(0, T0 + TICK_MS), sample(1, T0 + 12 * HOUR_MS)], held)
    told = replace(told, holder_samples=pa.Table.from_pylist(did, schema=HOLDER_SAMPLE_SCHEMA))
    with open_store(at_path(tmp_path)) as store:
        store.write_history(told)
        store.write_history(told)
        rows = ask(store, WHO, T0, T0)
        whose = ask(store, "SELECT user_name, ts FROM holder_samples JOIN holders USING (holder_id)")
    assert [row[:3] for row in rows] == [
        (TRAIN, "ann", uuid(0)),
        (again(T0 + 8 * HOUR_MS), "bob", uuid(1)),
    ]
    assert [user for user, _ in sorted(whose, key=lambda row: row[1])] == ["ann", "bob"]


def test_a_process_of_the_past_is_of_the_run_in_which_it_began() -> None:
    _, several = named_intervals((interval(0, "ann", 0, 6), interval(0, "bob", 8, None)), lambda _: ())
    assert {each.allocation.holder.user for each in several[TRAIN]} == {"ann", "bob"}


def test_live_a_pod_of_another_person_is_another_job_after_a_restart_too(tmp_path: Path) -> None:
    key = ProcessKey(node=NodeName("n"), pid=7, started_ms=T0)
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0, [sample(0, T0)], [train(0, "ann")]))
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS)], []))
        at_ms = T0 + 2 * TICK_MS
        store.write_tick(tick(at_ms, [sample(1, at_ms)], [train(1, "bob")]))
    with open_store(at_path(tmp_path)) as store:
        at_ms = T0 + 3 * TICK_MS
        later = tick(at_ms, [sample(1, at_ms)], [train(1, None)])
        (reading,) = later.outcomes
        own = HolderSample(uuid=uuid(1), job=TRAIN, at_ms=at_ms, width_ms=TICK_MS, gpu_utilization_ratio=0.5)
        store.write_tick(
            replace(later, outcomes=(replace(reading, holder_samples=(own,)),), owners=((key, TRAIN),))
        )
        rows = ask(store, WHO, T0, T0)
        whose = ask(store, "SELECT user_name FROM holder_samples JOIN holders USING (holder_id)")
    assert [row[1:3] for row in rows] == [("ann", uuid(0)), ("bob", uuid(1))]
    assert whose == [("bob",)]


def test_live_another_name_of_who_goes_on_holding_is_a_better_word(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0, [sample(0, T0)], [train(0, "root")]))
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS)], [train(0, "ann")]))
        assert [row[:2] for row in ask(store, WHO, T0, T0)] == [(TRAIN, "ann")]


def test_live_two_people_with_one_id_at_once_have_a_job_each(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        for step in range(3):
            at_ms = T0 + step * TICK_MS
            claims = [train(0, "ann")] + ([train(1, "bob")] if step else [])
            store.write_tick(tick(at_ms, [sample(0, at_ms), sample(1, at_ms)], claims))
        assert [row[1:3] for row in ask(store, WHO, T0, T0)] == [("ann", uuid(0)), ("bob", uuid(1))]
