"""Times, lengths and numbers of GPUs as job histories write them. Pure.

Each function raises ``ValueError`` with a sentence that names the column and the text.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from collector.inventory.hostlist import expand
from collector.managers.histories.model import NEVER_RAN, NO_GPU, NOT_OVER, PastJob, Record, Unreadable
from collector.managers.slurm.sacct_text import ABSENT, MOST_GPUS, TEXT_CHARS
from collector.procfs.job_root import bounded

MOST_S = 5e9
"""No time is later, in seconds since 1970: the year 2128. Milliseconds taken for seconds are beyond."""

_LENGTH = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<clock>\d{1,9}(?::\d{1,2}){0,2})(?:\.\d+)?")


def moment_s(text: str, column: str, zone: tzinfo = UTC) -> float | None:
    """Seconds: a number, or a date and time as ISO 8601 has it, of ``zone`` where it names none.

    ``None``: not known.
    """
    text = text.strip()
    if text in ABSENT:
        return None
    try:
        value = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{column} is {text[:40]!r}, not a time like 2026-10-01T08:00:00") from None
        value = (at if at.tzinfo else at.replace(tzinfo=zone)).timestamp()
    if not 0 <= value <= MOST_S:
        raise ValueError(f"{column} is {text[:40]!r}, which is no time in seconds")
    return value


def length_s(text: str, column: str) -> float | None:
    """Seconds: a number, or ``2-03:04:05``, ``03:04:05``, ``04:05`` as Slurm has it. ``None``: not known."""
    text = text.strip()
    if text in ABSENT:
        return None
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(f"{column} is {text[:40]!r}, not a length like 3600 or 1-02:00:00")
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is None:
        if len(parts) == 1:
            return float(text)
        return float(sum(part * 60**power for power, part in enumerate(reversed(parts))))
    hours, minutes, seconds = (*parts, 0, 0)[:3]  # behind days Slurm's first number is hours: D-HH[:MM[:SS]]
    return float(int(match["days"]) * 86_400 + hours * 3600 + minutes * 60 + seconds)


def gpus_in(text: str, column: str) -> float:
    """How many GPUs; ``0`` where none are named. A part of a GPU is below 1, parts of several are refused."""
    if text.strip() in ABSENT:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column} is {text[:40]!r}, not a number of GPUs") from None
    if not math.isfinite(value) or value < 0 or value > MOST_GPUS or (value > 1 and value != int(value)):
        raise ValueError(f"{column} is {text[:40]!r}; it must be a whole number, or a part of one GPU")
    return value


def nodes_in(text: str) -> tuple[str, ...]:
    """The machines that a list of hosts names, each once: ``n1,n2``, ``n1 n2``, ``n[1-3]``."""
    if text.strip() in ABSENT:
        return ()
    try:
        hosts = expand(",".join(text.replace(";", ",").split()))
    except ValueError:  # a range without numbers
        return ()
    return tuple(dict.fromkeys(bounded(host, TEXT_CHARS) for host in hosts if host))


def word(text: object) -> str | None:
    """A name that is bounded and not empty; ``None`` where there is none."""
    shown = bounded(str(text).strip(), TEXT_CHARS) if isinstance(text, str | int) else ""
    return None if shown in ABSENT else shown


def job(
    *,
    key: str | None,
    submitted_s: float | None,
    started_s: float | None,
    ended_s: float | None,
    gpus: float,
    names: Mapping[str, str | None],
    gpu_models: tuple[str, ...] = (),
    nodes: tuple[str, ...] = (),
) -> Record:
    """The job that these make, or why they make none; ``names`` are user, project and name."""
    if key is None:
        return Unreadable("it has no number or name of its own")
    if not gpus:
        return NO_GPU
    if started_s is None:
        return NEVER_RAN
    if ended_s is None:
        return NOT_OVER
    if ended_s < started_s:
        return Unreadable(f"it ended {started_s - ended_s:g} s before it began")
    if ended_s == started_s:
        return NEVER_RAN
    if submitted_s is None or submitted_s > started_s:
        submitted_s = started_s  # Slurm notes the last requeue as the submission; a clock may be set back
    return PastJob(
        key=key,
        submitted_s=submitted_s,
        started_s=started_s,
        ended_s=ended_s,
        gpus=gpus,
        user=names.get("user"),
        project=names.get("project"),
        name=names.get("name"),
        gpu_models=gpu_models,
        nodes=nodes,
    )
