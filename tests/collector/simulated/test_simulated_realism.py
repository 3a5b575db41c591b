"""The simulated distributions stay as near to published ones as ``bench/realism.py`` says they should."""

from pathlib import Path

import pytest

from bench.likeness.measured import read_real, simulate
from bench.realism import Figure, compare, draw

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figures(shared: Path) -> dict[str, Figure]:
    return compare(read_real(shared / "traces"), simulate(3))


def test_every_figure_lies_within_its_stated_bounds(figures: dict[str, Figure]) -> None:
    off = {name: figure.as_json() for name, figure in figures.items() if not figure.ok}
    assert not off


def test_trainings_are_busy_without_being_saturated(figures: dict[str, Figure]) -> None:
    busy = figures["trainings: GPU utilization, median %"].value
    saturated = figures["trainings: SM active, median %"].value
    assert busy - saturated > 30.0


def test_the_page_of_plots_is_drawn(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install -e '.[test]'")
    page = draw(read_real(shared / "traces"), simulate(1, days=3), tmp_path, with_alibaba=False)
    assert page.read_bytes().startswith(b"\x89PNG")
    assert page.stat().st_size > 20_000
