"""The CSV log of ``nvidia-smi --query-gpu=… --format=csv -l`` as a mapping. Pure.

Source: ``nvidia-smi --help-query-gpu``. With ``nounits`` the cells lose their units and the header keeps
them. Its times have no zone: they are the machine's own, and are taken for UTC. The columns' names
stand beside each measure in ``collector.metrics``.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from collector.metrics import METRICS
from collector.sources.replay.cells import is_missing
from collector.sources.replay.mapping import ColumnMapping, Measure

_TIME = "timestamp"
_NAMES = ("uuid", "gpu_uuid", "serial", "gpu_serial", "pci.bus_id", "gpu_bus_id", "index")
"""What tells GPUs apart, the one that lasts longest first."""
_NODES = ("node", "hostname", "host")
"""No column of nvidia-smi's: who gathers the logs of several machines adds one."""
_MODELS = ("name", "gpu_name")
"""What the GPU is, in one column or the other."""
_FACTORS = {"": 1.0, "%": 0.01, "MiB": 2.0**20, "W": 1000.0, "MHz": 1.0}
"""What a value is multiplied by to come to its field's own unit, by the unit that its column names."""
_UNIT = re.compile(r".*\[(.+)\]")


def smi_mapping(table: pa.Table, node_name: str) -> ColumnMapping | None:
    """Where everything stands in nvidia-smi's log, or ``None`` when these columns are not one's.

    A log without a UUID names GPUs by what else tells them apart, on the machine that it is of: the one in
    its own column, else ``node_name``. So does one whose every UUID is an error, as ``[GPU is lost]``.
    """
    columns = table.column_names
    present = [name for name in _NAMES if name in columns]
    gpu = next((name for name in present if not pc.all(is_missing(table[name])).as_py()), None)
    gpu = gpu or next(iter(present), None)
    measures: list[Measure] = []
    memory = None
    for metric in METRICS:
        column = next((name for name in metric.smi if name in columns), None)
        if column is None:
            continue
        measure = Measure(field=metric.name, column=column, factor=_factor(column))
        if metric.is_stored:
            measures.append(measure)
        elif metric.name == "memory_total_bytes":
            memory = measure  # of the GPU, not of the moment: no column of a sample
    if _TIME not in columns or gpu is None or not measures:
        return None
    return ColumnMapping(
        time=_TIME,
        time_unit_ms=None,
        origin_ms=0,
        gpu=gpu,
        gpu_within_node=gpu not in ("uuid", "gpu_uuid"),
        node=next((name for name in _NODES if name in columns), None),
        node_name=node_name,
        measures=tuple(measures),
        gpu_model=next((name for name in _MODELS if name in columns), None),
        gpu_memory=memory,
    )


def _factor(column: str) -> float:
    unit = _UNIT.fullmatch(column)
    return _FACTORS[unit[1] if unit else ""]


def without_units(table: pa.Table) -> pa.Table:
    """The table with each unit that a column's own name gives in brackets taken off its cells: ``35 %``."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        unit = _UNIT.fullmatch(name)
        pattern = rf"\s*{re.escape(unit[1])}\s*$" if unit else ""
        columns.append(pc.replace_substring_regex(column, pattern, "") if unit else column)
    return pa.table(columns, names=table.column_names)
