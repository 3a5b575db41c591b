"""Findings of imported pasts in the store: kept once, beside what a service told at the time."""

from datetime import UTC
from itertools import pairwise
from pathlib import Path

from analytics.query import run
from collector.arrow import HeldInterval
from collector.store.database import Store
from collector.store.judgements import Judgement
from collector.store.past_findings import (
    MOST_MS,
    Past,
    joined,
    measured_from,
    pasts_to_judge,
    write_past_findings,
)
from collector.store.retention import Retention
from service.config.file import load
from service.usecases.judge import judge_pasts
from tests.collector.store.store_parts import T0, ask, at_path, held, history, older_file, sample, uuid
from tests.stores import open_store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SPAN = (T0, T0 + 10 * HOUR_MS)


def finding(kind: str, opened_h: int, over_h: int) -> dict[str, object]:
    return {
        "kind": kind,
        "uuid": uuid(0),
        "job": "slurm:a",
        "opened_ms": T0 + opened_h * HOUR_MS,
        "seen_ms": T0 + over_h * HOUR_MS,
        "over_ms": T0 + over_h * HOUR_MS,
        "window_from_ms": T0,
        "window_to_ms": T0 + over_h * HOUR_MS,
        "coverage": 1.0,
        "rung": 3,
        "wasted_gpu_hours": 1.0,
        "sentence": f"{kind} until {over_h}",
        "evidence": {},
    }


def past(from_ms: int, to_ms: int, judged_ms: int | None = None) -> Past:
    return Past(from_ms=from_ms, to_ms=to_ms, judged_ms=from_ms if judged_ms is None else judged_ms)


def test_ranges_that_touch_are_one_past_judged_from_the_first_gap() -> None:
    assert joined([(0, 5, 0), (5, 9, 5), (3, 4, 3), (10, 12, 10)]) == (past(0, 9), past(10, 12))
    assert joined([(0, 5, 5), (5, 9, 7)]) == (past(0, 9, 7),)
    assert joined([(0, 5, 2), (5, 9, 9)]) == (past(0, 9, 2),)
    assert joined([(0, 5, 5), (5, 9, 9)]) == (past(0, 9, 9),)


def test_a_year_is_judged_month_by_month() -> None:
    """Nothing of 365 days is left out; no span has more than 31, so there are twelve."""
    pasts = joined((day * DAY_MS, (day + 1) * DAY_MS, day * DAY_MS) for day in range(365))
    assert len(pasts) == 12 and all(each.to_ms - each.from_ms <= MOST_MS for each in pasts)
    assert pasts[0].from_ms == 0 and pasts[-1].to_ms == 365 * DAY_MS
    assert all(before.to_ms == after.from_ms for before, after in pairwise(pasts))


