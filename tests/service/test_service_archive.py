"""The bucket of old sealed days as a site configures it: what is refused, done each hour, and said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.errors import ArchiveAway
from service.config.file import parse
from service.config.model import ArchiveConfig, Config, ConfigError, RetentionConfig
from service.doctor_checks.checks import archive
from service.doctor_checks.results import Verdict
from service.server.maintenance import make_chores
from tests.bucket import BucketServer, served
from tests.collector.store.store_parts import ask, at_path, history, sample
from tests.stores import open_store


class StillClock:
    """Always one moment."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    def now_ms(self) -> int:
        return self._at_ms

    def monotonic_ms(self) -> int:
        return self._at_ms

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here waits {seconds} s")


DAY_MS, STEP_MS = 86_400_000, 3_600_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
NOW_MS = D0 + 5 * DAY_MS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('address = "gpu-samples"', "is no bucket"),
        ('address = "s3://"', "is no bucket"),
        ('address = "s3://bucket/a/../b"', "is no bucket"),
        ('address = "s3://key:secret@bucket"', "is no bucket"),
        ('endpoint = "https://minio:9000"', "no address"),
        ('address = "s3://bucket"\nendpoint = "minio:9000"', "is no endpoint"),
        ('address = "s3://bucket"\nendpoint = "https://minio/bucket"', "is no endpoint"),
        ('address = "s3://bucket"\nendpoint = "https://me:word@minio"', "holds a login"),
        ('address = "s3://bucket"\nsecret_key = "word"', "secret_key"),
    ],
)
def test_what_is_no_archive_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(f"[archive]\n{text}\n", origin="fallow.toml")


@pytest.fixture(scope="module")
def bucket() -> Iterator[BucketServer]:
    with served() as server:
        server.clear()
        yield server


def configured(bucket: BucketServer) -> Config:
    place = bucket.place
    return Config(
        archive=ArchiveConfig(address=place.address, endpoint=place.endpoint),
        retention=RetentionConfig(samples_days=2),
    )


@pytest.mark.slow
def test_each_hour_old_days_move_and_a_bucket_that_is_away_is_said(
    bucket: BucketServer, tmp_path: Path
) -> None:
    config = configured(bucket)
    with open_store(at_path(tmp_path)) as store:
        ends = range(D0 + STEP_MS, D0 + 5 * DAY_MS, STEP_MS)
        store.write_history(history(sample(0, at, width_ms=STEP_MS) for at in ends))
        chores = make_chores(config, store, StillClock(NOW_MS))
        (hourly,) = (each for each in chores if each.name == "sealing and retention")
        bucket.stop()
        with pytest.raises(ArchiveAway, match="Nothing is lost"):
            hourly.work()
        found = archive(config, tmp_path, NOW_MS)
        assert found.verdict is Verdict.TROUBLE and "does not answer" in found.found
        assert "; 3 sealed days past samples_days (2), the oldest 2026-09-21, are not copied" in found.found
        assert ask(store, "SELECT count(*) FROM samples_all") == [(5 * 24 - 1,)]
        bucket.start()
        assert archive(config, tmp_path, NOW_MS).verdict is Verdict.LIMITED
        hourly.work()
        assert archive(config, tmp_path, NOW_MS).verdict is Verdict.GOOD
        assert ask(store, "SELECT epoch_ms(min(ts)) FROM samples_all") == [(D0 + 3 * DAY_MS,)]
        assert len(bucket.objects()) == 3


@pytest.mark.slow
def test_a_bucket_that_nobody_made_is_named(bucket: BucketServer, tmp_path: Path) -> None:
    wanted = ArchiveConfig(address="s3://another/gpus", endpoint=bucket.place.endpoint)
    found = archive(Config(archive=wanted), tmp_path, NOW_MS)
    assert found.verdict is Verdict.TROUBLE and "no such bucket" in found.found
