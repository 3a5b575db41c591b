"""Jobs that could not come back: refused by Fallow before the driver is asked, which is never tried."""

import time
from typing import Any

from advisor.engines.cuda_checkpoint_child import free_memory
from advisor.engines.gpu_room import SPARE_BYTES
from advisor.jobs.external_jobs import Seen
from tests.gpu import place, strangers
from tests.gpu.answers import Figure, is_so, told
from tests.gpu.mps import daemon

ROOM_S = 5.0
MANAGED_MIB = 256


def main() -> dict[str, Any]:
    """A restore with the GPU filled by another; unified memory; a client of MPS."""
    return {"figures": [*_filled(), *_managed(), *_client()]}


def _managed() -> list[Figure]:
    """Unified memory stays behind, so its process is refused by what it maps; the driver is never asked."""
    with place.loads(("work", "managed", MANAGED_MIB)) as (load,):
        local, process = strangers.checkpointer(), strangers.seen(load.pid)
        (target,) = local.targets((process,))
        mapped = None if target.now is None else target.now.managed_bytes
        why = strangers.refusal(local, process, managed_bytes=MANAGED_MIB * place.MIB if place.dry else None)
    return [
        told(f"{MANAGED_MIB} MiB of unified memory: mapped of its device", mapped, "bytes"),
        is_so(f"{MANAGED_MIB} MiB of unified memory: refused by us", "unified memory" in (why or ""), True),
    ]


def _filled() -> list[Figure]:
    """Paused, then its GPU is filled up to the last GiB: the restore is not begun, and works afterwards."""
    local = strangers.checkpointer()
    load = place.Load("work", "hold", 2048)
    away = False
    try:
        before = load.ask("sum")["sum"]
        process = strangers.seen(load.pid)
        why = strangers.refusal(local, process)
        if why is not None:
            return [told("a process that holds 2 GiB", f"refused: {why}")]
        paused = strangers.moved(local, "pause", process)
        away = paused.ok
        if not paused.ok:
            return [is_so("pause", paused.found, "done")]
        free = free_memory([process.uuids[0]])[process.uuids[0]] or 0
        fills = (free - (process.memory_bytes or 0) - SPARE_BYTES // 2) // place.MIB
        with place.loads(("work", "hold", fills)):
            refused = strangers.moved(local, "resume", process)
        _wait_for_room(process)
        resumed = strangers.moved(local, "resume", process)
        away = not resumed.ok
        return [
            is_so("with the GPU filled: refused by us", refused.found.startswith("nothing was done"), True),
            is_so("afterwards it comes back", resumed.ok, True),
            is_so("with the same numbers", resumed.ok and load.ask("sum")["sum"] == before, True),
        ]
    finally:
        if away:  # a process that is paused cannot end: its last calls into CUDA would wait
            strangers.moved(local, "resume", process)
        load.end()


def _wait_for_room(process: Seen) -> None:
    """The driver takes a moment to give back what a process that ended had."""
    (uuid,) = process.uuids
    until_s = time.monotonic() + ROOM_S
    while (free_memory([uuid])[uuid] or 0) < process.held[uuid] + SPARE_BYTES and time.monotonic() < until_s:
        time.sleep(0.5)


def _client() -> list[Figure]:
    if place.dry or place.lacking("mps") is not None:
        return [told("a client of MPS", "not tried: no MPS here")]
    wanted = ("work", "product", 1024)
    with daemon() as variables, place.loads(wanted, environment=variables) as (load,):
        why = strangers.refusal(strangers.checkpointer(), strangers.seen(load.pid))
    return [is_so("a client of MPS is refused", "multi-process service" in (why or ""), True)]
