"""Tables of other people become recordings: units, missing cells, malformed rows, holders, holes."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.arrow import SAMPLE_SCHEMA
from collector.model import (
    Basis,
    ClaimSource,
)
from collector.reading import Reading
from collector.sources.replay import file
from collector.sources.replay.errors import BadMapping, RecordingUnreadable, RecordingUseless
from collector.sources.replay.mapping import ColumnMapping, mapping_from
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import Recording, histories, shifted
from collector.sources.replay.source import ReplaySource

ORIGIN_MS = 1_772_409_600_000
HEAD = "t,gpu,util,mem,job\n"


def mapping(**more: object) -> ColumnMapping:
    given: dict[str, object] = {
        "time": {"column": "t", "unit": "s", "origin": "2026-03-02T00:00:00Z"},
        "gpu": "gpu",
        "sample": {
            "gpu_utilization_ratio": {"column": "util", "unit": "percent"},
            "memory_used_bytes": {"column": "mem", "unit": "MiB"},
        },
        "holder": {"job": "job", "source": "slurm"},
    }
    return mapping_from(given | more, "test")


def recorded(folder: Path, rows: str, **more: object) -> Recording:
    path = folder / "log.csv"
    path.write_text(HEAD + rows)
    return open_recording(path, mapping(**more))


def test_units_are_converted_and_rows_come_in_order_of_time(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "60,b,50,2048,7\n0,a,100,1024,7\n60,a,0,0.5,7\n")
    rows = recording.samples.to_pylist()
    assert recording.samples.schema == SAMPLE_SCHEMA
    assert [(r["uuid"], r["at_ms"] - ORIGIN_MS) for r in rows] == [("a", 0), ("b", 60_000), ("a", 60_000)]
    assert [r["utilization_ratio"] for r in rows] == [1.0, 0.5, 0.0]
    assert [r["memory_used_bytes"] for r in rows] == [1 << 30, 2 << 30, 1 << 19]
    assert {r["rung"] for r in rows} == {Basis.GPU_UTILIZATION}
    assert {r["width_ms"] for r in rows} == {60_000}


def test_a_missing_cell_is_not_measured_and_no_fault(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "0,a,,1024,7\n60,a,NaN,,7\n120,a,0,0,7\n")
    rows = recording.samples.to_pylist()
    assert [r["gpu_utilization_ratio"] for r in rows] == [None, None, 0.0]
    assert [r["memory_used_bytes"] for r in rows] == [1 << 30, None, 0]
    assert [r["rung"] for r in rows] == [Basis.UNKNOWN, Basis.UNKNOWN, Basis.GPU_UTILIZATION]
    assert all(r["power_mw"] is None and r["process_count"] is None for r in rows)
    assert recording.refused.rows == 0


def test_malformed_rows_are_counted_skipped_and_shown_with_their_lines(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path,
        "0,a,10,1024,7\n"
        "x,a,10,1024,7\n"  # line 3: no time
        "60,,10,1024,7\n"  # line 4: no GPU
        "120,a,high,1024,7\n"  # line 5: no number
        "180,a,10\n"  # line 6: columns missing
        "240,a,140,1024,7\n"  # line 7: out of range
        "300,a,10,-5,7\n"  # line 8: out of range
        "360,a,10,inf,7\n"  # line 9: no number
        "420,a,20,1024,7\n"
        "420,a,30,1024,7\n",  # line 11: there before
    )
    assert recording.samples["at_ms"].to_pylist() == [ORIGIN_MS, ORIGIN_MS + 420_000]
    assert recording.samples["utilization_ratio"].to_pylist() == pytest.approx([0.1, 0.2])
    assert recording.refused.rows == 8
    assert [fault.line for fault in recording.refused.first] == [3, 4, 5, 6, 7]
    text = str(recording.refused)
    assert "8 malformed rows skipped" in text and "and 3 more" in text
    assert "line 5: util: 'high' is no number" in text
    assert "line 7: util: '140' is out of range" in text
    assert recording.gaps[0].reason == text and recording.gaps[0].to_ms <= recording.from_ms
    (first, *_) = histories(recording)
    assert text in {gap.reason for gap in first.gaps}
    live = ReplaySource(recording).read(recording.from_ms + 1000)
    assert isinstance(live, Reading) and text in {gap.reason for gap in live.gaps}


def test_one_row_of_another_age_does_not_stretch_the_recording(tmp_path: Path) -> None:
    rows = "".join(f"{60 * n},a,10,1024,7\n" for n in range(5))
    recording = recorded(tmp_path, f"-1772409600,a,10,1024,7\n{rows}9e12,a,10,1024,7\n")
    assert (recording.from_ms, recording.to_ms) == (ORIGIN_MS - 60_000, ORIGIN_MS + 240_000)
    assert [fault.line for fault in recording.refused.first] == [2, 8]
    assert "lies outside the years 2000 to 2100" in str(recording.refused)
    assert not [gap for gap in recording.gaps if gap.uuid is not None]


def test_a_row_that_is_yet_to_come_is_skipped_for_a_clock_leapt(tmp_path: Path) -> None:
    """Ten years ahead, in the middle of a log. A day ahead a time without a zone may be."""
    decade, day = 10 * 365 * 86_400, 86_400
    path = tmp_path / "log.csv"
    at = [0, 60, decade, decade + 60, 120, 180, 180 + day]
    path.write_text(HEAD + "".join(f"{each},a,10,1024,7\n" for each in at))
    recording = open_recording(path, mapping(), now_ms=ORIGIN_MS + 180_000)
    assert recording.samples["at_ms"].to_pylist() == [
        ORIGIN_MS + each * 1000 for each in (0, 60, 120, 180, 180 + day)
    ]
    assert [fault.line for fault in recording.refused.first] == [4, 5]
    assert "is yet to come: a clock leapt" in str(recording.refused)


def test_a_row_that_covers_no_time_is_refused(tmp_path: Path) -> None:
    sample = {"power_mw": {"column": "mem"}, "width_ms": {"column": "util"}}
    recording = recorded(tmp_path, "0,a,0,9,7\n60,a,60000,9,7\n", sample=sample)
    assert recording.samples["width_ms"].to_pylist() == [60_000]
    assert "out of range for width_ms" in str(recording.refused)


def test_a_skipped_row_that_had_its_place_leaves_a_gap_there(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "0,a,10,1,7\n60,a,ten,1,7\n120,a,10,1,7\n", width_s=60)
    (_, gap) = recording.gaps
    assert (gap.uuid, gap.from_ms, gap.to_ms) == ("a", ORIGIN_MS, ORIGIN_MS + 60_000)
    assert gap.reason == "a malformed row in the recording"


def test_a_hole_between_rows_is_a_gap_of_that_gpu(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "0,a,10,1,7\n60,a,10,1,7\n600,a,10,1,7\n600,b,10,1,7\n", width_s=60)
    (gap,) = recording.gaps
    assert (gap.uuid, gap.from_ms, gap.to_ms) == ("a", ORIGIN_MS + 60_000, ORIGIN_MS + 540_000)


def test_each_turn_of_a_job_on_a_gpu_is_an_interval(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path, "60,a,1,1,7\n120,a,1,1,7\n180,a,1,1,\n240,a,1,1,8\n300,a,1,1,7\n60,b,1,1,7\n", width_s=60
    )
    turns = [(i.allocation.uuid, i.allocation.holder.job, i.from_ms, i.to_ms) for i in recording.held]
    minute = [ORIGIN_MS + 60_000 * n for n in range(6)]
    assert sorted(turns) == [
        ("a", "slurm:7", minute[0], minute[2]),
        ("a", "slurm:7", minute[4], minute[5]),
        ("a", "slurm:8", minute[3], minute[4]),
        ("b", "slurm:7", minute[0], minute[1]),
    ]
    assert {i.allocation.source for i in recording.held} == {ClaimSource.SLURM}


def test_times_may_be_iso_text_with_or_without_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "iso.csv"
    path.write_text(HEAD + "2026-03-02T00:00:00Z,a,1,1,7\n2026-03-02 02:01:00+02:00,a,1,1,7\nnoon,a,1,1,7\n")
    recording = open_recording(path, mapping(time={"column": "t", "unit": "iso"}))
    assert recording.samples["at_ms"].to_pylist() == [ORIGIN_MS, ORIGIN_MS + 60_000]
    assert recording.refused.rows == 1


def test_seconds_since_a_start_without_an_origin_are_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,a,1,1,7\n60,a,1,1,7\n")
    with pytest.raises(BadMapping, match=r"gives the year 1970.*give time an origin"):
        open_recording(path, mapping(time={"column": "t", "unit": "s"}))


def test_a_file_in_which_nothing_makes_sense_is_refused_with_its_first_lines(tmp_path: Path) -> None:
    with pytest.raises(RecordingUseless, match=r"no row made sense; 2 malformed rows skipped \(line 2"):
        recorded(tmp_path, "0,a,x,1,7\n60,a,y,1,7\n")


def test_missing_unknown_and_broken_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RecordingUnreadable, match="there is no such file"):
        open_recording(tmp_path / "none.csv", mapping())
    (tmp_path / "log.xls").write_bytes(b"\x00")
    with pytest.raises(RecordingUnreadable, match=r"give .parquet, .csv"):
        open_recording(tmp_path / "log.xls", mapping())
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordingUnreadable, match="could not be read"):
        open_recording(tmp_path / "cut.parquet", mapping())
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress((HEAD + "0,a,1,1,7\n" * 9000).encode())[:60])
    with pytest.raises(RecordingUnreadable, match="could not be read"):
        open_recording(tmp_path / "cut.csv.gz", mapping())


@pytest.mark.parametrize(
    "content",
    [HEAD.encode("utf-16"), b"t,gpu\n0,GP\xdc\n", gzip.compress(HEAD.encode(), mtime=0)],
    ids=["UTF-16", "Latin-1", "gzip"],
)
def test_a_csv_that_is_no_utf_8_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(RecordingUnreadable, match="it is not text in UTF-8"):
        open_recording(tmp_path / "log.csv", mapping())


def test_a_column_that_is_there_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("t,gpu,util,mem,job,util\n0,a,1,2,7,3\n")
    with pytest.raises(BadMapping, match="'util', which is there twice"):
        open_recording(tmp_path / "log.csv", mapping())


def test_a_column_of_a_kind_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    lists = {name: pa.array([[1.0]]) for name in ("util", "mem")}
    table = pa.table({"t": [0], "gpu": ["a"], "job": ["7"], **lists})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(RecordingUnreadable, match="a column holds neither text nor numbers"):
        open_recording(tmp_path / "log.parquet", mapping())


@pytest.mark.parametrize(
    ("content", "says"), [(b"\xff\xfe", "UTF-8"), (b"\xef\xbb\xbfwidth_s = 60\n", "time is missing")]
)
def test_a_mapping_may_have_a_byte_order_mark_and_must_be_text(
    tmp_path: Path, content: bytes, says: str
) -> None:
    (tmp_path / "log.csv").write_text(HEAD)
    (tmp_path / "log.toml").write_bytes(content)
    with pytest.raises(BadMapping, match=says):
        open_recording(tmp_path / "log.csv")


def test_the_mapping_may_lie_beside_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv.gz"
    path.write_bytes(gzip.compress((HEAD + "1772409600,a,50,1,7\n").encode()))
    with pytest.raises(BadMapping, match="there is no mapping"):
        open_recording(path)
    (tmp_path / "pods.toml").write_text(
        'time = { column = "t", unit = "s" }\ngpu = "gpu"\n'
        '[sample]\ngpu_utilization_ratio = { column = "util", unit = "percent" }\n'
    )
    assert open_recording(path).samples["utilization_ratio"].to_pylist() == [0.5]


def test_a_typed_parquet_file_is_read_like_text(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table(
        {
            "t": pa.array([ORIGIN_MS, ORIGIN_MS + 60_000, None], pa.timestamp("ms", tz="UTC")),
            "gpu": ["a", "a", "a"],
            "util": [50.0, None, 1.0],
            "mem": [1024, 2048, 1],
            "job": [7, 7, 7],
        }
    )
    pq.write_table(table, path)
    recording = open_recording(path, mapping(time={"column": "t", "unit": "iso"}))
    assert recording.samples["utilization_ratio"].to_pylist() == [0.5, None]
    assert recording.held[0].allocation.holder.job == "slurm:7"
    assert recording.refused.rows == 1


def test_histories_bring_every_row_once_a_day_at_a_time(tmp_path: Path) -> None:
    rows = "".join(f"{3600 * hour},a,10,1,{hour // 30}\n" for hour in range(72))
    recording = recorded(tmp_path, rows, width_s=60)
    parts = list(histories(recording))
    assert pa.concat_tables(part.samples for part in parts).equals(recording.samples)
    assert [i for part in parts for i in part.held] == list(recording.held)
    assert sorted(g.from_ms for part in parts for g in part.gaps) == sorted(g.from_ms for g in recording.gaps)


def test_a_shifted_recording_keeps_everything_but_its_time(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "0,a,10,1,7\n600,a,10,1,7\n", width_s=60)
    moved = shifted(recording, 5_000)
    assert (moved.from_ms, moved.to_ms) == (recording.from_ms + 5_000, recording.to_ms + 5_000)
    assert moved.held[0].from_ms == recording.held[0].from_ms + 5_000
    assert moved.gaps[0].to_ms == recording.gaps[0].to_ms + 5_000
    assert shifted(moved, -5_000) == recording


@pytest.mark.parametrize("kind", ["csv.gz", "csv", "parquet"])
def test_a_file_that_becomes_more_than_there_is_room_for_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few KiB may become anything: it is given up where the room ends, and not where the memory does."""
    monkeypatch.setattr(file, "room_bytes", lambda: 1 << 20)
    path = tmp_path / f"samples.{kind}"
    rows = 300_000
    if kind == "parquet":
        pq.write_table(pa.table({"uuid": ["GPU-0"] * rows, "at_ms": [0] * rows}), path)
        assert path.stat().st_size < 100_000
    elif kind == "csv":
        path.write_bytes(b"uuid,at_ms\n" + b"GPU-0,0\n" * rows)
    else:
        path.write_bytes(gzip.compress(b"uuid,at_ms\n" + b"GPU-0,0\n" * rows))
    with pytest.raises(RecordingUnreadable, match=r"it becomes more than .* cut it by day"):
        file.read_raw(path)


