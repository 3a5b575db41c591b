"""One bound, one home: what a finding calls low, the ledger, the heat map and the patterns call low."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pytest

from analytics.assess import assess
from analytics.findings.window import contradictions
from analytics.model import FindingKind
from analytics.query import run
from analytics.thresholds import IDLE_RATIO, LOW_RATIO, SATURATED_RATIO, SUSPECT_POWER, SUSPECT_RATIO
from collector.sources.simulated.cluster import SimulatedCluster
from service.config.file import parse
from tests.analytics.pasts import bins, past
from tests.stores import open_store

IDLE_MW = 50_000
BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
STATE = """
    SELECT gpu_state_name(gpu_state_of(
        true, true, $processes, true, greatest($busiest, $counted), $busiest, NULL, $counted, $power, 50000,
        power_denies_idle(greatest($busiest, $counted), $power, 50000, $limit, NULL), $at_work
    ))
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Of an empty store: for its macros."""
    with open_store(tmp_path_factory.mktemp("macros") / "fallow.duckdb") as store, store.reader() as opened:
        yield opened


def states(reader: duckdb.DuckDBPyConnection, cases: "list[dict[str, object]]") -> list[str]:
    nothing = {
        "processes": 1,
        "busiest": 0,
        "counted": None,
        "power": None,
        "limit": None,
        "at_work": False,
    }
    return [str(reader.execute(STATE, nothing | case).fetchall()[0][0]) for case in cases]


def e4(ratio: float) -> int:
    return round(ratio * 10_000)


def test_a_bins_state_turns_at_the_bounds_of_findings_and_patterns(reader: duckdb.DuckDBPyConnection) -> None:
    levels = [
        IDLE_RATIO,
        IDLE_RATIO + 1e-4,
        LOW_RATIO - 1e-4,
        LOW_RATIO,
        SATURATED_RATIO - 1e-4,
        SATURATED_RATIO,
    ]
    assert states(reader, [{"busiest": e4(level)} for level in levels]) == [
        "held-idle", "low-saturation", "low-saturation", "moderate", "moderate", "good",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counted", "processes", "power_mw"),
    [
        (SUSPECT_RATIO, 0, 300_000),
        (SUSPECT_RATIO - 1e-4, 0, 300_000),
        (SUSPECT_RATIO, 1, round(IDLE_MW * SUSPECT_POWER)),
        (SUSPECT_RATIO, 1, round(IDLE_MW * SUSPECT_POWER) + 1),
    ],
)
def test_a_bin_is_suspect_where_a_finding_finds_it_so(
    counted: float, processes: int, power_mw: int, reader: duckdb.DuckDBPyConnection
) -> None:
    case = {"busiest": e4(counted), "counted": e4(counted), "processes": processes, "power": power_mw}
    seen = past(bins=bins(utilization=counted, processes=processes, power_mw=power_mw), idle_power_mw=IDLE_MW)
    odd = contradictions(seen, seen.bins)[-1]
    assert (states(reader, [case]) == ["suspect"]) is odd


@pytest.mark.parametrize(
    ("measured", "odd"),
    [
        ((0.0, 0.9, 350, 700), True),  # kernels run, and no SM is active: the profiling counters stand still
        ((0.0, 0.89, 350, 700), False),
        ((0.0001, 0.9, 350, 700), False),  # one warp on one SM of 192 is 50 times as much
        ((0.005, 0.99, 100, 700), False),
        ((0.0, 0.0, 350, 700), True),
        ((0.0, 0.0, 280, 700), True),  # 40% of its limit
        ((0.0, 0.0, 279, 700), False),
        ((0.0, 0.0, 115, 700), False),  # an H100 that is idle with a context, at full clocks
        ((0.01, 0.0, 350, 700), True),  # noise is no activity
        ((0.02, 0.0, 350, 700), False),
        ((0.0, 0.0, 300, None), True),
        ((0.0, 0.0, 299, None), False),  # the limit is not known
        ((0.0, 0.0, 28, 72), False),  # an L4, idle at full clocks, is near 40% of its limit
        # Small boards at work by their power (their data sheets' limits), beside counters that see nothing.
        ((0.0, 0.0, 145, 150), True),  # an A10
        ((0.0, 0.0, 135, 140), True),  # an RTX A4000
        ((0.0, 0.0, 113, 150), True),  # three quarters
        ((0.0, 0.0, 112, 150), False),
        ((0.0, 0.0, 64, 150), False),  # an A10 that is idle at full clocks
        ((0.0, 0.0, 38, 140), False),  # an RTX A4000 with a model in memory
        ((0.0, 0.0, 64, 100), False),  # that A10 at the lowest limit that it can be given
        ((0.0, 0.0, 140, 300), False),  # a limit that was lowered
        ((None, None, 350, 700), False),  # no activity is measured: unknown, and nothing to contradict
    ],
)
def test_counters_that_stand_still_beside_work_are_doubted_by_findings_and_ledger(
    measured: "tuple[float | None, float | None, int, int | None]",
    odd: bool,
    reader: duckdb.DuckDBPyConnection,
) -> None:
    busiest, counted, power_w, limit_w = measured
    limit_mw = None if limit_w is None else limit_w * 1000
    case: dict[str, object] = {"processes": 1, "power": power_w * 1000, "limit": limit_mw}
    case |= {
        name: None if level is None else e4(level)
        for name, level in (("busiest", busiest), ("counted", counted))
    }
    level, shown = (None if each is None else float(np.float32(each)) for each in (busiest, counted))
    most = None if level is None or shown is None else max(level, shown)
    made = bins(utilization=level, busiest=most, gpu_utilization=shown, power_mw=power_w * 1000)
    seen = past(bins=made, idle_power_mw=IDLE_MW, power_limit_mw=limit_mw)
    assert contradictions(seen, seen.bins)[-1] is odd
    assert (states(reader, [case]) == ["suspect"]) is odd


@pytest.mark.parametrize(
    ("idle_w", "power_w", "limit_w", "odd"),
    [
        (10, 68, 70, True),  # a T4 at work
        (None, 68, 70, True),  # one that was never seen free
        (13, 62, 72, True),  # an L4
        (5, 55, 60, True),  # an A2
        (6, 70, 75, True),  # a P4
        (10, 26, 70, False),  # a T4 that is idle with a context at full clocks
        (9, 31, 70, False),  # one at 77 degrees, 15 GiB in its memory
        (9, 36, 70, False),  # half of its limit
        (None, 36, 70, False),
        (13, 28, 72, False),
        (None, 28, 40, False),  # an L4 whose limit was lowered as far as it goes
        (5, 20, 60, False),
        (6, 23, 75, False),
        (60, 85, 100, False),  # an A100 with a context, its limit lowered: under twice its idle power
        # Twice their idle power nears or passes their limit: three quarters of the way there are 61.5 W of
        # 36 to 70, 52.75 of 31 to 60, 91 of 64 to 100, and 178.75 of 115 to 200.
        (36, 68, 70, True),  # a hot T4 that never left full clocks, at work
        (36, 62, 70, True),
        (36, 61, 70, False),
        (36, 44, 70, False),  # the same with a context, warmer
        (31, 58, 60, True),  # a T4 at the lowest limit that it can be given
        (31, 40, 60, False),
        (64, 98, 100, True),  # the A10 of the table, at work
        (64, 64, 100, False),  # and idle
        (64, 78, 100, False),
        (115, 198, 200, True),  # an H100 at its lowest limit
        (115, 150, 200, False),
        (28, 28, 70, False),  # 40% of its limit at full clocks, all the time
        (90, 99, 100, False),  # up to 1.1 times its idle power is idle power
        (72, 70, 60, False),  # its limit was lowered to under what it drew when free
    ],
)
def test_a_small_board_near_its_power_limit_is_doubted_and_one_at_full_clocks_is_idle(
    idle_w: int | None, power_w: int, limit_w: int, odd: bool, reader: duckdb.DuckDBPyConnection
) -> None:
    seen = past(
        bins=bins(utilization=0.0, power_mw=power_w * 1000),
        idle_power_mw=None if idle_w is None else idle_w * 1000,
        power_limit_mw=limit_w * 1000,
    )
    assert contradictions(seen, seen.bins)[-1] is odd
    asked = [power_w * 1000, None if idle_w is None else idle_w * 1000, limit_w * 1000]
    (row,) = reader.execute("SELECT power_denies_idle(0, $1, $2, $3, NULL)", asked).fetchall()
    assert row[0] is odd


@pytest.mark.slow
def test_two_services_that_are_told_other_bounds_agree_with_their_ledgers(tmp_path: Path) -> None:
    """One simulated day: who is found at low saturation is so in the ledger, whatever a file asks for."""
    begin_ms, end_ms = (round(at.timestamp() * 1000) for at in (BEGIN, END))
    told: list[tuple[set[str], list[object]]] = []
    for at, text in enumerate(("", "[findings]\nlow_ratio = 0.05\nsaturated_ratio = 0.9\n")):
        effective = parse(text, origin="fallow.toml")
        with open_store(tmp_path / f"{at}.duckdb") as store, store.reader() as reader:
            for history in SimulatedCluster(seed=3, nodes=4).history(begin_ms, end_ms, 30_000):
                store.write_history(history)
            found = assess(reader, end_ms, effective.config.findings, 30_000).findings
            low = {each.uuid for each in found if each.kind is FindingKind.LOW_SATURATION}
            window = {"from_ts": BEGIN.replace(tzinfo=None), "to_ts": END.replace(tzinfo=None)}
            ledger = run(reader, "ledger_by_gpu", window).to_pylist()
        hours = {row["key"]: row["low_saturation_gpu_hours"] for row in ledger}
        assert low and all(hours[uuid] > 0.4 for uuid in low)
        told.append((low, [hours[key] for key in sorted(hours)]))
        assert len(effective.remarks) == (2 if text else 0)
    assert told[0] == told[1]
