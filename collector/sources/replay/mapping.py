"""Which column of somebody's table is what: a small TOML, read into a checked value.

    width_s = 60                                  # optional: what a row stands for; else the usual step
    node_name = "cluster-a"                       # optional, as is model
    memory_total_gib = 80                         # optional
    time = { column = "t", unit = "s", origin = "2026-03-02T00:00:00Z" }
    gpu = { column = "gpu_id" }
    node = { column = "host" }                    # optional; then gpu need only be unique within a node

    [sample]                                      # the fields of collector.arrow.SAMPLE_SCHEMA
    gpu_utilization_ratio = { column = "util", unit = "percent" }
    memory_used_bytes = { column = "mem", unit = "MiB" }

    [holder]                                      # optional; columns again
    job = "pod"
    user = "owner"

Times are ``ms`` or ``s`` since the Unix epoch, or since ``origin`` where one is given, or ``iso`` (without a
zone: UTC). ``unit_s`` in place of ``unit`` says how many seconds a unit is: 3600 for hours, and so on. Pure;
reading the file that holds the TOML is the caller's.

Beside a log whose columns are known, time, gpu and sample may be left out, and are as they are known:
``node_name = "node1"`` alone says which machine's log it is.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import cast

from collector.arrow import SAMPLE_SCHEMA
from collector.model import ClaimSource
from collector.sources.replay.errors import BadMapping
from collector.toml_text import BadToml, read_toml

_TIME_UNITS = {"ms": 1.0, "s": 1000.0, "iso": None}
_UNITS: dict[str, dict[str, float]] = {
    "_ratio": {"ratio": 1.0, "percent": 0.01},
    "_bytes": {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "MB": 1e6, "GB": 1e9},
    "_mw": {"mW": 1.0, "W": 1000.0},
    "_mj": {"mJ": 1.0, "J": 1000.0},
    "_c": {"C": 1.0},
    "_mhz": {"MHz": 1.0, "Hz": 1e-6},
    "_ms": {"ms": 1.0, "s": 1000.0},
}
_OF_THE_TABLE = ("time", "gpu", "sample")
"""Without any of these, the rest is said of a log whose columns are known."""
_KEYS = ("width_s", "node_name", "model", "memory_total_gib", "time", "gpu", "node", "sample", "holder")
LARGEST = 1e9
"""Of seconds and GiB: thirty years, and a thousand times what all GPUs of the largest site have."""
_MEASURES = tuple(
    name
    for name in SAMPLE_SCHEMA.names
    if name not in ("uuid", "at_ms", "rung", "flags", "utilization_ratio")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A field of a sample, the column it comes from, and the factor to the field's own unit."""

    field: str
    column: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderColumns:
    """Columns that say who was given the GPU of a row; ``source`` is whose word that is."""

    job: str
    user: str | None = None
    project: str | None = None
    name: str | None = None
    source: ClaimSource = ClaimSource.KUBERNETES


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """Where everything stands.

    ``origin_ms`` is added to each time. No ``time_unit_ms``: timestamps or ISO 8601 text; no ``width_ms``:
    the usual step.

    With ``gpu_within_node`` the GPU's name is the node's and its own, unless it is a UUID already.
    ``gpu_model`` and ``gpu_memory`` are columns that say it of each row's GPU; where there are none, or their
    cells say nothing, ``model`` and ``memory_total_bytes`` hold for all.
    """

    time: str
    time_unit_ms: float | None
    origin_ms: int
    gpu: str
    measures: tuple[Measure, ...]
    holder: HolderColumns | None = None
    width_ms: int | None = None
    node: str | None = None
    gpu_within_node: bool = False
    node_name: str = "replay"
    model: str | None = None
    memory_total_bytes: int | None = None
    gpu_model: str | None = None
    gpu_memory: Measure | None = None


def parse_mapping(text: str, origin: str, known: ColumnMapping | None = None) -> ColumnMapping:
    """The mapping that the TOML ``text`` says; ``origin`` names its file in messages. Raises BadMapping.

    ``known`` is where everything stands in a log whose columns are known.
    """
    try:
        given = read_toml(text)
        if known is not None and not any(key in given for key in _OF_THE_TABLE):
            return _known_but_for(given, origin, known)
        return mapping_from(given, origin)
    except BadToml as error:
        raise BadMapping(f"reading the column mapping {origin}: not TOML: {error}") from error


def mapping_from(given: Mapping[str, object], origin: str) -> ColumnMapping:
    """The mapping in ``given``, checked. Raises BadMapping."""
    _known(given, _KEYS, origin, "the mapping")
    time = _entry(given, "time", origin, ("column", "unit", "unit_s", "origin"))
    sample = _table(given, "sample", origin)
    _known(sample, _MEASURES, origin, "[sample]")
    return ColumnMapping(
        time=_column(time, "time", origin),
        time_unit_ms=_time_unit_ms(time, origin),
        origin_ms=_origin_ms(time.get("origin"), origin),
        gpu=_column(_entry(given, "gpu", origin, ("column",)), "gpu", origin),
        measures=tuple(_measure(name, sample, origin) for name in sample),
        holder=_holder(given, origin),
        width_ms=_times(given, "width_s", origin, 1000),
        node=_node(given, origin),
        gpu_within_node="node" in given,
        node_name=str(given.get("node_name", "replay")),
        model=None if given.get("model") is None else str(given["model"]),
        memory_total_bytes=_times(given, "memory_total_gib", origin, 2**30),
    )


