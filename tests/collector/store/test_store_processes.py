"""Processes: told once, learnt more of later (own_processes says whose), the same after a restart."""

from dataclasses import replace
from pathlib import Path

from collector.model import (
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
    ProcessType,
)
from collector.reading import Reading, Tick
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, gpu, held, sample, uuid
from tests.stores import open_store

KEY = ProcessKey(node=NodeName("n0"), pid=4242, started_ms=T0 - 5_000)
FIRST = Process(key=KEY, user="ada", command="python train.py", environment=(("SLURM_JOB_ID", "7"),))
LATER = replace(FIRST, frameworks=("torch", "jax"), pod="p", unreadable=("maps: denied",), command=None)
SEEN = "SELECT user_name, command, frameworks, pod, environment['SLURM_JOB_ID'], unreadable FROM processes"


def with_processes(n: int, processes: tuple[Process, ...] | None, **changes: object) -> Tick:
    at = T0 + n * TICK_MS
    did = ProcessSample(uuid=uuid(0), key=KEY, at_ms=at, width_ms=TICK_MS, **changes)  # type: ignore[arg-type]
    reading = Reading(
        source="test",
        at_ms=at,
        gpus=(gpu(0),),
        samples=(sample(0, at),),
        processes=processes,
        process_samples=(did,),
    )
    return Tick(at_ms=at, width_ms=TICK_MS, outcomes=(reading,))


def test_what_is_learnt_of_a_process_later_is_added_to_what_was_known(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(with_processes(1, (FIRST,)))
        store.write_tick(with_processes(2, (LATER,)))
        known = ("ada", "python train.py", ["torch", "jax"], "p", "7", ["maps: denied"])
        assert ask(store, SEEN) == [known]
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(with_processes(3, (FIRST,)))
        assert ask(store, SEEN) == [known]
        assert ask(store, "SELECT count(*), count(DISTINCT process_id) FROM process_samples") == [(3, 1)]


def test_a_process_nobody_described_is_known_by_its_key(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(
            with_processes(1, None, sm_ratio=0.25, memory_used_bytes=None, type=ProcessType.BOTH)
        )
        assert ask(store, "SELECT node, pid, epoch_ms(started_at), user_name FROM processes") == [
            ("n0", 4242, T0 - 5_000, None)
        ]
        did = ask(store, "SELECT process_type, memory_used_bytes, sm_e4 FROM process_samples")
        assert did == [("both", None, 2500)]


OWNED = "SELECT h.job FROM processes LEFT JOIN holders AS h USING (holder_id)"


def owned(n: int, job: str) -> Tick:
    tick = with_processes(n, (FIRST,))
    claims = (held(0, job), held(0, "other"))
    return replace(tick, allocations=claims, owners=((KEY, claims[0].holder.job),))


def test_whose_a_process_is_stands_beside_it_and_follows_the_newest_word(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(with_processes(1, (FIRST,)))
        assert ask(store, OWNED) == [(None,)]
        store.write_tick(owned(2, "a"))
        assert ask(store, OWNED) == [(held(0, "a").holder.job,)]
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(owned(3, "b"))
        assert ask(store, OWNED) == [(held(0, "b").holder.job,)]


def test_an_owner_known_before_its_process_is_noted_with_it(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        early = owned(1, "a")
        store.write_tick(replace(early, outcomes=()))
        assert ask(store, OWNED) == []
        store.write_tick(owned(2, "a"))
        assert ask(store, OWNED) == [(held(0, "a").holder.job,)]
