"""The zero: what the collector says while nothing runs, beside nvidia-smi."""

import shutil
import subprocess
from typing import Any

from tests.gpu import place
from tests.gpu.answers import Figure, at_most, is_so, near, told

READINGS = 3
GPM = {1: "graphics_active", 2: "sm_active", 3: "sm_occupancy", 5: "tensor_active", 10: "dram_active"}
"""NVML's numbers of GPM metrics (nvml.h, nvmlGpmMetricId_t), and our columns of them."""
QUERY = "memory.used,power.draw,utilization.gpu"


def main() -> dict[str, Any]:
    """Three readings a second apart."""
    with place.watching() as read:
        samples = [read().samples[0] for _ in range(READINGS)]
    last = samples[-1]
    figures = [
        is_so("processes", last.process_count, 0),
        at_most("SM active", last.sm_active_ratio, 0.01),
        told("rung", last.rung.name),
        told("flags", ", ".join(last.flags)),
    ]
    smi = _smi()
    if smi is not None:
        memory_mib, power_w = smi
        used = (last.memory_used_bytes or 0) / place.MIB
        figures.append(
            at_most("memory beside nvidia-smi, off by", abs(used - memory_mib) / max(memory_mib, 1), 0.02)
        )
        if power_w and last.power_mw:
            off = abs(last.power_mw / 1000 - power_w) / power_w
            figures.append(at_most("power beside nvidia-smi, off by", off, 0.02))
    figures += _beside_dmon(last)
    return {"figures": figures}


def _beside_dmon(sample: Any) -> list[Figure]:
    """GPM's metrics as nvidia-smi reads them, which is another reader of the same counters."""
    if shutil.which("nvidia-smi") is None:
        return [told("GPM beside nvidia-smi dmon", "not tried: nvidia-smi is not installed")]
    ids = ",".join(map(str, GPM))
    command = ["nvidia-smi", "dmon", "-i", "0", "-s", "p", "-c", "2", "--gpm-metrics", ids]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    cells = dmon_cells(asked.stdout, len(GPM))
    if cells is None:
        why = (asked.stderr or asked.stdout).strip()[-200:]
        return [told("GPM beside nvidia-smi dmon", f"not tried: {why}")]
    figures = (
        [] if None not in cells else [told("dmon's last lines", " / ".join(asked.stdout.splitlines()[-3:]))]
    )
    for name, theirs in zip(GPM.values(), cells, strict=True):
        ours = getattr(sample, f"{name}_ratio")
        if theirs is None or ours is None:
            figures.append(told(f"{name} beside dmon", f"ours {ours}, dmon's {theirs}"))
        else:
            figures.append(near(f"{name} beside dmon", ours, theirs / 100, 0.02))
    return figures


def dmon_cells(text: str, count: int) -> list[float | None] | None:
    """The last row's last columns, percent; ``None`` for a cell without a number, and where no row is."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not rows or len(rows[-1]) <= count:
        return None
    return [float(cell) if cell.replace(".", "", 1).isdigit() else None for cell in rows[-1][-count:]]


def _smi() -> tuple[float, float] | None:
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    memory, power, _ = (cell.strip() for cell in asked.stdout.split(","))
    return float(memory), float(power) if power.replace(".", "").isdigit() else 0.0
