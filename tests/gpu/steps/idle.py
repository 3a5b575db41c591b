"""The zero: what the collector says while nothing runs, beside nvidia-smi."""

import shutil
import subprocess
from typing import Any

from tests.gpu import place
from tests.gpu.answers import at_most, is_so, told

READINGS = 3
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
    return {"figures": figures}


def _smi() -> tuple[float, float] | None:
    if place.dry or shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    memory, power, _ = (cell.strip() for cell in asked.stdout.split(","))
    return float(memory), float(power) if power.replace(".", "").isdigit() else 0.0
