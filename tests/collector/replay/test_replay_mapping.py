"""A mapping is checked before a row is read, and says what is wrong in words that lead on."""

import pytest

from collector.sources.replay.errors import BadMapping
from collector.sources.replay.mapping import parse_mapping, require_columns

GOOD = """
width_s = 57
time = { column = "t_s", unit = "s", origin = "2026-03-02T00:00:00Z" }
gpu = "pod"
[sample]
gpu_utilization_ratio = { column = "util", unit = "percent" }
memory_used_bytes = { column = "mem", unit = "MiB" }
[holder]
job = "pod"
user = "owner"
"""


def test_a_whole_mapping_is_understood() -> None:
    mapping = parse_mapping(GOOD, "pods.toml")
    assert (mapping.time, mapping.gpu, mapping.width_ms) == ("t_s", "pod", 57_000)
    assert mapping.origin_ms == 1_772_409_600_000
    assert {m.field: m.factor for m in mapping.measures} == {
        "gpu_utilization_ratio": 0.01,
        "memory_used_bytes": 2.0**20,
    }
    assert mapping.holder is not None and mapping.holder.user == "owner"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("width_s", "width"), "unknown key 'width' (did you mean 'width_s'?)"),
        (("57", "-3"), "width_s is -3"),
        (('unit = "s"', "unit_s = 0"), "unit_s is 0; it should be a number above 0"),
        (('unit = "s"', 'unit = "h"'), "time has the unit 'h'; known are ms, s, iso"),
        (('"percent"', '"MiB"'), "gpu_utilization_ratio has the unit 'MiB'; known are ratio, percent"),
        (("gpu_utilization_ratio", "gpu_utilisation_ratio"), "did you mean 'gpu_utilization_ratio'?"),
        (('gpu = "pod"', ""), "gpu is missing"),
        (("2026-03-02", "2026-02-31"), "no ISO 8601 time"),
        (('job = "pod"', ""), "[holder] needs job"),
        (("[sample]", "[sample"), "not TOML"),
    ],
)
def test_a_bad_mapping_names_the_key_and_what_would_do(change: tuple[str, str], says: str) -> None:
    with pytest.raises(BadMapping) as raised:
        parse_mapping(GOOD.replace(*change), "pods.toml")
    assert says in str(raised.value)
    assert "pods.toml" in str(raised.value)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    mapping = parse_mapping(GOOD, "pods.toml")
    with pytest.raises(BadMapping) as raised:
        require_columns(mapping, ["t_s", "pod", "utl", "mem", "owner"], "pods.csv")
    message = str(raised.value)
    assert "gpu_utilization_ratio from the column 'util', which is not there" in message
    assert "t_s, pod, utl, mem, owner" in message
    assert "did you mean 'utl'?" in message
