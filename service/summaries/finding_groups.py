"""Findings as people read them: one message a job, with all that was found on its GPUs. Pure.

A message has a part for each kind: its first sentence, and on which other GPUs the same is so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import isnan
from typing import TypeVar

from analytics import text
from analytics.vocabulary.findings import IDLENESS, KINDS, FindingKind, same_on

Found = TypeVar("Found")
About = tuple[str, str | None, bool]
"""What a finding is about: its kind, the job where there is one, and whether it is still so."""


def grouped(findings: Iterable[Found], about: Callable[[Found], About]) -> list[list[Found]]:
    """Findings about one job together, of whatever kinds, in the order of the first of each.

    A fault, or a stranger's doing, is no doing of the job's: those of one kind on its GPUs are a message of
    their own. What is about no job, a faulty GPU for one, stands alone.
    """
    groups: dict[object, list[Found]] = {}
    for place, finding in enumerate(findings):
        kind, job, is_open = about(finding)
        own = "" if is_own_doing(kind) else kind
        groups.setdefault(place if job is None else (own, job, is_open), []).append(finding)
    return [[each for part in _parts(group, about) for each in part] for group in groups.values()]


def by_kind(group: Sequence[Found], kind_of: Callable[[Found], str], *, is_open: bool) -> list[list[Found]]:
    """The parts of a message; that a job uses a part of its GPUs names each idle one, and stands for them.

    Of what is over each stands for itself: it may have been at different times.
    """
    parts: dict[str, list[Found]] = {}
    for finding in group:
        parts.setdefault(kind_of(finding), []).append(finding)
    named = IDLENESS if is_open and FindingKind.USES_PART in parts else frozenset[FindingKind]()
    return [part for kind, part in parts.items() if kind not in named]


def once_a_gpu(values: Iterable[tuple[str, float | None]]) -> float | None:
    """The sum of hours, or money, by GPU: several findings about one bear the same; ``None``: not known."""
    by_gpu = {uuid: float(value) for uuid, value in values if value is not None and not isnan(value)}
    return sum(by_gpu.values()) if by_gpu else None


def once_a_job(values: Iterable[tuple[str, str, float | None]]) -> float | None:
    """The same of a message, by kind and GPU: a finding about a whole job bears what all its GPUs have."""
    rows = list(values)
    total = once_a_gpu(("", value) for kind, _, value in rows if _is_of_job(kind))
    return once_a_gpu((uuid, value) for _, uuid, value in rows) if total is None else total


def the_rest(part: Sequence[Mapping[str, object]]) -> str:
    """What follows the first sentence of a part to one job's owner: on how many more GPUs, and their sum, and
    until when it was so at other times. Times are UTC, as in sentences.
    """
    gpus = [(str(row["uuid"]), text.known(row.get("judged_gpu_hours"))) for row in part if row.get("uuid")]
    first, *more = part
    over = [row["closed_at"] for row in more if row.get("uuid") == first.get("uuid") and row.get("closed_at")]
    ends = sorted(text.aware(datetime.fromisoformat(str(at))) for at in over if not text.missing(at))
    before = again([text.clock(int(at.timestamp() * 1000)) for at in ends])
    return same_on(str(first["kind"]), gpus) + (f" {before}" if before else "")


def others(names: Sequence[str], most: int = 4) -> str:
    """ "The same on 2 more GPUs: n1:1, n1:2."; nothing for none."""
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return ""
    shown = ", ".join(distinct[:most]) + (f" and {len(distinct) - most} more" if len(distinct) > most else "")
    return f"The same on {len(distinct)} more GPU{'' if len(distinct) == 1 else 's'}: {shown}."


def again(ends: Sequence[str], most: int = 4) -> str:
    """ "The same at another time, until 11:21.": where it was found several times; nothing for none."""
    if not ends:
        return ""
    more = f" and {len(ends) - most} more times" if len(ends) > most else ""
    when = "another time" if len(ends) == 1 else "other times"
    return f"The same at {when}, until {', '.join(ends[:most])}{more}."


def _parts(group: Sequence[Found], about: Callable[[Found], About]) -> list[list[Found]]:
    """By kind, what is about the job as a whole first."""
    parts: dict[str, list[Found]] = {}
    for finding in group:
        parts.setdefault(about(finding)[0], []).append(finding)
    return [parts[kind] for kind in sorted(parts, key=lambda kind: not _is_of_job(kind))]


def _is_of_job(kind: str) -> bool:
    return kind in KINDS and KINDS[FindingKind(kind)].is_of_job


def is_own_doing(kind: str) -> bool:
    """Whether it is about how the job uses its GPUs; of a kind that only a newer Fallow knows, no."""
    return kind in KINDS and (KINDS[FindingKind(kind)].is_waste or KINDS[FindingKind(kind)].is_of_job)
