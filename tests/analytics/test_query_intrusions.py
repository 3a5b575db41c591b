"""From ticks that tell of an intruder to the finding, the named queries and the command line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analytics.assess import assess, finding_rows
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.model import (
    Intrusion,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from collector.store.database import Store
from collector.store.judgements import Judgement
from tests.collector.store.store_parts import GIB, T0, TICK_MS, at_path, gpu, held, sample, uuid
from tests.service.conftest import verb
from tests.stores import open_store

KEY = ProcessKey(node=NodeName("n0"), pid=71, started_ms=T0)
TICKS = 40
END_MS = T0 + TICKS * TICK_MS
WINDOW = {
    "from_ts": datetime.fromtimestamp(T0 / 1000, UTC),
    "to_ts": datetime.fromtimestamp(T0 / 1000, UTC) + timedelta(hours=1),
}


def tick(number: int) -> Tick:
    """ben's process is on GPU 0, which user-a was given; on GPU 1 is user-b alone."""
    at = T0 + number * TICK_MS
    process = Process(key=KEY, user="ben", name="python", command="python mine.py")
    on = ProcessSample(
        uuid=uuid(0), key=KEY, at_ms=at, width_ms=TICK_MS, memory_used_bytes=3 * GIB, sm_ratio=0.25
    )
    reading = Reading(
        source="test",
        at_ms=at,
        gpus=(gpu(0), gpu(1)),
        samples=(sample(0, at), sample(1, at)),
        processes=(process,),
        process_samples=(on,),
    )
    return Tick(
        at_ms=at,
        width_ms=TICK_MS,
        outcomes=(reading,),
        allocations=(held(0, "a"), held(1, "b")),
        intrusions=(Intrusion(key=KEY, uuid=uuid(0)),),
        unclear=((KEY, "an index on a device in MIG mode means one of its instances"),),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intrusions")
    with open_store(at_path(path)) as store:
        for number in range(1, TICKS + 1):
            store.write_tick(tick(number))
        with store.reader() as reader:
            analysis = assess(reader, END_MS, Thresholds(), TICK_MS)
        store.write_judgement(Judgement(findings=finding_rows(analysis)), END_MS)
    return path


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with open_store(at_path(folder)) as opened:
        yield opened


def test_intruder_is_found_and_its_gpu_s_holder_is_not_accused(store: Store) -> None:
    with store.reader() as reader:
        (row,) = run(reader, "findings", WINDOW).to_pylist()
    assert (row["kind"], row["uuid"], row["user_name"]) == ("intruder", uuid(0), "user-a")
    assert "ben's python (pid 71) has been on it for 6 min, with 3 GiB" in row["sentence"]
    assert json.loads(row["evidence"])["command"] == "python mine.py"


def test_the_past_is_judged_by_who_was_there_then(store: Store) -> None:
    as_of = datetime.fromtimestamp((T0 + 20 * TICK_MS) / 1000, UTC)
    with store.reader() as reader:
        (here,) = run(reader, "assess_intruders", {"as_of": as_of, "bins_from": T0}).to_pylist()
        assert run(reader, "assess_intruders", {"as_of": T0 - 1, "bins_from": T0 - 2}).num_rows == 0
    assert (here["pid"], here["user_name"], here["from_ms"], here["to_ms"]) == (71, "ben", T0, None)
    assert (here["memory_used_bytes"], here["sm_ratio"]) == (3 * GIB, 0.25)


def test_intrusions_say_whose_process_and_whose_gpu(store: Store) -> None:
    with store.reader() as reader:
        (row,) = run(reader, "intrusions", WINDOW).to_pylist()
        for mine in (
            {"user": "ben"},
            {"user": "user-a"},
            {"project": "p"},
            {"open": True},
            {"uuid": uuid(0)},
        ):
            assert run(reader, "intrusions", WINDOW | mine).num_rows == 1, mine
        for other in ({"user": "x"}, {"project": "x"}, {"open": False}, {"uuid": uuid(1)}, {"node": "n9"}):
            assert run(reader, "intrusions", WINDOW | other).num_rows == 0, other
    assert (row["user_name"], row["given_to"], row["pid"]) == ("ben", "user-a", 71)
    assert (row["memory_used_bytes"], row["sm_ratio"]) == (3 * GIB, 0.25)
    assert (row["from_ts"], row["to_ts"]) == (WINDOW["from_ts"].replace(tzinfo=None), None)


def test_unclear_claims_say_why(store: Store) -> None:
    with store.reader() as reader:
        (row,) = run(reader, "unclear_claims", WINDOW | {"uuid": uuid(0), "open": True}).to_pylist()
        assert run(reader, "unclear_claims", WINDOW | {"uuid": uuid(1)}).num_rows == 0
        store.write_tick(replace(tick(TICKS + 1), unclear=()))
        (over,) = run(reader, "unclear_claims", WINDOW | {"user": "ben"}).to_pylist()
    assert row["reason"] == "an index on a device in MIG mode means one of its instances"
    assert over["to_ts"] is not None


@pytest.mark.slow
def test_a_training_that_starts_anew_is_one_intruder(tmp_path: Path) -> None:
    """Every ten ticks a new process of ben's is there, and none at the tick between."""
    with open_store(at_path(tmp_path)) as store:
        for number in range(1, TICKS + 1):
            key = replace(KEY, pid=100 + number // 10, started_ms=T0 + number // 10 * 10 * TICK_MS)
            store.write_tick(with_process(tick(number), key, away=number % 10 == 0 and number < TICKS))
        with store.reader() as reader:
            (finding,) = assess(reader, END_MS, Thresholds(), TICK_MS).findings
    assert (finding.kind.value, finding.since_ms) == ("intruder", T0)
    assert "ben's python (pid 104) has been on it for 6 min, in 5 processes" in finding.sentence


def with_process(plain: Tick, key: ProcessKey, *, away: bool) -> Tick:
    """The tick with another process of ben's on the GPU, or with none."""
    (reading,) = plain.outcomes
    assert isinstance(reading, Reading)
    processes = tuple(replace(each, key=key, uid=1007) for each in reading.processes)
    on = tuple(replace(each, key=key) for each in reading.process_samples)
    seen = replace(reading, processes=() if away else processes, process_samples=() if away else on)
    there = () if away else (Intrusion(key=key, uuid=uuid(0)),)
    return replace(plain, outcomes=(seen,), intrusions=there, unclear=())


@pytest.mark.slow
def test_command_line_lists_intruders(folder: Path) -> None:
    span = ["--since", WINDOW["from_ts"].isoformat(), "--until", WINDOW["to_ts"].isoformat()]
    shown = verb("findings", "--intruders", *span, data=folder).stdout
    assert "ben's python (pid 71) on n0:0, given to user-a" in shown
    assert "python mine.py" in shown
    (row,) = json.loads(verb("findings", "--intruders", "--json", *span, data=folder).stdout)
    assert (row["user_name"], row["given_to"]) == ("ben", "user-a")
    none = verb("findings", "--intruders", "--user", "nobody", *span, data=folder).stdout
    assert "No process is seen on a GPU that somebody else was given." in none
