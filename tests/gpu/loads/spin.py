"""A kernel of ``b`` blocks and ``w`` warps that turns for a set time: what utilization is held against.

    python -m tests.gpu.loads.spin        then "spin B W DUTY" (0 to 1), "spin 0 0 0" rests

Built by nvcc, else by CuPy, else by the NVRTC that torch brings. In a dry run it tells the stand-in driver
what such a kernel would do.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.gpu import place
from tests.gpu.loads.pipe import Words, say, serve

PERIOD_S = 0.02
"""Kernel and rest together: far under any sampling period, far over a launch."""
SMS, WARPS_AN_SM = 132, 64
"""Of an H100 SXM; the dry run's."""
KERNEL = r"""
extern "C" __global__ void spin(int us) {
    long long begun, now, ns = 1000LL * us;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - begun < ns);
}
"""
HOST = r"""
extern "C" int turn(int blocks, int warps, int us) {
    spin<<<blocks, warps * 32>>>(us);
    return (int)cudaDeviceSynchronize();
}
"""
Turn = Callable[[int, int, float], None]


class Spinning:
    """What it does now, and goes on doing."""

    def __init__(self, turn: Turn) -> None:
        self._turn, self._now = turn, (0, 0, 0.0)

    def told(self, words: Words) -> dict[str, Any]:
        """``spin B W DUTY``."""
        self._now = int(words[1]), int(words[2]), float(words[3])
        return {"spins": list(self._now)}

    def work(self) -> None:
        """One period."""
        blocks, warps, duty = self._now
        if not blocks or not duty:
            self._turn(0, 0, 0.0)
            time.sleep(PERIOD_S)
            return
        begun_s = time.monotonic()
        self._turn(blocks, warps, duty)
        time.sleep(max(0.0, PERIOD_S * (1 - duty) - max(0.0, time.monotonic() - begun_s - PERIOD_S * duty)))


def main() -> None:
    """Spin as told."""
    if place.dry:
        place.pretend_process(os.getpid(), 500 * place.MIB)
        _serve(_pretended)
        place.pretend_process(os.getpid(), None)
        return
    turn = _by_nvcc() or _by_cupy() or _by_torch()
    if turn is None:
        say(missing="neither nvcc, CuPy nor torch is here to build the kernel that spins")
        return
    _serve(turn)


def _serve(turn: Turn) -> None:
    spinning = Spinning(turn)
    serve(spinning.told, spinning.work)


def _by_nvcc() -> Turn | None:
    if shutil.which("nvcc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "spin.cu", Path(folder) / "spin.so"
        source.write_text(KERNEL + HOST)
        command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-arch=native", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        loaded = ctypes.CDLL(str(library))
    loaded.turn.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int)

    def turn(blocks: int, warps: int, duty: float) -> None:
        if blocks and (code := loaded.turn(blocks, warps, _us(duty))):
            raise RuntimeError(f"CUDA error {code}")

    return turn


def _by_cupy() -> Turn | None:
    if find_spec("cupy") is None:
        return None
    import cupy

    kernel = cupy.RawKernel(KERNEL, "spin")

    def turn(blocks: int, warps: int, duty: float) -> None:
        if blocks:
            kernel((blocks,), (warps * 32,), (cupy.int32(_us(duty)),))
            cupy.cuda.runtime.deviceSynchronize()

    return turn


def _by_torch() -> Turn | None:
    """torch 2.9 and later compile a kernel by NVRTC, by a name that begins with an underscore up to 2.11."""
    if find_spec("torch") is None:
        return None
    torch = place.torch()
    compile_kernel = getattr(torch.cuda, "compile_kernel", None) or getattr(
        torch.cuda, "_compile_kernel", None
    )
    if compile_kernel is None:
        return None
    kernel = compile_kernel(KERNEL, "spin")

    def turn(blocks: int, warps: int, duty: float) -> None:
        if blocks:
            kernel(grid=(blocks, 1, 1), block=(warps * 32, 1, 1), args=[_us(duty)])
            torch.cuda.synchronize()

    return turn


def _us(duty: float) -> int:
    return round(PERIOD_S * duty * 1e6)


def _pretended(blocks: int, warps: int, duty: float) -> None:
    place.pretends(
        sm=min(blocks, SMS) / SMS * duty * 100,
        occupancy=min(1.0, blocks * warps / (WARPS_AN_SM * SMS)) * duty * 100,
        graphics=duty * 100,
        utilization=100 if blocks and duty else 0,
    )


if __name__ == "__main__":
    main()