def _known_but_for(given: Mapping[str, object], origin: str, known: ColumnMapping) -> ColumnMapping:
    _known(given, _KEYS, origin, "the mapping")
    model = given.get("model", known.model)
    return replace(
        known,
        holder=_holder(given, origin),
        width_ms=_times(given, "width_s", origin, 1000),
        node=_node(given, origin) or known.node,
        node_name=str(given.get("node_name", known.node_name)),
        model=None if model is None else str(model),
        memory_total_bytes=_times(given, "memory_total_gib", origin, 2**30),
    )


def _node(given: Mapping[str, object], origin: str) -> str | None:
    return _column(_entry(given, "node", origin, ("column",)), "node", origin) if "node" in given else None


def _times(given: Mapping[str, object], key: str, origin: str, factor: int) -> int | None:
    value = given.get(key)
    return None if value is None else round(_positive(value, key, origin) * factor)


def require_columns(mapping: ColumnMapping, present: Iterable[str], path: str) -> None:
    """Raise BadMapping, naming what is missing and what there is, unless all mapped columns are present."""
    there = tuple(present)
    wanted = {"time": mapping.time, "gpu": mapping.gpu}
    wanted |= {} if mapping.node is None else {"node": mapping.node}
    wanted |= {measure.field: measure.column for measure in mapping.measures}
    wanted |= {} if mapping.gpu_model is None else {"model": mapping.gpu_model}
    wanted |= {} if mapping.gpu_memory is None else {mapping.gpu_memory.field: mapping.gpu_memory.column}
    if mapping.holder is not None:
        held = {f.name: getattr(mapping.holder, f.name) for f in fields(mapping.holder) if f.name != "source"}
        wanted |= {f"holder {name}": column for name, column in held.items() if column is not None}
    for name, column in wanted.items():
        if column not in there:
            near = _nearest(column, there)
            raise BadMapping(
                f"replaying {path}: the mapping takes {name} from the column {column!r}, which is not there. "
                f"The columns are {_listed(there)}{near}. Correct the mapping, or the file."
            )
        if there.count(column) > 1:
            raise BadMapping(
                f"replaying {path}: the mapping takes {name} from {column!r}, which is there twice. "
                "Rename one of them in the file."
            )


def _measure(name: str, sample: Mapping[str, object], origin: str) -> Measure:
    entry = _entry(sample, name, origin, ("column", "unit"))
    units = next((u for suffix, u in _UNITS.items() if name.endswith(suffix)), {"count": 1.0})
    unit = str(entry.get("unit", next(iter(units))))
    if unit not in units:
        raise BadMapping(f"{origin}: {name} has the unit {unit!r}; known are {_listed(units)}")
    return Measure(field=name, column=_column(entry, name, origin), factor=units[unit])


def _holder(given: Mapping[str, object], origin: str) -> HolderColumns | None:
    if "holder" not in given:
        return None
    entry = _table(given, "holder", origin)
    _known(entry, ("job", "user", "project", "name", "source"), origin, "[holder]")
    if "job" not in entry:
        raise BadMapping(f"{origin}: [holder] needs job, the column that tells one job from another")
    claim = str(entry.get("source", ClaimSource.KUBERNETES))
    if claim not in list(ClaimSource):
        raise BadMapping(f"{origin}: [holder] has the source {claim!r}; known are {_listed(ClaimSource)}")
    columns = {key: str(value) for key, value in entry.items() if key != "source"}
    return HolderColumns(**columns, source=ClaimSource(claim))


def _time_unit_ms(time: Mapping[str, object], origin: str) -> float | None:
    if "unit_s" in time:
        return _positive(time["unit_s"], "unit_s", origin) * 1000.0
    unit = str(time.get("unit", "iso"))
    if unit not in _TIME_UNITS:
        raise BadMapping(f"{origin}: time has the unit {unit!r}; known are {_listed(_TIME_UNITS)}")
    return _TIME_UNITS[unit]


def _origin_ms(given: object, origin: str) -> int:
    if given is None:
        return 0
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError as error:
        raise BadMapping(f"{origin}: the origin of time is {given!r}, which is no ISO 8601 time") from error
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def _entry(
    given: Mapping[str, object], key: str, origin: str, known: tuple[str, ...]
) -> Mapping[str, object]:
    if key not in given:
        raise BadMapping(f'{origin}: {key} is missing; say {key} = {{ column = "…" }}')
    value = given[key]
    if isinstance(value, str):
        return {"column": value}
    if not isinstance(value, Mapping):
        raise BadMapping(f'{origin}: {key} is {value!r}; say {key} = {{ column = "…" }}')
    entry = cast("Mapping[str, object]", value)
    _known(entry, known, origin, key)
    return entry


def _table(given: Mapping[str, object], key: str, origin: str) -> Mapping[str, object]:
    value = given.get(key, {})
    if not isinstance(value, Mapping):
        raise BadMapping(f"{origin}: {key} is {value!r}; it should be the table [{key}]")
    return cast("Mapping[str, object]", value)


def _column(entry: Mapping[str, object], key: str, origin: str) -> str:
    column = entry.get("column")
    if not isinstance(column, str) or not column:
        raise BadMapping(f'{origin}: {key} names no column; say {key} = {{ column = "…" }}')
    return column


def _positive(value: object, key: str, origin: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise BadMapping(f"{origin}: {key} is {value!r}; it should be a number above 0, {LARGEST:g} at most")
    return float(value)


def _known(given: Mapping[str, object], known: tuple[str, ...], origin: str, where: str) -> None:
    for key in given:
        if key not in known:
            raise BadMapping(
                f"{origin}: {where} has the unknown key {key!r}{_nearest(key, known)}; "
                f"known are {_listed(known)}"
            )


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
