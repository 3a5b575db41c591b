"""A misspelt name after --user, --node, --project or --model is said to be one, with the nearest known."""

from pathlib import Path

import pytest

from collector.arrow import HeldInterval
from tests.collector.store.store_parts import T0, at_path, held, history, sample
from tests.service.conftest import verb
from tests.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = [sample(0, T0 + n * 60_000, 0.5, width_ms=60_000) for n in range(1, 4)]
    interval = HeldInterval(allocation=held(0, "jana"), from_ms=T0, to_ms=None)
    with open_store(at_path(tmp_path)) as store:
        store.write_history(history(rows, [interval]))
    return tmp_path


@pytest.mark.slow
def test_a_name_that_nothing_has_is_told_with_its_nearest_and_one_that_is_known_is_not(store: Path) -> None:
    missed = verb("waste", "--user", "user-jannna", "--json", data=store)
    assert missed.stderr == "No user 'user-jannna' is recorded here; nearest: user-jana.\n"
    assert (missed.stdout.strip(), missed.returncode) == ("[]", 0)
    part = verb("status", "--model", "h1", data=store)
    assert part.stderr == "No model 'h1' is recorded here; nearest: H100.\n"
    assert verb("status", "--node", "zebra", data=store).stderr == "No node 'zebra' is recorded here.\n"
    assert verb("waste", "--user", "user-jana", data=store).stderr == ""
