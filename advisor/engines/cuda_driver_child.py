"""Asks the CUDA driver, one call after the other, as the account of a job's owner and with no power beside.

``python -I -m THIS-MODULE UID``: a line of JSON for each call on its input (``["lock", pid, 5000]``), and one
for each answer on its output. Started by ``owners_driver`` alone, which has made it that account. The owner
can end this process, stop it, or make it say anything: it decides nothing, and holds nothing but its pipes.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.engines.cuda_checkpoint import DriverRefused
from advisor.engines.cuda_checkpoint_child import LibraryDriver, NoDriver
from advisor.engines.owners_driver import CALLS

POWERS = ("CapEff", "CapPrm", "CapAmb")
"""What it may now, and what it could take up; capabilities(7)."""


def main(argv: Sequence[str]) -> int:
    """Answer until the input ends; another status than 0 where it is not what it should have become."""
    powers = remaining_powers(int(argv[0]))
    if powers is not None:
        return _report({"no_driver": powers}, 1)
    try:
        driver = LibraryDriver()
    except NoDriver as error:
        return _report({"no_driver": str(error)}, 0)
    _report({"ready": True}, 0)
    for line in sys.stdin:
        verb, pid, *more = json.loads(line)
        if verb not in CALLS:
            return _report({"refused": f"{verb!r} is no call"}, 1)
        try:
            answer = getattr(driver, verb)(pid, *more)
        except DriverRefused as refused:
            _report({"refused": str(refused)}, 0)
        else:
            _report({"state": int(answer)} if verb == "state" else {"done": True}, 0)
    return 0


def remaining_powers(uid: int) -> str | None:
    """What this process has beyond the account that it should be; ``None``: nothing. By the kernel's word."""
    if set(os.getresuid()) != {uid} or len(set(os.getresgid())) != 1:
        return f"it is uid {os.getresuid()} and gid {os.getresgid()}, and should be uid {uid}"
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    parts = (line.partition(":") for line in lines)
    powers = {name: int(value, 16) for name, _, value in parts if name in POWERS}
    if set(powers) != set(POWERS) or any(powers.values()):
        return f"it kept some of root's powers: {powers}"
    return None


def _report(answer: dict[str, Any], status: int) -> int:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
