"""Faults of the disk: it fills, and what lies on it is cut short or changed while the service is down.

What was acknowledged before has to be there afterwards, but for what the service, or the salvage, says is
lost.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from tests.chaos.exporter import Exporter
from tests.chaos.site import ROOT, Site

DISK_MIB = 192
"""Of the file system of its own that DATA lies on: the store of an hour of chaos, twice."""
LOST = ("is lost: ", "is lost. ", "rows are kept")
"""Words by which the service and the salvage say that something is lost (collector.store.log_damage,
verb_store)."""
VERB_S = 120.0
"""A check or a salvage of so small a store takes seconds; more, and it hangs."""


def mount_small(folder: Path) -> None:
    """A file system of its own on ``folder``; this process has mounts of its own. Raises
    CalledProcessError."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(folder)]
    subprocess.run(words, check=True)


def full_disk(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """No room is left for some seconds; reading goes on, and afterwards all does."""
    _spare_unacknowledged(site)
    filler = site.data / "filler"
    with filler.open("wb", buffering=0) as out:
        for piece in (1 << 20, 4096, 1):
            try:
                while True:
                    out.write(bytes(piece))
            except OSError:
                continue
    time.sleep(dice.uniform(0.5, 4))
    reads = site.answers()
    filler.unlink()
    wrong = [] if reads else ["the service does not answer while the disk is full"]
    return wrong if site.wait_for_answer() else [*wrong, "the service does not answer afterwards"]


def cut_log(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """The end of the write-ahead log is gone when a service that was killed comes back."""
    return _with_log(site, dice, lambda content: content[: int(len(content) * dice.random())])


def flip_log(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """A bit of the write-ahead log is another when a service that was killed comes back."""

    def flipped(content: bytes) -> bytes:
        place = dice.randrange(len(content))
        return content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]

    return _with_log(site, dice, flipped)


def flip_table(site: Site, _: Exporter, dice: random.Random) -> list[str]:
    """A bit of a table is another after an ordinary stop: it is found by the check, and salvaged."""
    _spare_unacknowledged(site)
    site.kill_service(signal.SIGTERM)
    before = _ended(site)
    store = site.data / "fallow.duckdb"
    blocks = _blocks(store)
    if not blocks:
        return _back(site)
    table, place = dice.choice(sorted(blocks))
    damaged = bytearray(store.read_bytes())
    damaged[place] ^= 1 << dice.randrange(8)
    store.write_bytes(damaged)
    wrong = []
    status, text = _verb(site, "check")
    if status != 1 or f"✗ table {table}" not in text:
        wrong.append(f"the check did not name the table {table}: {status} {text[-300:]}")
    status, text = _verb(site, "salvage", "--yes")
    asides = sorted(site.data.glob("fallow.duckdb.damaged-*"))
    if status != 0 or "Traceback" in text:
        wrong.append(f"the salvage failed: {status} {text[-300:]}")
    if not any(each.read_bytes() == damaged for each in asides):
        wrong.append("the damaged file was not kept")
    for each in asides:
        each.unlink()  # the disk is small
    said = _says_lost(text)
    wrong += _back(site)
    return [*wrong, *_missing(site, before, said)]


def _with_log(site: Site, dice: random.Random, damage: Callable[[bytes], bytes]) -> list[str]:
    site.kill_service(signal.SIGKILL)
    log, journal = site.data / "fallow.duckdb.wal", site.folder / "serve.log"
    before, begins = _ended(site), journal.stat().st_size
    if log.exists() and log.stat().st_size:
        log.write_bytes(damage(log.read_bytes()))
    wrong = _back(site)
    with journal.open("rb") as lines:
        lines.seek(begins)
        said = _says_lost(lines.read().decode(errors="replace"))
    for each in site.data.glob("*.wal.damaged-*"):
        each.unlink()
    return [*wrong, *_missing(site, before, said)]


def _says_lost(text: str) -> bool:
    return any(words in text for words in LOST)


def _back(site: Site) -> list[str]:
    site.start_service()
    return [] if site.wait_for_answer() else ["the service did not come back"]


def _ended(site: Site) -> set[str]:
    """The names of jobs that are known to have ended: their launchers were told so, and are gone."""
    return {each.key for each in site.launched if each.process.poll() == 0}


def _missing(site: Site, before: set[str], said: bool) -> list[str]:
    """What was acknowledged and is not there, unless something is said to be lost. The jobs that were under
    way may have been lost with it: what becomes of them is their launchers' to say, but they may fail. What
    was said to be lost once stays lost, and is no fault of the next damage."""
    rows = site.jobs("?limit=10000")
    if rows is None:
        return ["the service does not say which jobs it knows"]
    gone = sorted(before - site.said_lost - {row["submission"]["name"] for row in rows})
    if said:
        site.said_lost.update(gone)
        for each in site.running():
            each.hurt = True
        return []
    return [f"{name} was acknowledged and is gone, and nothing is said of it" for name in gone]


def _spare_unacknowledged(site: Site) -> None:
    """Jobs that were not taken yet may be refused meanwhile: after 10 s their launchers say so and end."""
    taken = {row["submission"]["name"] for row in site.jobs() or ()}
    for each in site.running():
        each.hurt = each.hurt or each.key not in taken


def _blocks(store: Path) -> set[tuple[str, int]]:
    """Tables, and a place in a block of each that holds rows of no other."""
    from collector.store.block_check import BLOCK_BYTES, HEADER_BYTES

    with duckdb.connect(str(store), read_only=True) as connection:
        tables = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        found = set()
        for table in tables:
            rows = connection.execute(
                f"SELECT block_id, max(block_offset) FROM pragma_storage_info('{table}') "
                "WHERE block_id >= 0 GROUP BY ALL"
            ).fetchall()
            found |= {(table, HEADER_BYTES + block * BLOCK_BYTES + 8 + offset) for block, offset in rows}
    return found


def _verb(site: Site, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "store", *words, "--data", str(site.data)],
        capture_output=True,
        text=True,
        timeout=VERB_S,
        cwd=ROOT,
        env={**site.environment(), "PYTHONIOENCODING": "utf-8", "HOME": os.environ.get("HOME", "/")},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
