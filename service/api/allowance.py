"""What each person may still ask of the service: token buckets that fill with time. On the event loop alone.

Connections and calls are every one. Orders leave rows that are kept. Changes are launchers' reports that say
something new, each of which is a commit; a launcher that is told to wait sends the same report again.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from service.control.errors import OverLimit

MOST_KEPT = 4_096
"""Persons whose buckets are remembered; whoever was not seen for longest has had time to fill theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many a minute and so many at once, with more for each job that has not ended."""

    per_minute: float
    at_once: float
    per_job: float = 0.0
    what: str
    setting: str


class Kind(Enum):
    """What is counted."""

    CALL = "call"
    ORDER = "order"
    CHANGE = "change"
    CONNECTION = "connection"
    KEPT = "kept"
    """MiB of orders' text: it is kept for years, however few jobs wait at a time."""


@dataclass(slots=True)
class _Bucket:
    level: float
    at_s: float


class Allowance:
    """The buckets of everybody; ``jobs_of`` says how many jobs a person has that have not ended."""

    def __init__(
        self,
        rates: dict[Kind, Rate],
        jobs_of: Callable[[str], int] = lambda person: 0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rates, self._now_s = rates, now_s
        self.jobs_of = jobs_of
        self._buckets: OrderedDict[tuple[str, Kind], _Bucket] = OrderedDict()

    def take(self, person: str, kind: Kind, amount: float = 1.0) -> None:
        """Count one, or so much. Raises ``OverLimit``, with when that is due."""
        rate, now_s = self._rates[kind], self._now_s()
        jobs = self.jobs_of(person) if rate.per_job else 0
        per_minute, at_once = rate.per_minute + jobs * rate.per_job, rate.at_once + jobs * rate.per_job
        key = person, kind
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(at_once, now_s)
            if len(self._buckets) > MOST_KEPT:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.level = min(at_once, bucket.level + (now_s - bucket.at_s) * per_minute / 60)
        bucket.at_s = now_s
        if bucket.level < amount:
            wait_s = math.ceil((amount - bucket.level) * 60 / per_minute)
            raise OverLimit(
                f"too many {rate.what}: one person has {at_once:,.0f} at once and {_short(per_minute)} a "
                f"minute ({rate.setting}); ask again in {wait_s} s",
                retry_after_s=wait_s,
            )
        bucket.level -= amount

    def has(self, person: str, kind: Kind) -> bool:
        """Count one, and say whether it was still theirs."""
        try:
            self.take(person, kind)
        except OverLimit:
            return False
        return True


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:.2g}"
