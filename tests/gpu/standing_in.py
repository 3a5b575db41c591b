"""A machine with a GPU that isn't there: NVML's and libcuda's stand-ins, compiled, and the variables.

What a load does on a real GPU it tells the stand-in driver here, by ``place``: so a dry run tries the steps
themselves, their waiting, comparing and ending, and says nothing of hardware.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.driver.driver import Driver

DRY = "FALLOW_GPU_DRY"
LIBCUDA = Path(__file__).parents[1] / "advisor" / "engines" / "standin_cuda.c"
IDLE_W = 70


@contextmanager
def machine(folder: Path, base: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment of programs on it. Raises FileNotFoundError where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc) for the stand-in drivers; on Debian: apt-get install gcc")
    states = folder / "libcuda"
    states.mkdir()
    library = states / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(LIBCUDA)], check=True)
    with Driver(folder) as driver:
        driver.state.driver_version = b"580.95.05"
        gpu = driver.gpu(0)
        gpu.metrics(graphics=0.0, sm=0.0, occupancy=0.0, tensor=0.0, dram=0.0)
        gpu.auto_ring_us, gpu.auto_process_samples, gpu.power_mw = 100_000, 1, IDLE_W * 1000
        programs = folder / "programs"
        programs.mkdir()
        smi = programs / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.gpu.smi "$@"\n')
        smi.chmod(0o755)
        yield {
            **base,
            "PATH": f"{programs}{os.pathsep}{base.get('PATH', '')}",
            **driver.variables(),
            "LD_LIBRARY_PATH": f"{driver.library}{os.pathsep}{states}",
            "STANDIN_CUDA": str(states),
            DRY: "1",
        }
