"""Who works and rests in rounds is not found idle in a rest as long as all the others.

The rounds are told from the world: minutes of work, minutes of rest, and that for thirty hours.
"""

from itertools import cycle
from pathlib import Path

import pytest

from analytics.assess import assess
from analytics.model import FindingKind
from analytics.thresholds import Thresholds
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

BIN_MS, MINUTE_MS, HOUR_MS = 30_000, 60_000, 3_600_000
AFTER_MS = (-100_000, 0, 20_000)
"""After the end of a rest: it is longest then, and what has just begun shows with its first whole sample."""


def rounds(work_s: int, rests_s: tuple[int, ...], hours: int) -> list[tuple[int, int]]:
    """Each work, from and to, in ms."""
    at_ms, works = T0, []
    for rest_s in cycle(rests_s):
        if at_ms + work_s * 1000 > T0 + hours * HOUR_MS:
            return works
        works.append((at_ms, at_ms + work_s * 1000))
        at_ms += (work_s + rest_s) * 1000
    return works


def idle_at(folder: Path, works: list[tuple[int, int]], moments: list[int]) -> list[int]:
    """At which of the moments it was found idle, as a service would that judges then."""
    end_ms = max(moments)
    rows, place = [], 0
    for at_ms in range(T0 + BIN_MS, end_ms + 1, BIN_MS):
        while place + 1 < len(works) and works[place + 1][0] < at_ms:
            place += 1
        from_ms, to_ms = works[place]
        busy = max(0, min(at_ms, to_ms) - max(at_ms - BIN_MS, from_ms)) / BIN_MS
        rows.append(sample(0, at_ms, 0.8 * busy, width_ms=BIN_MS, process_count=1))
    claim = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=None)
    found = []
    with open_store(at_path(folder)) as store:
        later = iter(rows)
        row = next(later, None)
        for now_ms in sorted(moments):
            new = []
            while row is not None and row.at_ms <= now_ms:
                new.append(row)
                row = next(later, None)
            store.write_history(history(new, [claim]))
            with store.reader() as reader:
                kinds = {each.kind for each in assess(reader, now_ms, Thresholds(), BIN_MS).findings}
            found += [now_ms] if FindingKind.HELD_IDLE in kinds else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work_s", "rests_s"),
    [
        (600, (3_900,)),
        (1_800, (5_400,)),
        (600, (3_600,)),
        (620, (3_910,)),  # in step with no minute
        (1_200, (4_800, 5_400, 6_000)),  # 80 to 100 minutes
    ],
)
def test_a_rest_as_long_as_the_others_is_no_idleness(
    tmp_path: Path, work_s: int, rests_s: tuple[int, ...]
) -> None:
    works = rounds(work_s, rests_s, 30)
    starts = [from_ms for from_ms, _ in works[-5:]]
    moments = [start + after for start in starts for after in AFTER_MS]
    assert idle_at(tmp_path, works, moments) == []


@pytest.mark.slow
def test_who_does_not_come_back_after_its_usual_rest_is_found(tmp_path: Path) -> None:
    works = rounds(600, (3_900,), 30)
    stopped_ms = works[-1][1]
    moments = [stopped_ms + minutes * MINUTE_MS for minutes in (66, 72, 76)]
    assert idle_at(tmp_path, works, moments) == [stopped_ms + 76 * MINUTE_MS]