def test_a_past_without_its_samples_stays_as_it_was_judged(tmp_path: Path) -> None:
    """A job rested on the first of four days. At their end its samples go, and then other rules come.

    What is left is asked by ``first_sample_of_past``.
    """
    midnight = -(-T0 // DAY_MS) * DAY_MS
    end = midnight + 4 * DAY_MS
    first, last = (midnight, midnight + DAY_MS), (midnight + 3 * DAY_MS, end)
    config = load(None, {}).config
    with open_store(at_path(tmp_path)) as store:
        interval = HeldInterval(allocation=held(0, "a"), from_ms=midnight, to_ms=midnight + 9 * HOUR_MS)
        rows = [sample(0, first[0] + HOUR_MS), sample(0, last[0] + HOUR_MS)]
        store.write_history(history(rows, [interval]))
        for span in (first, last):
            store.note_import("http://p", *span, 1)
        told = finding("held-idle", 1, 2) | {"opened_ms": midnight, "over_ms": midnight + HOUR_MS}
        with store.writing("judging") as connection:
            write_past_findings(connection, [told], first, "rules of before")
        with store.reader() as reader:
            assert measured_from(reader, first) == first[0]
        store.apply_retention(Retention(samples_days=2), end)
        with store.reader() as reader:
            assert measured_from(reader, first) is None
            assert measured_from(reader, last) == last[0]
            # two days are kept, and rules look back less than a day
            assert measured_from(reader, (midnight, end)) == midnight + 3 * DAY_MS
        assert judge_pasts(config, store) == 1
        assert judge_pasts(config, store) == 0
        assert ask(store, "SELECT kind, epoch_ms(closed_at) FROM findings") == [
            ("held-idle", midnight + HOUR_MS)
        ]


def test_a_past_is_written_once_and_what_was_told_at_the_time_stays(tmp_path: Path) -> None:
    """A service told of the idle GPU from the fifth to the sixth hour; the past adds the crash loop alone."""
    with open_store(at_path(tmp_path)) as store:
        interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=T0 + 9 * HOUR_MS)
        store.write_history(history([sample(0, T0 + 1000)], [interval]))
        store.note_import("http://p", *SPAN, 1)
        store.note_import("slurm:cluster", T0, T0 + HOUR_MS, 1)  # accounting has nothing to judge
        live = finding("held-idle", 5, 6)
        store.write_judgement(Judgement(findings=[live]), T0 + 5 * HOUR_MS)
        store.write_judgement(Judgement(), T0 + 6 * HOUR_MS)
        with store.reader() as reader:
            assert pasts_to_judge(reader, "rules 1") == (past(*SPAN),)
        for _ in range(2):
            with store.writing("judging") as connection:
                rows = [finding("held-idle", 4, 7), finding("crash-loop", 6, 9)]
                write_past_findings(connection, rows, SPAN, "rules 1")
            told = ask(store, "SELECT kind, of_past, epoch_ms(closed_at) FROM findings ORDER BY kind")
            assert told == [
                ("crash-loop", True, T0 + 9 * HOUR_MS),
                ("held-idle", False, T0 + 6 * HOUR_MS),
            ]
            with store.reader() as reader:
                assert pasts_to_judge(reader, "rules 1") == ()
        with store.reader() as reader:
            assert pasts_to_judge(reader, "rules 2") == (past(*SPAN),)


def test_what_an_older_store_imported_is_still_to_be_judged(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 100) as connection:
        connection.execute("INSERT INTO imports VALUES ('http://p', epoch_ms(0), epoch_ms(60000), 1, now())")
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        assert pasts_to_judge(reader, "rules 1") == (past(0, 60_000),)


