"""The loader of named queries: headers, parameters, and the messages people get when they ask wrongly."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from analytics.parameter import BadValueError, Kind, convert
from analytics.query import (
    STEPS_MOST,
    BadParameterError,
    QueryError,
    UnknownQueryError,
    catalogue,
    checked,
    load,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC).replace(tzinfo=None)


def test_every_query_declares_summary_columns_and_nulls() -> None:
    specs = catalogue()
    assert len(specs) >= 8
    for spec in specs.values():
        assert spec.summary.endswith("."), spec.name
        assert spec.columns, spec.name
        assert spec.null_means, spec.name


def test_every_declared_parameter_is_used_and_every_used_one_declared() -> None:
    for spec in catalogue().values():
        body = "\n".join(line for line in spec.sql.splitlines() if not line.startswith("--"))
        used = set(re.findall(r"\$(\w+)", body))  # not the $ of a JSON path, which a dot follows
        declared = {parameter.name for parameter in spec.parameters} | {name for name, _ in spec.marks}
        assert used == declared, spec.name


def test_unknown_query_names_the_nearest() -> None:
    with pytest.raises(UnknownQueryError, match=r"no query named 'gpu_holder'; nearest: gpu_holders"):
        load("gpu_holder")


def test_a_query_name_cannot_reach_a_file_elsewhere() -> None:
    with pytest.raises(UnknownQueryError):
        load("../../collector/store/schema/001_telemetry")


def test_missing_parameter_says_what_is_wanted() -> None:
    with pytest.raises(BadParameterError, match=r"'gpu_holders' needs parameter 'uuid': a text \(the GPU\)"):
        checked(load("gpu_holders"), {"from_ts": NOON, "to_ts": NOON})


def test_unknown_parameter_says_which_there_are() -> None:
    with pytest.raises(BadParameterError, match=r"'span' has no parameter 'nodes'; it takes: none"):
        checked(load("span"), {"nodes": "a"})


def test_bad_value_names_query_parameter_and_what_is_allowed() -> None:
    given = {"from_ts": NOON.replace(second=5), "to_ts": NOON + timedelta(hours=1)}
    with pytest.raises(
        BadParameterError, match=r"'gaps': parameter 'from_ts' must be a whole UTC minute.*got"
    ):
        checked(load("gaps"), given)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-10:00", "9" * 20, "\u00b2"])
def test_an_instant_outside_the_calendar_is_a_bad_value_too(text: str) -> None:
    with pytest.raises(BadParameterError, match="'from_ts' must be a whole UTC minute"):
        checked(load("gaps"), {"from_ts": text, "to_ts": NOON})


def test_window_must_run_forward() -> None:
    with pytest.raises(BadParameterError, match="to_ts must be after from_ts"):
        checked(load("gaps"), {"from_ts": NOON, "to_ts": NOON})


def test_defaults_fill_what_was_left_out() -> None:
    values = checked(load("findings"), {"from_ts": NOON, "to_ts": NOON + timedelta(hours=1)})
    assert values["open"] is None
    assert values["node"] is None


def test_query_errors_share_one_base() -> None:
    assert issubclass(UnknownQueryError, QueryError)
    assert issubclass(BadParameterError, QueryError)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Kind.MINUTE, "2026-11-01T12:00:00Z", NOON),
        (Kind.MINUTE, "2026-11-01T13:00+01:00", NOON),
        (Kind.MINUTE, NOON.replace(tzinfo=UTC), NOON),
        (Kind.MINUTE, NOON.replace(tzinfo=timezone(timedelta(hours=2))), NOON - timedelta(hours=2)),
        (Kind.INSTANT, 1_000, EPOCH + timedelta(seconds=1)),
        (Kind.INSTANT, "1500", EPOCH + timedelta(milliseconds=1500)),
        (Kind.STEP, "3600", 3600),
        (Kind.STEP, 60, 60),
        (Kind.COUNT, 0, 0),
        (Kind.RATIO, "0.25", 0.25),
        (Kind.RATIO, 1, 1.0),
        (Kind.FLAG, "TRUE", True),
        (Kind.FLAG, False, False),
        (Kind.TEXT, "node1", "node1"),
        (Kind.TEXTS, ("a", "b"), ["a", "b"]),
        (Kind.TEXTS, "abc", ["abc"]),
    ],
)
def test_values_of_each_kind_are_taken(kind: Kind, given: Any, expected: Any) -> None:
    assert convert(kind, given) == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Kind.MINUTE, NOON.replace(microsecond=1)),
        (Kind.INSTANT, "yesterday"),
        (Kind.INSTANT, True),
        (Kind.STEP, 30),
        (Kind.STEP, 90),
        (Kind.COUNT, -1),
        (Kind.COUNT, 1.5),
        (Kind.RATIO, 1.01),
        (Kind.RATIO, "a lot"),
        (Kind.FLAG, "maybe"),
        (Kind.TEXT, 7),
        (Kind.TEXTS, 7),
        (Kind.TEXTS, [1]),
    ],
)
def test_values_of_another_kind_are_refused(kind: Kind, given: Any) -> None:
    with pytest.raises(BadValueError):
        convert(kind, given)


def test_too_many_steps_are_refused() -> None:
    assert STEPS_MOST >= 24 * 60
    stepped = [spec for spec in catalogue().values() if any(p.name == "step_s" for p in spec.parameters)]
    for spec in stepped:
        given = {p.name: "x" for p in spec.parameters if p.required and p.kind in (Kind.TEXT, Kind.TEXTS)}
        given |= {"from_ts": NOON, "to_ts": NOON + timedelta(days=30), "step_s": 60}
        with pytest.raises(BadParameterError, match="'step_s' must cut the window into at most"):
            checked(spec, given)
