"""A GPU that was given before and after a silence was given in it: unknown time, in what was given.

The same world told in two ways is one ledger: rows without values, or no rows. Counted by hand.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval
from collector.model import GpuSample
from collector.store.database import Store
from tests.collector.store.store_parts import T0, at_path, held, history, sample, tick
from tests.stores import open_store

MINUTE_MS = 60_000
WIDE_MS = 30_000


def rows(number: int, *spans: tuple[int, int]) -> Iterator[GpuSample]:
    """A sample a minute at 60%, of the minutes ``from`` to ``to`` of each span."""
    for start, end in spans:
        for minute in range(start + 1, end + 1):
            yield sample(number, T0 + minute * MINUTE_MS, 0.6, width_ms=MINUTE_MS)


def claim(number: int, name: str, to_minute: int | None) -> HeldInterval:
    to_ms = None if to_minute is None else T0 + to_minute * MINUTE_MS
    return HeldInterval(allocation=held(number, name), from_ms=T0, to_ms=to_ms)


def given(store: Store, hours: int = 6) -> dict[str, tuple[float, float, float]]:
    """By job: hours given, of these unknown, and used."""
    with store.reader() as reader:
        found = run(reader, "ledger_by_job", {"from_ts": T0, "to_ts": T0 + hours * 3_600_000}).to_pylist()
    names = ("held_gpu_hours", "unknown_gpu_hours", "used_gpu_hours")
    return {row["key"]: tuple(round(row[name], 2) for name in names) for row in found if row["key"]}


@pytest.mark.parametrize("in_parts", [False, True])
def test_rows_that_are_missing_count_as_rows_without_values(tmp_path: Path, in_parts: bool) -> None:
    other = list(rows(9, (0, 183)))  # somebody is measured all the time
    gone = list(rows(0, (0, 60), (120, 183)))
    blank = [
        *rows(1, (0, 60), (120, 183)),
        *(
            sample(
                1,
                T0 + minute * MINUTE_MS,
                None,
                width_ms=MINUTE_MS,
                memory_used_bytes=None,
                power_mw=None,
                process_count=None,
            )
            for minute in range(61, 121)
        ),
    ]
    claims = [claim(0, "gone", None), claim(1, "blank", None)]
    told = sorted([*other, *gone, *blank], key=lambda each: each.at_ms)
    with open_store(at_path(tmp_path)) as store:
        if in_parts:  # as days of a long recording come: the silence lies over the border
            half_ms = T0 + 90 * MINUTE_MS
            store.write_history(history([each for each in told if each.at_ms <= half_ms], claims))
            store.write_history(history([each for each in told if each.at_ms > half_ms], []))
        else:
            store.write_history(history(told, claims))
        assert given(store, 3) == {"slurm:gone": (3.0, 1.0, 1.2), "slurm:blank": (3.0, 1.0, 1.2)}


def test_a_hold_without_an_end_is_given_until_any_of_its_gpus_was_measured(tmp_path: Path) -> None:
    samples = [
        *rows(9, (0, 363)),
        *rows(0, (0, 120)),
        *rows(1, (0, 363)),
        *rows(2, (0, 120)),
        *rows(3, (0, 120)),
    ]
    claims = [
        claim(0, "gang", None),  # its other GPU is measured to the end
        claim(1, "gang", None),
        claim(2, "lost", None),  # nobody knows since 2:00
        claim(3, "told", 300),  # told to hold until 5:00
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(samples, claims))
        assert given(store) == {
            "slurm:gang": (12.0, 4.0, 4.8),
            "slurm:lost": (2.0, 0.0, 1.2),
            "slurm:told": (5.0, 3.0, 1.2),
        }


@pytest.mark.slow
def test_a_gpu_that_falls_silent_and_comes_back_was_given_meanwhile(tmp_path: Path) -> None:
    """Live: four minutes measured, five silent, five measured; another GPU and Slurm answer all the time."""
    claims = [held(0, "mine")]
    with open_store(at_path(tmp_path)) as store:
        for step in range(1, 29):
            at_ms = T0 + step * WIDE_MS
            seen = (9,) if 8 < step <= 18 else (0, 9)
            told = [sample(each, at_ms, 0.6, width_ms=WIDE_MS) for each in seen]
            store.write_tick(tick(at_ms, told, claims, width_ms=WIDE_MS))
        with store.reader() as reader:
            window = {"from_ts": T0 + MINUTE_MS, "to_ts": T0 + 12 * MINUTE_MS}
            found = run(reader, "ledger_by_job", window).to_pylist()
    (mine,) = [row for row in found if row["key"]]
    minutes = {name: round(mine[f"{name}_gpu_hours"] * 60, 1) for name in ("held", "unknown", "good")}
    assert minutes == {"held": 11.0, "unknown": 5.0, "good": 6.0}
