"""A GPU of a recording is there since its first row, however early a list beside it names it."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from analytics.query import run
from collector.model import GpuUuid
from collector.reading import Reading, Tick
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import Recording, histories
from collector.sources.replay.source import ReplaySource
from tests.collector.store.store_parts import at_path
from tests.stores import open_store

HOUR_MS = 3_600_000
BEGIN = 1_795_651_200_000
"""2026-11-26 00:00 UTC; the recording lasts 26 hours, over a midnight."""
TEN_MIN_MS = 600_000


def recording(folder: Path, installed: str = "") -> Recording:
    """``old`` is there all the time; ``new`` since 23.5; ``part`` of ``board`` since 22; ``named`` never."""
    since = {"old": 0, "new": 141, "part": 132}
    rows = [
        f"{uuid},n,{BEGIN + (row + 1) * TEN_MIN_MS},{TEN_MIN_MS},0.5\n"
        for row in range(26 * 6)
        for uuid, first in since.items()
        if row >= first
    ]
    (folder / "samples.csv").write_text("uuid,node,at_ms,width_ms,gpu_utilization_ratio\n" + "".join(rows))
    gpus = ("old,,", "new,,", "part,board,", "board,,", f"named,,{installed}")
    lines = [f"{uuid},n,{parent},{from_ms}\n" for uuid, parent, from_ms in (g.split(",") for g in gpus)]
    (folder / "gpus.csv").write_text("uuid,node,parent_uuid,installed_from_ms\n" + "".join(lines))
    return open_recording(folder)


@pytest.mark.parametrize(("installed", "named_h"), [("", 26.0), (str(BEGIN + 25 * HOUR_MS), 1.0)])
def test_a_gpu_costs_from_its_first_row_on(tmp_path: Path, installed: str, named_h: float) -> None:
    with open_store(at_path(tmp_path / "store")) as store:
        for history in histories(recording(tmp_path, installed)):
            store.write_history(history)
        with store.reader() as reader:
            window = {"from_ts": BEGIN, "to_ts": BEGIN + 26 * HOUR_MS}
            rows = run(reader, "ledger_by_gpu", window).to_pylist()
    hours = {row["key"]: row["gpu_hours"] for row in rows}
    # A board is there as long as its instances; of one without a row nobody knows more than the list.
    assert hours == {"old": 26.0, "new": 2.5, "part": 4.0, "board": 4.0, "named": named_h}


def test_a_replay_names_a_gpu_no_earlier(tmp_path: Path) -> None:
    source = ReplaySource(recording(tmp_path))
    named = []
    for hour in (1, 23, 24):
        reading = source.read(BEGIN + hour * HOUR_MS)
        assert isinstance(reading, Reading)
        named.append({str(gpu.uuid) for gpu in reading.gpus})
    assert named == [
        {"old", "named"},
        {"old", "named", "part", "board"},
        {"old", "named", "part", "board", "new"},
    ]


def taken_out(folder: Path, to_hour: float) -> Recording:
    """``old`` was taken out at ``to_hour``; ``fan`` too, and has no row at all."""
    folder.mkdir()
    recording(folder)
    rows = (folder / "samples.csv").read_text().splitlines()
    end_ms = BEGIN + round(to_hour * HOUR_MS)
    kept = [row for row in rows[1:] if not (row.startswith("old,") and int(row.split(",")[2]) > end_ms)]
    (folder / "samples.csv").write_text("\n".join([rows[0], *kept]) + "\n")
    (folder / "gpus.csv").write_text(
        f"uuid,node,installed_from_ms,installed_to_ms\nold,n,{BEGIN},{end_ms}\nnew,n,,\nfan,n,{BEGIN},{end_ms}\n"
    )
    return open_recording(folder)


@pytest.mark.parametrize("to_hour", [10.0, 25.0])
def test_a_gpu_that_was_taken_out_costs_until_then(tmp_path: Path, to_hour: float) -> None:
    """On the first day, and on the second, after a midnight."""
    told = taken_out(tmp_path / "told", to_hour)
    with open_store(at_path(tmp_path / "store")) as store:
        for history in histories(told):
            store.write_history(history)
        with store.reader() as reader:
            window = {"from_ts": BEGIN, "to_ts": BEGIN + 26 * HOUR_MS}
            rows = {row["key"]: row for row in run(reader, "ledger_by_gpu", window).to_pylist()}
            here = {row["uuid"] for row in run(reader, "gpus_now", {}).to_pylist()}
        store.export(tmp_path, "csv", BEGIN, BEGIN + 26 * HOUR_MS)
    assert {uuid: rows[uuid]["gpu_hours"] for uuid in ("old", "fan", "new")} == {
        "old": to_hour,
        "fan": to_hour,
        "new": 2.5,
    }
    assert rows["old"]["unknown_gpu_hours"] == 0
    assert not {"old", "fan"} & here and "new" in here
    again = open_recording(tmp_path).removed_ms
    assert again == {"old": BEGIN + round(to_hour * HOUR_MS), "fan": BEGIN + round(to_hour * HOUR_MS)}


def test_a_gpu_that_is_told_gone_and_has_newer_rows_stays_until_its_last(tmp_path: Path) -> None:
    told = replace(recording(tmp_path), removed_ms={GpuUuid("old"): BEGIN + HOUR_MS})
    assert told.removals() == {"old": BEGIN + 26 * HOUR_MS}


def test_a_replay_tick_by_tick_names_no_gpu_that_was_taken_out(tmp_path: Path) -> None:
    source = ReplaySource(taken_out(tmp_path / "told", 10.0))
    with open_store(at_path(tmp_path / "store")) as store:
        for minute in (0, 10, 600, 610):
            at_ms = BEGIN + minute * 60_000 + 1
            reading = source.read(at_ms)
            assert isinstance(reading, Reading)
            store.write_tick(Tick(at_ms=at_ms, width_ms=TEN_MIN_MS, outcomes=(reading,)))
        assert "old" not in {str(gpu.uuid) for gpu in reading.gpus}
        with store.reader() as reader:
            gone = {row["uuid"]: row["to_ms"] for row in _installed(reader)}
    assert gone == {"old": BEGIN + 10 * HOUR_MS, "fan": BEGIN + 10 * HOUR_MS}


def _installed(reader: duckdb.DuckDBPyConnection) -> list[dict[str, object]]:
    window = {"from_ts": BEGIN, "to_ts": BEGIN + 26 * HOUR_MS}
    return [row for row in run(reader, "past_gpus", window).to_pylist() if row["to_ms"] is not None]


def test_what_a_board_draws_when_idle_is_known_though_all_its_rows_are_of_work(tmp_path: Path) -> None:
    """100% at 66 W is at idle power (60 W, and a tenth): what an export says of it judges the replay too."""
    rows = "".join(f"a,n,{BEGIN + (row + 1) * 30_000},30000,1.0,66000\n" for row in range(20))
    (tmp_path / "samples.csv").write_text("uuid,node,at_ms,width_ms,gpu_utilization_ratio,power_mw\n" + rows)
    (tmp_path / "gpus.csv").write_text("uuid,node,idle_power_mw\na,n,60000\nb,n,-3\nc,n,\n")
    told = open_recording(tmp_path)
    assert told.idle_power_mw == {"a": 60_000}
    with open_store(at_path(tmp_path / "store")) as store:
        for history in histories(told):
            store.write_history(history)
        with store.reader() as reader:
            window = {"from_ts": BEGIN, "to_ts": BEGIN + 9 * 60_000}
            states = {row["state"]: row for row in run(reader, "ledger_by_state", window).to_pylist()}
        store.export(tmp_path / "again", "csv", BEGIN, BEGIN + 600_000)
    assert states["suspect"]["gpu_hours"] == pytest.approx(9 / 60)
    assert open_recording(tmp_path / "again").idle_power_mw == {"a": 60_000}


def test_a_told_end_is_an_end_and_an_open_hold_goes_on(tmp_path: Path) -> None:
    """``fin`` gave its GPU back with the last row, ``goes`` has none; both are exported as they were told."""
    folder = tmp_path / "told"
    folder.mkdir()
    end_ms = BEGIN + 26 * HOUR_MS
    (folder / "allocations.csv").write_text(
        "uuid,job,user,share,source,from_ms,to_ms\n"
        f"old,slurm:1,fin,1,slurm,{BEGIN},{end_ms}\n"
        f"new,slurm:2,goes,1,slurm,{BEGIN},\n"
    )
    told = recording(folder)
    with open_store(at_path(tmp_path / "store")) as store:
        for history in histories(told):
            store.write_history(history)
        with store.reader() as reader:
            window = {"from_ts": BEGIN, "to_ts": end_ms + HOUR_MS}
            jobs = {row["user_name"]: row for row in run(reader, "jobs", window).to_pylist()}
            now = {row["job"] for row in run(reader, "gpus_now", {}).to_pylist()}
        store.export(tmp_path, "csv", BEGIN, end_ms)
    assert jobs["fin"]["to_ts"] is not None and jobs["fin"]["measured_to"] is None
    assert jobs["goes"]["to_ts"] is None
    assert jobs["fin"]["gpu_hours"] == pytest.approx(26.0 - 1 / 60), "its last minute is rolled up later"
    assert "slurm:1" not in now and "slurm:2" in now
    exported = {i.allocation.holder.user: i.to_ms for i in open_recording(tmp_path).held}
    assert exported == {"fin": end_ms - 1, "goes": None}
