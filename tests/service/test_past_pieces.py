"""A past that is judged in pieces, or imported in two, is told as one that is judged at once.

The jobs are those of ``tests/analytics/test_past_findings.py``: what each is called, from its world, stands
there. A range border at 5 h lies within a rest of *twice*, and between the low use and the end of others.

Until it is judged, who asks is told so. The first rest ends at 2 h 59 min at the earliest (*twice*, of low
use) and the last job at 11 h.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.store.database import Store
from service.config.file import load
from service.usecases.judge import judge_imported, judge_pasts
from tests.analytics.test_past_findings import HOUR_MS, TOLD, store_jobs
from tests.collector.store.store_parts import T0, ask, at_path
from tests.service.conftest import verb
from tests.stores import open_store

pytestmark = pytest.mark.slow

END = T0 + 12 * HOUR_MS


class Stop(Exception):
    """Somebody stops the judging."""


def imported(store: Store, from_ms: int = T0, to_ms: int = END) -> None:
    store_jobs(store, 0, (from_ms, to_ms))
    store.note_import("http://p", from_ms, to_ms, 1)


def told(store: Store) -> list[tuple[object, ...]]:
    columns = "f.kind, job, epoch_ms(opened_at), epoch_ms(closed_at), sentence, of_past"
    return ask(store, f"SELECT {columns} FROM findings AS f LEFT JOIN holders USING (holder_id) ORDER BY ALL")


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    with open_store(at_path(tmp_path_factory.mktemp("at once"))) as store:
        imported(store)
        config = load(None, {}).config
        assert judge_pasts(config, store) == 1
        judge_imported(config, store)
        assert [(row[1], row[0]) for row in told(store) if row[3] is not None] == sorted(
            [(f"slurm:{job}", kind) for job, kind, *_ in TOLD], key=lambda each: (each[1], each[0])
        )
        return told(store)


def test_a_stop_loses_no_piece_that_was_judged(at_once: list[tuple[object, ...]], tmp_path: Path) -> None:
    """Stopped at its third moment, then at two more, then judged to its end."""
    parts: list[float] = []

    def stop_after(count: int) -> Callable[[float], None]:
        def tell(part: float) -> None:
            parts.append(part)
            if len(parts) % (count + 1) == 0:
                raise Stop

        return tell

    config = load(None, {}).config
    with open_store(at_path(tmp_path)) as store:
        imported(store)
        kept = [0]
        for _ in range(2):
            with pytest.raises(Stop):
                judge_pasts(config, store, tell=stop_after(2), at_once=1)
            kept.append(len(told(store)))
        assert kept[2] > kept[1] > 0
        assert parts[3] == parts[2] > parts[0] == 0  # the moment at which it stopped, and no earlier one
        assert judge_pasts(config, store, tell=parts.append, at_once=1) == 1
        assert parts[6] == parts[5]
        judge_imported(config, store)
        assert told(store) == at_once
        assert judge_pasts(config, store) == 0


def test_two_imports_that_adjoin_tell_what_one_would(
    at_once: list[tuple[object, ...]], tmp_path: Path
) -> None:
    config = load(None, {}).config
    border = T0 + 5 * HOUR_MS
    with open_store(at_path(tmp_path)) as store:
        for span in ((T0, border), (border, END)):
            imported(store, *span)
            assert judge_pasts(config, store) == 1
            judge_imported(config, store)
        assert told(store) == at_once


def test_what_is_not_judged_yet_is_said_and_how_far_it_is(tmp_path: Path) -> None:
    """Not at all; up to the third of its moments (*dark*'s rest ends at 5 h, of 12); whole."""

    def said(verb_name: str, *words: str) -> str:
        span = ("--since", "2026-09-21T00:00", "--until", "2026-09-21T23:00")
        return " ".join(verb(verb_name, *span, *words, data=tmp_path).stdout.split())

    def stop(part: float) -> None:
        if part > 0.3:
            raise Stop

    begin = f"{datetime.fromtimestamp(T0 / 1000, UTC):%Y-%m-%d %H:%M}"
    config = load(None, {}).config
    with open_store(at_path(tmp_path)) as store:
        imported(store)
        judge_imported(config, store)  # as a service does each minute
    for words in (("findings", "--all"), ("waste",)):
        assert f"What had ended between {begin}" in said(*words)
        assert "is not judged yet (0% of that past is): nothing is found of it so far" in said(*words)
    assert "Idle at times, not judged yet" in said("waste", "--by", "job")
    with open_store(at_path(tmp_path)) as store, pytest.raises(Stop):
        judge_pasts(config, store, tell=stop, at_once=1)
    for words in (("findings", "--all"), ("waste",)):
        assert "is not judged yet (42% of that past is)" in said(*words)
    with open_store(at_path(tmp_path)) as store:
        judge_pasts(config, store)
    for words in (("findings", "--all"), ("waste", "--by", "job")):
        assert "not judged yet" not in said(*words)
