"""The CSV log of nvidia-smi is read as it stands, without a mapping; what it did not measure is unknown."""

from pathlib import Path

import pytest

from collector.model import Basis
from collector.sources.replay.read import open_recording
from collector.sources.replay.recording import Recording

START_MS = 1_795_168_800_000  # 2026-11-20T10:00:00Z
LOG = """\
timestamp, index, uuid, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/11/20 10:00:00.012, 0, GPU-aaa, 35 %, 1234 MiB, 81.20 W
2026/11/20 10:00:00.015, 1, GPU-bbb, 0 %, 3 MiB, [N/A]
2026/11/20 10:00:10.012, 0, GPU-aaa, 97 %, 31234 MiB, 281.20 W
2026/11/20 10:00:10.015, 1, GPU-bbb, [Not Supported], 3 MiB, 18.11 W
"""


def recorded(folder: Path, text: str) -> Recording:
    path = folder / "nvidia-smi.csv"
    path.write_text(text)
    return open_recording(path)


@pytest.mark.parametrize("units", [True, False])
def test_log_is_read_without_a_mapping_with_or_without_units(tmp_path: Path, units: bool) -> None:
    text = LOG
    if not units:
        head, _, body = LOG.partition("\n")
        text = head + "\n" + body.replace(" %", "").replace(" MiB", "").replace(" W", "")
    recording = recorded(tmp_path, text)
    rows = [row for row in recording.samples.to_pylist() if row["uuid"] == "GPU-aaa"]
    assert [row["at_ms"] for row in rows] == [START_MS + 12, START_MS + 10_012]
    assert [row["utilization_ratio"] for row in rows] == pytest.approx([0.35, 0.97])
    assert [row["memory_used_bytes"] for row in rows] == [1234 << 20, 31234 << 20]
    assert [row["power_mw"] for row in rows] == [81_200, 281_200]
    assert {row["width_ms"] for row in rows} == {10_000}


def test_cell_that_was_not_measured_is_unknown_and_its_row_stays(tmp_path: Path) -> None:
    recording = recorded(tmp_path, LOG)
    first, second = (row for row in recording.samples.to_pylist() if row["uuid"] == "GPU-bbb")
    assert (first["power_mw"], first["utilization_ratio"]) == (None, 0.0)
    assert (second["utilization_ratio"], second["rung"]) == (None, Basis.UNKNOWN)
    assert (second["memory_used_bytes"], second["power_mw"]) == (3 << 20, 18_110)
    assert recording.refused.rows == 0 and recording.gaps == ()


def test_cell_in_another_unit_than_its_column_is_refused_not_misread(tmp_path: Path) -> None:
    recording = recorded(tmp_path, LOG.replace("31234 MiB", "31 GiB"))
    assert recording.refused.rows == 1 and recording.samples.num_rows == 3


def test_log_without_uuids_names_gpus_by_their_index(tmp_path: Path) -> None:
    text = "timestamp, index, utilization.gpu [%]\n2026/11/20 10:00:00.000, 0, 5 %\n"
    assert [gpu.uuid for gpu in recorded(tmp_path, text).gpus] == ["replay/0"]
