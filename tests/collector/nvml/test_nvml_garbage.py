"""A driver whose words mean nothing: strings of garbage, and a library that is not the kernel module's."""

from pathlib import Path

import pytest

from collector.sources.nvml.convert import explain_problem
from collector.sources.nvml.library import both_versions, readable
from collector.sources.nvml.probe import probe
from service.doctor_checks import checks
from service.doctor_checks.results import Verdict
from tests.collector.nvml.conftest import Watch

GARBAGE = b"\xf8\x95\xa0\x81\xf8\x95"
"""How drivers 555 under WSL answered for any string (gpustat issue 170, nvitop issue 127)."""
MISMATCH = 18


def test_a_gpu_without_a_readable_uuid_goes_by_its_place_and_the_others_by_their_uuid(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.gpu(0).uuid, w.driver.gpu(0).utilization = GARBAGE, 60
    w.driver.gpu(1).utilization = 30
    reading = w.read()
    here = {gpu.uuid: gpu.index for gpu in reading.gpus}
    assert here == {"node-a/00000000:01:00.0": 0, w.driver.gpu(1).uuid: 1}
    assert [row.gpu_utilization_ratio for row in reading.samples] == [0.6, 0.3]
    assert ["uuid-unreadable" in row.flags for row in reading.samples] == [True, False]
    w.driver.gpu(0).uuid = b"\xff\xfe"  # other garbage is no other GPU
    again = w.read()
    assert {gpu.uuid for gpu in again.gpus} == here.keys() and not again.events


def test_a_gpu_that_nothing_names_is_a_gap_with_its_reason(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.gpu(0).uuid, w.driver.gpu(0).bus_id = GARBAGE, GARBAGE
    reading = w.read()
    assert [gpu.index for gpu in reading.gpus] == [1]
    (gap,) = reading.gaps
    assert "index 0" in gap.reason and "no UUID and no bus id" in gap.reason


def test_an_unreadable_model_and_version_are_unknown(watch: Watch) -> None:
    w = watch()
    w.driver.gpu(0).name, w.driver.state.driver_version = GARBAGE, GARBAGE
    (gpu,) = w.read().gpus
    assert (gpu.model, gpu.driver_version) == (None, None)


def test_an_instance_without_a_readable_uuid_goes_by_its_numbers(watch: Watch) -> None:
    w = watch()
    board = w.driver.gpu(0)
    board.partition(("1g.10gb", 1, 10))
    board.instances[0].uuid = GARBAGE
    uuids = [gpu.uuid for gpu in w.read().gpus]
    instance = board.instances[0]
    assert uuids == [board.uuid, f"MIG-{board.uuid}/{instance.gpu_instance}/0"]


@pytest.mark.parametrize("raw", [b"", GARBAGE, b"a\x1b[31mb", b"a\nb"])
def test_what_is_no_text_is_unknown(raw: bytes) -> None:
    assert readable(raw) is None


def test_a_driver_that_differs_from_its_library_is_trouble_and_not_absent(watch: Watch) -> None:
    watch().driver.fail("nvmlInitWithFlags", MISMATCH)
    (found,), version = checks.driver(wanted=False)
    assert (found.subject, found.verdict, version) == ("NVIDIA driver", Verdict.TROUBLE, None)
    assert "different versions" in found.found
    assert found.advice.startswith("reboot")


def test_a_mismatch_names_both_versions_where_they_are_told(tmp_path: Path) -> None:
    # the versions that one report has after an unattended update
    (tmp_path / "version").write_text("570.124.06\n")
    (tmp_path / "maps").write_text(
        "7f00-7f01 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.07\n"
    )
    told = both_versions(tmp_path / "version", tmp_path / "maps")
    assert told == {"library": "570.133.07", "kernel": "570.124.06"}
    said = explain_problem({"call": "nvmlInit", "code": MISMATCH, "versions": told})
    assert "(library 570.133.07, loaded kernel module 570.124.06), as after an update" in said
    unknown = both_versions(tmp_path / "none", tmp_path / "none")
    assert unknown == {"library": None, "kernel": None}
    assert "()" not in explain_problem({"call": "nvmlInit", "code": MISMATCH, "versions": unknown})


@pytest.mark.parametrize(("code", "is_absent"), [(9, True), (17, False), (999, False)])
def test_a_driver_that_refuses_is_here_and_one_that_is_not_loaded_is_absent(
    watch: Watch, code: int, is_absent: bool
) -> None:
    watch().driver.fail("nvmlInitWithFlags", code)
    assert probe().is_absent is is_absent


def test_a_gpu_that_crashes_whoever_asks_is_named_with_what_happened(watch: Watch) -> None:
    w = watch()
    w.driver.fail("nvmlDeviceGetTemperature", -1)  # abort
    first, later = w.tick(), w.tick()
    for outcome in (first, later):
        assert "SIGABRT" in getattr(outcome, "reason", ""), outcome
