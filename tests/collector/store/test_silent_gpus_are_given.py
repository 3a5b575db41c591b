"""A GPU that was given before and after a silence was given in it: unknown time, in what was given.

The same world told in two ways is one ledger: rows without values, or no rows. Counted by hand.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.query import run
from collector.arrow import HeldInterval, History
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


def given(store: Store, hours: int = 6, from_ms: int = T0) -> dict[str, tuple[float, float, float]]:
    """By job: hours given, of these unknown, and used."""
    with store.reader() as reader:
        found = run(
            reader, "ledger_by_job", {"from_ts": from_ms, "to_ts": from_ms + hours * 3_600_000}
        ).to_pylist()
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


# Silences of more than a day. GPU 9 is measured from 0 to 59 h, the others from 0 to 6 and from 46 to 59 h, a
# sample each ten minutes at 60%; looked at are 58 h, for the last minutes are not rolled up yet. It begins at
# 14:00 UTC, so that the silence is from 20:00 to noon two days later, with the end of summer time in Berlin.
BEGIN_MS = 1_792_850_400_000
END_H = 58
WIDTH_MS = 600_000
HOUR_MS = 3_600_000


def long_rows(number: int, *spans: tuple[int, int]) -> Iterator[GpuSample]:
    for start, end in spans:
        for step in range(start * 6 + 1, end * 6 + 1):
            yield sample(number, BEGIN_MS + step * WIDTH_MS, 0.6, width_ms=WIDTH_MS)


def long_claim(number: int, name: str, from_h: int, to_h: int | None) -> HeldInterval:
    to_ms = None if to_h is None else BEGIN_MS + to_h * HOUR_MS
    return HeldInterval(allocation=held(number, name), from_ms=BEGIN_MS + from_h * HOUR_MS, to_ms=to_ms)


LONG_CLAIMS = [
    long_claim(0, "mine", 0, None),  # told as one hold: given in all of the silence
    long_claim(1, "first", 0, 30),  # told to have ended in the silence
    long_claim(1, "next", 40, None),  # and another to have begun in it
    long_claim(2, "before", 0, 6),  # nobody is told to have had it meanwhile
    long_claim(2, "after", 46, None),
]
GIVEN_H = {  # given, of these unknown, used at 60% of the measured
    "slurm:mine": (58.0, 40.0, 10.8),
    "slurm:first": (30.0, 24.0, 3.6),
    "slurm:next": (18.0, 6.0, 7.2),
    "slurm:before": (6.0, 0.0, 3.6),
    "slurm:after": (12.0, 0.0, 7.2),
}
MIDNIGHTS_MS = tuple(BEGIN_MS + (10 + 24 * day) * HOUR_MS for day in range(2))


def long_store(folder: Path, pieces_ms: tuple[int, ...]) -> Store:
    """The same hours told in pieces that end at these times."""
    spans = (0, 6), (46, END_H + 1)
    told = [*long_rows(9, (0, END_H + 1)), *(each for n in (0, 1, 2) for each in long_rows(n, *spans))]
    store = open_store(at_path(folder))
    start_ms = 0
    for end_ms in (*pieces_ms, BEGIN_MS + (END_H + 1) * HOUR_MS):
        part = [each for each in told if start_ms < each.at_ms <= end_ms]
        store.write_history(history(part, LONG_CLAIMS if not start_ms else []))
        start_ms = end_ms
    return store


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces_ms", [(), MIDNIGHTS_MS, (BEGIN_MS + 25 * HOUR_MS,)], ids=["whole", "days", "two"]
)
def test_a_silence_of_days_is_given_as_its_holds_are_told(tmp_path: Path, pieces_ms: tuple[int, ...]) -> None:
    with long_store(tmp_path, pieces_ms) as store:
        assert given(store, END_H, BEGIN_MS) == GIVEN_H


@pytest.mark.slow
def test_a_range_that_is_cut_within_a_silence_has_the_part_of_it(tmp_path: Path) -> None:
    """From 20 to 50 h: mine all 30, of them 4 measured; first 10; next 10, 4 of them measured; after 4."""
    with long_store(tmp_path, MIDNIGHTS_MS) as store, store.reader() as reader:
        window = {"from_ts": BEGIN_MS + 20 * HOUR_MS, "to_ts": BEGIN_MS + 50 * HOUR_MS}
        rows_ = run(reader, "ledger_by_job", window).to_pylist()
        hours = {
            row["key"]: (round(row["held_gpu_hours"], 2), round(row["used_gpu_hours"], 2)) for row in rows_
        }
        del hours[None]
        assert hours == {
            "slurm:mine": (30.0, 2.4),
            "slurm:first": (10.0, 0.0),
            "slurm:next": (10.0, 2.4),
            "slurm:after": (4.0, 2.4),
        }
        # 14:00 to midnight, a day, a day to 24:00; of mine, then of first and next, then of before and after
        days = run(
            reader, "ledger_by_day", {"from_ts": BEGIN_MS, "to_ts": BEGIN_MS + END_H * HOUR_MS}
        ).to_pylist()
        assert [round(row["held_gpu_hours"], 2) for row in days] == [10 + 10 + 6, 24 + 20, 24 + 18 + 12]


def labelled(spans: list[tuple[int, int]], samples: list[GpuSample]) -> History:
    """A past that tells holders with its samples alone, as labels behind a Prometheus do."""
    holds = [
        HeldInterval(allocation=held(0, "job"), from_ms=T0 + a * MINUTE_MS, to_ms=T0 + b * MINUTE_MS)
        for a, b in spans
    ]
    return replace(history(samples, holds), bridged_ms=24 * 60 * MINUTE_MS)


@pytest.mark.parametrize("in_parts", ["no", "forth", "back"])
def test_one_holder_on_both_sides_of_a_hole_was_given_the_hole(tmp_path: Path, in_parts: str) -> None:
    """An hour at 60%, three without a sample, an hour at 60%: 5 h given, 3 unknown, 1.2 used."""
    first = labelled([(0, 60)], [*rows(0, (0, 60)), *rows(9, (0, 60))])
    second = labelled([(240, 300)], [*rows(0, (240, 300)), *rows(9, (240, 303))])
    whole = labelled([(0, 60), (240, 300)], [*rows(0, (0, 60), (240, 300)), *rows(9, (0, 60), (240, 303))])
    told = {"no": [whole], "forth": [first, second], "back": [second, first]}[in_parts]
    with open_store(at_path(tmp_path)) as store:
        for _ in range(2):  # what was imported already changes nothing
            for each in told:
                store.write_history(each)
            assert given(store) == {"slurm:job": (5.0, 3.0, 1.2)}


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_hole_is_not_given_where_somebody_looked_or_after_a_day(tmp_path: Path, in_parts: bool) -> None:
    """Read in the hole without a label: the job had ended. After a day names of pods come back: 2 h each."""
    seen = [*rows(0, (0, 60), (120, 180), (240, 300)), *rows(9, (0, 303))]
    with open_store(at_path(tmp_path)) as store:
        if in_parts:
            half_ms = T0 + 200 * MINUTE_MS
            store.write_history(labelled([(0, 60)], [each for each in seen if each.at_ms <= half_ms]))
            store.write_history(labelled([(240, 300)], [each for each in seen if each.at_ms > half_ms]))
        else:
            store.write_history(labelled([(0, 60), (240, 300)], seen))
        assert given(store) == {"slurm:job": (2.0, 0.0, 1.2)}
    late = 60 + 24 * 60 + 1
    with open_store(at_path(tmp_path / "late")) as store:
        samples = [*rows(0, (0, 60), (late, late + 60)), *rows(9, (0, 60), (late, late + 63))]
        store.write_history(labelled([(0, 60), (late, late + 60)], samples))
        assert given(store, hours=48) == {"slurm:job": (2.0, 0.0, 1.2)}
