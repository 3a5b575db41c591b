"""The ledger adds up to the hardware, exactly, whatever happened: gaps, late starts, overlapping shares.

Random histories go through a real store; every window's states are held against the time that each GPU was
installed in it, computed here from the samples alone.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analytics.query import Connection, run
from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
)
from collector.store.statements import statement
from tests.searches import examples
from tests.stores import open_store

MINUTE_MS, HOUR_MS, BIN_MS = 60_000, 3_600_000, 30_000
START_MS = 1_793_188_800_000 - HOUR_MS
SPAN_MINUTES = 150
END_MS = START_MS + SPAN_MINUTES * MINUTE_MS
STATES = (
    "free",
    "allocated_empty",
    "held_idle",
    "low_saturation",
    "moderate",
    "good",
    "suspect",
    "withheld",
    "unknown",
)


@dataclass(frozen=True)
class Story:
    """One GPU's samples (end, width, level), gaps left out, and who held what part of it when.

    ``gone``: it was taken out with its last sample.
    """

    samples: tuple[tuple[int, int, float | None], ...]
    held: tuple[tuple[str, float, int, int | None], ...]
    gone: bool


@st.composite
def stories(draw: st.DrawFn) -> Story:
    width_ms = draw(st.sampled_from([10_000, 30_000, 60_000, 7_000]))
    first_ms = START_MS + draw(st.integers(0, 80 * MINUTE_MS))
    hole_from = draw(st.integers(0, SPAN_MINUTES * MINUTE_MS))
    hole_ms = draw(st.integers(0, 40 * MINUTE_MS))
    level = st.sampled_from([None, 0.0, 0.005, 0.1, 0.4, 0.95])
    levels = draw(st.lists(level, min_size=1, max_size=6))
    ends = range(first_ms + width_ms, START_MS + SPAN_MINUTES * MINUTE_MS, width_ms)
    samples = tuple(
        (end, width_ms, levels[place * len(levels) // max(1, len(ends))])
        for place, end in enumerate(ends)
        if not START_MS + hole_from < end <= START_MS + hole_from + hole_ms
    )
    held = draw(st.lists(holds(), max_size=4, unique_by=lambda hold: hold[0]))
    return Story(samples=samples, held=tuple(held), gone=draw(st.booleans()))


@st.composite
def holds(draw: st.DrawFn) -> tuple[str, float, int, int | None]:
    from_ms = START_MS + draw(st.integers(0, SPAN_MINUTES * MINUTE_MS))
    lasts = draw(st.none() | st.integers(1, 100 * MINUTE_MS))
    share = draw(st.sampled_from([1.0, 0.5, 0.25, 1 / 3, 0.7]))
    return draw(st.sampled_from("abcdef")), share, from_ms, None if lasts is None else from_ms + lasts


windows = st.tuples(st.integers(-10, 140), st.integers(1, 160)).map(
    lambda pair: (START_MS + pair[0] * MINUTE_MS, START_MS + (pair[0] + pair[1]) * MINUTE_MS)
)


@pytest.mark.slow
@settings(
    max_examples=examples(5, 12),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(gpus=st.lists(stories(), min_size=1, max_size=3), window=windows, step_minutes=st.integers(1, 90))
def test_states_of_every_gpu_sum_to_its_installed_time(
    gpus: list[Story], window: tuple[int, int], step_minutes: int
) -> None:
    told = [story for story in gpus if story.samples]
    if not told:
        return
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "fallow.duckdb") as store:
        for number, story in enumerate(told):
            store.write_history(_history(number, story))
        with store.reader() as reader:
            for number, story in enumerate(told):
                if story.gone:
                    asked = {"uuid": _uuid(number), "to_ms": END_MS, "at_last_sample": True}
                    reader.execute(statement("end_installed"), asked)
            _check(reader, told, window, step_minutes)


MANAGED = ("partition", "qos", "account", "cluster")


def _history(number: int, story: Story) -> History:
    samples = [
        GpuSample(
            uuid=_uuid(number),
            at_ms=end,
            width_ms=width,
            rung=Basis.UNKNOWN if level is None else Basis.SM_ACTIVE,
            utilization_ratio=level,
            gpu_utilization_ratio=level,
            memory_used_bytes=(5 << 30) if number else None,
            process_count=None if number == 1 else int(end // MINUTE_MS % 3 > 0),
        )
        for end, width, level in story.samples
    ]
    held = tuple(
        HeldInterval(
            allocation=Allocation(
                uuid=_uuid(number), holder=Holder(job=JobId(f"{number}{job}"), user=job), share=share
            ),
            from_ms=from_ms,
            to_ms=to_ms,
        )
        for job, share, from_ms, to_ms in story.held
    )
    gpu = Gpu(uuid=_uuid(number), node=NodeName(f"node{number % 2}"), index=number)
    return History(source="told", gpus=(gpu,), samples=to_table(samples), held=held)


def _uuid(number: int) -> GpuUuid:
    return GpuUuid(f"GPU-{number}")


def _check(reader: Connection, gpus: list[Story], window: tuple[int, int], step_minutes: int) -> None:
    params = {"from_ts": window[0], "to_ts": window[1]}
    expected = {_uuid(number): _installed_ms(story, window) for number, story in enumerate(gpus)}
    rows = {row["key"]: row for row in run(reader, "ledger_by_gpu", params).to_pylist()}
    for uuid, installed_ms in expected.items():
        row = rows.get(uuid)
        states = 0 if row is None else sum(_ms(row[f"{state}_gpu_hours"]) for state in STATES)
        assert states == installed_ms, uuid
        assert (0 if row is None else _ms(row["gpu_hours"])) == installed_ms
    total = sum(expected.values())
    for name in ("node", "user", "project", "job", "framework", "model", "hour", "day", *MANAGED):
        by_key = run(reader, f"ledger_by_{name}", params).to_pylist()
        assert sum(_ms(row[f"{state}_gpu_hours"]) for row in by_key for state in STATES) == total, name
        assert sum(_ms(row["held_gpu_hours"]) for row in by_key) == sum(
            _ms(row["held_gpu_hours"]) for row in rows.values()
        ), name
    by_state = run(reader, "ledger_by_state", params).to_pylist()
    assert sum(_ms(row["gpu_hours"]) for row in by_state) == total
    steps = run(reader, "states_over_time", params | {"step_s": step_minutes * 60}).to_pylist()
    assert sum(_ms(row[f"{state}_gpu_hours"]) for row in steps for state in STATES) == total


def _ms(gpu_hours: float) -> int:
    """Hours come from whole milliseconds; a double holds them well enough to be whole again."""
    ms = round(gpu_hours * HOUR_MS)
    assert abs(gpu_hours * HOUR_MS - ms) < 1e-3
    return ms


def _installed_ms(story: Story, window: tuple[int, int]) -> int:
    """From the start of the bin in which its first sample begins to the end of the window.

    One that is gone ends with the bin in which its last sample ends.
    """
    first_end, width, _ = story.samples[0]
    installed_from = (first_end - width) // BIN_MS * BIN_MS
    installed_to = -(-story.samples[-1][0] // BIN_MS) * BIN_MS if story.gone else window[1]
    return max(0, min(window[1], installed_to) - max(window[0], installed_from))
