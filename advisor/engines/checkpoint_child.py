"""The process in which the CUDA driver is asked: ``python -m THIS-MODULE VERB LOCK-TIMEOUT-MS PID...``.

A child of its own, in a session of its own: a driver that crashes takes nobody with it, and an operation
that was begun is carried to its end even when the service dies meanwhile. Prints one ``Deed`` as JSON.
"""

import sys
import time
from collections.abc import Sequence

from advisor.engines.checkpoint import Deed, Driver, DriverRefused, pause, resume
from advisor.engines.cuda_driver import NoDriver, open_driver
from advisor.written import to_text


def main(argv: Sequence[str]) -> int:
    """Pause, resume, or say the state of processes; 0 whenever a ``Deed`` was printed."""
    verb, timeout_ms, pids = argv[0], int(argv[1]), tuple(map(int, argv[2:]))
    try:
        driver = open_driver()
    except NoDriver as error:
        deed = Deed(ok=False, found=str(error), undone=True)
    else:
        deed = _do(driver, verb, timeout_ms, pids)
    sys.stdout.write(to_text(deed) + "\n")
    return 0


def _do(driver: Driver, verb: str, timeout_ms: int, pids: Sequence[int]) -> Deed:
    match verb:
        case "pause":
            return pause(driver, pids, timeout_ms, time.monotonic)
        case "resume":
            return resume(driver, pids, time.monotonic)
        case "look":
            return _look(driver, pids)
        case _:
            raise SystemExit(f"{verb!r} is none of pause, resume, look")


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
