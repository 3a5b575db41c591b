"""Frameworks that take memory ahead: as they come, and as a lease of Fallow's starts them."""

import time
from typing import Any

from advisor.jobs.gpu_sharing import Device, Mps, environment, terms
from advisor.jobs.model import Submission
from advisor.state.model import ProjectName
from collector.model import GpuUuid, NodeName
from collector.procfs.process_table import ProcessTable
from tests.gpu import past, place
from tests.gpu.answers import Figure, at_least, at_most, is_so, told

JAX, TENSORFLOW = "jaxhog", "tfhog"
NAMES = {JAX: "JAX", TENSORFLOW: "TensorFlow"}


def lease_settings(share: float) -> dict[str, str]:
    """The environment of a job that holds so much of the first GPU."""
    device = Device(uuid=GpuUuid(place.uuid()), memory_bytes=_total())
    wanted = Submission(command=("train",), user="ann", project=ProjectName("vision"))
    return environment(terms(wanted, share, (device,), (), Mps()).settings, {})


def main() -> dict[str, Any]:
    """Both ways, by the driver's own figures."""
    settings = lease_settings(1.0)
    figures: list[Figure] = [told("settings", ", ".join(sorted(settings)))]
    lacking = place.lacking("jax")
    if lacking is None:
        figures += _compared(JAX, settings)
    else:
        figures.append(told("JAX", f"not tried: {lacking}"))
    return {"figures": [*figures, *_compared(TENSORFLOW, settings), *_judged()]}


def _judged() -> list[Figure]:
    """What Fallow finds and advises of the one that takes nine tenths, and does little with it."""
    lacking = place.lacking("service")
    if lacking is not None:
        return [told("finding and advice", f"not tried: {lacking}")]
    with place.loads((TENSORFLOW,)), place.watching(0.3 if place.dry else 1.0) as read:
        place.pretends(sm=5, graphics=5, dram=2, utilization=5, memory_utilization=2)
        read()
        found, advised = past.said_of(read())
    capped = next((row for row in advised if row["class"] == "cap-memory"), {})
    return [
        is_so("finding of a hog", "memory-hog" in {row["kind"] for row in found}, True),
        is_so("advice on it", "TF_FORCE_GPU_ALLOW_GROWTH=true" in str(capped.get("what")), True),
        told("what is advised", capped.get("what") or capped.get("reason")),
    ]


def _compared(name: str, settings: dict[str, str]) -> list[Figure]:
    taken, framework = _held(name, {})
    taken_again, _ = _held(name, settings)
    title = NAMES[name]
    figures = [
        at_least(f"{title} as it comes, of the GPU", taken, 0.5),
        at_most(f"{title} with a lease's settings, of the GPU", taken_again, 0.1),
    ]
    if not (place.dry and name == JAX):
        figures.append(is_so(f"{title}: framework by its maps", framework, title))
    return figures


def _held(name: str, settings: dict[str, str]) -> tuple[float, str | None]:
    """Which part of the GPU it takes, and what it is taken for from outside."""
    before = place.used_bytes()
    with place.loads((name,), environment=settings) as (load,):
        table = ProcessTable(NodeName("here"))
        process = table.look([load.pid], time.time_ns() // 10**6).get(load.pid)
        table.close()
        known = () if process is None else process.frameworks
        return (place.used_bytes() - before) / _total(), next(iter(known), None)


def _total() -> int:
    import pynvml

    return int(pynvml.nvmlDeviceGetMemoryInfo(place.nvml_handle()).total)
