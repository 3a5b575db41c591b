"""Findings as people read them: one message a job and kind, with all the GPUs that it is about. Pure."""

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import Any, TypeVar

Found = TypeVar("Found")
About = tuple[str, str | None, bool]
"""What a finding is about: its kind, the job where there is one, and whether it is still so."""


def grouped(findings: Iterable[Found], about: Callable[[Found], About]) -> list[list[Found]]:
    """Findings of one kind about one job together, in the order of the first of each.

    What is about no job, a faulty GPU for one, stands alone.
    """
    groups: dict[object, list[Found]] = {}
    for place, finding in enumerate(findings):
        kind, job, is_open = about(finding)
        groups.setdefault(place if job is None else (kind, job, is_open), []).append(finding)
    return list(groups.values())


def once_a_gpu(values: Iterable[tuple[str, Any]]) -> float | None:
    """The sum of hours, or money, by GPU: several findings about one bear the same; ``None``: not known."""
    by_gpu = {uuid: float(value) for uuid, value in values if value is not None and not isnan(value)}
    return sum(by_gpu.values()) if by_gpu else None


def others(names: Sequence[str], most: int = 4) -> str:
    """ "The same on 2 more GPUs: n1:1, n1:2."; nothing for none."""
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return ""
    shown = ", ".join(distinct[:most]) + (f" and {len(distinct) - most} more" if len(distinct) > most else "")
    return f"The same on {len(distinct)} more GPU{'' if len(distinct) == 1 else 's'}: {shown}."
