"""A lease's terms: what keeps sharers apart, and with which environment the workers start."""

import pytest

from advisor.jobs.gpu_sharing import (
    CONTEXT_BYTES,
    MEMORY_DEFAULTS,
    Device,
    Mps,
    Sharer,
    Terms,
    environment,
    terms,
)
from advisor.jobs.model import Sharing, Submission
from advisor.state.model import ProjectName
from analytics.thresholds import SHARED_RESERVE_BYTES
from collector.model import GpuUuid

GIB = 1024**3
GPU = Device(uuid=GpuUuid("GPU-a"), memory_bytes=80 * GIB)
OTHER = Device(uuid=GpuUuid("GPU-b"), memory_bytes=80 * GIB)
SLICE = Device(uuid=GpuUuid("MIG-a"), memory_bytes=10 * GIB, is_instance=True)
MPS = Mps(pipe_directory="/tmp/nvidia-mps", why="")
NO_MPS = Mps(why="no MPS control daemon answers at /tmp/nvidia-mps")
ANN = Submission(command=("python", "train.py"), user="ann", project=ProjectName("vision"))


def of(
    share: float = 0.5,
    *devices: Device,
    sharers: tuple[Sharer, ...] = (),
    mps: Mps = MPS,
    memory_bytes: int | None = None,
    memory_defaults: bool = True,
) -> Terms:
    wanted = Submission(
        command=ANN.command,
        user=ANN.user,
        project=ANN.project,
        memory_bytes=memory_bytes,
        memory_defaults=memory_defaults,
    )
    return terms(wanted, share, devices or (GPU,), sharers, mps)


@pytest.mark.parametrize(
    ("found", "sharing", "because"),
    [
        (of(1.0), Sharing.WHOLE, "has its devices alone"),
        (of(1.0, SLICE), Sharing.MIG, "by hardware"),
        (of(1.0, SLICE, GPU), Sharing.WHOLE, "has its devices alone"),
        (of(0.5, SLICE, mps=NO_MPS), Sharing.TIME_SLICED, "no MPS control daemon answers"),
        (of(0.5), Sharing.MPS, "50% of each device under MPS"),
        (of(0.5, sharers=(Sharer(user="ann", sharing=Sharing.MPS),)), Sharing.MPS, "all sharers are ann"),
        (of(0.5, sharers=(Sharer(user="bob", sharing=Sharing.MPS),)), Sharing.TIME_SLICED, "with bob"),
        (of(0.5, sharers=(Sharer(user="ann"),)), Sharing.TIME_SLICED, "runs without MPS"),
        (of(0.5, mps=Mps(pipe_directory="/p", users=frozenset({"bob"}))), Sharing.TIME_SLICED, "serves bob"),
        (of(0.5, mps=Mps(pipe_directory="/p", users=frozenset({"ann"}))), Sharing.MPS, "under MPS"),
        (of(0.5, mps=Mps(pipe_directory="/p", owner="bob")), Sharing.TIME_SLICED, "its owner bob alone"),
        (of(0.5, mps=Mps(pipe_directory="/p", owner="ann")), Sharing.MPS, "under MPS"),
        (of(0.5, mps=NO_MPS), Sharing.TIME_SLICED, "no MPS control daemon answers"),
        (of(1.0, sharers=(Sharer(user="bob"),)), Sharing.TIME_SLICED, "with bob"),
    ],
)
def test_what_keeps_sharers_apart_is_chosen_and_said(found: Terms, sharing: Sharing, because: str) -> None:
    assert found.sharing is sharing
    assert because in found.sentences[0]


