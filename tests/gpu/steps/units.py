"""Tensor cores, memory bandwidth, power and energy, held against a known product and copy."""

import time
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, near, told

PRODUCT_N, COPY_MIB = 8192, 8192
FLOPS_AN_SM_CYCLE = 4096
"""Dense bf16 of Hopper (H100 architecture white paper: 989 TFLOP/s at 1,830 MHz on 132 SMs)."""
OVER_S = 6.0


def main() -> dict[str, Any]:
    """Each alone for some seconds."""
    tensor = _over("product", PRODUCT_N)
    copy = _over("copy", COPY_MIB)
    figures = [told("product, TFLOP/s", tensor["rate"] / 1e12), told("copy, GB/s", copy["rate"] / 1e9)]
    if not place.dry:
        properties = place.torch().cuda.get_device_properties(0)
        sms, clock_hz = properties.multi_processor_count, (tensor["clock_mhz"] or 0) * 1e6
        peak = FLOPS_AN_SM_CYCLE * sms * clock_hz
        if peak and properties.major == 9:
            figures.append(near("tensor active", tensor["tensor"], tensor["rate"] / peak, 0.1))
        figures += _bandwidth(copy)
    for name, load in (("product", tensor), ("copy", copy)):
        if load["energy_w"] and load["power_w"]:
            off = load["energy_w"] / load["power_w"]
            figures.append(near(f"{name}: energy over power", off, 1.0, 0.05))
    return {"figures": figures}


def _over(kind: str, size: int) -> dict[str, Any]:
    over_s = 0.5 if place.dry else OVER_S
    with place.loads(("work", kind, size)) as (load,), place.watching(0.2 if place.dry else 1.0) as read:
        place.pretends(tensor=50.0, dram=40.0, power_mw=300_000)
        first = read()
        load.ask("rate")
        until_s, powers = time.monotonic() + over_s, []
        while time.monotonic() < until_s:
            last = read()
            powers.append(last.samples[0].power_mw)
        rate = float(load.ask("rate")["rate"])
    one, other = first.samples[0], last.samples[0]
    spent_mj = None if None in (one.energy_mj, other.energy_mj) else other.energy_mj - one.energy_mj
    known = [power for power in powers if power is not None]
    return {
        "rate": rate,
        "tensor": other.tensor_active_ratio,
        "dram": other.dram_active_ratio,
        "clock_mhz": other.sm_clock_mhz,
        "memory_mhz": other.memory_clock_mhz,
        "power_w": sum(known) / len(known) / 1000 if known else None,
        "energy_w": None if spent_mj is None or place.dry else spent_mj / (last.at_ms - first.at_ms),
    }


def _bandwidth(copy: dict[str, Any]) -> list[Figure]:
    import pynvml

    try:
        bus_bits = pynvml.nvmlDeviceGetMemoryBusWidth(place.nvml_handle())
    except pynvml.NVMLError:
        return []
    peak = bus_bits / 8 * (copy["memory_mhz"] or 0) * 1e6 * 2
    return [near("DRAM active", copy["dram"], copy["rate"] / peak, 0.05)] if peak else []