def closed_hours(store: Store) -> list[tuple[str, int, int]]:
    rows = ask(
        store, "SELECT sentence, epoch_ms(opened_at), epoch_ms(closed_at) FROM findings ORDER BY closed_at"
    )
    return [(text, (opened - T0) // HOUR_MS, (closed - T0) // HOUR_MS) for text, opened, closed in rows]


def test_a_finding_that_goes_on_from_one_piece_into_the_next_is_one(tmp_path: Path) -> None:
    """Told from 1 to 4 of the first five hours, then from 3 to 8: from 1 to 8, as it was told last.

    From 9 to 10 is another. When other rules judge the first five hours anew, and say from 2 to 4, the later
    piece is still to be judged by them: nothing of it is touched. Where it is not, it begins at 2.
    """
    first, second = (T0, T0 + 5 * HOUR_MS), (T0 + 5 * HOUR_MS, T0 + 10 * HOUR_MS)
    with open_store(at_path(tmp_path)) as store:
        interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=T0 + 10 * HOUR_MS)
        store.write_history(history([sample(0, T0 + 1000)], [interval]))
        store.note_import("http://p", T0, second[1], 1)

        def write(rows: list[dict[str, object]], span: tuple[int, int], rules: str, redone: int) -> None:
            with store.writing("judging") as connection:
                write_past_findings(connection, rows, span, rules, redone_to_ms=redone)

        write([finding("held-idle", 1, 4)], first, "rules 1", second[1])
        with store.reader() as reader:
            assert pasts_to_judge(reader, "rules 1") == (past(T0, second[1], first[1]),)
        whole = [finding("held-idle", 3, 8), finding("held-idle", 9, 10)]
        write(whole, second, "rules 1", second[1])
        one = [("held-idle until 8", 1, 8), ("held-idle until 10", 9, 10)]
        assert closed_hours(store) == one
        with store.reader() as reader:
            assert pasts_to_judge(reader, "rules 1") == ()
        write([finding("held-idle", 2, 4)], first, "rules 2", second[1])
        assert closed_hours(store) == [("held-idle until 4", 2, 4), *one]
        write(whole, second, "rules 2", second[1])
        assert closed_hours(store) == [("held-idle until 8", 2, 8), one[1]]
        write([finding("held-idle", 0, 4)], first, "rules 2", first[1])
        assert closed_hours(store) == [("held-idle until 8", 0, 8), one[1]]


def test_what_an_import_found_at_its_records_end_is_found_anew_by_the_next(tmp_path: Path) -> None:
    """At 5 h it was open; the next import ends at 10 h, where nothing is. A service keeps what it told."""
    with open_store(at_path(tmp_path)) as store:
        interval = HeldInterval(allocation=held(0, "a"), from_ms=T0, to_ms=T0 + 10 * HOUR_MS)
        store.write_history(history([sample(0, T0 + 1000)], [interval]))
        told = Judgement(findings=[finding("held-idle", 0, 5)])
        store.write_judgement(told, T0 + 5 * HOUR_MS, of_past=True)
        assert ask(store, "SELECT of_past, closed_at FROM findings") == [(True, None)]
        store.write_judgement(Judgement(), T0 + 10 * HOUR_MS, of_past=True)
        assert ask(store, "SELECT count(*) FROM findings") == [(0,)]
        store.write_judgement(told, T0 + 5 * HOUR_MS, of_past=True)
        store.write_judgement(told, T0 + 6 * HOUR_MS)
        store.write_judgement(Judgement(), T0 + 10 * HOUR_MS, of_past=True)
        assert ask(store, "SELECT of_past, epoch_ms(closed_at) FROM findings") == [(False, T0 + 10 * HOUR_MS)]


def test_what_is_not_judged_is_asked_of_the_store(tmp_path: Path) -> None:
    """Imports of three days; accounting's is none. One whose samples are gone is judged no more."""
    midnight = -(-T0 // DAY_MS) * DAY_MS
    spans = [(midnight + day * DAY_MS, midnight + (day + 1) * DAY_MS) for day in range(3)]

    def rest() -> list[tuple[int, int, int]]:
        with store.reader() as reader:
            rows = run(reader, "unjudged_pasts").to_pylist()
        names = ("from_ts", "to_ts", "judged_to")
        return [
            tuple(int(row[name].replace(tzinfo=UTC).timestamp() * 1000) for name in names) for row in rows
        ]

    with open_store(at_path(tmp_path)) as store:
        rows = [sample(0, start + HOUR_MS) for start, _ in spans]
        interval = HeldInterval(allocation=held(0, "a"), from_ms=midnight, to_ms=midnight + 9 * HOUR_MS)
        store.write_history(history(rows, [interval]))
        for span in spans:
            store.note_import("http://p", *span, 1)
        store.note_import("slurm:cluster", *spans[2], 1)
        assert rest() == [(*span, span[0]) for span in spans]
        noon = spans[1][0] + DAY_MS // 2
        with store.writing("judging") as connection:
            write_past_findings(connection, [], (spans[1][0], noon), "rules")
        assert rest() == [(*spans[0], spans[0][0]), (*spans[1], noon), (*spans[2], spans[2][0])]
        store.apply_retention(Retention(samples_days=1), spans[2][1])
        assert rest() == [(*spans[2], spans[2][0])]
        with store.writing("judging") as connection:
            write_past_findings(connection, [], spans[2], "rules")
        assert rest() == []
