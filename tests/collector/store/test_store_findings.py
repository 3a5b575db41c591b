"""Findings, prices, leases and imports: what others keep here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store.database import Store
from collector.store.judgements import Judgement
from tests.collector.store.store_parts import T0, TICK_MS, ask, at_path, held, sample, tick, uuid
from tests.stores import open_store

OPEN = "SELECT kind, gpu_id, holder_id, coverage FROM findings WHERE closed_at IS NULL ORDER BY ALL"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        at = T0 + TICK_MS
        opened.write_tick(tick(at, [sample(0, at), sample(1, at)], [held(0, "a"), held(1, "b")]))
        yield opened


def finding(kind: str, number: int, job: str | None, coverage: float = 1.0) -> dict[str, object]:
    return {
        "kind": kind,
        "uuid": uuid(number),
        "job": job,
        "window_from_ms": T0,
        "window_to_ms": T0 + 60_000,
        "coverage": coverage,
        "rung": 3,
        "wasted_gpu_hours": 1.5,
        "sentence": "It does nothing.",
        "evidence": {"idle_share": 0.99},
    }


def test_findings_open_go_on_and_close(store: Store) -> None:
    two = [finding("held-idle", 0, "slurm:a"), finding("suspect", 1, None)]
    first = store.write_judgement(Judgement(findings=two), T0 + 1)
    assert (first.opened, first.refreshed, first.closed) == (2, 0, 0)
    then = store.write_judgement(Judgement(findings=[finding("held-idle", 0, "slurm:a", 0.96)]), T0 + 2)
    assert (then.opened, then.refreshed, then.closed) == (0, 1, 1)
    assert ask(store, OPEN) == [("held-idle", 1, 1, 0.96)]
    again = store.write_judgement(Judgement(findings=[finding("suspect", 1, None)]), T0 + 3)
    assert (again.opened, again.refreshed, again.closed) == (1, 0, 1)
    times = ask(store, "SELECT epoch_ms(opened_at), epoch_ms(closed_at) FROM findings ORDER BY finding_id")
    assert times == [(T0 + 1, T0 + 3), (T0 + 1, T0 + 2), (T0 + 3, None)]
    assert ask(store, "SELECT CAST(evidence ->> 'idle_share' AS DOUBLE) FROM findings LIMIT 1") == [(0.99,)]


def test_a_finding_about_an_unknown_gpu_changes_nothing(store: Store) -> None:
    store.write_judgement(Judgement(findings=[finding("held-idle", 0, "slurm:a")]), T0 + 1)
    with pytest.raises(KeyError):
        two = [finding("suspect", 1, None), finding("held-idle", 9, None)]
        store.write_judgement(Judgement(findings=two), T0 + 2)
    assert ask(store, OPEN) == [("held-idle", 1, 1, 1.0)]


def test_prices_are_replaced_as_a_whole(store: Store) -> None:
    store.set_prices({"H100": (2.5, "EUR"), "*": (1.0, "EUR")})
    store.set_prices({"*": (0.75, "USD")})
    assert ask(store, "SELECT * FROM prices") == [("*", 0.75, "USD")]


def test_imported_ranges_are_remembered(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.note_import("http://p", T0, T0 + 5, 10)
        store.note_import("http://p", T0 - 5, T0, 0)
        store.note_import("http://q", 0, 1, 0)
    with open_store(at_path(tmp_path)) as store:
        assert store.imported_ranges("http://p") == ((T0 - 5, T0), (T0, T0 + 5))
        assert store.leases() == ()
