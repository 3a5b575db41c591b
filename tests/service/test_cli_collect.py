"""``fallow collect --once`` says what could not be read, of whole sources and of single GPUs."""

from pathlib import Path

import pytest

from collector.model import (
    Gap,
    Gpu,
    GpuUuid,
    NodeName,
    Unavailable,
)
from collector.reading import Reading, Tick
from service.cli.collect import rows_of, unread
from service.config.file import load
from service.server.assemble import read_once
from tests.analytics.world import fill
from tests.driver.driver import CompilerMissing, Driver
from tests.service.conftest import fallow, verb

NODE = NodeName("n0")


def gap(reason: str, uuid: str | None = None, node: str | None = None) -> Gap:
    return Gap(
        source="s",
        from_ms=0,
        to_ms=1,
        reason=reason,
        uuid=None if uuid is None else GpuUuid(uuid),
        node=None if node is None else NodeName(node),
    )


def test_each_reason_is_told_once_with_all_it_befell() -> None:
    gpus = tuple(Gpu(uuid=GpuUuid(f"GPU-{n}"), node=NODE, index=n) for n in range(3))
    gaps = (gap("lost", "GPU-0"), gap("lost", "GPU-2"), gap("down", node="n9"), gap("slow"))
    reading = Reading(source="s", at_ms=1, gpus=gpus, gaps=gaps)
    silent = Unavailable(source="other", at_ms=1, reason="no answer")
    assert unread(Tick(at_ms=1, width_ms=1, outcomes=(reading, silent))) == [
        "s: n0:0, n0:2: lost",
        "s: n9: down",
        "s: slow",
        "other: no answer",
    ]


def test_a_filter_that_nothing_matches_is_named(tmp_path: Path) -> None:
    with fill(tmp_path):
        pass
    said = verb("status", "--node", "nowhere", "--user", "nobody", data=tmp_path).stdout
    assert "No GPU matches --node nowhere --user nobody" in said


def test_a_lost_gpu_is_told_of_beside_those_that_answer(tmp_path: Path) -> None:
    try:
        driver = Driver(tmp_path, gpus=2)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with driver:
        driver.gpu(1).lost = 1
        done = fallow("collect", "--once", "--source", "nvml", env=dict(driver.environment()))
    assert done.returncode == 0
    assert "the GPU at index 1" in done.stderr, done.stderr


MAPPING = """
time = { column = "t_ms", unit = "ms", origin = "2026-03-02T00:00:00Z" }
gpu = "gpu"
width_s = 10
[sample]
gpu_utilization_ratio = { column = "util", unit = "percent" }
"""


def test_a_recording_shows_a_row_of_each_gpu_that_has_one_in_its_first_step(tmp_path: Path) -> None:
    """Two GPUs each 10 s, the second 3 ms behind the first; the newest rows of the first 15 s are shown."""
    rows = [
        f"{10_000 * (n + 1) + late},{gpu},{util}"
        for n in range(6)
        for gpu, late, util in (("a", 0, 40), ("b", 3, 60))
    ]
    (tmp_path / "log.csv").write_text("\n".join(["t_ms,gpu,util", *rows]) + "\n")
    (tmp_path / "log.toml").write_text(MAPPING)
    config = load(None, {"collect.sources": ("--source", [f"replay={tmp_path / 'log.csv'}"])}).config
    tick, _ = read_once(config)
    assert {each["uuid"]: each["utilization_ratio"] for each in rows_of(tick)} == pytest.approx(
        {"a": 0.4, "b": 0.6}
    )
