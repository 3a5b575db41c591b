"""Sums of energy: what was not measured is not in them, and the part of the time that was is said."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics import text
from service.energy import Energy, used, wasted, written

NAN = float("nan")


def row(kwh: float | None, ratio: float | None, hours: float = 1.0) -> dict[str, float | None]:
    return {"energy_kwh": kwh, "energy_known_ratio": ratio, "gpu_hours": hours}


def test_the_part_of_the_time_is_weighed_by_hours() -> None:
    assert used([row(3.0, 1.0, 6.0), row(1.0, 0.5, 2.0), row(None, 0.0, 2.0)]) == Energy(
        kwh=4.0, known_ratio=0.7
    )


@pytest.mark.parametrize("nothing", [None, NAN])
def test_where_none_of_the_time_was_measured_it_is_unknown(nothing: float | None) -> None:
    told = used([row(nothing, 0.0), row(nothing, nothing)])
    assert told == Energy(kwh=None, known_ratio=0.0)
    assert written(told) == text.NOTHING


def test_rows_of_an_older_service_tell_of_no_energy() -> None:
    assert wasted([{"wasted_gpu_hours": 3.0}]) == Energy(kwh=None, known_ratio=0.0)


def test_no_waste_took_no_energy() -> None:
    told = wasted([{"wasted_energy_kwh": 0.0, "wasted_energy_known_ratio": None, "wasted_gpu_hours": 0.0}])
    assert told == Energy(kwh=0.0, known_ratio=None)
    assert written(told) == "0.0 kWh"


@pytest.mark.parametrize(
    ("ratio", "said"), [(1.0, "4.0 kWh"), (0.997, "4.0 kWh"), (0.92, "4.0 kWh (of 92% of the hours)")]
)
def test_a_part_is_said_where_it_is_not_all(ratio: float, said: str) -> None:
    told = used([row(4.0, ratio)])
    assert written(told) == said


@given(
    st.lists(
        st.tuples(st.floats(0.0, 50.0), st.none() | st.floats(0.0, 1.0), st.floats(0.1, 90.0)), min_size=1
    )
)
def test_a_sentence_of_energy_never_hides_what_was_not_measured(
    parts: list[tuple[float, float | None, float]],
) -> None:
    rows = [row(kwh if ratio else None, ratio, hours) for kwh, ratio, hours in parts]
    known = sum(hours * (ratio or 0.0) for _, ratio, hours in parts) / sum(hours for *_, hours in parts)
    told = written(used(rows))
    measured = [kwh for kwh, ratio, _ in parts if ratio]
    if not measured:
        assert told.startswith(text.NOTHING)
        return
    assert told.startswith(f"{text.kwh(sum(measured))} kWh")
    said = re.search(r"of <?([\d.]+)% of the hours", told)
    if known < 0.9949:
        assert said is not None and abs(float(said[1]) / 100 - known) <= 0.01, (told, known)
    assert said is not None or known > 0.9949
