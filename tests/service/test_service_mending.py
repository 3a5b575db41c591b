"""A question that meets a damaged sealed day has it mended at once; others cost the disk nothing."""

from pathlib import Path

import pytest

from collector.store.database import Store
from service.errors import BadParameter, QueryFailed
from service.server.damage_check import REST_S, Mending
from service.store.answer import answer
from tests.collector.store.store_parts import history, sample
from tests.stores import open_store

DAY_MS, STEP_MS = 86_400_000, 60_000
D0 = 1_790_000_000_000 // DAY_MS * DAY_MS
ASKED = {"bins_from": D0 + 3_600_000, "bins_to": D0 + 7_200_000, "as_of": D0 + 7_300_000}


class Site:
    """A store with a sealed day, its answers, and how often it was looked through."""

    def __init__(self, store: Store) -> None:
        self.store, self.looks, self.now_s = store, 0, 1_000.0
        self.mending = Mending(answer, self.mend, lambda: self.now_s)

    def mend(self) -> None:
        self.looks += 1
        self.store.mend_sealed()

    def ask(self, **changes: object) -> int:
        with self.store.reader() as connection:
            return int(self.mending.answer(connection, "assess_bins", {**ASKED, **changes}).num_rows)

    def wait(self) -> None:
        assert self.mending.thread is not None
        self.mending.thread.join()


def sealed(folder: Path) -> tuple[Site, Path]:
    store = open_store(folder / "fallow.duckdb")
    rows = [
        sample(gpu, D0 + n * STEP_MS, (n * 7919 % 9973) / 9973, width_ms=STEP_MS, power_mw=100_000 + n * 7919)
        for n in range(1, DAY_MS // STEP_MS)
        for gpu in range(2)
    ]
    store.write_history(history(rows, source="nvml"))
    (day,) = store.seal_days(D0 + DAY_MS)
    return Site(store), folder / day.path


def test_a_damaged_day_is_said_and_mended_and_then_answered(tmp_path: Path) -> None:
    site, file = sealed(tmp_path)
    assert site.ask() > 0 and site.looks == 0
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(255 - each for each in content[4:3_000]) + content[3_000:])
    with pytest.raises(QueryFailed, match="A sealed day may be damaged"):
        site.ask()
    site.wait()
    assert site.ask() >= 0 and site.looks == 1
    site.store.close()


def test_what_fails_again_has_them_looked_through_once_an_hour(tmp_path: Path) -> None:
    site, _ = sealed(tmp_path)

    def fails(*_: object) -> None:
        raise QueryFailed("query 'x' failed: ZSTD Decompression failure")

    site.mending = Mending(fails, site.mend, lambda: site.now_s)
    for _ in range(3):
        with pytest.raises(QueryFailed):
            site.ask()
        site.wait()
    assert site.looks == 1
    site.now_s += REST_S
    with pytest.raises(QueryFailed):
        site.ask()
    site.wait()
    assert site.looks == 2
    site.store.close()


def test_a_question_that_is_wrong_is_no_damage(tmp_path: Path) -> None:
    site, _ = sealed(tmp_path)
    with pytest.raises(BadParameter):
        site.ask(bins_from="yesterday's parquet")
    assert site.mending.thread is None and site.looks == 0
    site.store.close()


def test_damage_of_the_stores_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise QueryFailed("query 'x' failed: Corrupt database file: computed checksum 1 does not match 2")

    mending = Mending(fails, lambda: None, lambda: 0.0)
    with pytest.raises(QueryFailed, match="fallow store check"):
        mending.answer(None, "x", {})
    assert mending.thread is None
