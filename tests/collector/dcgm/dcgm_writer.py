"""The project's own writer of dcgm-exporter text: the same facts, said in the dialect of any version.

It shares no table with the reader: what a dialect calls a measure is spelled out here a second time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a GPU (or instance) does, in the house's units; ``None`` is not exported."""

    gpu_utilization_ratio: float | None = None
    memory_controller_ratio: float | None = None
    encoder_ratio: float | None = None
    decoder_ratio: float | None = None
    graphics_active_ratio: float | None = None
    sm_active_ratio: float | None = None
    sm_occupancy_ratio: float | None = None
    tensor_active_ratio: float | None = None
    dram_active_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    power_mw: int | None = None
    energy_mj: int | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    xid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One row of labels: a whole GPU, or one MIG instance of it; repeated rows are repeated Boards."""

    uuid: str
    index: int = 0
    node: str = "node-1"
    model: str = "NVIDIA H100 80GB HBM3"
    driver: str = "580.105.08"
    instance: str = ""
    profile: str = ""
    holders: Mapping[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """How a dialect says one measure: name, type, and the wire's units in one of the house's."""

    name: str
    kind: str
    per_unit: float
    whole: bool = False

    def said(self, value: float) -> str:
        wire = value * self.per_unit
        return str(round(wire)) if self.whole else f"{wire:.6f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A version's words and labels."""

    name: str
    words: Mapping[str, Word]
    node_label: str
    uuid_label: str
    model_label: str
    driver_label: str


def _gauge(name: str, per_unit: float = 1.0, *, whole: bool = False) -> Word:
    return Word(name=name, kind="gauge", per_unit=per_unit, whole=whole)


