"""Charts drawn by a process beside the report's: the same pictures, and a way out where it fails."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from service.reports import drawing
from service.reports.charts import Drawings, Form, here
from service.reports.drawing import Beside
from service.reports.model import Chart


class Bars:
    """A drawing as the charts' library hands it over."""

    def to_dict(self, validate: bool = True) -> dict[str, Any]:
        return {
            "mark": "bar",
            "data": {"values": [{"who": "Žofie", "hours": 3}, {"who": "bo", "hours": 5}]},
            "encoding": {
                "x": {"field": "hours", "type": "quantitative"},
                "y": {"field": "who", "type": "nominal"},
            },
        }


def chart(name: str, drawn: list[str]) -> Chart:
    def draw(palette: object, utc: bool) -> Bars:
        drawn.append(name)
        return Bars()

    return Chart(name=name, says="two people", draw=draw, numbers=pd.DataFrame())


@pytest.mark.slow
def test_the_process_beside_draws_what_would_be_drawn_here() -> None:
    with Beside() as beside:
        begun = [beside.begin(Bars(), form) for form in (Form.SVG, Form.PNG)]
        texts = [wait() for wait in begun]
    assert texts == [here(Bars(), form)() for form in (Form.SVG, Form.PNG)]
    assert "Žofie" in texts[0]


def test_it_ends_with_the_report_also_when_that_fails() -> None:
    with pytest.raises(KeyError), Beside() as beside:
        found = beside._process
        assert found is not None and found.poll() is None
        raise KeyError("the report failed")
    assert found.poll() is not None


def test_where_it_does_not_end_it_is_killed_and_the_report_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "COMMAND", ("sleep", "1000"))
    monkeypatch.setattr(drawing, "ENDS_WITHIN_S", 0.01)
    with Beside() as beside:
        process = beside._process
    assert process is not None and process.poll() == -signal.SIGKILL


def test_where_it_dies_the_chart_is_drawn_all_the_same() -> None:
    with Beside() as beside:
        process = beside._process
        assert process is not None
        assert beside.begin(Bars(), Form.SVG)().startswith("<svg")
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert beside.begin(Bars(), Form.SVG)() == here(Bars(), Form.SVG)()


@pytest.mark.parametrize(
    "command", [("/nonexistent/python",), (sys.executable, "-c", "print('no line that was asked for')")]
)
def test_where_it_never_begins_or_talks_nonsense_as_well(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(drawing, "COMMAND", command)
    with Beside() as beside:
        assert beside.begin(Bars(), Form.SVG)() == here(Bars(), Form.SVG)()


def test_a_chart_is_drawn_once_in_a_form_however_often_it_is_asked_for() -> None:
    drawn: list[str] = []
    drawings, one = Drawings(), chart("one", drawn)
    drawings.begin(one, Form.SVG)
    assert drawings.text(one, Form.SVG) == drawings.text(one, Form.SVG) == here(Bars(), Form.SVG)()
    assert drawn == ["one"]
    assert drawings.text(one, Form.PNG) != drawings.text(one, Form.SVG)
    assert drawn == ["one", "one"]