def test_under_mps_threads_and_pinned_memory_follow_the_share_on_each_device() -> None:
    settings = dict(of(0.25, GPU, OTHER).settings)
    allowed = int((80 * GIB - SHARED_RESERVE_BYTES) * 0.25)
    assert settings["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
    assert settings["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    megabytes = (allowed + CONTEXT_BYTES) // 1024**2
    assert settings["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={megabytes}M,1={megabytes}M"


def test_pytorchs_caps_leave_room_for_the_contexts_of_sharers() -> None:
    halves = [of(0.5, mps=NO_MPS), of(0.5, mps=NO_MPS, sharers=(Sharer(user="bob"),))]
    caps = [float(dict(half.settings)["FALLOW_MEMORY_FRACTION"]) * 80 * GIB for half in halves]
    assert sum(caps) + 4 * CONTEXT_BYTES <= 80 * GIB, "four processes may share"
    assert [half.memory_bytes for half in halves] == [39 * GIB, 39 * GIB]


def test_memory_that_was_asked_for_is_the_share() -> None:
    found = of(0.5, memory_bytes=12 * GIB, mps=NO_MPS)
    assert found.memory_bytes == 12 * GIB
    assert float(dict(found.settings)["FALLOW_MEMORY_FRACTION"]) == pytest.approx(12 / 80, abs=1e-4)


def test_unlike_devices_are_capped_so_that_none_is_overdrawn() -> None:
    small = Device(uuid=GpuUuid("GPU-s"), memory_bytes=24 * GIB)
    found = of(0.5, GPU, small, mps=NO_MPS)
    assert found.memory_bytes == 11 * GIB
    assert float(dict(found.settings)["FALLOW_MEMORY_FRACTION"]) * 80 * GIB <= 11 * GIB


def test_a_device_alone_or_of_unknown_size_gets_no_cap() -> None:
    unknown = Device(uuid=GpuUuid("GPU-u"))
    for found in (of(1.0), of(1.0, SLICE), of(1.0, memory_bytes=GIB), of(0.5, unknown, mps=NO_MPS)):
        assert found.memory_bytes is None
        assert "FALLOW_MEMORY_FRACTION" not in dict(found.settings)


def test_a_device_too_small_to_share_allows_nothing_rather_than_less_than_nothing() -> None:
    tiny = Device(uuid=GpuUuid("GPU-t"), memory_bytes=GIB)
    found = of(0.5, tiny)
    assert found.memory_bytes == 0
    assert dict(found.settings)["FALLOW_MEMORY_FRACTION"] == "0.0010"
    assert dict(found.settings)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=512M"


def test_who_is_not_under_mps_is_kept_away_from_its_daemon_unless_it_brings_its_own() -> None:
    for found in (of(1.0), of(0.5, sharers=(Sharer(user="bob"),)), of(1.0, SLICE)):
        assert dict(found.settings)["CUDA_MPS_PIPE_DIRECTORY"] == "/dev/null"
        own = {"CUDA_MPS_PIPE_DIRECTORY": "/home/ann/mps"}
        assert "CUDA_MPS_PIPE_DIRECTORY" not in environment(found.settings, own)
    assert "CUDA_MPS_PIPE_DIRECTORY" not in dict(of(1.0, mps=NO_MPS).settings)
    under = environment(of(0.5).settings, {"CUDA_MPS_PIPE_DIRECTORY": "/home/ann/mps"})
    assert under["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"


def test_every_job_gets_memory_friendly_defaults_and_reads_of_them() -> None:
    for found in (of(1.0), of(0.5), of(0.5, mps=NO_MPS), of(1.0, SLICE)):
        assert dict(found.settings).items() >= MEMORY_DEFAULTS.items()
        for name, value in MEMORY_DEFAULTS.items():
            assert f"{name}={value}" in found.sentences[-1]


def test_memory_defaults_can_be_refused_and_limits_cannot() -> None:
    found = of(0.5, memory_defaults=False)
    assert not dict(found.settings).keys() & MEMORY_DEFAULTS.keys()
    assert "FALLOW_MEMORY_FRACTION" in dict(found.settings)
    assert "--no-memory-defaults" in found.sentences[-1]


@pytest.mark.parametrize(
    ("own", "left_out"),
    [
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, {"TF_FORCE_GPU_ALLOW_GROWTH"}),
        ({"PYTORCH_ALLOC_CONF": "backend:native"}, {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": ""}, {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, {"XLA_PYTHON_CLIENT_PREALLOCATE"}),
        ({"HOME": "/home/ann"}, set[str]()),
    ],
)
def test_a_default_never_takes_the_place_of_what_the_user_has_set(
    own: dict[str, str], left_out: set[str]
) -> None:
    added = environment(of(1.0, mps=NO_MPS).settings, own)
    assert MEMORY_DEFAULTS.keys() - added.keys() == left_out
    assert not own.keys() & added.keys()


@pytest.mark.parametrize(
    ("own", "kept"), [("0.1", "0.1"), ("0.9", "0.4875"), ("0", "0.4875"), ("much", "0.4875")]
)
def test_a_user_may_take_less_than_the_share_and_never_more(own: str, kept: str) -> None:
    added = environment(of(0.5).settings, {"FALLOW_MEMORY_FRACTION": own})
    assert added["FALLOW_MEMORY_FRACTION"] == kept
