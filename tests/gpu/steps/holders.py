"""What processes hold and use, by the driver's lists: here, and in a pid namespace of its own."""

import json
import os
import shutil
import subprocess
import sys
from typing import Any

from collector.sources.nvml.process_list import USES_OF_STRANGERS
from tests.gpu import place
from tests.gpu.answers import Figure, at_most, is_so, near, told

BIG_MIB, SMALL_MIB = 10 * 1024, 1024
WITHIN_MIB = 32
INSIDE = "--inside"


def main() -> dict[str, Any]:
    """One process that holds much and works most of the time, one that holds little and works a little."""
    with place.loads(("work", "hold", BIG_MIB), ("work", "product", 4096)) as (big, small):
        place.pretend_process(small.pid, 600 * place.MIB, sm=60)
        place.pretends(utilization=60, sm=60.0)
        with place.watching(0.3 if place.dry else 1.0) as read:
            read()
            reading = read()
        sample = reading.samples[0]
        rows = {row.key.pid: row for row in reading.process_samples or ()}
        figures = [
            _context(rows.get(big.pid)),
            is_so("both are listed", {big.pid, small.pid} <= rows.keys(), True),
        ]
        shares = [row.sm_ratio for row in rows.values() if row.sm_ratio is not None]
        one = rows.get(small.pid)
        figures += [
            told("share of SMs of the one that works", None if one is None else one.sm_ratio),
            at_most("sum of shares", sum(shares), (sample.gpu_utilization_ratio or 1.0) + 0.01),
            told("flags", ", ".join(sample.flags)),
        ]
        figures += _inside()
        return {"figures": figures, "calls": _calls()}


def _context(row: Any) -> Figure:
    held = None if row is None else row.memory_used_bytes
    beside = None if held is None else (held / place.MIB) - BIG_MIB
    if place.dry:
        return near("context beside what was asked", beside, 500, WITHIN_MIB, "MiB")
    return told("context beside what was asked (CONTEXT_BYTES)", beside, "MiB")


def _calls() -> dict[str, int]:
    """What the two calls for uses answer, by their codes."""
    import ctypes

    import pynvml

    codes = {}
    for name in ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"):
        try:
            call = pynvml._nvmlGetFunctionPointer(name)
        except pynvml.NVMLError as error:
            codes[name] = int(error.value)
            continue
        count, handle = ctypes.c_uint(0), place.nvml_handle()
        if name.endswith("Info"):
            asked = pynvml.c_nvmlProcessesUtilizationInfo_v1_t(0)
            asked.version = pynvml.ProcessesUtilizationInfo_v1
            codes[name] = int(call(handle, ctypes.byref(asked)))
        else:
            codes[name] = int(call(handle, None, ctypes.byref(count), ctypes.c_ulonglong(0)))
    return codes


def _inside() -> list[Figure]:
    """The same reading in a new pid namespace, where the driver's pids are not ours."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return [told("in a pid namespace", "not tried: needs root and unshare")]
    command = ["unshare", "-pf", "--mount-proc", sys.executable, "-m", "tests.gpu.steps.holders", INSIDE]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, cwd=place.ROOT)
    if asked.returncode:
        return [told("in a pid namespace", f"not tried: {asked.stderr.strip().splitlines()[-1:]}")]
    seen = json.loads(asked.stdout)
    return [
        is_so("in a pid namespace: processes with 0 bytes", seen["zeros"], 0),
        is_so("in a pid namespace: processes with a share", seen["shares"], 0),
        told("in a pid namespace: flags", ", ".join(seen["flags"])),
        told(f"in a pid namespace: {USES_OF_STRANGERS}", USES_OF_STRANGERS in seen["flags"]),
    ]


def inside() -> None:
    """One reading, as JSON."""
    with place.watching(0.3) as read:
        read()
        reading = read()
    rows = reading.process_samples or ()
    answer = {
        "flags": list(reading.samples[0].flags),
        "zeros": sum(row.memory_used_bytes == 0 for row in rows),
        "shares": sum(row.sm_ratio is not None for row in rows),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__" and INSIDE in sys.argv:
    inside()
