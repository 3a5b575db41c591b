"""A damaged write-ahead log costs what lies behind the damage, and it is said. Statement: newest_tick."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector.reading import Tick, Unavailable
from collector.store.database import Store, open_read_only, open_store
from collector.store.errors import StoreDamaged
from collector.store.log_damage import log_path
from collector.store.ownership import Ownership
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, sample, tick

pytestmark = pytest.mark.slow
TICKS = 40
KILLED = """
import os, sys
from pathlib import Path
from collector.store.database import open_store
from tests.collector.store.store_parts import T0, TICK_MS, sample, tick
store = open_store(Path(sys.argv[1]))
for n in range(int(sys.argv[2])):
    if n == 1:
        store.checkpoint()
    at = T0 + n * TICK_MS
    store.write_tick(tick(at, [sample(0, at)], source="nvml"))
os._exit(9)
"""
KILLED_BETWEEN = """
import os, sys
from pathlib import Path
from collector.store.database import open_store
store = open_store(Path(sys.argv[1]))
with store.writing("setting a price") as connection:
    connection.execute("INSERT INTO prices VALUES ('H100', 2.5, 'EUR')")
os._exit(9)
"""

Damage = Callable[[bytes], bytes]


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store whose service was killed: all of its ticks are in the log."""
    path = at_path(tmp_path)
    command = [sys.executable, "-c", KILLED, str(path), str(TICKS)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], check=False, capture_output=True)
    assert done.returncode == 9, done.stderr
    assert log_path(path).stat().st_size > 10_000
    return path


def damage(path: Path, how: Damage) -> bytes:
    wal = log_path(path)
    before = wal.read_bytes()
    wal.write_bytes(how(before))
    return wal.read_bytes()


def flipped(at: float) -> Damage:
    def flip(content: bytes) -> bytes:
        place = int(len(content) * at)
        return content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]

    return flip


def cut(at: float) -> Damage:
    return lambda content: content[: int(len(content) * at)]


def ticks(store: Store) -> int:
    return int(ask(store, "SELECT count(*) FROM samples")[0][0])


def lost_gaps(store: Store) -> list[tuple[str, int, int]]:
    return ask(
        store,
        "SELECT source, epoch_ms(from_ts), epoch_ms(to_ts) FROM gaps WHERE reason LIKE '%log%' ORDER BY 1",
    )


def test_a_killed_service_loses_nothing_and_nothing_is_said(killed: Path) -> None:
    with open_store(killed) as store:
        assert (ticks(store), store.remarks, lost_gaps(store)) == (TICKS, (), [])


@pytest.mark.parametrize("at", [0.3, 0.6, 0.95])
def test_a_flipped_byte_costs_what_lies_behind_it_and_the_service_goes_on(killed: Path, at: float) -> None:
    content = damage(killed, flipped(at))
    with open_store(killed) as store:
        kept = ticks(store)
        assert 0 < kept < TICKS
        (remark,) = store.remarks
        last_ms, end_ms = T0 + (kept - 1) * TICK_MS, T0 + (TICKS - 1) * TICK_MS
        assert lost_gaps(store) == [("nvml", last_ms, end_ms)]
        later = end_ms + TICK_MS
        store.write_tick(tick(later, [sample(0, later)], source="nvml"))
        assert ticks(store) == kept + 1
    (aside,) = killed.parent.glob("*.wal.damaged-*")
    assert aside.read_bytes() == content and str(aside) in remark
    with open_store(killed) as store:
        assert (ticks(store), store.remarks) == (kept + 1, ())


@pytest.mark.parametrize(
    "how",
    [cut(0.5), cut(0.9), lambda content: b"", lambda content: b"garbage " * 500, flipped(0.0)],
    ids=["half", "most", "nothing", "garbage", "first byte"],
)
def test_a_log_that_ends_too_early_is_noticed_though_the_engine_says_nothing(
    killed: Path, how: Damage
) -> None:
    damage(killed, how)
    with open_store(killed) as store:
        kept = ticks(store)
        assert kept < TICKS and len(store.remarks) == 1 and "is lost" in store.remarks[0]
        end_ms = T0 + (TICKS - 1) * TICK_MS
        assert lost_gaps(store) == [("nvml", T0 + (kept - 1) * TICK_MS, end_ms)]
    with open_store(killed) as store:
        assert store.remarks == ()


