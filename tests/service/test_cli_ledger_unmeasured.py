"""What the ledger's table says of hours that were not measured: their use is not 0."""

from typing import Any

import pytest
from rich.text import Text

from service.cli.ledger import _key_line

ROW: dict[str, Any] = {
    "key": "slurm:1",
    "name": "sweep",
    "gpu_hours": 30.0,
    "used_gpu_hours": 0.0,
    "wasted_gpu_hours": 0.0,
    "unknown_gpu_hours": 30.0,
    "utilization_ratio": None,
}


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({}, "\u2013"),  # held, and never measured
        ({"utilization_ratio": 0.0, "unknown_gpu_hours": 0.0}, "0.0"),
        ({"utilization_ratio": 0.5, "used_gpu_hours": 1.0, "unknown_gpu_hours": 28.0}, "1.0"),
        ({"gpu_hours": 0.0, "unknown_gpu_hours": 0.0}, "0.0"),  # nothing was held
    ],
)
def test_the_use_of_what_was_never_measured_is_not_known(changes: dict[str, Any], used: str) -> None:
    line = _key_line(ROW | changes, "job", False, False, False)
    shown = [each.plain if isinstance(each, Text) else each for each in line]
    assert shown[3] == used


def test_the_use_of_a_node_that_nobody_held_is_nothing() -> None:
    node = ROW | {"key": "n1", "held_gpu_hours": 0.0, "unknown_gpu_hours": 0.0}
    assert "0.0" in _key_line(node, "node", False, False, False)[3]
