"""Sealed days in a bucket: read by the same questions, and never lost, doubled or half there."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.store.archive import archive_days
from collector.store.bucket import ArchivePlace
from collector.store.database import Store, open_read_only
from collector.store.errors import ArchiveAway
from collector.store.retention import Dropped, Retention
from service.errors import QueryFailed
from service.server.damage_check import Mending
from service.store.answer import answer
from tests.bucket import SECRET, BucketServer, holds, served
from tests.collector.store.store_parts import ask, at_path, history, sample, uuid
from tests.failing_bucket import DENIED, SLOW_DOWN, failing
from tests.stores import open_store

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
STEP_MS = 1_800_000
STEPS_A_DAY = 48
RETENTION = Retention(samples_days=3, with_copy_only=True)
NOW_MS = D0 + 6 * DAY_MS
KEPT_MS = NOW_MS - 3 * DAY_MS
ALL_HOURS = "SELECT * FROM rollup_1h ORDER BY ALL"


def rows(first_day: int, days: int, number: int = 0, busy: float = 0.9) -> list[object]:
    ends = range(D0 + first_day * DAY_MS + STEP_MS, D0 + (first_day + days) * DAY_MS + 1, STEP_MS)
    return [sample(number, at, busy * (at // STEP_MS % 97) / 97, width_ms=STEP_MS) for at in ends]


@pytest.fixture(scope="module")
def running() -> Iterator[BucketServer]:
    with served() as server:
        yield server


@pytest.fixture
def bucket(running: BucketServer) -> BucketServer:
    running.clear()
    return running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Six days of two GPUs; all but the last are sealed."""
    with open_store(at_path(tmp_path)) as opened:
        opened.write_history(history([*rows(0, 6), *rows(0, 6, 1, 0.2)]))
        opened.seal_days(D0 + 5 * DAY_MS)
        yield opened


def keep(store: Store, place: ArchivePlace) -> Dropped:
    archive_days(store, place, KEPT_MS)
    return store.apply_retention(RETENTION, NOW_MS)


def timeline(store: Store, from_day: float, to_day: float, number: int = 0) -> list[dict[str, object]]:
    at = [datetime.fromtimestamp((D0 + day * DAY_MS) / 1000, UTC) for day in (from_day, to_day)]
    asked = {"uuid": uuid(number), "from_ts": at[0], "to_ts": at[1], "step_s": 1800}
    with closing(store.reader()) as connection:
        return answer(connection, "gpu_timeline", asked).to_pylist()


def test_archived_days_are_read_by_the_same_questions(
    store: Store, bucket: BucketServer, tmp_path: Path
) -> None:
    before = [timeline(store, 0, 6), timeline(store, 1.5, 3.5, 1)]
    store.export(tmp_path / "before", "csv", D0, NOW_MS)
    dropped = keep(store, bucket.place)
    assert len(dropped.files) == 3 and [key[:14] for key in bucket.objects()] == [
        f"day=2026-09-{day}" for day in (21, 22, 23)
    ]
    assert sorted(file.parent.name for file in store.folder.glob("sealed/*/*")) == [
        "day=2026-09-24",
        "day=2026-09-25",
    ]
    # Nobody else waits for the bucket. A sample that ends at midnight is of the day that begins then.
    assert ask(store, "SELECT count(*) FROM samples_all") == [(2 * (3 * STEPS_A_DAY + 1),)]
    assert len(before[0]) == 6 * STEPS_A_DAY
    assert [timeline(store, 0, 6), timeline(store, 1.5, 3.5, 1)] == before
    store.export(tmp_path / "after", "csv", D0, NOW_MS)
    assert (tmp_path / "after/samples.csv").read_bytes() == (tmp_path / "before/samples.csv").read_bytes()
    store.close()
    with open_read_only(store.path) as again:
        assert timeline(again, 0, 6) == before[0]
    assert not holds(store.folder, SECRET)


def test_a_bucket_that_is_away_loses_nothing_and_is_said(store: Store, bucket: BucketServer) -> None:
    whole = timeline(store, 0, 6)
    bucket.stop()
    try:
        with pytest.raises(ArchiveAway, match=r"did not take samples.parquet.*Nothing is lost"):
            archive_days(store, bucket.place, KEPT_MS)
        assert store.apply_retention(RETENTION, NOW_MS).files == ()
        assert timeline(store, 0, 6) == whole
    finally:
        bucket.start()
    keep(store, bucket.place)
    bucket.stop()
    try:
        assert timeline(store, 3.125, 6) == [row for row in whole if row["ts"] >= at_day(3.125)]
        looked: list[str] = []
        run = Mending(answer, lambda: looked.append("all days"), lambda: 0.0).answer
        with closing(store.reader()) as connection, pytest.raises(QueryFailed) as said:
            run(connection, "gpu_timeline", asked(2, 4))
        assert "the samples of 2026-09-23 are archived at s3://samples/gpus at http://127.0.0.1" in str(
            said.value
        )
        assert "minutes and hours are kept here" in str(said.value) and looked == []
    finally:
        bucket.start()
    assert timeline(store, 0, 6) == whole


