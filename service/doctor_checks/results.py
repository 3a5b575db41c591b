"""What ``fallow doctor`` says of one thing that it looked at."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    """How it stands with one thing. LIMITED: it works with less. ABSENT: not here, and perhaps not needed."""

    GOOD = "good"
    LIMITED = "limited"
    ABSENT = "absent"
    TROUBLE = "trouble"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: what was found and, where something is amiss, what to do."""

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""


def driver_version() -> str | None:
    """The loaded kernel driver's version by /proc (``570.86.15``); ``None`` without one."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    match = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    return None if match is None else match[1]
