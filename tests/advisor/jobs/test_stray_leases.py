"""Leases and jobs that don't fit together, because a part of the store was lost: mended at the opening."""

from pathlib import Path

from advisor.jobs.job_store import Register
from advisor.jobs.model import StartCommand
from advisor.jobs.repository import read_leases
from collector.model import JobId
from collector.store.database import Store
from tests.advisor.jobs.job_store_world import GPUS, HandClock, acknowledge, opened, submission


def running(folder: Path) -> tuple[Store, Register, JobId]:
    store, register = opened(folder, HandClock())
    job = register.submit(submission())[0].id
    acknowledge(register, register.give(job, StartCommand(number=1, gpus=GPUS[:3])))
    return store, register, job


def lose(store: Store, rows: str) -> None:
    store.together("losing rows", lambda connection: connection.execute(f"DELETE FROM {rows}"))
    store.close()


def held(store: Store) -> list[tuple[str, str, float]]:
    return sorted((row["job"], row["gpu"], row["share"]) for row in read_leases(store))


def test_what_fits_together_is_left_as_it_is(tmp_path: Path) -> None:
    store, _, job = running(tmp_path)
    before = read_leases(store)
    store.close()
    store, register = opened(tmp_path, HandClock(2_000_000))
    assert read_leases(store) == before
    assert {row["job"] for row in before} == {job}
    assert register.remarks == ()
    store.close()


def test_a_lease_whose_job_was_lost_ends_and_its_gpus_are_free(tmp_path: Path) -> None:
    store, _, job = running(tmp_path)
    lose(store, "entries")
    store, register = opened(tmp_path, HandClock(2_000_000))
    assert held(store) == [], "nobody would ever let go of it, and its owner would be charged for ever"
    (remark,) = register.remarks
    assert f"leases of {job} on 3 GPUs" in remark and "no such job" in remark
    with store.reader() as connection:
        ended = connection.execute("SELECT DISTINCT epoch_ms(released_at) FROM leases").fetchall()
    assert ended == [(2_000_000,)]
    other = register.submit(submission(nonce="another"))[0].id
    register.give(other, StartCommand(number=9, gpus=GPUS[:1]))
    assert held(store) == [(other, GPUS[0], 1.0)]
    store.close()


def test_a_job_whose_lease_was_lost_has_it_again(tmp_path: Path) -> None:
    store, _, job = running(tmp_path)
    lose(store, f"leases WHERE gpu_uuid = '{GPUS[1]}'")
    store, register = opened(tmp_path, HandClock(2_000_000))
    assert held(store) == [(job, uuid, 1.0) for uuid in GPUS[:3]]
    (remark,) = register.remarks
    assert f"leases of {job} on one GPU" in remark and "that job holds them" in remark
    store.close()
    store, register = opened(tmp_path, HandClock(3_000_000))
    assert register.remarks == (), "once mended, nothing is left to say"
    store.close()


def test_a_lease_that_is_there_twice_or_with_another_share_is_there_once(tmp_path: Path) -> None:
    store, _, job = running(tmp_path)
    store.together(
        "writing a second row and another share",
        lambda connection: (
            connection.execute(
                "INSERT INTO leases SELECT lease_id || '/2', * EXCLUDE lease_id FROM leases "
                f"WHERE gpu_uuid = '{GPUS[0]}'"
            ),
            connection.execute(f"UPDATE leases SET share = 0.5 WHERE gpu_uuid = '{GPUS[2]}'"),
        ),
    )
    store.close()
    store, _ = opened(tmp_path, HandClock(2_000_000))
    assert held(store) == [(job, uuid, 1.0) for uuid in GPUS[:3]]
    store.close()
