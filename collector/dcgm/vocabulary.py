"""What every dcgm-exporter calls a measure, and in which unit: the table that all versions are read by.

Three dialects, and the 1.x one in lower case: *classic* (percent, MiB, MHz, mJ), the *renames* of DCGM 4.6
(new names, old units), and the *base units* of exporter 4.9.0 (ratio, bytes, Hz, J). Names are matched by
what follows the prefix, so ``dcgm_gpu_temp``, ``DCGM_FI_DEV_GPU_TEMP`` and a relabelled variant are one.
Sources: etc/default-counters.csv and etc/1.x-compatibility-metrics.csv of NVIDIA/dcgm-exporter, the
deprecated-name table of NVIDIA/DCGM 4.6, the release notes of exporter 4.9.0, DCGM's field identifiers 1600
to 1650 (DCGM 4.7) and, for the engines, 1025 to 1034 (dcgm_fields.h).
A new name is a new row here, never a branch elsewhere.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

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

    UNDECIDED is percent or ratio under one name: see ``utilization_scale``.
    """

    RATIO = ("ratio", 1.0, Dialect.NEUTRAL)
    NEW_RATIO = ("ratio where there was a percentage", 1.0, Dialect.BASE_UNITS)
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
    seen = [value for value in values if without_blanks(value) is not None]
    if any(value > 1 for value in seen):
        return 0.01
    if Dialect.BASE_UNITS in dialects or any(0 < value < 1 for value in seen):
        return 1.0
    if Dialect.CLASSIC in dialects:
        return 0.01
    return None if any(value == 1 for value in seen) else 1.0


def _stem(name: str) -> str:
    upper = name.upper()
    for prefix in _PREFIXES:
        if upper.startswith(prefix):
            stem = upper[len(prefix) :]
            return stem if stem in _BY_STEM else stem.removesuffix(_COUNTER_SUFFIX)
    return ""


