"""The stand-in driver's mapped state as ctypes sees it: the mirror of ``state.h``, field for field.

The driver refuses a file of another size, and ``tests/collector/nvml/test_standin_driver.py`` reads back
what it wrote at both ends of each struct, so the two cannot drift apart unnoticed.
"""

import ctypes as c

MAX_GPUS = 16
MAX_INSTANCES = 8
MAX_PROCESSES = 64
RING_SIZE = 128
RINGS = 4
MAX_PROCESS_SAMPLES = 128
GPM_METRICS = 16
MAX_FAULTS = 64
MAX_FUNCTIONS = 128
MAX_EVENTS = 64
MAGIC = 0x574C4C46


class RingSample(c.Structure):
    _fields_ = (("ts_us", c.c_uint64), ("value", c.c_uint32), ("spare", c.c_uint32))


class Listed(c.Structure):
    _fields_ = (
        ("memory", c.c_uint64),
        *((name, c.c_uint32) for name in ("pid", "kind", "gpu_instance", "compute_instance", "sm", "spare")),
    )


class ProcessUse(c.Structure):
    _fields_ = (
        ("ts_us", c.c_uint64),
        *((name, c.c_uint32) for name in ("pid", "sm", "memory", "encoder", "decoder", "spare")),
    )


class Instance(c.Structure):
    _fields_ = (
        ("uuid", c.c_char * 96),
        ("profile", c.c_char * 32),
        *(
            (name, c.c_uint32)
            for name in (
                "present",
                "gpu_instance",
                "compute_instance",
                "gpu_slices",
                "compute_slices",
                "spare",
            )
        ),
        ("memory_total", c.c_uint64),
        ("memory_reserved", c.c_uint64),
        ("memory_used", c.c_uint64),
        ("gpm", c.c_double * GPM_METRICS),
    )


class GpuState(c.Structure):
    _fields_ = (
        ("uuid", c.c_char * 96),
        ("name", c.c_char * 96),
        ("bus_id", c.c_char * 32),
        *(
            (name, c.c_uint64)
            for name in (
                "memory_total",
                "memory_reserved",
                "memory_used",
                "energy_mj",
                "ecc_corrected",
                "ecc_uncorrected",
                "throttle_reasons",
            )
        ),
        *(
            (name, c.c_uint32)
            for name in (
                "lost",
                "lost_handle_code",
                "crash_when_lost",
                "persistence",
                "utilization",
                "memory_utilization",
                "encoder",
                "decoder",
                "jpeg",
                "ofa",
                "temperature",
                "sm_clock",
                "memory_clock",
                "power_mw",
                "power_limit_mw",
                "mig_mode",
                "mig_max",
                "gpm_supported",
                "events_supported",
                "process_layout",
                "auto_ring_us",
                "auto_process_samples",
                "empty_is_success",
            )
        ),
        ("ring_count", c.c_uint32 * RINGS),
        ("process_count", c.c_uint32),
        ("process_sample_count", c.c_uint32),
        ("spare", c.c_uint32),
        ("gpm", c.c_double * GPM_METRICS),
        ("rings", (RingSample * RING_SIZE) * RINGS),
        ("processes", Listed * MAX_PROCESSES),
        ("process_samples", ProcessUse * MAX_PROCESS_SAMPLES),
        ("instances", Instance * MAX_INSTANCES),
    )


class FaultSlot(c.Structure):
    _fields_ = (
        ("function", c.c_char * 64),
        ("gpu", c.c_int32),
        ("code", c.c_int32),
        ("remaining", c.c_int32),
        ("delay_us", c.c_uint32),
    )


class EventSlot(c.Structure):
    _fields_ = (
        ("type", c.c_uint64),
        ("data", c.c_uint64),
        *((name, c.c_uint32) for name in ("gpu", "gpu_instance", "compute_instance", "spare")),
    )


class Function(c.Structure):
    _fields_ = (("name", c.c_char * 64), ("total", c.c_uint64), ("per_gpu", c.c_uint64 * MAX_GPUS))


class State(c.Structure):
    _fields_ = (
        ("magic", c.c_uint32),
        ("size", c.c_uint32),
        ("clock_us", c.c_uint64),
        ("clock_since_us", c.c_uint64),
        ("clock_speed", c.c_double),
        ("driver_version", c.c_char * 80),
        ("nvml_version", c.c_char * 80),
        ("cuda_version", c.c_uint32),
        ("gpu_count", c.c_uint32),
        ("order", c.c_uint32 * MAX_GPUS),
        ("event_count", c.c_uint64),
        ("events", EventSlot * MAX_EVENTS),
        ("faults", FaultSlot * MAX_FAULTS),
        ("functions", Function * MAX_FUNCTIONS),
        ("gpus", GpuState * MAX_GPUS),
    )
