"""The CSV log of nvidia-smi is read as it stands, without a mapping; what it did not measure is unknown."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from collector.model import Basis
from collector.sources.replay.errors import BadMapping
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
    assert [gpu.uuid for gpu in recorded(tmp_path, text).gpus] == ["nvidia-smi/0"]


LOST = """\
timestamp, index, uuid, utilization.gpu [%]
2026/11/20 10:00:00.000, 0, GPU-aaa, 35 %
2026/11/20 10:00:10.000, {}, {}, {}
2026/11/20 10:00:20.000, 0, GPU-aaa, 35 %
"""
ERRORS = ["[GPU is lost]", "[N/A]", "[Unknown Error]", "[GPU requires reset.]", "[ERR!]", "ERR!", "n/a", "NA"]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_place_of_a_uuid_is_no_gpu_and_told(tmp_path: Path, error: str) -> None:
    recording = recorded(tmp_path, LOST.format(error, error, error))
    assert [gpu.uuid for gpu in recording.gpus] == ["GPU-aaa"]
    assert recording.samples["at_ms"].to_pylist() == [START_MS, START_MS + 20_000]
    assert recording.refused.rows == 1 and f"{error}' names no GPU" in str(recording.refused)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_place_of_a_number_or_an_index_names_no_gpu(tmp_path: Path, error: str) -> None:
    text = LOST.replace(", uuid", "").replace(", GPU-aaa", "").replace("{}, {}, {}", f"{error}, {error}")
    recording = recorded(tmp_path, text)
    assert [gpu.uuid for gpu in recording.gpus] == ["nvidia-smi/0"]
    assert recording.samples.num_rows == 2 and recording.refused.rows == 1


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_place_of_a_value_leaves_the_row_unmeasured(tmp_path: Path, error: str) -> None:
    recording = recorded(tmp_path, LOST.format(0, "GPU-aaa", error))
    values = recording.samples["gpu_utilization_ratio"].to_pylist()
    assert values == pytest.approx([0.35, None, 0.35]) and recording.refused.rows == 0


def test_where_every_uuid_is_an_error_the_next_column_tells_gpus_apart(tmp_path: Path) -> None:
    text = LOST.format(1, "[N/A]", "5 %").replace("GPU-aaa", "[GPU is lost]")
    assert sorted(gpu.uuid for gpu in recorded(tmp_path, text).gpus) == ["nvidia-smi/0", "nvidia-smi/1"]


def logged(path: Path, *, head: str = "", cells: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"timestamp, index, utilization.gpu [%]{head}\n2026/11/20 10:00:00.000, 0, 5 %{cells}\n")
    return path


def test_logs_of_two_machines_without_uuids_are_of_two_gpus(tmp_path: Path) -> None:
    """The machine is the file's, or a column's, or said beside it."""
    by_file = [logged(tmp_path / name) for name in ("node1.example.org.csv", "node2.csv")]
    by_column = logged(tmp_path / "all.csv", head=", hostname", cells=", node3")
    beside = logged(tmp_path / "smi" / "smi.csv")
    (beside.parent / "smi.toml").write_text('node_name = "node4"\nmodel = "A100"\n')
    told = [gpu for path in (*by_file, by_column, beside) for gpu in open_recording(path).gpus]
    assert [(gpu.node, gpu.uuid) for gpu in told] == [
        ("node1.example.org", "node1.example.org/0"),
        ("node2", "node2/0"),
        ("node3", "node3/0"),
        ("node4", "node4/0"),
    ]
    assert [gpu.model for gpu in told] == [None, None, None, "A100"]


def test_what_stands_beside_a_log_is_checked(tmp_path: Path) -> None:
    path = logged(tmp_path / "smi.csv")
    (tmp_path / "smi.toml").write_text('nodename = "node4"')
    with pytest.raises(BadMapping, match="did you mean 'node_name'"):
        open_recording(path)
    (tmp_path / "smi.toml").write_text('node = "rack"')
    with pytest.raises(BadMapping, match="takes node from the column 'rack', which is not there"):
        open_recording(path)


QUERY_GPU = [
    "timestamp",
    "driver_version",
    "vgpu_driver_capability.heterogenous_multivGPU",
    "count",
    "name",
    "serial",
    "uuid",
    "pci.bus_id",
    "pci.domain",
    "pci.bus",
    "pci.device",
    "pci.baseClass",
    "pci.subClass",
    "pci.device_id",
    "pci.sub_device_id",
    "pcie.link.gen.current",
    "pcie.link.gen.gpucurrent",
    "pcie.link.gen.max",
    "pcie.link.gen.gpumax",
    "pcie.link.gen.hostmax",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "index",
    "display_mode",
    "display_attached",
    "display_active",
    "persistence_mode",
    "addressing_mode",
    "accounting.mode",
    "accounting.buffer_size",
    "driver_model.current",
    "driver_model.pending",
    "vbios_version",
    "inforom.img",
    "inforom.oem",
    "inforom.ecc",
    "inforom.pwr",
    "gom.current",
    "gom.pending",
    "fan.speed [%]",
    "pstate",
    "clocks_event_reasons.supported",
    "clocks_event_reasons.active",
    "clocks_event_reasons.gpu_idle",
    "clocks_event_reasons.sw_power_cap",
    "clocks_event_reasons.hw_slowdown",
    "memory.total [MiB]",
    "memory.reserved [MiB]",
    "memory.used [MiB]",
    "memory.free [MiB]",
    "compute_mode",
    "compute_cap",
    "utilization.gpu [%]",
    "utilization.memory [%]",
    "utilization.encoder [%]",
    "utilization.decoder [%]",
    "utilization.jpeg [%]",
    "utilization.ofa [%]",
    "encoder.stats.sessionCount",
    "encoder.stats.averageFps",
    "dram.encryption.current",
    "ecc.mode.current",
    "ecc.mode.pending",
    "ecc.errors.corrected.volatile.device_memory",
    "ecc.errors.corrected.volatile.dram",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.corrected.aggregate.total",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "retired_pages.single_bit_ecc.count",
    "retired_pages.pending",
    "temperature.gpu",
    "temperature.gpu.tlimit",
    "temperature.memory",
    "power.management",
    "power.draw [W]",
    "power.draw.average [W]",
    "power.draw.instant [W]",
    "power.limit [W]",
    "enforced.power.limit [W]",
    "power.default_limit [W]",
    "power.min_limit [W]",
    "power.max_limit [W]",
    "clocks.current.graphics [MHz]",
    "clocks.current.sm [MHz]",
    "clocks.current.memory [MHz]",
    "clocks.current.video [MHz]",
    "clocks.applications.graphics [MHz]",
    "clocks.max.sm [MHz]",
    "mig.mode.current",
    "mig.mode.pending",
    "gsp.mode.current",
    "c2c.mode",
    "protected_memory.total [MiB]",
    "protected_memory.used [MiB]",
    "fabric.state",
    "platform.chassis_serial_number",
]
"""The columns of ``nvidia-smi --help-query-gpu`` as a log names them."""


def test_model_and_memory_of_each_gpu_are_read(tmp_path: Path) -> None:
    text = (
        "timestamp, uuid, name, utilization.gpu [%], memory.total [MiB]\n"
        "2026/11/20 10:00:00.000, GPU-a, NVIDIA H100 80GB HBM3, 5 %, 81559 MiB\n"
        "2026/11/20 10:00:00.000, GPU-b, [N/A], 5 %, [N/A]\n"
        "2026/11/20 10:00:10.000, GPU-a, [Unknown Error], 5 %, [N/A]\n"
    )
    recording = recorded(tmp_path, text)
    said = {gpu.uuid: (gpu.model, gpu.memory_total_bytes) for gpu in recording.gpus}
    assert said == {"GPU-a": ("NVIDIA H100 80GB HBM3", 81_559 << 20), "GPU-b": (None, None)}
    assert recording.refused.rows == 0


@pytest.mark.parametrize("filled", ["1", "[N/A]", "Enabled"])
def test_every_column_that_nvidia_smi_can_log_is_read_or_ignored(tmp_path: Path, filled: str) -> None:
    known = {"timestamp": "2026/11/20 10:00:00.000", "uuid": "GPU-a"}
    alone = [[*known, "utilization.gpu [%]", name] for name in QUERY_GPU if name.startswith(("mem", "power"))]
    for logged in (QUERY_GPU, *[list(dict.fromkeys(each)) for each in alone]):
        first = ", ".join(known.get(name, filled) for name in logged)
        second = ", ".join(known.get(name, "1") for name in logged).replace(":00.", ":10.")
        recording = recorded(tmp_path, "\n".join([", ".join(logged), first, second, ""]))
        assert recording.samples.num_rows >= 1, logged


def log(*starts: str, rows: int = 60) -> str:
    """Stretches of ``rows`` of two GPUs each 10 s, one after another in the file."""
    lines = ["timestamp, uuid, utilization.gpu [%]"]
    for start in starts:
        at = datetime.fromisoformat(start)
        lines += [
            f"{at + timedelta(seconds=10 * row):%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03}, {uuid}, 50 %"
            for row in range(rows)
            for uuid in ("GPU-aaa", "GPU-bbb")
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("moment", ["10:05:00.490", "10:05:00.000"])
def test_rows_of_a_clock_that_was_set_back_are_told_from_bad_ones(tmp_path: Path, moment: str) -> None:
    """Ten minutes to 10:09:50, then the clock goes back to 10:05: 30 rows of each GPU are there twice."""
    recording = recorded(tmp_path, log("2026-11-20T10:00:00", f"2026-11-20T{moment}"))
    (step,) = recording.refused.set_back
    twice = 60
    assert (step.rows, recording.refused.rows, recording.samples.num_rows) == (twice, twice, 240 - twice)
    assert step.line == 122, "1 of the header, 120 of the first stretch"
    said = str(recording.refused)
    assert "from 2026-11-20 10:09:50 to 2026-11-20 10:05:00" in said and "malformed" not in said
    assert str(recording.refused) in recording.gaps[0].reason


def test_bad_rows_and_a_clock_that_was_set_back_are_counted_apart(tmp_path: Path) -> None:
    text = log("2026-11-20T10:00:00", "2026-11-20T10:05:00").replace("50 %", "many", 1)
    refused = recorded(tmp_path, text).refused
    assert "60 rows skipped because time runs back" in str(refused)
    assert "1 malformed row skipped (line 2: " in str(refused)
    assert refused.rows == 61


def test_stretches_out_of_order_and_a_late_row_are_kept(tmp_path: Path) -> None:
    """Yesterday's log behind today's, a row that came late, and a table from the newest row down."""
    assert recorded(tmp_path, log("2026-11-20T10:00:00", "2026-11-19T10:00:00")).refused.rows == 0
    lines = log("2026-11-20T10:00:00").splitlines()
    late = [*lines[:21], *lines[23:41], *lines[21:23], *lines[41:]]
    assert recorded(tmp_path, "\n".join(late) + "\n").refused.rows == 0
    down = [lines[0], *reversed(lines[1:])]
    assert recorded(tmp_path, "\n".join(down) + "\n").refused.rows == 0


def test_each_time_that_a_clock_was_set_back_is_named(tmp_path: Path) -> None:
    text = log("2026-11-20T10:00:00", "2026-11-20T10:09:00", "2026-11-20T10:15:00")
    refused = recorded(tmp_path, text).refused
    assert [(each.rows, each.line) for each in refused.set_back] == [(12, 122), (48, 242)]
