"""The hand-made store of the query tests, to be asked as of 14:00."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from analytics.query import run
from tests.analytics.world import fill

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """``ask("decide_gpus", as_of=...)``: the rows of a named query."""
    with fill(tmp_path_factory.mktemp("world")) as store, store.reader() as reader:
        yield lambda name, **params: run(reader, name, params).to_pylist()
