"""What the names and units of every dcgm-exporter mean; the names stand beside each measure in
``collector.metrics``, and all versions are read by them.

Three dialects, and the 1.x one in lower case: *classic* (percent, MiB, MHz, mJ), the *renames* of DCGM 4.6
(new names, old units), and the *base units* of exporter 4.9.0 (ratio, bytes, Hz, J). Names are matched by
what follows the prefix, so ``dcgm_gpu_temp``, ``DCGM_FI_DEV_GPU_TEMP`` and a relabelled variant are one.
Sources: etc/default-counters.csv and etc/1.x-compatibility-metrics.csv of NVIDIA/dcgm-exporter, the
deprecated-name table of NVIDIA/DCGM 4.6, the release notes of exporter 4.9.0, DCGM's field identifiers 1600
to 1650 (DCGM 4.7) and, for the engines, 1025 to 1034 (dcgm_fields.h).
A new name is declared beside its measure, never a branch here.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from collector.declared_metric import Metric
from collector.metrics import METRICS

MIB = 1 << 20
INT64_BLANK = float(0x7FFFFFFFFFFFFFF0)
BLANKS = frozenset(float(base + code) for base in (0x7FFFFFF0, 1 << 47) for code in range(4))
"""What DCGM writes where it has no number; all 64-bit integer blanks are INT64_BLANK when read as doubles."""
_COUNTER_SUFFIX = "_TOTAL"
"""OpenMetrics ends every counter's name so, and OpenTelemetry's Prometheus exporters append it to all."""
_PREFIXES = ("DCGM_FI_DEV_", "DCGM_FI_PROF_", "DCGM_")


class Dialect(Enum):
    """Whose unit a name speaks; NEUTRAL names mean the same in all of them."""

    NEUTRAL = "neutral"
    CLASSIC = "classic"
    BASE_UNITS = "base units"


class Scope(Enum):
    """Whose value it is while MIG is on: BOARD values are repeated for each instance by the exporter."""

    BOARD = "board"
    INSTANCE = "instance"


class Unit(Enum):
    """A unit on the wire: its name, the factor to the house's own unit, and the dialect it gives away.

    NEW_RATIO stands where there was a percentage before. UNDECIDED is percent or ratio under one name: see
    ``utilization_scale``.
    """

    RATIO = ("ratio", 1.0, Dialect.NEUTRAL)
    NEW_RATIO = ("new ratio", 1.0, Dialect.BASE_UNITS)
    PERCENT = ("%", 0.01, Dialect.CLASSIC)
    UNDECIDED = ("% or ratio", None, Dialect.NEUTRAL)
    BYTES = ("bytes", 1.0, Dialect.BASE_UNITS)
    MEBIBYTES = ("MiB", float(MIB), Dialect.CLASSIC)
    MEGAHERTZ = ("MHz", 1.0, Dialect.CLASSIC)
    HERTZ = ("Hz", 1e-6, Dialect.BASE_UNITS)
    MILLIJOULES = ("mJ", 1.0, Dialect.CLASSIC)
    JOULES = ("J", 1e3, Dialect.BASE_UNITS)
    WATTS = ("W", 1e3, Dialect.NEUTRAL)
    CELSIUS = ("°C", 1.0, Dialect.NEUTRAL)
    COUNT = ("count", 1.0, Dialect.NEUTRAL)

    @property
    def factor(self) -> float | None:
        """What a value is multiplied by to become the house's unit; ``None`` while undecided."""
        factor: float | None = self.value[1]
        return factor

    @property
    def dialect(self) -> Dialect:
        """The dialect that a metric in this unit gives away."""
        dialect: Dialect = self.value[2]
        return dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A row of the vocabulary; of two names for a quantity in one scrape, the lower ``rank`` is believed."""

    quantity: str
    unit: Unit
    scope: Scope
    rank: int


def measure_of(name: str) -> Measure | None:
    """What a metric name means, or ``None`` for a metric that Fallow has no use for."""
    return _BY_STEM.get(_stem(name))


def is_known(name: str) -> bool:
    """Whether a metric name is in the vocabulary."""
    return _stem(name) in _BY_STEM


def is_dcgm(name: str) -> bool:
    """Whether a metric name is dcgm-exporter's, known or not."""
    return name.upper().startswith("DCGM_")


