"""A store holds real GPUs or simulated ones, never both. Statements: origin, set_origin, simulated_gpus."""

from pathlib import Path

import pytest

from analytics.query import run
from collector.model import SIMULATED_SOURCE
from collector.store.database import open_read_only
from collector.store.errors import StoreMixed
from collector.store.origin import Origin
from tests.collector.store.store_parts import (
    T0,
    TICK_MS,
    ask,
    at_path,
    gpu,
    history,
    older_file,
    sample,
    tick,
    uuid,
)
from tests.stores import open_store

BEFORE_THE_MARK = 36


def test_a_new_store_has_no_origin_until_its_first_gpu(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        assert store.origin is None
        store.write_tick(tick(T0, [], source="nvml"))
        assert store.origin is None
        store.write_tick(tick(T0 + TICK_MS, [sample(0, T0 + TICK_MS)], source="nvml"))
        assert store.origin is Origin.REAL
    with open_read_only(at_path(tmp_path)) as store, store.reader() as reader:
        assert store.origin is Origin.REAL
        assert [row["origin"] for row in run(reader, "data_origin", {}).to_pylist()] == ["real"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("nvml", SIMULATED_SOURCE), (SIMULATED_SOURCE, "nvml"), (SIMULATED_SOURCE, "prometheus")],
)
def test_gpus_of_the_other_origin_are_refused_and_nothing_of_them_stays(
    tmp_path: Path, first: str, second: str
) -> None:
    later = T0 + TICK_MS
    with open_store(at_path(tmp_path)) as store:
        store.write_tick(tick(T0, [sample(0, T0)], source=first))
        held = store.origin
        with pytest.raises(StoreMixed, match="--data"):
            store.write_tick(tick(later, [sample(1, later)], source=second))
        with pytest.raises(StoreMixed):
            store.write_history(history([sample(2, later)], source=second))
        store.write_tick(tick(later, [sample(0, later)], source=first))
        assert ask(store, "SELECT uuid FROM gpus") == [(uuid(0),)]
        assert store.origin is held
    with open_store(at_path(tmp_path)) as store:
        assert store.origin is held


def test_a_past_that_is_filled_in_marks_the_store_too(tmp_path: Path) -> None:
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history([sample(0, T0)], source=SIMULATED_SOURCE))
        assert store.origin is Origin.SIMULATED
        assert store.is_simulated(uuid(0)) and store.is_simulated("GPU-never-heard-of")


@pytest.mark.parametrize(
    ("sources", "origin", "invented"),
    [
        ([], None, ()),
        (["simulated", "simulated"], Origin.SIMULATED, (0, 1)),
        (["nvml", "dcgm"], Origin.REAL, ()),
        (["nvml", "simulated"], Origin.REAL, (1,)),
    ],
)
def test_a_store_from_before_the_mark_is_what_its_gpus_are(
    tmp_path: Path, sources: list[str], origin: Origin | None, invented: tuple[int, ...]
) -> None:
    """One that was filled from both is real; what is invented in it can be told, and is given to nobody."""
    with older_file(at_path(tmp_path), BEFORE_THE_MARK) as older:
        for number, source in enumerate(sources):
            older.execute(
                "INSERT INTO gpus (uuid, node, source, installed_from) VALUES (?, 'n0', ?, now()::TIMESTAMP)",
                [gpu(number).uuid, source],
            )
    with open_store(at_path(tmp_path)) as store:
        assert store.origin is origin
        assert tuple(n for n in range(3) if store.is_simulated(uuid(n))) == (
            invented if origin is not Origin.SIMULATED else (0, 1, 2)
        )
