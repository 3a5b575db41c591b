"""How much one exporter or peer may name: it is another program's word, and each name becomes rows. Pure.

GPUs are counted over a day, for a page that invents new ones at each scrape names few at a time. Too many are
the endpoint's own fault: its page is not believed. Holders, events and doubts of one GPU may come from
somebody who has a job there, and must not hide the GPUs of others: those beyond the bound are left out, and
the sample says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from collector.dcgm.text import MalformedText
from collector.model import GpuUuid

DAY_MS = 86_400_000
MOST_OF_ONE_GPU = 64
"""Holders, kinds of events, doubts: CUDA's MPS takes 48 clients, and a time-sliced GPU is shared by ten."""
LONGEST_UUID = 200
"""NVML gives 96 characters at most; an instance is called by its board's UUID and a number."""
CROWDED = "more-holders-than-are-kept"
"""The doubt of a sample some of whose holders, events or doubts were left out."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Named:
    """The GPUs that an endpoint has named since the day of its own began."""

    since_ms: int = 0
    uuids: frozenset[GpuUuid] = frozenset()

    def and_also(self, uuids: Iterable[GpuUuid], now_ms: int, most: int) -> "Named":
        """With those of another page. Raises MalformedText where that is more than one may name."""
        page = frozenset(uuids)
        if any(len(uuid) > LONGEST_UUID for uuid in page):
            raise MalformedText(f"it names a GPU by more than {LONGEST_UUID} characters: no driver does")
        is_over = not 0 <= now_ms - self.since_ms < DAY_MS
        known = self.uuids if not is_over else frozenset()
        if page <= known:
            return self
        if len(known | page) > most:
            raise MalformedText(
                f"it has named {len(known | page):,} GPUs within a day, and one address may name {most:,}: "
                "raise collect.gpus_per_address where it speaks for so many"
            )
        return Named(now_ms if is_over else self.since_ms, known | page)


def first_of_each(rows: Iterable[_T], uuid_of: Callable[[_T], str]) -> Iterator[_T]:
    """The first so many rows of each GPU."""
    counts: Counter[str] = Counter()
    for row in rows:
        uuid = uuid_of(row)
        counts[uuid] += 1
        if counts[uuid] <= MOST_OF_ONE_GPU:
            yield row


def crowded(*kinds: Iterable[str]) -> frozenset[str]:
    """The GPUs that are named too often in one of these lists."""
    counts = [Counter(kind) for kind in kinds]
    return frozenset(uuid for each in counts for uuid, count in each.items() if count > MOST_OF_ONE_GPU)
