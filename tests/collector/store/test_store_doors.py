"""Opening: what is refused, how it is said, and that nothing is lost by it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.store import connection
from collector.store.database import Limits, Store, open_read_only, open_store
from collector.store.errors import (
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreMissing,
    StoreNewer,
    StoreOlder,
    StoreShort,
    StoreUnwritable,
)
from collector.store.statements import migrations
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, history, older_file, sample, tick

OWNER = """
import sys
from pathlib import Path
from collector.store.database import open_store
with open_store(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.readline()
"""
COUNT = "SELECT count(*) FROM samples"


def fill(store: Store, ticks: int = 3, first: int = 1) -> None:
    for n in range(first, first + ticks):
        at = T0 + n * TICK_MS
        store.write_tick(tick(at, [sample(0, at)]))


def test_a_new_store_has_every_migration_recorded(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        recorded = ask(store, "SELECT number, name FROM schema_migrations ORDER BY number")
    assert recorded == [(number, name) for number, name, _ in migrations()]


def test_a_second_service_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(at_path(tmp_path))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_python_path()
    ) as owner:
        assert owner.stdin is not None and owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match="belongs to another process"):
            open_store(at_path(tmp_path))
        with pytest.raises(StoreLocked, match="ask it over HTTP"):
            open_read_only(at_path(tmp_path))
        owner.communicate("done\n", timeout=60)
        assert owner.returncode == 0


READER = """
import sys
from pathlib import Path
from collector.store.database import open_read_only
store = open_read_only(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
store.close()
"""


def test_a_service_waits_for_a_reading_verb_to_finish(tmp_path: Path) -> None:
    open_store(at_path(tmp_path)).close()
    command = [sys.executable, "-c", READER, str(at_path(tmp_path))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_python_path()
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        threading.Timer(0.6, lambda: reader.communicate("done\n")).start()
        with open_store(at_path(tmp_path)) as store:
            fill(store)


def test_the_same_process_cannot_own_it_twice(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        with pytest.raises(StoreLocked):
            open_store(at_path(tmp_path))
        fill(store)
        assert ask(store, COUNT) == [(3,)]


def test_a_file_from_a_newer_fallow_is_left_alone(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        fill(store)
    with duckdb.connect(str(at_path(tmp_path))) as connection:
        connection.execute("INSERT INTO schema_migrations (number, name) VALUES (999, 'future')")
    content = at_path(tmp_path).read_bytes()
    with pytest.raises(StoreNewer, match="version 999, this Fallow knows"):
        open_store(at_path(tmp_path))
    with pytest.raises(StoreNewer, match="update Fallow"):
        open_read_only(at_path(tmp_path))
    assert at_path(tmp_path).read_bytes() == content


def test_an_engine_that_cannot_be_opened_again_at_once_is_tried_at_the_next_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, connect = [duckdb.OutOfMemoryException("full")] * 2, connection.connect

    def sometimes(*given: Any, **named: Any) -> duckdb.DuckDBPyConnection:
        if failures:
            raise failures.pop()
        return connect(*given, **named)

    with open_store(at_path(tmp_path)) as store:
        fill(store)
        monkeypatch.setattr(connection, "connect", sometimes)
        store._connection.close()
        for _ in range(2):
            with pytest.raises(
                StoreShort, match=r"writing a tick: .* Raise \[store\] memory_mib. Found: full$"
            ):
                store.write_tick(tick(T0 + 9 * TICK_MS, [sample(0, T0 + 9 * TICK_MS)]))
        store.write_tick(tick(T0 + 9 * TICK_MS, [sample(0, T0 + 9 * TICK_MS)]))
        assert not failures and ask(store, COUNT) == [(4,)]


def test_a_store_that_was_closed_is_not_opened_again_by_who_comes_late(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        fill(store)
    with open_store(at_path(tmp_path)) as owner:
        for _ in range(2):
            with pytest.raises(StoreClosed, match=r"writing a tick: .* was closed"):
                store.write_tick(tick(T0 + 9 * TICK_MS, [sample(0, T0 + 9 * TICK_MS)]))
        assert ask(owner, COUNT) == [(3,)]
    open_store(at_path(tmp_path)).close()


def test_a_file_from_an_older_fallow_is_read_once_the_service_has_had_it(tmp_path: Path) -> None:
    older_file(at_path(tmp_path), 32).close()
    content = at_path(tmp_path).read_bytes()
    with pytest.raises(StoreOlder, match=r"version 32, this Fallow reads \d+; start the service on it once"):
        open_read_only(at_path(tmp_path))
    assert at_path(tmp_path).read_bytes() == content
    open_store(at_path(tmp_path)).close()
    with open_read_only(at_path(tmp_path)) as store:
        assert ask(store, COUNT) == [(0,)]


def test_a_file_from_a_newer_duckdb_is_left_alone(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        fill(store)
    content = bytearray(at_path(tmp_path).read_bytes())
    content[12:20] = (9_999).to_bytes(8, "little")
    at_path(tmp_path).write_bytes(content)
    with pytest.raises((StoreNewer, StoreDamaged)):
        open_store(at_path(tmp_path))
    assert at_path(tmp_path).read_bytes() == content


@pytest.mark.parametrize("content", [b"not a database" * 500, b"x"])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, content: bytes) -> None:
    at_path(tmp_path).write_bytes(content)
    with pytest.raises(StoreDamaged, match="keep a copy of it"):
        open_store(at_path(tmp_path))
    assert at_path(tmp_path).read_bytes() == content


@pytest.mark.slow
def test_damage_in_the_middle_of_the_file_is_told(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(sample(n % 8, T0 + n * TICK_MS, (n % 91) / 91) for n in range(1, 20_000)))
    content = bytearray(at_path(tmp_path).read_bytes())
    for at in range(4096 * 4, len(content) - 64, 262_144):
        content[at : at + 64] = os.urandom(64)
    at_path(tmp_path).write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        open_store(at_path(tmp_path)).write_tick(tick(T0, [sample(0, T0)]))


def test_an_empty_file_left_by_a_crash_at_birth_is_begun_anew(tmp_path: Path) -> None:
    at_path(tmp_path).touch()
    with open_store(at_path(tmp_path)) as store:
        fill(store)
        assert ask(store, COUNT) == [(3,)]


def test_reading_does_not_make_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="start the service once"):
        open_read_only(at_path(tmp_path))
    assert not any(tmp_path.iterdir())


def test_reading_sees_all_and_changes_nothing(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        fill(store)
    content = at_path(tmp_path).read_bytes()
    with open_read_only(at_path(tmp_path)) as one, open_read_only(at_path(tmp_path)) as two:
        assert ask(one, COUNT) == ask(two, COUNT) == [(3,)]
        with pytest.raises(StoreUnwritable):
            fill(one)
    assert at_path(tmp_path).read_bytes() == content


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable, match="may not be written"):
        open_store(tmp_path / "file" / "fallow.duckdb")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small tmpfs needs root: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_loses_the_tick_in_flight_and_nothing_else(small_disk: Path) -> None:
    with open_store(at_path(small_disk), Limits(wal_bytes=1 << 30)) as store:
        ballast = small_disk / "ballast"
        written, n = 0, 0
        with pytest.raises(StoreFull, match="everything committed before is kept") as full:
            for n in range(1, 2000):
                at = T0 + n * TICK_MS
                store.write_tick(tick(at, [sample(k, at, (n * k % 89) / 89) for k in range(64)]))
                written = n
                if n == 20:
                    ballast.write_bytes(b"x" * _free(small_disk, leave=300_000))
        if "rolling up" in str(full.value):
            written = n  # a minute's roll-up comes after its tick was committed
        assert written >= 20
        assert ask(store, "SELECT count(DISTINCT ts), epoch_ms(max(ts)) FROM samples") == [
            (written, T0 + written * TICK_MS)
        ]
        ballast.unlink()
        at = T0 + (n + 1) * TICK_MS
        store.write_tick(tick(at, [sample(0, at)]))
        store.checkpoint()
    with open_store(at_path(small_disk)) as store:
        assert ask(store, "SELECT count(DISTINCT ts) FROM samples") == [(written + 1,)]


def _free(folder: Path, leave: int) -> int:
    room = os.statvfs(folder)
    return max(0, room.f_bavail * room.f_frsize - leave)


def _python_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def test_a_folder_in_the_place_of_the_file_is_said(tmp_path: Path) -> None:
    at_path(tmp_path).mkdir()
    with pytest.raises(StoreUnwritable, match="is a folder"):
        open_store(at_path(tmp_path))
