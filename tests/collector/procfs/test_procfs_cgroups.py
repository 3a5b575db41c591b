"""The paths that container engines, the kubelet and Slurm give to their control groups."""

import pytest

from collector.procfs.cgroups import Placement, placement

ID = "4f1c" * 16
OUTER = "9ab2" * 16
UID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
UID_SYSTEMD = UID.replace("-", "_")


@pytest.mark.parametrize(
    "path",
    [
        f"12:memory:/docker/{ID}",
        f"0::/system.slice/docker-{ID}.scope",
        f"1:name=systemd:/machine.slice/libpod-{ID}.scope",
        f"0::/system.slice/containerd.service/nerdctl-{ID}.scope",
        f"0::/../docker-{ID}.scope",
        f"0::/docker/{OUTER}/docker/{ID}",
    ],
)
def test_container_id_is_found_whoever_made_the_group(path: str) -> None:
    assert placement(path + "\n") == Placement(container=ID)


@pytest.mark.parametrize(
    "path",
    [
        f"11:devices:/kubepods/besteffort/pod{UID}/{ID}",
        f"11:devices:/kubepods/pod{UID}/{ID}",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_SYSTEMD}.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice/crio-{ID}.scope",
        f"0::/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice/crio-{ID}.scope/container",
        f"0::/system.slice/containerd.service/kubepods-besteffort-pod{UID_SYSTEMD}.slice:cri-containerd:{ID}",
    ],
)
def test_pod_uid_is_found_with_dashes_whatever_driver_wrote_it(path: str) -> None:
    assert placement(path + "\n") == Placement(container=ID, pod=UID)


def test_static_pod_has_a_uid_without_dashes() -> None:
    uid = "f" * 8 + "0" * 24
    assert placement(f"0::/kubepods/burstable/pod{uid}/{ID}\n").pod == uid


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("4:memory:/slurm/uid_1000/job_812/step_0/task_0", "0"),
        ("4:memory:/slurm_node7/uid_1000/job_812/step_batch", "batch"),
        ("0::/system.slice/slurmstepd.scope/job_812/step_extern/user/task_3", "extern"),
        ("0::/system.slice/node7_slurmstepd.scope/job_812/step_interactive/user/task_0", "interactive"),
        ("0::/../../job_812/step_0/user", "0"),
        ("4:cpuset:/slurm/uid_1000/job_812", None),
    ],
)
def test_slurm_job_and_step_are_found_under_both_cgroup_versions(path: str, step: str | None) -> None:
    assert placement(path + "\n") == Placement(slurm_job="812", slurm_step=step)


def test_every_line_counts_because_v1_controllers_differ() -> None:
    text = "3:cpu:/\n2:freezer:/slurm/uid_1/job_9/step_1\n1:name=systemd:/user.slice\n"
    assert placement(text) == Placement(slurm_job="9", slurm_step="1")


@pytest.mark.parametrize(
    "path",
    [
        "0::/",
        "0::/system.slice/my_job_12.service",
        "0::/jobs/job_12",
        f"0::/machine.slice/libpod-conmon-{ID}.scope",
        f"0::/system.slice/crio-conmon-{ID}.scope",
        "0::/system.slice/podcast.service",
    ],
)
def test_what_only_looks_alike_is_nobody_s(path: str) -> None:
    assert placement(path + "\n") == Placement()


def test_rootless_container_hangs_below_its_owner_s_login() -> None:
    path = f"0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{ID}.scope/container\n"
    assert placement(path) == Placement(container=ID, slice_uid=1001)
