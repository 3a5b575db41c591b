"""The ladder of utilization, held against a kernel whose blocks, warps and time are known."""

import time
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, at_least, near
from tests.gpu.loads.spin import SMS, WARPS_AN_SM

BLOCKS, WARPS, DUTIES = (1, 33, 66, 132), (4, 32), (0.25, 0.5, 1.0)
WITHIN, FULL = 0.03, 0.97
SETTLE_S, TICK_S = 0.3, 0.5
"""A GPM sample begins before the load was told; it has to end after. GPM needs 0.1 s between two samples
(nvml.h), and 24 loads of two readings each have to fit into the step's minute."""


def main() -> dict[str, Any]:
    """Each combination for two readings, the second of which is looked at."""
    sms = SMS if place.dry else place.torch().cuda.get_device_properties(0).multi_processor_count
    wanted = [(b, w, duty) for duty in DUTIES for w in WARPS for b in BLOCKS]
    if place.dry:
        wanted = [(1, 4, 1.0), (66, 32, 0.5)]
    figures: list[Figure] = []
    raw: list[dict[str, Any]] = []
    with place.loads(("spin",)) as (spin,), place.watching(0.3 if place.dry else TICK_S) as read:
        read()
        for blocks, warps, duty in wanted:
            spin.ask("spin", blocks, warps, duty)
            time.sleep(0.1 if place.dry else SETTLE_S)
            read()
            figures += _compared(read().samples[0], (blocks, warps, duty), sms, raw)
    return {"figures": figures, "raw": raw}


def _compared(sample: Any, load: tuple[int, int, float], sms: int, raw: list[dict[str, Any]]) -> list[Figure]:
    blocks, warps, duty = load
    title = f"{blocks} blocks of {warps} warps, {duty:.0%} of the time"
    raw.append(
        {
            "load": title,
            "sm": sample.sm_active_ratio,
            "occupancy": sample.sm_occupancy_ratio,
            "graphics": sample.graphics_active_ratio,
            "utilization": sample.gpu_utilization_ratio,
            "flags": list(sample.flags),
        }
    )
    occupancy = min(1.0, blocks * warps / (WARPS_AN_SM * sms)) * duty
    figures = [
        near(f"{title}: SM active", sample.sm_active_ratio, min(blocks, sms) / sms * duty, WITHIN),
        near(f"{title}: occupancy", sample.sm_occupancy_ratio, occupancy, WITHIN),
        near(f"{title}: graphics active", sample.graphics_active_ratio, duty, WITHIN),
    ]
    if blocks == 1 and duty == 1.0:
        figures.append(at_least(f"{title}: GPU utilization", sample.gpu_utilization_ratio, FULL))
    return figures
