"""A program that looks like TensorFlow from outside, for machines without it.

It maps a library of that name, and takes nine tenths of the GPU ahead unless TF_FORCE_GPU_ALLOW_GROWTH is
``true``.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.gpu import place
from tests.gpu.loads.pipe import say, serve

LIBRARY = "libtensorflow_framework.so.2"
REST_S = 0.1
SIDE, PRODUCTS = 8192, 3
"""About 5 ms on an H100 (1.1 TFLOP each at some 700 TFLOP/s): a twentieth of the time."""
AHEAD, GROWN_MIB = 0.9, 256
"""What TensorFlow takes by default of what is free, about; and what a small graph takes when it may grow."""


def main() -> None:
    """Map, take, wait."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        say(missing="no C compiler to build a library of TensorFlow's name")
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "empty.c", Path(folder) / LIBRARY
        source.write_text("int fallow_stands_in = 1;\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        mapped = ctypes.CDLL(str(library))
        grows = os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
        held = None if place.dry else _taken(grows=grows)
        work = _rest if place.dry else _working()
        place.pretend_process(os.getpid(), (1 if grows else 70) * place.GIB)
        serve(lambda words: {"held": held is not None and mapped is not None}, work)
    place.pretend_process(os.getpid(), None)


def _rest() -> None:
    time.sleep(REST_S)


def _working() -> Callable[[], None]:
    """A little work: some milliseconds in a hundred, as a hog does little with what it holds."""
    torch, device = place.torch(), place.torch_device()
    x, y = (torch.randn(SIDE, SIDE, device=device, dtype=torch.bfloat16) for _ in range(2))

    def work() -> None:
        for _ in range(PRODUCTS):
            x @ y
        place.synchronize()
        time.sleep(REST_S)

    return work


def _taken(*, grows: bool) -> object:
    torch = place.torch()
    free, _ = torch.cuda.mem_get_info()
    size = GROWN_MIB * place.MIB if grows else int(free * AHEAD)
    return torch.empty(size, dtype=torch.uint8, device=place.torch_device())


if __name__ == "__main__":
    main()
