"""The values of a device in the pipe: by name, and by place for a parent of before an upgrade."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from collector.metrics import METRICS, GpuSample
from collector.model import Basis, GpuUuid
from collector.sources.nvml import convert, wire
from collector.sources.nvml.child import in_order
from collector.sources.nvml.readers import SCALARS, SLOT
from tests.collector.nvml.conftest import Watch

ROOT = Path(__file__).parents[3]
TICK_US = 10_000_000
START_US = 1_800_000_000_000_000


def test_a_row_becomes_a_sample_by_name_and_percent_becomes_a_ratio() -> None:
    told: dict[str, Any] = {
        "gpu_utilization": 40.0,
        "gpu_busy": 0.75,
        "sm_active": 129.0,
        "power_mw": 300_000,
        "jpeg": 7,
    }
    sample = convert.sample(
        GpuUuid("GPU-0"), 20_000, 10_000, convert.by_name([told.get(name) for name in wire.MEASURES])
    )
    assert sample == GpuSample(
        uuid=GpuUuid("GPU-0"),
        at_ms=20_000,
        width_ms=10_000,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=1.0,
        gpu_utilization_ratio=0.4,
        gpu_busy_ratio=0.75,
        sm_active_ratio=1.0,
        power_mw=300_000,
        jpeg_ratio=0.07,
        flags=("sm_active-above-1",),
    )


def test_every_measure_of_the_driver_is_a_field_of_a_sample_and_has_one_place() -> None:
    assert set(wire.FIELDS) <= {each.name for each in fields(GpuSample)}
    assert sorted(SLOT.values()) == list(range(len(wire.MEASURES)))
    assert set(wire.FIELDS) == {each.name for each in METRICS if each.nvml}


def test_what_is_read_by_itself_has_a_way_and_words_for_the_doctor() -> None:
    for metric in METRICS:
        if metric.nvml:
            by_itself = metric.nvml.field_id is not None or bool(metric.nvml.calls)
            assert by_itself == bool(metric.nvml.words), metric.name
    assert all(has_period == (name not in FIELDS_OF_ONE_RESULT) for name, _, _, has_period in SCALARS)


FIELDS_OF_ONE_RESULT = {each.name for each in METRICS if not each.is_ratio}


def test_a_row_is_sent_in_the_order_that_was_asked_for() -> None:
    row = list(range(len(wire.MEASURES)))
    reply = {"events": [], "devices": [("GPU-0", row, [], None, None)]}
    assert in_order(reply, wire.MEASURES) is reply
    asked = ("power_mw", "of_a_newer_version", "gpu_utilization")
    (line,) = in_order(reply, asked)["devices"]
    assert line == ("GPU-0", [SLOT["power_mw"], None, SLOT["gpu_utilization"]], [], None, None)


@pytest.mark.parametrize("folder", ["nvml", "sources.nvml"])
def test_a_parent_of_before_an_upgrade_finds_every_value_at_its_old_place(watch: Watch, folder: str) -> None:
    """Such a service has its code in memory, and starts a child that crashed anew from the new files."""
    w = watch()
    gpu = w.driver.gpu(0)
    gpu.temperature, gpu.power_mw, gpu.sm_clock, gpu.jpeg = 71, 512_345, 1755, 56
    with old_parent(f"collector.{folder}.child") as (stdin, stdout):
        wire.send(stdin, {"op": "start", "avoid": []})
        assert "versions" in wire.receive(stdout, 60)
        request = {"op": "read", "now_us": START_US, "width_us": TICK_US, "processes": False}
        wire.send(stdin, {**request, "rescan": False, "known": 0})
        ((_, row, *_),) = wire.receive(stdout, 60)["devices"]
    assert (len(row), row[14], row[16], row[17], row[22]) == (24, 512_345, 71, 1755, 56)


@contextmanager
def old_parent(module: str) -> Iterator[tuple[int, int]]:
    """The child's input and output, as a parent of before an upgrade has them."""
    note = os.memfd_create("note")
    os.ftruncate(note, 4096)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(note)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(note,),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdin and child.stdout
    try:
        yield child.stdin.fileno(), child.stdout.fileno()
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        os.close(note)
