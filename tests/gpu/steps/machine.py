"""What is here: versions, rights, programs, and what ``fallow doctor`` says."""

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from collector.procfs.checkpoint_blockers import available_bytes
from collector.sources.nvml.identity import shares_host_pids
from collector.sources.nvml.probe import in_container, probe
from tests.gpu import place, torch_names
from tests.gpu.answers import at_most, is_so, told

PACKAGES = (
    "torch",
    "torchvision",
    "jax",
    "cupy",
    "cuda-core",
    "cuda-bindings",
    "nvidia-ml-py",
    "duckdb",
    "fastapi",
)
PROGRAMS = ("nvidia-smi", "nvcc", "nvidia-cuda-mps-control", "unshare")
DOCTOR_S = 60


def main() -> dict[str, Any]:
    """Facts, and the few that should be so."""
    found = probe()
    board = found.gpus[0] if found.gpus else None
    facts: dict[str, Any] = {
        "GPU": None if board is None else board.model,
        "GPUs": len(found.gpus),
        "driver": found.driver_version,
        "NVML": found.nvml_version,
        "CUDA of the driver": found.cuda_version,
        "Python": platform.python_version(),
        "uid": os.getuid(),
        "the host's pid namespace": shares_host_pids(),
        "container": in_container(),
        "host memory available, GiB": round((available_bytes() or 0) / place.GIB, 1),
        "boards by /proc": len(list(Path("/proc/driver/nvidia/gpus").glob("*"))),
        "dry": place.dry,
    }
    facts |= {name: _version(name) for name in PACKAGES}
    facts |= {name: shutil.which(name) is not None for name in PROGRAMS}
    if place.lacking("torch") is None:
        facts |= _torch_facts()
    troubles = _doctor()
    figures = [
        is_so("NVML answers", found.problem, None),
        at_most("the sampling child's memory", found.resident_mib, 60, "MiB"),
        told("what doctor names as trouble", "; ".join(troubles) or "nothing"),
    ]
    if place.lacking("torch") is None:
        absent = torch_names.absent(torch_names.used())
        figures.append(is_so("names of torch that fallow uses and this torch lacks", ", ".join(absent), ""))
    measures = () if board is None else board.measures
    ways = {measure.name: measure.by or f"none: {measure.reason}" for measure in measures}
    return {"facts": facts, "figures": figures, "ways": ways, "advice": list(found.advice)}


def _torch_facts() -> dict[str, Any]:
    torch = place.torch()
    nccl = torch.cuda.nccl.version() if not place.dry and torch.distributed.is_nccl_available() else None
    return {"CUDA of torch": torch.version.cuda, "NCCL": nccl and ".".join(map(str, nccl))}


def _doctor() -> list[str]:
    command = [sys.executable, "-m", "service.cli", "doctor", "--json"]
    try:
        asked = place.asked(command, DOCTOR_S)
        rows = json.loads(asked.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        return [f"fallow doctor gave no answer: {error}"]
    return [f"{row['subject']}: {row['found']}" for row in rows if row.get("verdict") == "trouble"]


def _version(name: str) -> str | None:
    """Of a package, or of whichever brings a module of that name: CuPy's is called after its CUDA."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        found = metadata.packages_distributions().get(name)
        return metadata.version(found[0]) if found else None
