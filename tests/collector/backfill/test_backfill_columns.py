"""The columnar road says what the live road says: same facts, same samples; and times add up."""

from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.arrow import HOLDER_SAMPLE_SCHEMA, SAMPLE_SCHEMA, to_table
from collector.dcgm.labels import Claim
from collector.dcgm.readout import read_out
from collector.dcgm.text import parse
from collector.dcgm.vocabulary import Dialect as Spoken
from collector.dcgm.vocabulary import is_known, measure_of, utilization_scale
from collector.model import ClaimSource, GpuUuid, Holder, JobId
from collector.sources.prometheus.convert import held_intervals, history_of
from collector.sources.prometheus.import_history import cut, remaining, total_ms
from collector.sources.prometheus.scale import scales
from collector.sources.prometheus.series import Site, devices
from collector.sources.prometheus.server import Series
from tests.collector.dcgm.dcgm_writer import DIALECTS, Board, Dialect, Facts, exposition
from tests.collector.dcgm.test_dcgm_dialects import facts

AT_MS, STEP_MS = 1_763_000_000_000, 30_000
ALMOST = st.sampled_from((0.0, 1.0, 0.4, 37.0, 100.0))


def series_of(text: str, at_ms: int = AT_MS) -> list[Series]:
    return [
        Series(name=row.name, labels=row.labels, at_ms=np.array([at_ms]), values=np.array([row.value]))
        for row in parse(text, is_known)
    ]


@st.composite
def racks(draw: st.DrawFn) -> list[Board]:
    """A node with whole GPUs and a partitioned one, some with rows of pods, of the GPU's own, or of both."""
    found = []
    for i in range(draw(st.integers(1, 3))):
        for pod in draw(st.lists(st.sampled_from(("", "p", "q")), min_size=1, max_size=2, unique=True)):
            found.append(
                Board(uuid=f"GPU-{i}", index=i, facts=draw(facts()), holders={"pod": pod, "namespace": "ns"})
            )
    for i, profile in enumerate(
        draw(st.lists(st.sampled_from(("1g.5gb", "2g.10gb", "3g.20gb")), max_size=2))
    ):
        fact = replace(draw(facts()), gpu_utilization_ratio=None, sm_active_ratio=1.29)
        found.append(Board(uuid="GPU-m", index=7, instance=str(i), profile=profile, facts=fact))
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(boards=racks(), dialect=st.sampled_from(DIALECTS))
def test_history_says_what_a_live_scrape_of_the_same_says(boards: list[Board], dialect: Dialect) -> None:
    text = exposition(boards, dialect)
    live = read_out(parse(text, is_known), fallback_node="n", at_ms=AT_MS, width_ms=STEP_MS)
    past = history_of(devices(series_of(text), Site(step_ms=STEP_MS)), source="prometheus", from_ms=AT_MS - 1)
    assert past.samples.schema == SAMPLE_SCHEMA
    assert _sorted(past.samples) == _sorted(to_table(live.samples))
    assert {gpu.uuid: gpu for gpu in past.gpus} == {gpu.uuid: gpu for gpu in live.gpus}
    assert {held.allocation for held in past.held} == set(live.allocations or ())
    assert past.holder_samples.schema == HOLDER_SAMPLE_SCHEMA
    of_holders = [{**asdict(each), "gpu_utilization_ratio": None} for each in live.holder_samples]
    told = past.holder_samples.to_pylist()
    assert _in_order([{**row, "gpu_utilization_ratio": None} for row in told]) == _in_order(of_holders)
    uses = {(each.uuid, each.job): each.gpu_utilization_ratio for each in live.holder_samples}
    assert {(row["uuid"], row["job"]): row["gpu_utilization_ratio"] for row in told} == pytest.approx(uses)
    assert all((held.from_ms, held.to_ms) == (AT_MS - STEP_MS, AT_MS) for held in past.held)


def _in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: (str(row["uuid"]), str(row["job"])))


def _sorted(table: pa.Table) -> list[dict[str, object]]:
    rows = sorted(table.to_pylist(), key=lambda row: row["uuid"])
    for row in rows:
        row["flags"] = ",".join(sorted((row["flags"] or "").split(",")))
    return rows


