"""The licence that keeps a job waiting, with its number: what ``scontrol show licenses`` shows. Pure.

slurmctld counts licences itself: ``LicenseName=matlab Total=3 Used=2 Free=1 Reserved=0`` (22.05.8). A job
may ask for several (``matlab:2,ansys:1``), and its reason names none: what it waits for is the first of
which there are too few for it. What a reservation keeps is free by ``Free`` and not to be had all the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collector.managers.model import Limit
from collector.managers.slurm.queue_text import NUMBER_DIGITS, TEXT_CHARS
from collector.procfs.job_root import bounded

COMMAND = ("scontrol", "--oneliner", "show", "licenses")
REASON = "Licenses"
"""Of a job that waits for one (squeue(1), "JOB REASON CODES")."""
FIELDS = ("JobID", "Licenses")
"""What squeue is asked for of such jobs: the whole queue has no need of it."""
WHAT = "license:"
"""Of ``Limit.what``, before the licence's name."""
_ASKED = re.compile(r"(?P<name>[^:=,;|]+)(?:[:=](?P<count>\d{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """How many there are in all, are in use, and are kept by reservations."""

    total: int
    used: int
    reserved: int = 0


def licences_of(text: str) -> dict[str, Licence]:
    """The licences of an answer by their names; a line that isn't understood is left out."""
    found = {}
    for line in text.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        name, counts = fields.get("LicenseName"), [_number(fields.get(key)) for key in ("Total", "Used")]
        if name and counts[0] is not None and counts[1] is not None:
            reserved = _number(fields.get("Reserved")) or 0
            found[name] = Licence(total=counts[0], used=counts[1], reserved=reserved)
    return found


def asked_of(text: str) -> dict[str, int] | None:
    """How many of each a job asks for; ``None``: of one or another, or in a way that isn't known here."""
    asked = {}
    for part in re.split("[,;]", text):
        match = _ASKED.fullmatch(part.strip())
        if match is None:
            return None
        asked[match["name"]] = int(match["count"] or 1)
    return asked


def limit_of(told: str | None, there: Mapping[str, Licence]) -> Limit:
    """The licence that a job waits for; ``told``: what it asks for, as squeue prints it. ``most`` is what
    reservations leave of it, where they keep what it would need."""
    asked = None if told is None else asked_of(told)
    if asked is None:
        return Limit(name="", unseen="which licences the job asks for could not be read")
    missing = next((name for name in asked if name not in there), None)
    for is_kept in (False, True):
        for name, count in asked.items():
            licence = there.get(name)
            most = 0 if licence is None else licence.total - licence.reserved * is_kept
            if licence is not None and licence.used + count > most:
                shown = bounded(name, TEXT_CHARS)
                return Limit(name=shown, what=f"{WHAT}{shown}", most=most, used=licence.used)
    if missing is not None:
        return Limit(name="", unseen=f"Slurm shows no licence {bounded(missing, TEXT_CHARS)}")
    return Limit(name="", unseen="of the licences that Slurm shows, none would be too few; they changed")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) <= NUMBER_DIGITS else None
