"""A framework that takes memory ahead: as it comes, and as a lease of Fallow's starts it."""

import time
from typing import Any

from advisor.model import ProjectName
from advisor.register.model import Submission
from advisor.register.shares import Device, Mps, environment, terms
from collector.model import GpuUuid
from collector.procfs.table import ProcessTable
from tests.gpu import place
from tests.gpu.answers import at_least, at_most, is_so, told


def lease_settings(share: float) -> dict[str, str]:
    """The environment of a job that holds so much of the first GPU."""
    import pynvml

    total = int(pynvml.nvmlDeviceGetMemoryInfo(place.nvml_handle()).total)
    device = Device(uuid=GpuUuid(place.uuid()), memory_bytes=total)
    wanted = Submission(command=("train",), user="ann", project=ProjectName("vision"))
    return environment(terms(wanted, share, (device,), (), Mps()).settings, {})


def main() -> dict[str, Any]:
    """Both ways, by the driver's own figures."""
    import pynvml

    from collector.model import NodeName

    total = int(pynvml.nvmlDeviceGetMemoryInfo(place.nvml_handle()).total)
    before = place.used_bytes()
    hog = place.Load("jaxhog")
    try:
        taken = (place.used_bytes() - before) / total
        table = ProcessTable(NodeName("here"))
        process = table.look([hog.pid], time.time_ns() // 10**6).get(hog.pid)
        table.close()
    finally:
        hog.end()
    settings = lease_settings(1.0)
    again = place.Load("jaxhog", environment=settings)
    try:
        taken_again = (place.used_bytes() - before) / total
    finally:
        again.end()
    figures = [
        at_least("JAX as it comes, of the GPU", taken, 0.5),
        at_most("JAX with a lease's settings, of the GPU", taken_again, 0.1),
        told("settings", ", ".join(sorted(settings))),
    ]
    if not place.dry:
        figures.append(is_so("framework by its maps", process and process.framework, "jax"))
    return {"figures": figures}
