"""Why jobs wait, kept as intervals: of one cause and one ask, over a restart, and not over a pause."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from collector.managers.model import Ask, JobKey, JobState, Limit, Look, ManagedJob, WaitCause
from collector.managers.slurm.reader import SlurmManager
from collector.model import Holder, JobId
from collector.store.database import Store
from collector.store.waits import Waits, write_waits
from tests.collector.managers.slurm_world import SUBMITTED_S, Job, World
from tests.collector.store.store_parts import ask, at_path
from tests.collector.store.test_store_managed import look
from tests.stores import open_store

T0_MS = (SUBMITTED_S + 60) * 1000
POLL_MS = 30_000


def waits(reason: str, **more: object) -> Job:
    return Job(id=9, state="PENDING", reason=reason, user="bob", **more)  # type: ignore[arg-type]


def kept(
    path: Path, looks: Sequence[tuple[int, Sequence[Job]]], *, anew: bool = False
) -> list[tuple[object, ...]]:
    """The intervals after looks, each so many polls after the first; ``anew``: by a new service each."""
    world = World()
    store: Store | None = None
    for polls, jobs in looks:
        if store is None or anew:
            if store is not None:
                store.close()
            store, manager = open_store(at_path(path)), SlurmManager(run=world.run)
        look(store, manager, world, jobs, T0_MS + polls * POLL_MS)
    assert store is not None
    with closing(store):
        return ask(
            store,
            "SELECT cause, reason, gpus, "
            f"(epoch_ms(from_ts) - {T0_MS}) / {POLL_MS}, (epoch_ms(to_ts) - {T0_MS}) / {POLL_MS} "
            "FROM manager_waits ORDER BY from_ts, cause",
        )


@pytest.mark.parametrize("anew", [False, True], ids=["one service", "a new service each time"])
def test_a_wait_is_of_one_cause_whatever_slurm_calls_it(tmp_path: Path, anew: bool) -> None:
    looks = [
        (0, [waits("Priority")]),
        (1, [waits("Resources")]),
        (2, [waits("QOSMaxGRESPerUser")]),
        (3, [waits("QOSGrpGRES")]),
        (4, [waits("QOSGrpGRES")]),
        (5, []),
    ]
    assert kept(tmp_path, looks, anew=anew) == [
        ("resources", "Priority", 2, 0.0, 1.0),
        ("limit", "QOSMaxGRESPerUser", 2, 1.0, 2.0),
        ("limit", "QOSGrpGRES", 2, 2.0, 4.0),
    ]


def limited(most: int | None, used: int) -> ManagedJob:
    """ann's, by a limit of a person in her account."""
    limit = Limit(name="vision", user="ann", what="gres/gpu", most=most, used=used)
    return ManagedJob(
        key=JobKey(cluster="fake", id="9", submitted_ms=T0_MS),
        holder=Holder(job=JobId("slurm:9"), user="ann", project="vision"),
        state=JobState.PENDING,
        ask=Ask(nodes=1, gpus=2),
        reason="AssocMaxGRES",
        cause=WaitCause.LIMIT,
        limit=limit if most is not None else replace(limit, unseen="Slurm doesn't show it"),
    )


def test_a_limit_is_kept_with_its_number_and_not_anew_for_what_is_used(tmp_path: Path) -> None:
    looks = [limited(None, 0), limited(4, 3), limited(4, 4), limited(None, 0), limited(8, 8)]
    with open_store(at_path(tmp_path)) as store, store.writing("looks") as connection:
        waits = Waits()
        for number, job in enumerate(looks):
            at_ms = T0_MS + number * POLL_MS
            write_waits(connection, waits, "slurm", Look(cluster="fake", at_ms=at_ms, jobs=(job,), nodes=()))
        found = connection.execute(
            "SELECT limit_met ->> '$.most', limit_met ->> '$.user', limit_met ->> '$.used', "
            f"(epoch_ms(from_ts) - {T0_MS}) / {POLL_MS} FROM manager_waits ORDER BY from_ts"
        ).fetchall()
    assert found == [(None, None, None, 0.0), ("4", "one person", None, 0.0), ("8", "one person", None, 3.0)]


def test_another_ask_is_another_interval_and_a_job_without_gpus_none(tmp_path: Path) -> None:
    looks = [
        (0, [waits("Priority")]),
        (1, [waits("Priority", asked="gres:gpu:4")]),
        (2, [waits("Priority", asked="N/A")]),
    ]
    assert kept(tmp_path, looks) == [
        ("resources", "Priority", 2, 0.0, 0.0),
        ("resources", "Priority", 4, 0.0, 1.0),
    ]


def test_a_wait_begins_with_its_submission_and_lasts_until_its_run_does(tmp_path: Path) -> None:
    late = waits("Resources", submitted_s=SUBMITTED_S + 75)
    runs = Job(id=9, user="bob", submitted_s=SUBMITTED_S + 75)
    assert kept(tmp_path, [(0, []), (1, [late]), (2, [late]), (3, [runs])]) == [
        ("resources", "Resources", 2, 0.5, 2.0)
    ]


def test_nobody_knows_who_waited_in_a_pause(tmp_path: Path) -> None:
    looks = [(0, [waits("Resources")]), (2, [waits("Resources")]), (40, [waits("Resources")])]
    assert kept(tmp_path, looks) == [
        ("resources", "Resources", 2, 0.0, 2.0),
        ("resources", "Resources", 2, 40.0, None),
    ]
