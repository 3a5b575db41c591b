"""Layer tables: what they refuse, and that a file gives back what was written."""

import json
import math

import pytest

from fallow.burst.table import BadTable, Fork, Layer, LayerTable, Timing, read_table

pytestmark = pytest.mark.quick


def layer(name: str, *batches: int) -> Layer:
    timings = tuple(Timing(batch, 10.0 * batch, 20.0 * batch) for batch in batches or (1, 8))
    return Layer(name=name, timings=timings, parameters=5, output=3, kept_bytes=7)


TABLE = LayerTable(
    model="small",
    hardware="a test",
    layers=(layer("a"), Fork(((layer("b"),), ())), layer("c"), layer("d", 2, 4)),
)


def test_between_two_batches_times_lie_on_a_straight_line() -> None:
    assert layer("a", 2, 6).at(3) == Timing(3, 30.0, 60.0)
    assert layer("a", 2, 6).at(6) == Timing(6, 60.0, 120.0)
    for outside in (1, 7):
        with pytest.raises(BadTable, match="profile the model at that batch too"):
            layer("a", 2, 6).at(outside)


def test_a_table_survives_its_file() -> None:
    assert read_table(TABLE.to_json()) == TABLE
    assert (TABLE.smallest_batch, TABLE.largest_batch) == (2, 4)


@pytest.mark.parametrize(
    "layers, why",
    [
        ((), "no layers"),
        ((Fork(((layer("a"),), ())), layer("b")), "begins and ends with a layer"),
        ((layer("a"), Fork(((), ())), Fork(((), ())), layer("b")), "missing between them"),
        ((layer("a"), layer("a")), "two layers are called"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(layers: tuple[Layer | Fork, ...], why: str) -> None:
    with pytest.raises(BadTable, match=why):
        LayerTable(model="m", hardware="h", layers=layers)


def test_a_layer_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadTable, match="no timing"):
        Layer(name="a", timings=(), parameters=0, output=0)
    with pytest.raises(BadTable, match="ascend"):
        Layer(name="a", timings=(Timing(2, 1, 1), Timing(2, 1, 1)), parameters=0, output=0)
    with pytest.raises(BadTable, match="number of microseconds"):
        Layer(name="a", timings=(Timing(1, math.nan, 1),), parameters=0, output=0)
    with pytest.raises(BadTable, match="sizes"):
        Layer(name="a", timings=(Timing(1, 1, 1),), parameters=-1, output=0)
    with pytest.raises(BadTable, match="at least two branches"):
        Fork(((layer("a"),),))


@pytest.mark.parametrize("text", ["", "7", "{}", '{"format": "fallow layer table 2"}', "[" * 100_000])
def test_a_file_that_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(BadTable, match="not a layer table"):
        read_table(text)


def test_a_file_with_a_missing_field_is_refused() -> None:
    told = json.loads(TABLE.to_json())
    del told["layers"][0]["timings"]
    with pytest.raises(BadTable, match="timings"):
        read_table(json.dumps(told))