_PROFILING = {
    "graphics_active_ratio": _gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    "sm_active_ratio": _gauge("DCGM_FI_PROF_SM_ACTIVE"),
    "sm_occupancy_ratio": _gauge("DCGM_FI_PROF_SM_OCCUPANCY"),
    "tensor_active_ratio": _gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    "dram_active_ratio": _gauge("DCGM_FI_PROF_DRAM_ACTIVE"),
}
_NEW_PROFILING = {
    "graphics_active_ratio": _gauge("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    "sm_active_ratio": _gauge("DCGM_FI_PROF_SM_UTIL_RATIO"),
    "sm_occupancy_ratio": _gauge("DCGM_FI_PROF_SM_OCCUPANCY_RATIO"),
    "tensor_active_ratio": _gauge("DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
    "dram_active_ratio": _gauge("DCGM_FI_PROF_DRAM_UTIL_RATIO"),
}
_OLD_UNITS = {
    "memory_controller_ratio": _gauge("DCGM_FI_DEV_MEM_COPY_UTIL", 100, whole=True),
    "encoder_ratio": _gauge("DCGM_FI_DEV_ENC_UTIL", 100, whole=True),
    "decoder_ratio": _gauge("DCGM_FI_DEV_DEC_UTIL", 100, whole=True),
    "memory_used_bytes": _gauge("DCGM_FI_DEV_FB_USED", 1 / MIB, whole=True),
    "memory_free_bytes": _gauge("DCGM_FI_DEV_FB_FREE", 1 / MIB, whole=True),
    "memory_reserved_bytes": _gauge("DCGM_FI_DEV_FB_RESERVED", 1 / MIB, whole=True),
    "energy_mj": Word(name="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kind="counter", per_unit=1, whole=True),
    "sm_clock_mhz": _gauge("DCGM_FI_DEV_SM_CLOCK", whole=True),
    "memory_clock_mhz": _gauge("DCGM_FI_DEV_MEM_CLOCK", whole=True),
}
CLASSIC = Dialect(
    name="classic",
    words={
        "gpu_utilization_ratio": _gauge("DCGM_FI_DEV_GPU_UTIL", 100, whole=True),
        "power_mw": _gauge("DCGM_FI_DEV_POWER_USAGE", 1e-3),
        "temperature_c": _gauge("DCGM_FI_DEV_GPU_TEMP", whole=True),
        "xid": _gauge("DCGM_FI_DEV_XID_ERRORS", whole=True),
        **_OLD_UNITS,
        **_PROFILING,
    },
    node_label="Hostname",
    uuid_label="UUID",
    model_label="modelName",
    driver_label="DCGM_FI_DRIVER_VERSION",
)
RENAMED = Dialect(
    name="renames of 4.6",
    words={
        "gpu_utilization_ratio": _gauge("DCGM_FI_DEV_GPU_UTIL_RATIO", 100, whole=True),
        "power_mw": _gauge("DCGM_FI_DEV_BOARD_POWER_WATTS", 1e-3),
        "temperature_c": _gauge("DCGM_FI_DEV_GPU_TEMP_CELSIUS", whole=True),
        "xid": _gauge("DCGM_FI_DEV_XID_ERROR", whole=True),
        **_OLD_UNITS,
        **_NEW_PROFILING,
    },
    node_label="hostname",
    uuid_label="UUID",
    model_label="modelName",
    driver_label="DCGM_FI_DRIVER_VERSION",
)
BASE_UNITS = Dialect(
    name="base units of 4.9.0",
    words={
        "gpu_utilization_ratio": _gauge("DCGM_FI_DEV_GPU_UTIL_RATIO"),
        "memory_controller_ratio": _gauge("DCGM_FI_DEV_MEMORY_UTIL_RATIO"),
        "encoder_ratio": _gauge("DCGM_FI_DEV_ENC_UTIL_RATIO"),
        "decoder_ratio": _gauge("DCGM_FI_DEV_DEC_UTIL_RATIO"),
        "memory_used_bytes": _gauge("DCGM_FI_DEV_FB_USED_BYTES", whole=True),
        "memory_free_bytes": _gauge("DCGM_FI_DEV_FB_FREE_BYTES", whole=True),
        "memory_reserved_bytes": _gauge("DCGM_FI_DEV_FB_RESERVED_BYTES", whole=True),
        "power_mw": _gauge("DCGM_FI_DEV_BOARD_POWER_WATTS", 1e-3),
        "energy_mj": Word(
            name="DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", kind="counter", per_unit=1e-3, whole=True
        ),
        "temperature_c": _gauge("DCGM_FI_DEV_GPU_TEMP_CELSIUS", whole=True),
        "sm_clock_mhz": _gauge("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6, whole=True),
        "memory_clock_mhz": _gauge("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6, whole=True),
        "xid": _gauge("DCGM_FI_DEV_XID_ERROR", whole=True),
        **_NEW_PROFILING,
    },
    node_label="hostname",
    uuid_label="UUID",
    model_label="modelName",
    driver_label="DCGM_FI_SYSTEM_DRIVER_VERSION",
)
ANCIENT = Dialect(
    name="lower case of 1.x",
    words={
        "gpu_utilization_ratio": _gauge("dcgm_gpu_utilization", 100, whole=True),
        "memory_controller_ratio": _gauge("dcgm_mem_copy_utilization", 100, whole=True),
        "encoder_ratio": _gauge("dcgm_enc_utilization", 100, whole=True),
        "decoder_ratio": _gauge("dcgm_dec_utilization", 100, whole=True),
        "memory_used_bytes": _gauge("dcgm_fb_used", 1 / MIB, whole=True),
        "memory_free_bytes": _gauge("dcgm_fb_free", 1 / MIB, whole=True),
        "memory_reserved_bytes": _gauge("dcgm_fb_reserved", 1 / MIB, whole=True),
        "power_mw": _gauge("dcgm_power_usage", 1e-3),
        "energy_mj": Word(name="dcgm_total_energy_consumption", kind="counter", per_unit=1, whole=True),
        "temperature_c": _gauge("dcgm_gpu_temp", whole=True),
        "sm_clock_mhz": _gauge("dcgm_sm_clock", whole=True),
        "memory_clock_mhz": _gauge("dcgm_memory_clock", whole=True),
        "xid": _gauge("dcgm_xid_errors", whole=True),
        "graphics_active_ratio": _gauge("dcgm_fi_prof_gr_engine_active"),
        "sm_active_ratio": _gauge("dcgm_fi_prof_sm_active"),
        "sm_occupancy_ratio": _gauge("dcgm_fi_prof_sm_occupancy"),
        "tensor_active_ratio": _gauge("dcgm_fi_prof_pipe_tensor_active"),
        "dram_active_ratio": _gauge("dcgm_fi_prof_dram_active"),
    },
    node_label="Hostname",
    uuid_label="uuid",
    model_label="modelName",
    driver_label="DCGM_FI_DRIVER_VERSION",
)
DIALECTS = (CLASSIC, RENAMED, BASE_UNITS, ANCIENT)


def labels_of(board: Board, dialect: Dialect) -> dict[str, str]:
    """The labels of a board's rows."""
    found = {
        "gpu": str(board.index),
        dialect.uuid_label: board.uuid,
        "device": f"nvidia{board.index}",
        dialect.model_label: board.model,
    }
    if board.instance:
        found |= {"GPU_I_PROFILE": board.profile, "GPU_I_ID": board.instance}
    return found | {dialect.node_label: board.node, dialect.driver_label: board.driver} | dict(board.holders)


def block(labels: Mapping[str, str]) -> str:
    """A label block with its braces."""
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in labels.items()
    )
    return "{" + ",".join(quoted) + "}"


def exposition(boards: Iterable[Board], dialect: Dialect, *, typed: bool = True) -> str:
    """The boards as an exporter of this dialect would tell them, with or without HELP and TYPE."""
    boards, lines = tuple(boards), []
    for quantity, word in dialect.words.items():
        rows = [(board, getattr(board.facts, quantity)) for board in boards]
        rows = [(board, value) for board, value in rows if value is not None]
        if rows and typed:
            lines += [
                f"# HELP {word.name} {quantity}, written for a test.",
                f"# TYPE {word.name} {word.kind}",
            ]
        lines += [
            f"{word.name}{block(labels_of(board, dialect))} {word.said(value)}" for board, value in rows
        ]
    return "\n".join(lines) + "\n"
