"""A process that Fallow did not start, taken off the GPU and brought back by Fallow's own checkpointer."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from advisor.engines.cuda_checkpoint import TRIED_DRIVERS, Deed, DriverRefused, unfit
from advisor.engines.cuda_checkpoint_child import LibraryDriver, NoDriver
from advisor.engines.cuda_checkpointer import LONGEST_S, LocalCheckpointer, major
from advisor.jobs.external_jobs import Seen
from collector.model import GpuUuid, NodeName
from collector.procfs.checkpoint_blockers import entanglement
from service.doctor_checks.results import driver_version
from tests.gpu import place
from tests.gpu.answers import Missing

LOCK_S = 10.0
DRY_DRIVER = "580.95.05"


def checkpointer() -> LocalCheckpointer:
    """This machine's. Under a driver that is not among the tried ones it refuses, unless ``--try-driver``."""
    version = DRY_DRIVER if place.dry else driver_version()
    here = major(version)
    drivers = TRIED_DRIVERS + ((here,) if place.TRY_DRIVER in os.environ and here is not None else ())
    return LocalCheckpointer(lambda: version, LOCK_S, drivers)


def seen(pid: int) -> Seen:
    """As the collector hands it to the engine. Raises Missing when the driver says not what it holds."""
    now, held = entanglement(pid), place.held_bytes(pid)
    if now is None or held is None:
        raise Missing(f"the driver does not say what process {pid} holds (another pid namespace?)")
    uuid = GpuUuid(place.uuid())
    return Seen(
        node=NodeName("here"),
        pid=pid,
        started_ms=now.started_ms,
        uid=now.uid,
        uuids=(uuid,),
        memory_bytes=held,
        held={uuid: held},
    )


def gpu_signs(pid: int) -> str:
    """What a process shows of its use of a GPU: devices that it opens and maps, what the driver says of it.

    For children that the driver lists nowhere: do they have a context, or only read the GPU's state?
    """
    opened, mapped = Counter[str](), Counter[str]()
    try:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                opened[str(each.readlink())] += 1
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            mapped[line.split(maxsplit=5)[-1]] += 1
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    try:
        state: object = LibraryDriver().state(pid).name
    except (DriverRefused, NoDriver) as error:
        state = error
    devices = [{name: many for name, many in found.items() if "nvidia" in name} for found in (opened, mapped)]
    return f"opens {devices[0]}, maps {devices[1]}, holds {place.held_bytes(pid)} bytes, state: {state}"


def refusal(local: LocalCheckpointer, *processes: Seen, managed_bytes: int | None = None) -> str | None:
    """Why these would not be paused; ``None``: they would. A dry run says how much of unified memory's device
    they map, since there is none."""
    targets = local.targets(processes)
    if managed_bytes is not None:
        maps = [
            None if each.now is None else replace(each.now, managed_bytes=managed_bytes) for each in targets
        ]
        targets = tuple(replace(each, now=now) for each, now in zip(targets, maps, strict=True))
    return unfit(local.host(), targets)


def moved(local: LocalCheckpointer, verb: str, process: Seen) -> Deed:
    """``pause`` or ``resume``, waited for."""
    held: Mapping[int, Mapping[GpuUuid, int]] = {process.pid: process.held}
    begun = (local.pause if verb == "pause" else local.resume)([process.pid], held)
    deed = begun.ended(LONGEST_S)
    if deed is None:
        raise TimeoutError(f"the driver has not finished to {verb} process {process.pid}")
    if place.dry and deed.ok:
        place.pretend_process(process.pid, None if verb == "pause" else process.memory_bytes)
    return deed


def resident_bytes(pid: int) -> int:
    """Memory of a process on the host, which grows by what left the GPU."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
