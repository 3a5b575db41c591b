"""The hand-made store, filled once for all query tests, and a shorthand to ask it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from analytics.query import run
from tests.analytics.world import fill

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """``ask("heatmap", step_s=60, ...)``: the rows of a named query on the hand-made store."""
    with fill(tmp_path_factory.mktemp("world")) as store, store.reader() as reader:
        yield lambda name, **params: run(reader, name, params).to_pylist()
