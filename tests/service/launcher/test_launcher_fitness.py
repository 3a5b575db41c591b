"""A lease is devices and settings from a list; a launcher refuses anything else, and says what."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.jobs.gpu_sharing import LEASE_NAMES
from advisor.jobs.model import CancelCommand, NotifyCommand, ReallocateCommand, ResumeCommand, StartCommand
from advisor.policies.framework_memory import launch_settings
from collector.model import GpuUuid
from service.launcher import course as courses
from service.launcher import model
from service.launcher.fitness import job_id, objection
from service.launcher.model import Phase, Terms

A = GpuUuid("GPU-5f3a1c52-7c11-4f0e-9d0a-0b6d1d3f6a11")
RUNS_CODE = (
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "BASH_ENV",
    "ENV",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PATH",
)
LEASES = (StartCommand, ResumeCommand, ReallocateCommand)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", [*RUNS_CODE, "CUDA_INJECTION64_PATH", "NCCL_NET_PLUGIN", "HOME", "", "A B"])
@pytest.mark.parametrize("lease", LEASES)
def test_a_name_that_is_not_on_the_list_is_refused_and_named(lease: type[StartCommand], name: str) -> None:
    settings = (("TF_FORCE_GPU_ALLOW_GROWTH", "true"), (name, "/tmp/evil.so"))
    why = objection(lease(number=1, gpus=(A,), settings=settings))
    assert why is not None and why.startswith(f"a lease may not set {name}")


@given(st.sampled_from(LEASES), st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_whatever_is_taken_sets_only_names_from_the_list(
    lease: type[StartCommand], settings: list[tuple[str, str]]
) -> None:
    taken = objection(lease(number=1, gpus=(A,), settings=tuple(settings))) is None
    assert not taken or {name for name, _ in settings} <= LEASE_NAMES


def test_all_that_the_service_sets_is_on_the_list() -> None:
    gib = 2**30
    for framework in ("PyTorch", "TensorFlow", "JAX"):
        for cap in (None, 8 * gib):
            for version in (None, (2, 13)):
                made = launch_settings(framework, cap, 80 * gib, version)
                assert made is not None
                assert objection(StartCommand(number=1, gpus=(A,), settings=made.settings)) is None
    text = Path("advisor/jobs/gpu_sharing.py").read_text()
    assert set(re.findall(r'"((?:CUDA|TF|XLA|PYTORCH|FALLOW)_[A-Z_]+)"', text)) - LEASE_NAMES == {
        "XLA_PYTHON_CLIENT_ALLOCATOR"  # only looked for
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_MPS_PIPE_DIRECTORY", "mps"),
        ("CUDA_MPS_PIPE_DIRECTORY", "/run/mps\n"),
        ("PYTORCH_CUDA_ALLOC_CONF", "x" * 2000),
        ("FALLOW_MEMORY_FRACTION", "0.5\0"),
    ],
)
def test_a_value_that_is_none_is_refused(name: str, value: str) -> None:
    why = objection(StartCommand(number=1, gpus=(A,), settings=((name, value),)))
    assert why is not None and name in why and why.isprintable()


@pytest.mark.parametrize("device", ["", "-m", "GPU-a,GPU-b", "GPU-a\nstop", "GPU a", "x" * 200])
def test_a_device_that_is_none_is_refused(device: str) -> None:
    why = objection(StartCommand(number=1, gpus=(A, GpuUuid(device))))
    assert why is not None and "is no device" in why and why.isprintable()


def test_what_brings_no_lease_is_no_matter() -> None:
    assert (
        objection(CancelCommand(number=1)) is None and objection(NotifyCommand(number=2, message="x")) is None
    )


def test_a_refused_lease_starts_nothing_and_is_told_as_failed() -> None:
    course = courses.begin(Terms())
    bad = StartCommand(number=1, gpus=(A,), settings=(("LD_PRELOAD", "/tmp/evil.so"),))
    turn = courses.step(course, model.NewCommand(directive=bad), 0.0)
    assert (turn.course.phase, turn.course.acknowledged, turn.course.lease) == (Phase.WAITING, 1, None)
    assert turn.course.failed is not None and "LD_PRELOAD" in turn.course.failed
    kinds = [type(action) for action in turn.actions]
    assert model.Start not in kinds and kinds == [model.Notify, model.Announce]
    good = courses.step(turn.course, model.NewCommand(directive=StartCommand(number=2, gpus=(A,))), 1.0)
    assert good.course.phase is Phase.STARTING


@pytest.mark.parametrize(
    "said", [None, 7, "", "../../x", "fallow:1\x1b[2J", "fallow:-1", "fallow:" + "1" * 30]
)
def test_what_is_no_id_of_a_job_is_none(said: object) -> None:
    assert job_id(said) is None
    assert job_id("fallow:17") == "fallow:17"
