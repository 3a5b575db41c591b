"""Every measure of a GPU, declared once: what it is called everywhere, in which unit, and who says it.

The fields of ``GpuSample`` are the list. Arrow's schema, the store's columns, ``/metrics``, the readers of
NVML, dcgm-exporter and nvidia-smi's logs, the simulated cluster, the export, the timelines and ``fallow
collect`` follow from what is declared beside each field; docs/dev/add-metric.md says how to add one. Pure.
The process that reads NVML imports this file: nothing but the standard library may be imported here.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NewType

from collector.declared_metric import (
    Exposed,
    Metric,
    Nvml,
    Simulated,
    Timeline,
    declared,
    declares,
    metrics_of,
    ratio,
)

GpuUuid = NewType("GpuUuid", str)


class Basis(IntEnum):
    """Which measure stands behind a utilization figure; higher says more.

    GPU_UTILIZATION is the share of time in which any kernel ran, so it is an upper bound only.
    """

    UNKNOWN = 0
    GPU_UTILIZATION = 1
    GRAPHICS_ACTIVE = 2
    SM_ACTIVE = 3


_ZERO, _PLAYED = Simulated.ZERO, Simulated.PLAYED


@dataclass(slots=True, kw_only=True)
class GpuSample:
    """What one GPU did in the ``width_ms`` that end at ``at_ms``; not to be changed.

    ``utilization_ratio`` is the mean on ``rung``, the best measure there was. ``gpu_busy_ratio`` is the
    share of the driver's sub-second samples that were above zero. ``energy_mj`` is the driver's own
    counter since its load, not a difference. ``throttle_reasons`` is NVML's clocks-event bit mask.
    ``process_count`` is ``None`` when processes were not looked at.
    """

    uuid: GpuUuid
    at_ms: int = field(
        metadata=declares(
            exposed=Exposed(
                "sample_timestamp_seconds", "End of the time that the newest sample covers.", 1e-3
            )
        )
    )
    width_ms: int = field(
        metadata=declares(
            arrow="int32",
            exposed=Exposed("sample_width_seconds", "Time that the newest sample covers.", 1e-3),
        )
    )
    rung: Basis = field(
        default=Basis.UNKNOWN,
        metadata=declares(
            arrow="uint8",
            exposed=Exposed(
                "utilization_rung",
                "Measure behind utilization: 0 none, 1 any kernel, 2 graphics, 3 SM active.",
            ),
        ),
    )
    utilization_ratio: float | None = ratio(
        exposed=Exposed("utilization_ratio", "Mean on the best rung there is; with rung 1 an upper bound."),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("on the best rung there is",), "Utilization", "best measure"),
    )
    gpu_utilization_ratio: float | None = ratio(
        exposed=Exposed("any_kernel_ratio", "Share of time with any kernel running: an upper bound."),
        nvml=Nvml(),
        dcgm={"GPU_UTIL": "%", "GPU_UTILIZATION": "%", "GPU_UTIL_RATIO": "% or ratio"},
        smi=("utilization.gpu [%]",),
        simulated=_PLAYED,
        timeline=Timeline(
            ("avg",), ("share of time in which any kernel ran",), "Utilization", "any kernel ran"
        ),
        is_printed=True,
    )
    gpu_utilization_max_ratio: float | None = ratio(
        exposed=Exposed("any_kernel_max_ratio", "Highest of the driver's sub-second samples."),
        nvml=Nvml(),
        simulated=_PLAYED,
        timeline=Timeline(("max",), ("its highest sub-second value",)),
    )
    gpu_busy_ratio: float | None = ratio(
        exposed=Exposed("busy_ratio", "Share of the driver's sub-second samples above zero."),
        nvml=Nvml(is_percent=False),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("share of the sub-second samples above zero",)),
        is_printed=True,
    )
    memory_controller_ratio: float | None = ratio(
        exposed=Exposed("memory_controller_ratio", "Share of time with memory reads or writes."),
        nvml=Nvml(),
        dcgm={
            "MEMORY_UTIL_RATIO": "new ratio",
            "MEM_COPY_UTIL_RATIO": "new ratio",
            "MEM_COPY_UTIL": "%",
            "MEM_COPY_UTILIZATION": "%",
        },
        smi=("utilization.memory [%]",),
        simulated=_PLAYED,
        timeline=Timeline(
            ("avg",),
            ("share of time in which memory was read or written",),
            "Memory traffic",
            "memory controller",
        ),
        is_printed=True,
    )
    encoder_ratio: float | None = ratio(
        exposed=Exposed("encoder_ratio", "Share of time the encoder was busy."),
        nvml=Nvml(
            calls=(("nvmlDeviceGetEncoderUtilization", ()),), has_period=True, words="encoder utilization"
        ),
        dcgm={"ENC_UTIL_RATIO": "new ratio", "ENC_UTIL": "%", "ENC_UTILIZATION": "%"},
        smi=("utilization.encoder [%]",),
        simulated=_ZERO,
        timeline=Timeline(("avg",), ("of the video encoder",), "Video", "encoder"),
    )
    decoder_ratio: float | None = ratio(
        exposed=Exposed("decoder_ratio", "Share of time the decoder was busy."),
        nvml=Nvml(
            calls=(("nvmlDeviceGetDecoderUtilization", ()),), has_period=True, words="decoder utilization"
        ),
        dcgm={"DEC_UTIL_RATIO": "new ratio", "DEC_UTIL": "%", "DEC_UTILIZATION": "%"},
        smi=("utilization.decoder [%]",),
        simulated=_ZERO,
        timeline=Timeline(("avg",), ("of the video decoder",), "Video", "decoder"),
    )
    jpeg_ratio: float | None = ratio(
        exposed=Exposed("jpeg_ratio", "Share of time the JPEG decoder was busy."),
        nvml=Nvml(
            calls=(("nvmlDeviceGetJpgUtilization", ()),), has_period=True, words="JPEG decoder utilization"
        ),
        dcgm={"NVJPG_UTIL_{}_RATIO": "ratio", "NVJPG{}_ACTIVE": "ratio"},
        engines=8,
        smi=("utilization.jpeg [%]",),
        simulated=_ZERO,
    )
    ofa_ratio: float | None = ratio(
        exposed=Exposed("ofa_ratio", "Share of time the optical flow accelerator was busy."),
        nvml=Nvml(
            calls=(("nvmlDeviceGetOfaUtilization", ()),), has_period=True, words="optical flow utilization"
        ),
        dcgm={"NVOFA_UTIL_{}_RATIO": "ratio", "NVOFA{}_ACTIVE": "ratio"},
        engines=2,
        smi=("utilization.ofa [%]",),
        simulated=_ZERO,
    )
    graphics_active_ratio: float | None = ratio(
        exposed=Exposed("graphics_active_ratio", "Share of time the graphics or compute engine was active."),
        nvml=Nvml(gpm=1),
        dcgm={"GR_ENGINE_UTIL_RATIO": "ratio", "GR_ENGINE_ACTIVE": "ratio"},
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("of the graphics or compute engine",)),
    )
    sm_active_ratio: float | None = ratio(
        exposed=Exposed("sm_active_ratio", "Share of cycles with a warp on an SM, mean over SMs."),
        nvml=Nvml(gpm=2),
        dcgm={"SM_UTIL_RATIO": "ratio", "SM_ACTIVE": "ratio"},
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("share of SMs with a warp resident",), "SMs", "SM active"),
        is_printed=True,
    )
    sm_occupancy_ratio: float | None = ratio(
        exposed=Exposed("sm_occupancy_ratio", "Resident warps over the most there can be."),
        nvml=Nvml(gpm=3),
        dcgm={"SM_OCCUPANCY_RATIO": "ratio", "SM_OCCUPANCY": "ratio"},
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("resident warps over the most there can be",), "SMs", "occupancy"),
        is_printed=True,
    )
    tensor_active_ratio: float | None = ratio(
        exposed=Exposed("tensor_active_ratio", "Share of cycles the tensor pipe was active."),
        nvml=Nvml(gpm=5),
        dcgm={"TENSOR_UTIL_RATIO": "ratio", "PIPE_TENSOR_ACTIVE": "ratio"},
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("of the tensor pipes",), "SMs", "tensor active"),
        is_printed=True,
    )
    dram_active_ratio: float | None = ratio(
        exposed=Exposed("dram_active_ratio", "Share of cycles the device memory was active."),
        nvml=Nvml(gpm=10),
        dcgm={"DRAM_UTIL_RATIO": "ratio", "DRAM_ACTIVE": "ratio"},
        simulated=_PLAYED,
        timeline=Timeline(
            ("avg",), ("of the memory interface",), "Memory traffic", "DRAM active", is_first=True
        ),
        is_printed=True,
    )
    memory_used_bytes: int | None = declared(
        most=10 * 2**40,  # the largest board of 2026 has 288 GB (NVIDIA GB300)
        exposed=Exposed("memory_used_bytes", "Device memory in use, without what the driver reserves."),
        nvml=Nvml(),
        dcgm={"FB_USED_BYTES": "bytes", "FB_USED": "MiB"},
        smi=("memory.used [MiB]",),
        simulated=_PLAYED,
        timeline=Timeline(("avg", "max"), ("used", "the most used"), "Memory used", "memory used"),
        is_printed=True,
    )
    memory_reserved_bytes: int | None = declared(
        exposed=Exposed("memory_reserved_bytes", "Device memory that the driver reserves."),
        nvml=Nvml(),
        dcgm={"FB_RESERVED_BYTES": "bytes", "FB_RESERVED": "MiB"},
        smi=("memory.reserved [MiB]",),
        simulated=_PLAYED,
        is_printed=True,
    )
    memory_total_bytes: int | None = declared(
        nvml=Nvml(),
        dcgm={"FB_CAPACITY_BYTES": "bytes", "FB_TOTAL_BYTES": "bytes", "FB_TOTAL": "MiB"},
        smi=("memory.total [MiB]",),
        is_stored=False,
    )
    power_mw: int | None = declared(
        most=10_000_000,  # 10 kW; the largest board of 2026 draws 1.4 (NVIDIA GB300)
        arrow="int32",
        exposed=Exposed("power_watts", "Power drawn by the board.", 1e-3),
        nvml=Nvml(185, calls=(("nvmlDeviceGetPowerUsage", ()),), words="power"),
        dcgm={"BOARD_POWER_WATTS": "W", "POWER_USAGE": "W", "POWER_USAGE_INSTANT": "W"},
        of_board=True,
        smi=("power.draw [W]", "power.draw.instant [W]", "power.draw.average [W]"),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("drawn",), "Power", "power"),
    )
    energy_mj: int | None = declared(
        exposed=Exposed("energy_joules_total", "Energy since the driver was loaded.", 1e-3, True),
        nvml=Nvml(83, calls=(("nvmlDeviceGetTotalEnergyConsumption", ()),), words="energy counter"),
        dcgm={"GPU_ENERGY_JOULES_TOTAL": "J", "TOTAL_ENERGY_CONSUMPTION": "mJ"},
        of_board=True,
        simulated=_PLAYED,
    )
    temperature_c: int | None = declared(
        arrow="int16",
        exposed=Exposed("temperature_celsius", "Temperature of the GPU."),
        nvml=Nvml(calls=(("nvmlDeviceGetTemperature", (0,)),), words="temperature"),
        dcgm={"GPU_TEMP_CELSIUS": "°C", "GPU_TEMP": "°C"},
        of_board=True,
        smi=("temperature.gpu",),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("of the GPU",), "Temperature", "temperature"),
        is_printed=True,
    )
    sm_clock_mhz: int | None = declared(
        arrow="int16",
        exposed=Exposed("sm_clock_hertz", "Clock of the SMs.", 1e6),
        nvml=Nvml(calls=(("nvmlDeviceGetClockInfo", (1,)),), words="SM clock"),
        dcgm={"SM_CLOCK_HERTZ": "Hz", "SM_CLOCK": "MHz"},
        of_board=True,
        smi=("clocks.current.sm [MHz]", "clocks.sm [MHz]"),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("of the SMs",), "Clocks", "SM clock"),
        is_printed=True,
    )
    memory_clock_mhz: int | None = declared(
        arrow="int16",
        exposed=Exposed("memory_clock_hertz", "Clock of the memory.", 1e6),
        nvml=Nvml(calls=(("nvmlDeviceGetClockInfo", (2,)),), words="memory clock"),
        dcgm={"MEMORY_CLOCK_HERTZ": "Hz", "MEM_CLOCK_HERTZ": "Hz", "MEM_CLOCK": "MHz", "MEMORY_CLOCK": "MHz"},
        of_board=True,
        smi=("clocks.current.memory [MHz]", "clocks.mem [MHz]"),
        simulated=_PLAYED,
        timeline=Timeline(("avg",), ("of the memory",), "Clocks", "memory clock"),
    )
    throttle_reasons: int | None = declared(
        exposed=Exposed("throttle_reasons_mask", "NVML's clocks-event reasons, a bit mask."),
        nvml=Nvml(
            calls=(
                ("nvmlDeviceGetCurrentClocksEventReasons", ()),
                ("nvmlDeviceGetCurrentClocksThrottleReasons", ()),
            ),
            words="why clocks are held down",
        ),
        dcgm={"CLOCKS_EVENT_REASONS": "count", "CLOCK_THROTTLE_REASONS": "count"},
        of_board=True,
        simulated=_PLAYED,
    )
    ecc_corrected: int | None = declared(
        exposed=Exposed(
            "ecc_corrected_errors_total", "Corrected memory errors since the driver's load.", 1.0, True
        ),
        nvml=Nvml(3, calls=(("nvmlDeviceGetTotalEccErrors", (0, 0)),), words="corrected ECC errors"),
        dcgm={"ECC_SBE_VOL_TOTAL": "count", "ECC_SBE_VOLATILE_TOTAL": "count"},
        of_board=True,
        smi=("ecc.errors.corrected.volatile.total",),
        simulated=_ZERO,
    )
    ecc_uncorrected: int | None = declared(
        exposed=Exposed(
            "ecc_uncorrected_errors_total", "Uncorrected memory errors since the driver's load.", 1.0, True
        ),
        nvml=Nvml(4, calls=(("nvmlDeviceGetTotalEccErrors", (1, 0)),), words="uncorrected ECC errors"),
        dcgm={"ECC_DBE_VOL_TOTAL": "count", "ECC_DBE_VOLATILE_TOTAL": "count"},
        of_board=True,
        smi=("ecc.errors.uncorrected.volatile.total",),
        simulated=_ZERO,
    )
    xid: int | None = declared(
        arrow="int32",
        exposed=Exposed("last_xid", "Last XID error, 0 for none."),
        dcgm={"XID_ERROR": "count", "XID_ERRORS": "count"},
        of_board=True,
    )
    process_count: int | None = declared(
        arrow="int16",
        exposed=Exposed("processes", "Processes on the GPU."),
        simulated=_PLAYED,
        timeline=Timeline(("max",), ("the most processes",), "Processes", "processes"),
        is_printed=True,
    )
    flags: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = metrics_of(GpuSample)
"""All that is declared, in the order of the fields."""
