"""The ledger's queries by name, against values counted by hand from ``tests/analytics/world.py``."""

from typing import Any

import pytest

from tests.analytics.conftest import Ask
from tests.analytics.world import NOON, ONE, TWO, WINDOW

HOURS = (
    "gpu_hours",
    "held_gpu_hours",
    "used_gpu_hours",
    "free_gpu_hours",
    "allocated_empty_gpu_hours",
    "held_idle_gpu_hours",
    "low_saturation_gpu_hours",
    "moderate_gpu_hours",
    "good_gpu_hours",
    "suspect_gpu_hours",
    "unknown_gpu_hours",
    "wasted_gpu_hours",
)
MONEY = ("cost", "wasted_cost", "currency")

#           hours held used free empty idle low moderate good suspect unknown wasted
A0 = (2.00, 2.00, 0.8, 0.0, 0.00, 1.0, 0.0, 0.0, 1.0, 0.0, 0.00, 1.00)
A1 = (2.00, 1.00, 0.4, 1.0, 0.00, 0.0, 0.0, 1.0, 0.0, 0.0, 0.00, 0.00)
B0 = (1.00, 1.00, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.75)
NOBODY = (1.00, 0.00, 0.0, 1.0, 0.00, 0.0, 0.0, 0.0, 0.0, 0.0, 0.00, 0.00)
HALF = (0.50, 0.50, 0.2, 0.0, 0.00, 0.0, 0.0, 0.5, 0.0, 0.0, 0.00, 0.00)
SHELL = (1.00, 1.00, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.75)
# Nobody measured b0 for a quarter of an hour; who had it before and after had it then too.


UNNAMED = "somebody"


def plus(*rows: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip(*rows, strict=True))


def hours(row: dict[str, Any]) -> tuple[float, ...]:
    return tuple(round(row[name], 9) for name in HOURS)


def by_key(rows: list[dict[str, Any]]) -> dict[Any, tuple[float, ...]]:
    """By key; what somebody held of whom the key is not known has a row of its own beside nobody's."""
    return {_key(row): hours(row) for row in rows}


def _key(row: dict[str, Any]) -> Any:
    return UNNAMED if row["key"] is None and row["held_gpu_hours"] else row["key"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ledger_by_node", {"a": plus(A0, A1), "b": B0}),
        ("ledger_by_gpu", {"GPU-a0": A0, "GPU-a1": A1, "GPU-b0": B0}),
        ("ledger_by_model", {"H100": plus(A0, A1), "A100": B0}),
        ("ledger_by_user", {"ana": plus(A0, HALF), "bo": plus(SHELL, HALF), None: NOBODY}),
        ("ledger_by_project", {"vision": plus(A0, HALF), "lm": plus(SHELL, HALF), None: NOBODY}),
        (
            "ledger_by_job",
            {"slurm:1": A0, "slurm:2": HALF, "pod:lm/x": HALF, "slurm:3": SHELL, None: NOBODY},
        ),
        ("ledger_by_framework", {"PyTorch": A0, "JAX": plus(HALF, HALF), UNNAMED: SHELL, None: NOBODY}),
        ("ledger_by_day", {NOON.replace(tzinfo=None): plus(A0, A1, B0)}),
    ],
)
def test_ledger_adds_up_by_every_key(ask: Ask, name: str, expected: dict[Any, tuple[float, ...]]) -> None:
    rows = by_key(ask(name, **WINDOW))
    assert rows == {key: pytest.approx(value) for key, value in expected.items()}


def test_ledger_by_hour(ask: Ask) -> None:
    rows = ask("ledger_by_hour", **WINDOW)
    assert [row["key"] for row in rows] == [NOON.replace(tzinfo=None), ONE.replace(tzinfo=None)]
    assert [row["gpu_hours"] for row in rows] == [2.0, 3.0]
    assert [row["used_gpu_hours"] for row in rows] == pytest.approx([1.2, 0.0])
    assert [row["wasted_gpu_hours"] for row in rows] == [0.0, 1.75]
    assert [row["unknown_gpu_hours"] for row in rows] == [0.0, 0.25]
    assert [row["cost"] for row in rows] == [8.0, None]


def test_ledger_by_state(ask: Ask) -> None:
    rows = {row["state"]: row for row in ask("ledger_by_state", **WINDOW)}
    assert {state: row["gpu_hours"] for state, row in rows.items()} == {
        "free": 1.0,
        "allocated-empty": 0.75,
        "held-idle": 1.0,
        "low-saturation": 0.0,
        "moderate": 1.0,
        "good": 1.0,
        "suspect": 0.0,
        "withheld": 0.0,
        "unknown": 0.25,
    }
    assert sum(row["share_ratio"] for row in rows.values()) == pytest.approx(1.0)
    assert rows["held-idle"]["cost"] == 4.0
    assert rows["unknown"]["cost"] is None  # the A100 has no price


def test_money_follows_the_model_and_is_null_without_a_price(ask: Ask) -> None:
    rows = {row["key"]: tuple(row[name] for name in MONEY) for row in ask("ledger_by_model", **WINDOW)}
    assert rows == {"H100": (16.0, 4.0, "EUR"), "A100": (None, None, None)}