def test_a_heading_that_never_ends_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"t" * (4 << 20)))
    with pytest.raises(RecordingUnreadable, match="its first line has more than 1 MiB"):
        file.read_raw(path)


def test_a_new_xid_of_a_recording_is_an_event_and_the_one_it_begins_with_is_not(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(
        "uuid,at_ms,width_ms,gpu_utilization_ratio,xid\n"
        + "".join(
            f"{uuid},{ORIGIN_MS + minute * 60_000},60000,0.5,{xid}\n"
            for minute, row in enumerate([("", 31), ("", 31), (48, 31), (48, 79)])
            for uuid, xid in zip("ab", row, strict=True)
        )
    )
    events = open_recording(tmp_path).events
    assert [(e.uuid, e.at_ms - ORIGIN_MS, e.kind, e.detail) for e in events] == [
        ("a", 120_000, "xid", "48: double-bit ECC error"),
        ("b", 180_000, "xid", "79: GPU has fallen off the bus"),
    ]


# By hand: rows 30 s apart for an hour, each second one refused: half an hour was measured, not an hour.
def test_the_step_of_a_recording_is_that_of_all_its_rows(tmp_path: Path) -> None:
    rows = "".join(f"{30 * at},a,{'inf' if at % 2 else 50},1024,7\n" for at in range(120))
    recording = recorded(tmp_path, rows)
    widths = recording.samples["width_ms"].to_pylist()
    assert set(widths) == {30_000} and sum(widths) == 30 * 60_000


# 10 kW and 10 TiB are more than any GPU has: mW said to be W, bytes said to be MiB.
def test_a_value_that_no_gpu_has_is_refused_and_told(tmp_path: Path) -> None:
    units = {
        "gpu_utilization_ratio": {"column": "util", "unit": "percent"},
        "power_mw": {"column": "mem", "unit": "W"},
    }
    recording = recorded(tmp_path, "0,a,50,250000,7\n60,a,50,1400,7\n", sample=units)
    assert recording.samples["power_mw"].to_pylist() == [1_400_000]
    assert recording.refused is not None and "out of range for power_mw" in str(recording.refused)
    recording = recorded(tmp_path, f"0,a,50,{20 << 30},7\n60,a,50,294912,7\n")
    assert recording.samples["memory_used_bytes"].to_pylist() == [288 << 30]
