"""The process in which the CUDA driver is asked: ``python -m THIS-MODULE VERB LOCK-TIMEOUT-MS HELD PID...``.

HELD is JSON: the bytes that each process held on each GPU, by pid and UUID.

A child of its own, in a session of its own: a driver that crashes takes nobody with it, and an operation
that was begun is carried to its end even when the service dies meanwhile. Prints one ``Deed`` as JSON.
"""

import json
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence

from advisor.engines.checkpoint import Deed, Driver, DriverRefused, pause, resume
from advisor.engines.cuda_driver import LibraryDriver, NoDriver
from advisor.engines.gpu_room import Held
from advisor.written import to_text
from collector.model import GpuUuid

FREE_MEMORY = "collector.sources.nvml.free_memory"
ASK_S = 60.0
"""NVML's first call takes seconds where persistence mode is off; after a minute it is not known."""


def main(argv: Sequence[str]) -> int:
    """Pause, resume, or say the state of processes; 0 whenever a ``Deed`` was printed."""
    verb, timeout_ms, pids = argv[0], int(argv[1]), tuple(map(int, argv[3:]))
    held = {int(pid): sizes for pid, sizes in json.loads(argv[2]).items()}
    try:
        driver = LibraryDriver()
    except NoDriver as error:
        deed = Deed(ok=False, found=str(error), undone=True)
    else:
        deed = _do(driver, verb, timeout_ms, pids, held)
    sys.stdout.write(to_text(deed) + "\n")
    return 0


def _do(driver: Driver, verb: str, timeout_ms: int, pids: Sequence[int], held: Held) -> Deed:
    match verb:
        case "pause":
            return pause(driver, pids, timeout_ms, time.monotonic, held=held, free=free_memory)
        case "resume":
            return resume(driver, pids, time.monotonic, held=held, free=free_memory)
        case "look":
            return _look(driver, pids)
        case _:
            raise SystemExit(f"{verb!r} is none of pause, resume, look")


def free_memory(uuids: Collection[GpuUuid]) -> Mapping[GpuUuid, int | None]:
    """Bytes that each GPU has free now, by NVML in a process of its own; ``None`` where it does not say."""
    command = [sys.executable, "-P", "-m", FREE_MEMORY, *uuids]
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=ASK_S
        )
        answer = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return dict.fromkeys(uuids)
    return {uuid: answer.get(uuid) for uuid in uuids}


def _look(driver: Driver, pids: Sequence[int]) -> Deed:
    states = {}
    for pid in pids:
        try:
            states[str(pid)] = driver.state(pid).name.lower()
        except DriverRefused as refused:
            states[str(pid)] = f"unknown ({refused})"
    return Deed(ok=True, found="looked", states=states)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
