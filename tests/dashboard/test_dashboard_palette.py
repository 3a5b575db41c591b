"""The palette holds for every kind of colour vision, in light and in dark."""

from itertools import combinations, pairwise

import pytest

from analytics.vocabulary.states import STATES, GpuState, label_of
from service.charts.theme import DARK, LIGHT, ink_on, palette

# Viénot, Brettel and Mollon 1999 (protan, deutan); Brettel's tritan in its one-plane form. On linear RGB.
VISION = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deutan": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
    "tritan": ((1.01277, 0.13548, -0.14826), (-0.01243, 0.86812, 0.14431), (0.07589, 0.805, 0.11911)),
}
WHITE = (0.95047, 1.0, 1.08883)


def linear(colour: str) -> tuple[float, ...]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    seen = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True)))) for row in VISION[vision]]
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [
        sum(m * c for m, c in zip(row, seen, strict=True)) / w for row, w in zip(to_xyz, WHITE, strict=True)
    ]
    fx, fy, fz = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in xyz)
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def apart(one: str, two: str, vision: str) -> float:
    pairs = zip(lab(one, vision), lab(two, vision), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def contrast(one: str, two: str) -> float:
    light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(two)))
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("vision", list(VISION))
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_state_colours_stay_apart_for_every_kind_of_vision(colours, vision) -> None:
    for one, two in combinations(STATES, 2):
        distance = apart(colours.states[one.key], colours.states[two.key], vision)
        assert distance >= 9, f"{one.label} and {two.label} are {distance:.1f} apart ({vision})"


@pytest.mark.parametrize("vision", list(VISION))
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_neighbours_in_a_stack_differ_plainly(colours, vision) -> None:
    for one, two in pairwise(STATES):
        assert apart(colours.states[one.key], colours.states[two.key], vision) >= 18, (one.label, two.label)


@pytest.mark.parametrize("vision", list(VISION))
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_utilization_ramp_goes_one_way_in_lightness(colours, vision) -> None:
    lightness = [lab(colour, vision)[0] for colour in colours.ramp]
    steps = [after - before for before, after in pairwise(lightness)]
    assert all(step < -4 for step in steps) or all(step > 4 for step in steps), steps


@pytest.mark.parametrize("vision", list(VISION))
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_waste_on_a_map_is_no_shade_of_work(colours, vision) -> None:
    for state in (GpuState.HELD_IDLE, GpuState.ALLOCATED_EMPTY):
        assert all(apart(colours.states[state], shade, vision) >= 9 for shade in colours.ramp), state


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_words_can_be_read(colours) -> None:
    for ground in (colours.paper, colours.surface):
        assert contrast(colours.ink, ground) >= 7
        assert contrast(colours.muted, ground) >= 4.5
        assert contrast(colours.allocated, ground) >= 3
    for state in STATES:
        assert contrast(ink_on(colours.states[state.key]), colours.states[state.key]) >= 4.5, state.label


def test_an_unlisted_state_keeps_its_name_and_any_mode_has_a_palette() -> None:
    assert label_of("brand-new") == "brand-new"
    assert label_of(None) == "unknown"
    assert palette("dark") is DARK
    assert palette(None) is LIGHT