_I, _B = Scope.INSTANCE, Scope.BOARD
_ROWS: tuple[tuple[str, str, Unit, Scope], ...] = (
    # stem, quantity (a field of GpuSample, or of the readout), unit, scope; of several the first is believed
    ("GPU_UTIL", "gpu_utilization_ratio", Unit.PERCENT, _I),
    ("GPU_UTILIZATION", "gpu_utilization_ratio", Unit.PERCENT, _I),
    ("GPU_UTIL_RATIO", "gpu_utilization_ratio", Unit.UNDECIDED, _I),
    ("MEMORY_UTIL_RATIO", "memory_controller_ratio", Unit.NEW_RATIO, _I),
    ("MEM_COPY_UTIL_RATIO", "memory_controller_ratio", Unit.NEW_RATIO, _I),
    ("MEM_COPY_UTIL", "memory_controller_ratio", Unit.PERCENT, _I),
    ("MEM_COPY_UTILIZATION", "memory_controller_ratio", Unit.PERCENT, _I),
    ("ENC_UTIL_RATIO", "encoder_ratio", Unit.NEW_RATIO, _I),
    ("ENC_UTIL", "encoder_ratio", Unit.PERCENT, _I),
    ("ENC_UTILIZATION", "encoder_ratio", Unit.PERCENT, _I),
    ("DEC_UTIL_RATIO", "decoder_ratio", Unit.NEW_RATIO, _I),
    ("DEC_UTIL", "decoder_ratio", Unit.PERCENT, _I),
    ("DEC_UTILIZATION", "decoder_ratio", Unit.PERCENT, _I),
    ("SM_UTIL_RATIO", "sm_active_ratio", Unit.RATIO, _I),
    ("SM_ACTIVE", "sm_active_ratio", Unit.RATIO, _I),
    ("GR_ENGINE_UTIL_RATIO", "graphics_active_ratio", Unit.RATIO, _I),
    ("GR_ENGINE_ACTIVE", "graphics_active_ratio", Unit.RATIO, _I),
    ("SM_OCCUPANCY_RATIO", "sm_occupancy_ratio", Unit.RATIO, _I),
    ("SM_OCCUPANCY", "sm_occupancy_ratio", Unit.RATIO, _I),
    ("TENSOR_UTIL_RATIO", "tensor_active_ratio", Unit.RATIO, _I),
    ("PIPE_TENSOR_ACTIVE", "tensor_active_ratio", Unit.RATIO, _I),
    ("DRAM_UTIL_RATIO", "dram_active_ratio", Unit.RATIO, _I),
    ("DRAM_ACTIVE", "dram_active_ratio", Unit.RATIO, _I),
    ("FB_USED_BYTES", "memory_used_bytes", Unit.BYTES, _I),
    ("FB_USED", "memory_used_bytes", Unit.MEBIBYTES, _I),
    ("FB_FREE_BYTES", "memory_free_bytes", Unit.BYTES, _I),
    ("FB_FREE", "memory_free_bytes", Unit.MEBIBYTES, _I),
    ("FB_RESERVED_BYTES", "memory_reserved_bytes", Unit.BYTES, _I),
    ("FB_RESERVED", "memory_reserved_bytes", Unit.MEBIBYTES, _I),
    ("FB_CAPACITY_BYTES", "memory_total_bytes", Unit.BYTES, _I),
    ("FB_TOTAL_BYTES", "memory_total_bytes", Unit.BYTES, _I),
    ("FB_TOTAL", "memory_total_bytes", Unit.MEBIBYTES, _I),
    ("BOARD_POWER_WATTS", "power_mw", Unit.WATTS, _B),
    ("POWER_USAGE", "power_mw", Unit.WATTS, _B),
    ("POWER_USAGE_INSTANT", "power_mw", Unit.WATTS, _B),
    ("GPU_ENERGY_JOULES_TOTAL", "energy_mj", Unit.JOULES, _B),
    ("TOTAL_ENERGY_CONSUMPTION", "energy_mj", Unit.MILLIJOULES, _B),
    ("GPU_TEMP_CELSIUS", "temperature_c", Unit.CELSIUS, _B),
    ("GPU_TEMP", "temperature_c", Unit.CELSIUS, _B),
    ("SM_CLOCK_HERTZ", "sm_clock_mhz", Unit.HERTZ, _B),
    ("SM_CLOCK", "sm_clock_mhz", Unit.MEGAHERTZ, _B),
    ("MEMORY_CLOCK_HERTZ", "memory_clock_mhz", Unit.HERTZ, _B),
    ("MEM_CLOCK_HERTZ", "memory_clock_mhz", Unit.HERTZ, _B),
    ("MEM_CLOCK", "memory_clock_mhz", Unit.MEGAHERTZ, _B),
    ("MEMORY_CLOCK", "memory_clock_mhz", Unit.MEGAHERTZ, _B),
    ("CLOCKS_EVENT_REASONS", "throttle_reasons", Unit.COUNT, _B),
    ("CLOCK_THROTTLE_REASONS", "throttle_reasons", Unit.COUNT, _B),
    ("XID_ERROR", "xid", Unit.COUNT, _B),
    ("XID_ERRORS", "xid", Unit.COUNT, _B),
    ("ECC_SBE_VOL_TOTAL", "ecc_corrected", Unit.COUNT, _B),
    ("ECC_SBE_VOLATILE_TOTAL", "ecc_corrected", Unit.COUNT, _B),
    ("ECC_DBE_VOL_TOTAL", "ecc_uncorrected", Unit.COUNT, _B),
    ("ECC_DBE_VOLATILE_TOTAL", "ecc_uncorrected", Unit.COUNT, _B),
    ("BOARD_POWER_LIMIT_ENFORCED_WATTS", "power_limit_mw", Unit.WATTS, _B),
    ("ENFORCED_POWER_LIMIT", "power_limit_mw", Unit.WATTS, _B),
    ("BOARD_POWER_LIMIT_REQUESTED_WATTS", "power_limit_mw", Unit.WATTS, _B),
    ("POWER_MGMT_LIMIT", "power_limit_mw", Unit.WATTS, _B),
    ("PERSISTENCE_MODE", "persistence_mode", Unit.COUNT, _B),
)

_NUMBERED: tuple[tuple[str, str, int], ...] = (
    # stem of engine n, quantity, engines there can be: of several engines the busiest counts
    ("NVJPG_UTIL_{}_RATIO", "jpeg_ratio", 8),
    ("NVJPG{}_ACTIVE", "jpeg_ratio", 8),
    ("NVOFA_UTIL_{}_RATIO", "ofa_ratio", 2),
    ("NVOFA{}_ACTIVE", "ofa_ratio", 2),
)
_BY_STEM = {
    stem: Measure(quantity=quantity, unit=unit, scope=scope, rank=rank)
    for rank, (stem, quantity, unit, scope) in enumerate(_ROWS)
} | {
    stem.format(engine): Measure(quantity=quantity, unit=Unit.RATIO, scope=_I, rank=len(_ROWS) + at)
    for at, (stem, quantity, engines) in enumerate(_NUMBERED)
    for engine in range(engines)
}
QUANTITIES = frozenset(row.quantity for row in _BY_STEM.values())
"""Everything that the vocabulary can say."""
BOARD_QUANTITIES = frozenset(row.quantity for row in _BY_STEM.values() if row.scope is Scope.BOARD)
"""What belongs to the board, however often the exporter repeats it."""
