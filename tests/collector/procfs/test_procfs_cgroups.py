"""The paths that container engines, the kubelet and Slurm give to their control groups."""

import pytest

from collector.procfs.cgroup_folders import Folders
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


@pytest.mark.parametrize(
    ("path", "container"),
    [
        ("0::/lxc.payload.c1/user.slice/user-1000.slice/session-2.scope", "c1"),
        ("0::/lxc.payload/c1/init.scope", "c1"),
        ("0::/machine.slice/systemd-nspawn@c1.service/payload/system.slice/cron.service", "c1"),
        (f"0::/system.slice/web.service/libpod-payload-{ID}", ID),
        (f"5:memory:/default/{ID}", ID),
        (f"5:memory:/{ID}", ID),
    ],
)
def test_a_container_s_own_logins_are_nobody_s_here(path: str, container: str) -> None:
    assert placement(path + "\n") == Placement(container=container)


@pytest.mark.parametrize(
    "made",
    [
        "job_7/step_0/user/task_0",
        "slurm/uid_1001/job_7/step_0",
        "slurmstepd.scope/job_7/step_0",
        "system.slice/slurmstepd.scope/job_7/step_0",
        f"kubepods/burstable/pod{UID}",
        f"kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice",
        f"pod{UID}",
    ],
)
@pytest.mark.parametrize(
    "own",
    [
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice",
        "0::/../../../user.slice/user-1000.slice/user@1000.service",
        "1:name=systemd:/user.slice/user-1000.slice/user@1000.service",
        "0::/../user-1000.slice/session-3.scope",
    ],
)
def test_below_one_s_own_folder_nothing_is_slurm_s_or_the_kubelet_s(own: str, made: str) -> None:
    assert placement(f"{own}/{made}\n") == Placement(slice_uid=1000)


@pytest.mark.parametrize("name", [f"docker-{ID}.scope", f"docker/{ID}", f"kubepods/pod{UID}/{ID}"])
def test_a_container_below_one_s_own_folder_is_one_s_own(name: str) -> None:
    path = f"0::/user.slice/user-1000.slice/user@1000.service/{name}\n"
    assert placement(path) == Placement(container=ID, slice_uid=1000)


@pytest.mark.parametrize(
    "path",
    [
        "0::/system.slice/web.service/job_7/step_0",
        "0::/system.slice/web.service/slurmstepd.scope/job_7/step_0",
        "0::/system.slice/web.service/slurm/uid_0/job_7/step_0",
        f"0::/system.slice/web.service/kubepods/pod{UID}",
        f"0::/system.slice/web.service/kubepods.slice/kubepods-pod{UID_SYSTEMD}.slice",
        f"0::/things/pod{UID}",
        "0::/job_7/step_0",
        "0::/../web.service/job_7/step_0",
        "0::/batch/slurm/uid_0/job_7/step_0",
    ],
)
def test_a_known_name_at_a_place_that_is_not_its_own_is_nobody_s(path: str) -> None:
    assert placement(path + "\n") == Placement()


NODE = f"0::/system.slice/docker-{OUTER}.scope"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (
            f"{NODE}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
            f"/kubelet-kubepods-burstable-pod{UID_SYSTEMD}.slice/cri-containerd-{ID}.scope",
            Placement(container=ID, pod=UID),
        ),
        (f"0::/docker/{OUTER}/kubelet/kubepods/besteffort/pod{UID}/{ID}", Placement(container=ID, pod=UID)),
        (
            f"{NODE}/system.slice/node7_slurmstepd.scope/job_7/step_0/user/task_0",
            Placement(container=OUTER, slurm_job="7", slurm_step="0"),
        ),
    ],
    ids=["kind", "k3d", "a slurmd in a container"],
)
def test_a_machine_in_a_container_is_believed_as_far_as_its_folders_are_root_s(
    path: str, found: Placement
) -> None:
    def all_of_root(hierarchy: str, path: str) -> Folders:
        return Folders(by_root=len(path.split("/")) - 1)

    def a_container_of_one_s_own(hierarchy: str, path: str) -> Folders:
        return Folders(by_root=2, beneath=100_000)

    assert placement(path + "\n", all_of_root) == found
    assert placement(path + "\n", a_container_of_one_s_own) == Placement(container=OUTER)
    unknown = placement(path + "\n")
    assert (unknown.pod, unknown.slurm_job) == (None, None)


@pytest.mark.parametrize(
    ("path", "by_root", "found"),
    [
        ("/system.slice/dask.service/job_7/step_0", 2, Placement()),
        (f"/user/ann/0/lxc/{ID}", 3, Placement(container=ID, slice_uid=1000)),
        ("/slurm/uid_1000/job_7/step_0/task_0", 4, Placement(slurm_job="7", slurm_step="0")),
        ("/slurm/uid_1000/job_7/step_0/task_0", 2, Placement()),
        (f"/kubepods/pod{UID}/{ID}/kubepods/pod{UID[::-1]}", 3, Placement(container=ID, pod=UID)),
    ],
)
def test_a_part_below_a_folder_that_was_given_away_is_its_owner_s_word(
    path: str, by_root: int, found: Placement
) -> None:
    assert placement(f"4:memory:{path}\n", lambda *_: Folders(by_root=by_root, beneath=1000)) == found
