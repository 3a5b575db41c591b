"""What ``fallow doctor`` is told of the driver."""

from pathlib import Path

import pytest

from collector.sources.nvml.probe import MEASURES, Probe, ProbedGpu, in_container, probe
from tests.collector.nvml.conftest import Watch
from tests.driver.driver import ABORT, DRIVER_NOT_LOADED, GPU_IS_LOST, NO_PERMISSION


def reason(gpu: ProbedGpu, name: str) -> str | None:
    return next(measure.reason for measure in gpu.measures if measure.name == name)


def missing(gpu: ProbedGpu) -> set[str]:
    return {measure.name for measure in gpu.measures if measure.by is None}


def test_versions_and_every_measure_of_a_full_gpu_are_told(watch: Watch) -> None:
    watch().driver.gpu(0).metrics(sm=50)
    found = probe()
    assert (found.driver_version, found.nvml_version, found.cuda_version) == (
        "570.86.15",
        "12.570.86.15",
        "12.8",
    )
    (gpu,) = found.gpus
    assert [measure.name for measure in gpu.measures] == [name for name, _ in MEASURES]
    assert missing(gpu) == set()
    assert found.problem is None
    assert found.resident_mib is not None
    assert found.resident_mib < 60


def test_what_is_missing_is_told_with_its_reason(watch: Watch) -> None:
    w = watch()
    w.driver.fail("nvmlDeviceGetTemperature", NO_PERMISSION)
    found = probe()
    (gpu,) = found.gpus
    assert missing(gpu) == {"temperature_c", "gpm"}
    assert "permission" in (reason(gpu, "temperature_c") or "")
    assert "not supported" in (reason(gpu, "gpm") or "")
    assert any("upper bound" in advice for advice in found.advice)


def test_an_old_driver_is_said_to_be_too_old(watch: Watch) -> None:
    watch(old=True)
    (gpu,) = probe().gpus
    assert "too old" in (reason(gpu, "gpm") or "")
    assert reason(gpu, "processes") is None


def test_persistence_mode_that_is_off_is_advised_on(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.gpu(1).persistence = 0
    assert any("persistence mode is off on GPU 1" in advice for advice in probe().advice)


def test_mig_instances_say_what_they_have_and_their_board_what_it_lost(watch: Watch) -> None:
    w = watch()
    (uuid,) = w.driver.gpu(0).partition(("1g.10gb", 1, 10))
    board, part = probe().gpus
    assert (part.uuid, part.parent_uuid, part.mig_profile) == (uuid, board.uuid, "1g.10gb")
    assert "while MIG is on" in (reason(board, "gpu_utilization") or "")
    assert "parent" in (reason(part, "power_mw") or "")
    assert reason(part, "processes") is None


def test_a_lost_gpu_is_told_beside_the_others(watch: Watch) -> None:
    w = watch(gpus=2)
    w.driver.fail("handle", GPU_IS_LOST, gpu=0)
    found = probe()
    assert len(found.gpus) == 1
    assert found.failed[0].startswith("GPU 0: ")
    assert "lost" in found.failed[0]


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("nvmlInitWithFlags", DRIVER_NOT_LOADED, "modprobe nvidia"),
        ("nvmlInitWithFlags", ABORT, "was ended by SIGABRT"),
        ("nvmlDeviceGetTemperature", ABORT, "while it asked GPU 0"),
    ],
)
def test_an_unusable_driver_is_a_problem_and_no_exception(
    watch: Watch, function: str, code: int, words: str
) -> None:
    watch().driver.fail(function, code)
    found = probe()
    assert words in (found.problem or "")
    assert found.gpus == ()


def test_no_driver_is_a_problem_and_no_exception(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = probe()
    if found.driver_version:
        pytest.skip("this machine has a driver")
    assert isinstance(found, Probe)
    assert "libnvidia-ml.so.1 was not found" in (found.problem or "")


def test_a_container_is_known_by_its_marks(tmp_path: Path) -> None:
    assert not in_container(tmp_path)
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "1" / "cgroup").write_text("0::/kubepods.slice/pod1234\n")
    assert in_container(tmp_path)
    (tmp_path / "proc" / "1" / "cgroup").write_text("0::/init.scope\n")
    assert not in_container(tmp_path)
    (tmp_path / ".dockerenv").touch()
    assert in_container(tmp_path)


FIRST = {"pid": 4026531836, "uts": 4026531838, "ipc": 4026531839}


@pytest.mark.parametrize(("own", "is_container"), [({}, False), ({"uts": 4026532001}, True)])
def test_a_virtual_machine_made_from_a_containers_image_is_none(
    tmp_path: Path, own: dict[str, int], is_container: bool
) -> None:
    (tmp_path / ".dockerenv").touch()
    namespaces = tmp_path / "proc" / "self" / "ns"
    namespaces.mkdir(parents=True)
    for name, number in (FIRST | own).items():
        (namespaces / name).symlink_to(f"{name}:[{number}]")
    assert in_container(tmp_path) is is_container