def at_day(day: float) -> datetime:
    return datetime.fromtimestamp((D0 + day * DAY_MS) / 1000, UTC).replace(tzinfo=None)


def asked(from_day: float, to_day: float) -> dict[str, object]:
    window = {"from_ts": at_day(from_day).isoformat(), "to_ts": at_day(to_day).isoformat()}
    return {"uuid": uuid(0), "step_s": 1800, **window}


def test_what_is_half_there_or_was_changed_is_never_read(store: Store, bucket: BucketServer) -> None:
    whole = timeline(store, 0, 6)
    keep(store, bucket.place)
    first, *_ = bucket.objects()
    bucket.write(first.replace("samples-", "samples-0"), bucket.read(first))  # another's, or left by a crash
    assert timeline(store, 0, 6) == whole
    good = bucket.read(first)
    bucket.write(first, good[: len(good) // 2])
    with pytest.raises(QueryFailed, match=r"2026-09-21( to 2026-09-22)? are archived .* should have"):
        timeline(store, 0, 1)
    turned = bytearray(good)
    for place in range(200, 400):
        turned[place] ^= 0xFF  # the same length, another content: a page's checksum tells
    bucket.write(first, bytes(turned))
    with pytest.raises(QueryFailed, match=r"2026-09-21( to 2026-09-22)? are archived .* cannot be read"):
        timeline(store, 0, 1)
    bucket.write(first, good)
    assert timeline(store, 0, 6) == whole


def test_a_copy_that_was_not_recorded_is_made_again(store: Store, bucket: BucketServer) -> None:
    whole = timeline(store, 0, 6)
    archive_days(store, bucket.place, KEPT_MS)
    with store.writing("a crash before the record") as connection:
        connection.execute("DELETE FROM archived")
    assert store.apply_retention(RETENTION, NOW_MS).files == ()
    keep(store, bucket.place)
    assert len(bucket.objects()) == 3 and timeline(store, 0, 6) == whole
    assert archive_days(store, bucket.place, KEPT_MS) == ()


def test_late_samples_neither_double_nor_undo_what_is_archived(store: Store, bucket: BucketServer) -> None:
    keep(store, bucket.place)
    hours, whole = ask(store, ALL_HOURS), timeline(store, 0, 6)
    assert store.write_history(history(rows(0, 3))) == 0
    assert ask(store, ALL_HOURS) == hours
    store.write_history(history(rows(1, 1, 2)))  # a GPU of which nothing was known then
    assert ask(store, ALL_HOURS)[: len(hours)] != [] and len(timeline(store, 0, 6, 2)) == STEPS_A_DAY
    store.seal_days(D0 + 5 * DAY_MS)
    keep(store, bucket.place)
    assert len(bucket.objects()) == 5  # its last sample ends at midnight, and is of the day after
    assert len(timeline(store, 0, 6, 2)) == STEPS_A_DAY
    assert timeline(store, 0, 6) == whole


def test_a_day_that_is_sealed_anew_while_it_is_copied_has_one_copy(
    store: Store, bucket: BucketServer
) -> None:
    archive_days(store, bucket.place, KEPT_MS)
    store.write_history(history(rows(1, 1, 2)))
    store.seal_days(D0 + 5 * DAY_MS)
    whole = [timeline(store, 0, 6, number) for number in range(3)]
    keep(store, bucket.place)
    assert len(bucket.objects()) == 3 and [timeline(store, 0, 6, number) for number in range(3)] == whole


def test_a_missing_day_holds_up_no_other_and_days_go_when_their_time_is_over(
    store: Store, bucket: BucketServer
) -> None:
    (lost,) = (store.folder / "sealed/day=2026-09-22").iterdir()
    lost.rename(hidden := lost.with_suffix(".elsewhere"))
    with pytest.raises(ArchiveAway, match=r"1 sealed days .*day=2026-09-22/samples.parquet should have"):
        archive_days(store, bucket.place, KEPT_MS)
    assert len(store.apply_retention(RETENTION, NOW_MS).files) == 2
    hidden.rename(lost)
    keep(store, bucket.place)
    assert len(bucket.objects()) == 3
    archive_days(store, bucket.place, KEPT_MS, D0 + 2 * DAY_MS)
    assert len(bucket.objects()) == 1
    assert timeline(store, 0, 3)[0]["ts"] == at_day(2 - 1 / 48)  # of the sample that ended with that step


def test_what_fails_for_a_moment_is_asked_again_and_what_is_refused_is_not(
    store: Store, bucket: BucketServer
) -> None:
    with failing(bucket) as door:
        door.failures += [DENIED] * 9
        with pytest.raises(ArchiveAway, match="ACCESS_DENIED"):
            archive_days(store, door.place, KEPT_MS)
        assert door.given == 1 and bucket.objects() == []
        door.failures[:] = [SLOW_DOWN] * 3
        assert len(archive_days(store, door.place, KEPT_MS)) == 3
        assert door.given == 4 and len(bucket.objects()) == 3