@settings(max_examples=200, deadline=None)
@given(
    scrapes=st.lists(
        st.tuples(st.lists(ALMOST, min_size=1, max_size=3), st.booleans(), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_scale_of_each_scrape_is_the_live_roads(scrapes: list[tuple[list[float], bool, bool]]) -> None:
    found: list[Series] = []
    for i, (values, base, classic) in enumerate(scrapes):
        at = np.array([AT_MS + i * STEP_MS])
        names = ["DCGM_FI_DEV_FB_USED_BYTES"] * base + ["DCGM_FI_DEV_MEM_COPY_UTIL"] * classic
        found += [Series(name=name, labels={}, at_ms=at, values=np.array([5.0])) for name in names]
        found += [
            Series(
                name="DCGM_FI_DEV_GPU_UTIL_RATIO", labels={"gpu": str(g)}, at_ms=at, values=np.array([value])
            )
            for g, value in enumerate(values)
        ]
    _, factors = scales(found)
    for (values, base, classic), factor in zip(scrapes, factors, strict=True):
        dialects = {Spoken.BASE_UNITS} if base else set()
        dialects |= {Spoken.CLASSIC} if classic else set()
        scale = utilization_scale(values, frozenset(dialects))
        assert factor == scale if scale is not None else np.isnan(factor)


def test_blank_values_and_the_upgrade_of_an_exporter_are_seen_scrape_by_scrape() -> None:
    assert measure_of("DCGM_FI_DEV_GPU_UTIL_RATIO") is not None
    at = np.arange(4) * STEP_MS + AT_MS
    util = Series(
        name="DCGM_FI_DEV_GPU_UTIL_RATIO",
        labels={"UUID": "GPU-a"},
        at_ms=at,
        values=np.array([64.0, 2147483632.0, 0.64, 1.0]),
    )
    base = Series(name="DCGM_FI_DEV_FB_USED_BYTES", labels={"UUID": "GPU-a"}, at_ms=at[2:], values=np.ones(2))
    (device,) = devices([util, base], Site(step_ms=STEP_MS))
    assert device.columns["gpu_utilization_ratio"] == pytest.approx([0.64, np.nan, 0.64, 1.0], nan_ok=True)


def test_undecided_utilization_in_history_is_unknown_and_flagged() -> None:
    history = history_of(
        devices(series_of('DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="a"} 1\n'), Site(step_ms=STEP_MS)),
        source="prometheus",
        from_ms=0,
    )
    (row,) = history.samples.to_pylist()
    assert (row["rung"], row["gpu_utilization_ratio"], row["flags"]) == (0, None, "utilization-scale-unknown")


def test_board_partitioned_on_the_way_counts_its_work_as_a_whole_before_and_in_parts_after() -> None:
    whole = Board(uuid="GPU-m", facts=Facts(graphics_active_ratio=0.9, power_mw=300_000))
    part = Board(uuid="GPU-m", instance="1", profile="3g.20gb", facts=Facts(graphics_active_ratio=0.5))
    both = [
        *series_of(exposition([whole], DIALECTS[0])),
        *series_of(exposition([whole, part], DIALECTS[0]), AT_MS + STEP_MS),
    ]
    history = history_of(devices(both, Site(step_ms=STEP_MS)), source="prometheus", from_ms=AT_MS - 1)
    rows = {(row["uuid"], row["at_ms"]): row for row in history.samples.to_pylist()}
    assert rows["GPU-m", AT_MS]["utilization_ratio"] == pytest.approx(0.9)
    assert rows["GPU-m", AT_MS + STEP_MS]["utilization_ratio"] is None
    assert rows["MIG-GPU-m/1", AT_MS + STEP_MS]["utilization_ratio"] == 0.5


@settings(max_examples=100, deadline=None)
@given(
    there=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=30),
    holes=st.sets(st.integers(1, 29)),
)
def test_held_time_is_the_covered_time_of_the_samples_that_name_a_holder(
    there: list[list[bool]], holes: set[int]
) -> None:
    at, widths = [], []
    now = AT_MS
    for i in range(len(there)):
        now += STEP_MS * (10 if i in holes else 1)
        at.append(now)
        widths.append(STEP_MS)
    claims = [Claim(holder=Holder(job=JobId(f"j{k}")), source=ClaimSource.SLURM) for k in range(3)]
    present = {claim: np.array([row[k] for row in there]) for k, claim in enumerate(claims)}
    held = list(held_intervals(GpuUuid("g"), np.array(at), np.array(widths), present))
    for claim in claims:
        mine = sorted((h.from_ms, h.to_ms or 0) for h in held if h.allocation.holder == claim.holder)
        assert sum(b - a for a, b in mine) == STEP_MS * int(present[claim].sum())
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
    shared = sum(h.allocation.share * ((h.to_ms or 0) - h.from_ms) for h in held)
    assert shared == pytest.approx(STEP_MS * sum(any(row) for row in there))


@given(
    window=st.tuples(st.integers(0, 50), st.integers(51, 100)),
    done=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda p: (min(p), max(p))), max_size=5
    ),
    longest=st.integers(1, 30),
)
def test_what_remains_and_what_is_done_make_up_the_window(
    window: tuple[int, int], done: list[tuple[int, int]], longest: int
) -> None:
    left = remaining(window, done)
    missing = set(range(*window)) - {t for start, end in done for t in range(start, end)}
    assert {t for piece in left for t in range(*piece)} == missing
    pieces = list(cut(left, longest))
    assert total_ms(pieces) == len(missing)
    assert all(0 < end - start <= longest for start, end in pieces)
