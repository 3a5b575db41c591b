"""How many examples a property is tried on: few in each change's run, many in ``make test-all``."""

import os

LONG_VARIABLE = "FALLOW_LONG"
"""Set by ``make test-all``."""


def examples(few: int, many: int) -> int:
    """``many`` where tests may take minutes, else ``few``: for properties that cost over a second a run."""
    return many if os.environ.get(LONG_VARIABLE) else few