def without_blanks(value: float) -> float | None:
    """The value, or ``None`` for NaN and for DCGM's blanks (not measured, not supported, no permission).

    dcgm_structs.h: DCGM_INT32_BLANK 0x7ffffff0, DCGMINT64_BLANK 0x7ffffffffffffff0, DCGM_FP64_BLANK 2**47,
    each with three more codes above it; as doubles the 64-bit ones all read 2**63.
    """
    if math.isnan(value) or value in BLANKS or value >= INT64_BLANK or math.isinf(value):
        return None
    return value


def utilization_scale(values: Iterable[float], dialects: frozenset[Dialect]) -> float | None:
    """The factor of ``…_GPU_UTIL_RATIO`` in one scrape, or ``None`` when the scrape cannot tell.

    The name came with DCGM 4.6 for a field that still counts to 100; from exporter 4.9.0 on it is a ratio.
    So: above 1 is percent; base-unit companions or a fraction mean ratio; classic companions mean percent;
    zero is zero in both; a lone 1 is 1% or all of it, and nobody knows.
    """
    measurements = [value for value in values if without_blanks(value) is not None]
    if any(value > 1 for value in measurements):
        return 0.01
    if Dialect.BASE_UNITS in dialects or any(0 < value < 1 for value in measurements):
        return 1.0
    if Dialect.CLASSIC in dialects:
        return 0.01
    return None if any(value == 1 for value in measurements) else 1.0


def _stem(name: str) -> str:
    upper = name.upper()
    for prefix in _PREFIXES:
        if upper.startswith(prefix):
            stem = upper[len(prefix) :]
            return stem if stem in _BY_STEM else stem.removesuffix(_COUNTER_SUFFIX)
    return ""


_UNITS: dict[str, Unit] = {unit.value[0]: unit for unit in Unit}
_OF_THE_GPU = (
    Metric(name="memory_free_bytes", dcgm={"FB_FREE_BYTES": "bytes", "FB_FREE": "MiB"}),
    Metric(
        name="power_limit_mw",
        dcgm={
            "BOARD_POWER_LIMIT_ENFORCED_WATTS": "W",
            "ENFORCED_POWER_LIMIT": "W",
            "BOARD_POWER_LIMIT_REQUESTED_WATTS": "W",
            "POWER_MGMT_LIMIT": "W",
        },
        of_board=True,
    ),
    Metric(name="persistence_mode", dcgm={"PERSISTENCE_MODE": "count"}, of_board=True),
)
"""What the readout takes besides the fields of a sample: it is kept with the GPU, or only reckoned with."""


def _measures() -> Iterator[tuple[str, Measure]]:
    """Every stem and what it means; engines of one name have one rank, so that the busiest counts."""
    rows = ((metric, row) for metric in (*METRICS, *_OF_THE_GPU) for row in metric.dcgm.items())
    for rank, (metric, (stem, unit)) in enumerate(rows):
        scope = Scope.BOARD if metric.of_board else Scope.INSTANCE
        measure = Measure(quantity=metric.name, unit=_UNITS[unit], scope=scope, rank=rank)
        yield from ((stem.format(engine), measure) for engine in range(max(metric.engines, 1)))


_BY_STEM = dict(_measures())
QUANTITIES = frozenset(row.quantity for row in _BY_STEM.values())
"""Everything that the vocabulary can say."""
BOARD_QUANTITIES = frozenset(row.quantity for row in _BY_STEM.values() if row.scope is Scope.BOARD)
"""What belongs to the board, however often the exporter repeats it."""
