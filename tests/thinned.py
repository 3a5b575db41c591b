"""A part of a grid of cases for every day, the whole of it for ``make test-all``."""

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """All the cases; all but each ``every``-th are marked long, and skipped aloud without FALLOW_LONG."""
    return [
        case if at % every == 0 else pytest.param(case, marks=pytest.mark.long)
        for at, case in enumerate(cases)
    ]
