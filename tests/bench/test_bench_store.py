"""The store that benches build: its minutes are of who was given the GPU, and a service can go on with it."""

from datetime import timedelta
from pathlib import Path

import pytest

from bench.storage.questions import END, Scale, build
from collector.store.database import FILE_NAME, open_store
from tests.collector.store.store_parts import history, sample

MINUTE_MS = 60_000
OTHERS = """
SELECT count(*) FROM rollup_1m AS u ANTI JOIN allocations AS a
    ON a.gpu_id = u.gpu_id AND a.holder_id = u.holder_id AND a.from_ts <= u.ts
    AND coalesce(a.to_ts > u.ts, true)
WHERE u.holder_id IS NOT NULL
"""


@pytest.mark.slow
def test_minutes_are_of_who_was_given_the_gpu_and_further_gpus_can_come(tmp_path: Path) -> None:
    build(tmp_path, Scale(gpus=16, days=2, sample_days=1))
    end_ms = round((END + timedelta(minutes=1)).timestamp() * 1000)
    rows = [sample(0, end_ms + n * MINUTE_MS, 0.0) for n in range(3)]
    with open_store(tmp_path / FILE_NAME) as store, store.reader() as reader:
        assert reader.execute(OTHERS).fetchall() == [(0,)]
        assert reader.execute("SELECT count(*) > 0 FROM rollup_1m WHERE holder_id > 0").fetchall() == [
            (True,)
        ]
        assert store.write_history(history(rows, [], source="hand")) == 3
