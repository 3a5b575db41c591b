"""Findings of imported pasts in the store: kept once, beside what a service told at the time."""

from pathlib import Path

from collector.arrow import HeldInterval
from collector.store.judgements import Judgement
from collector.store.past_findings import joined, pasts_to_judge, write_past_findings
from tests.collector.store.store_parts import T0, ask, at_path, held, history, older_file, sample, uuid
from tests.stores import open_store

HOUR_MS = 3_600_000
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


def test_spans_that_touch_are_one() -> None:
    assert joined([(0, 5), (5, 9), (3, 4), (10, 12)]) == ((0, 9), (10, 12))


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
            assert pasts_to_judge(reader, "rules 1") == (SPAN,)
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
            assert pasts_to_judge(reader, "rules 2") == (SPAN,)


def test_what_an_older_store_imported_is_still_to_be_judged(tmp_path: Path) -> None:
    with older_file(at_path(tmp_path), 100) as connection:
        connection.execute("INSERT INTO imports VALUES ('http://p', epoch_ms(0), epoch_ms(60000), 1, now())")
    with open_store(at_path(tmp_path)) as store, store.reader() as reader:
        assert pasts_to_judge(reader, "rules 1") == ((0, 60_000),)
