"""The CSV log of ``nvidia-smi --query-gpu=… --format=csv -l`` as a mapping. Pure.

Source: ``nvidia-smi --help-query-gpu``. With ``nounits`` the cells lose their units and the header keeps
them. Its times have no zone: they are the machine's own, and are taken for UTC.
"""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from collector.sources.replay.mapping import ColumnMapping, Measure

_TIME = "timestamp"
_NAMES = ("uuid", "gpu_uuid", "serial", "gpu_serial", "pci.bus_id", "gpu_bus_id", "index")
"""What tells GPUs apart, the one that lasts longest first."""
_MEASURES = {
    "utilization.gpu [%]": ("gpu_utilization_ratio", 0.01),
    "utilization.memory [%]": ("memory_controller_ratio", 0.01),
    "utilization.encoder [%]": ("encoder_ratio", 0.01),
    "utilization.decoder [%]": ("decoder_ratio", 0.01),
    "utilization.jpeg [%]": ("jpeg_ratio", 0.01),
    "utilization.ofa [%]": ("ofa_ratio", 0.01),
    "memory.used [MiB]": ("memory_used_bytes", 2.0**20),
    "memory.reserved [MiB]": ("memory_reserved_bytes", 2.0**20),
    "memory.total [MiB]": ("memory_total_bytes", 2.0**20),
    "power.draw [W]": ("power_mw", 1000.0),
    "power.draw.instant [W]": ("power_mw", 1000.0),
    "power.draw.average [W]": ("power_mw", 1000.0),
    "temperature.gpu": ("temperature_c", 1.0),
    "clocks.current.sm [MHz]": ("sm_clock_mhz", 1.0),
    "clocks.sm [MHz]": ("sm_clock_mhz", 1.0),
    "clocks.current.memory [MHz]": ("memory_clock_mhz", 1.0),
    "clocks.mem [MHz]": ("memory_clock_mhz", 1.0),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", 1.0),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", 1.0),
}
"""A column, the field of a sample, and the factor to its unit; of two for one field the first counts."""
_UNIT = re.compile(r".*\[(.+)\]")


def smi_mapping(columns: Sequence[str]) -> ColumnMapping | None:
    """Where everything stands in nvidia-smi's log, or ``None`` when these columns are not one's.

    A log without a UUID, serial or bus id names GPUs by their index on the one machine that it is of.
    """
    gpu = next((name for name in _NAMES if name in columns), None)
    measures: dict[str, Measure] = {}
    for column, (field, factor) in _MEASURES.items():
        if column in columns:
            measures.setdefault(field, Measure(field=field, column=column, factor=factor))
    if _TIME not in columns or gpu is None or not measures:
        return None
    return ColumnMapping(
        time=_TIME,
        time_unit_ms=None,
        origin_ms=0,
        gpu=gpu,
        gpu_within_node=gpu not in ("uuid", "gpu_uuid"),
        measures=tuple(measures.values()),
    )


def without_units(table: pa.Table) -> pa.Table:
    """The table with each unit that a column's own name gives in brackets taken off its cells: ``35 %``."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        unit = _UNIT.fullmatch(name)
        pattern = rf"\s*{re.escape(unit[1])}\s*$" if unit else ""
        columns.append(pc.replace_substring_regex(column, pattern, "") if unit else column)
    return pa.table(columns, names=table.column_names)
