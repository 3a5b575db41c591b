"""An MPS daemon of this run's own, in its own folder, ended by ``quit``. A dry run starts none."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator

from tests.gpu import place

CONTROL = "nvidia-cuda-mps-control"
APART = {"CUDA_MPS_PIPE_DIRECTORY": "/dev/null"}
"""No client of any daemon: time slices."""
QUIT_S = 30


@contextlib.contextmanager
def daemon() -> Iterator[dict[str, str]]:
    """The environment of its clients."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if place.dry:
            yield variables
            return
        environment = {**os.environ, **variables}
        subprocess.run([CONTROL, "-d"], env=environment, check=True, timeout=QUIT_S)
        try:
            yield variables
        finally:
            subprocess.run([CONTROL], input="quit\n", env=environment, text=True, check=False, timeout=QUIT_S)
