"""What "now" means in a store that holds a past and nothing since."""

from pathlib import Path

from analytics.query import run
from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.stores import open_store

STEP_MS = 30_000


def test_holders_at_the_end_of_an_imported_past_hold_now(tmp_path: Path) -> None:
    end_ms = T0 + 20 * STEP_MS
    rows = [
        sample(number, T0 + n * STEP_MS, 0.5, width_ms=STEP_MS) for n in range(1, 21) for number in (0, 1)
    ]
    past = [
        HeldInterval(allocation=held(0, "to-the-end"), from_ms=T0, to_ms=end_ms),
        HeldInterval(allocation=held(1, "gone"), from_ms=T0, to_ms=end_ms - STEP_MS),
    ]
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, past))
        with store.reader() as connection:
            now = run(connection, "gpus_now", {}).to_pylist()
    assert [row["job"] for row in now] == ["slurm:to-the-end", None]
