"""Slurm's way to write generic resources: ``gpu:a100:2(IDX:0-1,5),shard:3(IDX:3)``. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_GPUS = 4096
"""Indices of one node; a bound against a misread range."""

_GRES = re.compile(
    r"(?<![^,])(?:gres[:/])?(?P<kind>gpu|shard|mps)(?::(?P<type>[^:(),=]+))??(?:[:=](?P<count>\d+))?"
    r"(?:\((?P<bracket>[^)]*)\))?(?=,|$)"
)
"""A type may look like a number (``gpu:3090:2``): the last number before the bracket is the count."""

_INDICES = re.compile(r"IDX:(?P<list>[\d,-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """``count`` GPUs, or that many shards of the GPUs at ``indices``, as one entry says.

    ``count`` is ``None`` where the entry has no number, which means one in a request.
    """

    is_shared: bool
    type: str = ""
    count: int | None
    indices: tuple[int, ...] = ()


def entries(text: str) -> Iterator[Gres]:
    """The parts of the text that are GPUs or parts of GPUs."""
    for match in _GRES.finditer(text):
        indices = _INDICES.search(match["bracket"] or "")
        count = None if match["count"] is None else min(int(match["count"][:9]), MOST_GPUS)
        numbers = numbers_of(indices["list"]) if indices else ()
        yield Gres(is_shared=match["kind"] != "gpu", type=match["type"] or "", count=count, indices=numbers)


def numbers_of(text: str) -> tuple[int, ...]:
    """``0-1,5`` as numbers, at most MOST_GPUS of them."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first and len(found) < MOST_GPUS:
            found.extend(range(int(first[:9]), min(int((last or first)[:9]), MOST_GPUS) + 1))
    return tuple(dict.fromkeys(found))