def test_a_tick_that_was_cut_off_by_the_kill_is_no_loss(killed: Path) -> None:
    wal = log_path(killed)
    whole = wal.read_bytes()
    wal.write_bytes(whole + whole[-300:-100])
    with open_store(killed) as store:
        assert (ticks(store), store.remarks) == (TICKS, ())


def test_a_store_whose_log_is_damaged_is_read_by_nobody_and_the_reader_is_told(killed: Path) -> None:
    content = damage(killed, flipped(0.6))
    with pytest.raises(StoreDamaged, match="cannot be read"):
        open_read_only(killed)
    assert log_path(killed).read_bytes() == content


def test_damage_that_is_met_while_it_runs_takes_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine that gave up (here: its connection is gone) is opened again, and plays the log back."""
    path = at_path(tmp_path)
    with open_store(path) as store:
        with store.writing("keeping the log") as connection:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        store.checkpoint()
        for n in range(TICKS):
            at = T0 + n * TICK_MS
            store.write_tick(tick(at, [sample(0, at)], source="nvml"))
        damage(path, flipped(0.6))
        with pytest.raises(OSError, match="gone"), store.writing("losing the engine") as connection:
            connection.close()
            raise OSError("gone")
        kept = ticks(store)
        assert 0 < kept < TICKS
        last_ms, end_ms = T0 + (kept - 1) * TICK_MS, T0 + (TICKS - 1) * TICK_MS
        assert lost_gaps(store) == [("nvml", last_ms, end_ms)]
        assert "is lost" in caplog.text and len(list(path.parent.glob("*.wal.damaged-*"))) == 1
        later = end_ms + TICK_MS
        store.write_tick(tick(later, [sample(0, later)], source="nvml"))
        assert ticks(store) == kept + 1


def test_a_log_that_lost_less_than_a_tick_is_said_as_well(killed: Path) -> None:
    """What is written between two ticks is no less acknowledged: a submitted job, say."""
    words = [sys.executable, "-c", KILLED_BETWEEN, str(killed)]
    assert subprocess.run(words, cwd=Path(__file__).parents[3], check=False).returncode == 9
    whole = log_path(killed).read_bytes()
    log_path(killed).write_bytes(whole[:-60])
    with open_store(killed) as store:
        (remark,) = store.remarks
        assert "is lost" in remark and lost_gaps(store) == [] and ticks(store) == TICKS
        assert ask(store, "SELECT count(*) FROM prices") == [(0,)]
    with open_store(killed) as store:
        assert store.remarks == ()


@pytest.mark.parametrize("length", ["x", "²", "-1", ""])
def test_a_note_of_the_log_that_is_no_number_says_nothing(tmp_path: Path, length: str) -> None:
    path = at_path(tmp_path)
    open_store(path).close()
    changed_ns = path.stat().st_mtime_ns
    path.with_name(f"{path.name}.lock").write_text(f"1\n\n{length} {changed_ns}\n")
    owner = Ownership(path)
    owner.release()
    assert (owner.noted_ms, owner.cut_ms) == (None, None)


def test_a_log_that_was_folded_in_is_not_said_to_be_short(killed: Path) -> None:
    with duckdb.connect(str(killed)) as connection:  # without noting it
        connection.execute("CHECKPOINT")
    assert not log_path(killed).exists()
    with open_store(killed) as store:
        assert store.remarks == () and ticks(store) == TICKS


def test_a_tick_after_every_source_has_ended_is_missed_by_nobody(tmp_path: Path) -> None:
    """A recording's last tick brings nothing; a restart after it said that measured data were lost."""
    path = at_path(tmp_path)
    ended = Unavailable(
        source="nvml", at_ms=T0 + TICK_MS, duration_ms=1, reason="the recording has ended", is_over=True
    )
    with open_store(path) as store:
        store.write_tick(tick(T0, [sample(0, T0)], source="nvml"))
        store.write_tick(Tick(at_ms=T0 + TICK_MS, width_ms=TICK_MS, outcomes=(ended,)))
    with open_store(path) as store:
        assert (store.remarks, lost_gaps(store)) == ((), [])
