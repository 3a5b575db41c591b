"""Hand-made pasts of a GPU for judgement tests: 240 bins that end at noon, changed where a test says so."""

from typing import Any

from analytics.model import BIN_MS, Bins, Claim, GpuPast
from collector.model import Basis, GpuUuid, Holder, JobId, JobKind, NodeName

NOON_MS = 1_793_188_800_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
GIB = 1 << 30
TICK_MS = 10_000
BINS = 240


def bins(count: int = BINS, **columns: Any) -> Bins:
    """``count`` covered bins; a column is one value for all bins, or a whole sequence of ``count`` values.

    ``busiest`` and ``gpu_utilization`` follow ``utilization`` unless given.
    """
    level = columns.pop("utilization", 0.0)
    values: dict[str, Any] = {
        "covered": True,
        "utilization": level,
        "busiest": level,
        "gpu_utilization": level,
        "memory_controller": 0.02,
        "memory_bytes": 20 * GIB,
        "power_mw": 90_000,
        "processes": 1,
    }
    values |= columns
    return Bins(
        end_ms=NOON_MS,
        **{name: tuple(value) if _is_row(value) else (value,) * count for name, value in values.items()},
    )


def then(*parts: tuple[int, Any]) -> tuple[Any, ...]:
    """Values of consecutive bins: ``then((200, 0.5), (40, 0.0))``."""
    return tuple(value for count, value in parts for _ in range(count))


def claim(hours: float = 10.0, *, kind: JobKind | None = JobKind.BATCH, **changes: Any) -> Claim:
    """amara's job, given ``hours`` before noon; it computed at first, and has been quiet for two hours."""
    from_ms = NOON_MS - round(hours * HOUR_MS)
    values: dict[str, Any] = {
        "holder": Holder(job=JobId("slurm:7"), user="amara", project="language", name="sweep", kind=kind),
        "share": 1.0,
        "from_ms": from_ms,
        "first_used_ms": from_ms + 10 * MINUTE_MS,
        "busy_until_ms": max(from_ms, NOON_MS - 2 * HOUR_MS),
        "process_started_ms": from_ms,
        "idle_gpu_hours": 2.0,
    }
    return Claim(**(values | changes))


def fresh(hours: float, *, kind: JobKind | None = JobKind.BATCH, **changes: Any) -> Claim:
    """A job that has never computed since it was given its GPU ``hours`` before noon."""
    return claim(hours, kind=kind, **({"first_used_ms": None, "busy_until_ms": None} | changes))


def past(*claims: Claim, **changes: Any) -> GpuPast:
    """GPU 3 of node1, 80 GiB, measured by SM active until noon."""
    values: dict[str, Any] = {
        "uuid": GpuUuid("GPU-3"),
        "node": NodeName("node1"),
        "gpu_index": 3,
        "model": "H100",
        "memory_total_bytes": 80 * GIB,
        "idle_power_mw": 60_000,
        "newest_ms": NOON_MS,
        "newest_width_ms": TICK_MS,
        "rung": Basis.SM_ACTIVE,
        "bins": bins(),
        "claims": claims,
    }
    values |= changes
    return GpuPast(**{"gpu_place": str(values["gpu_index"])} | values)


def minutes_before_noon(minutes: float) -> int:
    """That instant, UTC ms."""
    return NOON_MS - round(minutes * MINUTE_MS)


def whole_bins(minutes: float) -> int:
    """How many bins that is."""
    return round(minutes * MINUTE_MS) // BIN_MS


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple | list)