def test_utilization_is_used_over_measured_time(ask: Ask) -> None:
    rows = {row["key"]: row["utilization_ratio"] for row in ask("ledger_by_user", **WINDOW)}
    assert rows == {"ana": pytest.approx(0.4), "bo": pytest.approx(0.2 / 1.25), None: 0.0}


@pytest.mark.parametrize(
    ("filters", "gpu_hours"),
    [
        ({"node": "b"}, 1.0),
        ({"model": "H100"}, 4.0),
        ({"user": "ana"}, 2.5),
        ({"project": "lm"}, 1.5),
        ({"user": "bo", "model": "A100"}, 1.0),
        ({"user": "ana", "project": "lm"}, 0.0),
    ],
)
@pytest.mark.parametrize("name", ["ledger_by_state", "ledger_by_job", "ledger_by_gpu", "ledger_by_hour"])
def test_filters_narrow_every_ledger_alike(
    ask: Ask, name: str, filters: dict[str, str], gpu_hours: float
) -> None:
    rows = ask(name, **WINDOW, **filters)
    assert sum(row["gpu_hours"] for row in rows) == pytest.approx(gpu_hours)


def test_part_of_an_hour_is_read_from_minutes(ask: Ask) -> None:
    window = {"from_ts": NOON.replace(minute=45), "to_ts": ONE.replace(minute=15)}
    assert by_key(ask("ledger_by_job", **window))["slurm:1"][:3] == (0.5, 0.5, pytest.approx(0.2))


def test_window_beyond_the_data_ends_in_unknown_time(ask: Ask) -> None:
    rows = {row["state"]: row for row in ask("ledger_by_state", from_ts=ONE, to_ts=TWO.replace(hour=15))}
    assert sum(row["gpu_hours"] for row in rows.values()) == 6.0
    assert rows["unknown"]["gpu_hours"] == pytest.approx(0.25 + 3 - 3 * 2 / 60)  # two minutes more are closed


def test_usage_over_time_sets_utilization_beside_allocation(ask: Ask) -> None:
    first, second = ask("usage_over_time", **WINDOW, step_s=3600)
    assert first == {
        "ts": NOON.replace(tzinfo=None),
        "installed_gpus": 2.0,
        "allocated_gpus": 2.0,
        "used_gpus": pytest.approx(1.2),
        "bound_used_gpus": 0.0,
        "held_used_gpus": pytest.approx(1.2),
        "held_unknown_gpus": 0.0,
        "unknown_gpus": 0.0,
        "utilization_ratio": pytest.approx(0.6),
        "allocated_ratio": 1.0,
    }
    assert second["installed_gpus"] == 3.0
    assert second["unknown_gpus"] == second["held_unknown_gpus"] == 0.25
    assert second["utilization_ratio"] == 0.0
    assert second["allocated_ratio"] == pytest.approx(2.0 / 3.0)  # its holder had b0 in its gap


@pytest.mark.parametrize("step_s", [60, 600, 1500, 3600, 7200])
def test_steps_of_any_length_keep_the_sums(ask: Ask, step_s: int) -> None:
    rows = ask("states_over_time", **WINDOW, step_s=step_s)
    assert sum(value for row in rows for name, value in row.items() if name != "ts") == pytest.approx(5.0)
    assert sum(row["good_gpu_hours"] for row in rows) == pytest.approx(1.0)
    assert sum(row["unknown_gpu_hours"] for row in rows) == pytest.approx(0.25)


def test_first_and_last_step_are_cut_to_the_window(ask: Ask) -> None:
    window = {"from_ts": NOON.replace(minute=50), "to_ts": ONE.replace(minute=5)}
    rows = ask("usage_over_time", **window, step_s=1800)
    assert [row["ts"].minute for row in rows] == [50, 0]
    assert [row["installed_gpus"] for row in rows] == [2.0, 3.0]


def test_people(ask: Ask) -> None:
    ana, bo = ask("people", **WINDOW)
    assert (ana["user_name"], ana["project"], ana["jobs"]) == ("ana", "vision", 2)
    assert (ana["gpu_hours"], ana["wasted_gpu_hours"], ana["cost"], ana["wasted_cost"]) == (
        2.5,
        1.0,
        10.0,
        4.0,
    )
    assert (bo["gpu_hours"], bo["wasted_gpu_hours"], bo["cost"]) == (1.5, 0.75, None)


def test_projects(ask: Ask) -> None:
    rows = ask("projects", **WINDOW)
    assert [(row["project"], row["people"], row["jobs"]) for row in rows] == [("vision", 1, 2), ("lm", 1, 2)]
    assert [row["used_gpu_hours"] for row in rows] == pytest.approx([1.0, 0.2])


def test_jobs(ask: Ask) -> None:
    rows = {row["job"]: row for row in ask("jobs", **WINDOW)}
    assert list(rows) == ["slurm:1", "slurm:3", "pod:lm/x", "slurm:2"]  # the most wasteful first
    fit, pod = rows["slurm:1"], rows["pod:lm/x"]
    assert (fit["gpus"], fit["to_ts"], fit["memory_used_max_bytes"] >> 30, fit["cost"]) == (1, None, 30, 8.0)
    assert (fit["currency"], rows["slurm:3"]["currency"]) == ("EUR", None)
    assert (pod["from_ts"].hour, pod["to_ts"].hour, pod["kind"]) == (12, 13, "inference")
