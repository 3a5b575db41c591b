"""Which frameworks a process runs, by the file names of the libraries it has mapped.

A library in a process's map says that it was imported, not that it was used; the ranking says which of
several is likeliest the one that drives the GPU. The names were gathered from the projects' own wheels.
"""

import re
from dataclasses import dataclass

from collector.procfs.files import LARGEST_BYTES

MOST_LINES = 65_536
"""Mappings of one process that are looked at: Linux allows it 65,530 (vm.max_map_count), more by choice."""

MOST_LIBRARIES = 4096
"""Different ones of one process: a training with PyTorch, TensorFlow and JAX maps under 1,000."""

FOLDERS = 3
"""So many folders above a library say what it belongs to: ``cupy_backends/cuda/libs/nvrtc.so``."""

_JAX_DEVICE = re.compile(rb"/(?:jax_plugins/|[^/]*xla_cuda[^/]*plugin)")
"""JAX's own device plugin: loaded when JAX starts its GPU backend, and by nothing else."""

_RANKED: tuple[tuple[str, "re.Pattern[bytes]"], ...] = (
    ("TensorFlow", re.compile(rb"/libtensorflow(?:_framework|_cc)?\.so|/_pywrap_tensorflow")),
    ("PyTorch", re.compile(rb"/(?:libtorch_(?:cpu|cuda)[^/]*|libc10(?:_cuda)?|libtorch)\.so")),
    ("JAX", re.compile(rb"/jaxlib/[^\n]*\.so|/libjax_common[^/]*\.so|/[^/]*xla_cuda[^/]*\.so")),
    ("MXNet", re.compile(rb"/libmxnet\.so")),
    ("PaddlePaddle", re.compile(rb"/(?:libpaddle|libphi[^/]*)\.so")),
    ("RAPIDS", re.compile(rb"/(?:libcudf|libcuml|libcugraph|librmm)(?:\+\+)?\.so")),
    ("CuPy", re.compile(rb"/cupy(?:_backends)?/[^\n]*\.so")),
    ("Triton Inference Server", re.compile(rb"/libtritonserver\.so")),
    ("ONNX Runtime", re.compile(rb"/(?:libonnxruntime[^/]*|onnxruntime_pybind11_state[^/]*)\.so")),
    ("TensorRT", re.compile(rb"/libnvinfer[^/]*\.so")),
    ("llama.cpp", re.compile(rb"/lib(?:ggml-cuda|llama)\.so")),
    ("XGBoost", re.compile(rb"/libxgboost\.so")),
    ("Numba", re.compile(rb"/numba/[^\n]*\.so")),
    ("GROMACS", re.compile(rb"/libgromacs[^/]*\.so")),
    ("LAMMPS", re.compile(rb"/liblammps[^/]*\.so")),
    ("OpenMM", re.compile(rb"/libOpenMM(?:CUDA)?\.so")),
    ("NCCL", re.compile(rb"/libnccl\.so")),
)

_DRIVER = re.compile(rb"/libcuda\.so(?:\.[0-9.]+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """What a process has mapped: its frameworks, likeliest first, and the driver's libcuda.so."""

    frameworks: tuple[str, ...]
    cuda: bool | None
    """``None`` where it was not found and not everything was looked at."""
    is_whole: bool = True
    """Whether everything was looked at; what lies beyond the bounds is unknown."""


def mapped(maps: bytes) -> Mapped:
    """The frameworks whose libraries stand in ``/proc/PID/maps``.

    TensorFlow comes before JAX, because importing it maps jaxlib too, and ``jax_cuda12_plugin`` where that
    is installed, but not the XLA plugin that JAX loads to use a GPU (seen with TensorFlow 2.21 and JAX
    0.10.2, 21 November 2026): with that one mapped, JAX comes first. A data file in a folder called
    ``jaxlib`` is not JAX: only shared libraries count.
    """
    libraries, is_whole = _libraries(maps)
    joined = b"\n".join(sorted(libraries))
    found = [name for name, pattern in _RANKED if pattern.search(joined)]
    if "JAX" in found and _JAX_DEVICE.search(joined):
        found.remove("JAX")
        found.insert(0, "JAX")
    cuda = any(_DRIVER.search(library) for library in libraries)
    return Mapped(frameworks=tuple(found), cuda=cuda if cuda or is_whole else None, is_whole=is_whole)


def _libraries(maps: bytes) -> tuple[set[bytes], bool]:
    """The shared libraries, each with the folders right above it, and whether these are all.

    No search begins anew at each ``/``: a process can map a path of thousands of folders, many times.
    """
    found: set[bytes] = set()
    lines = maps.split(b"\n", MOST_LINES)
    for line in lines[:MOST_LINES]:
        parts = line.removesuffix(b" (deleted)").rsplit(b"/", FOLDERS + 1)
        if len(parts) == 1 or not _is_library(parts[-1]):
            continue
        if len(found) == MOST_LIBRARIES:
            return found, False
        found.add(b"/" + b"/".join(parts[1:]))
    is_whole = (len(lines) <= MOST_LINES or not lines[MOST_LINES]) and len(maps) < LARGEST_BYTES
    return found, is_whole


def _is_library(name: bytes) -> bool:
    """Whether a file is called ``….so``, or that and a version."""
    _, so, version = name.rpartition(b".so")
    return bool(so) and (not version or (version[:1] == b"." and not version.strip(b".0123456789")))
