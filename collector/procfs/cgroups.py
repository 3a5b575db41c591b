"""Which container, pod and Slurm step a control group's path names.

Paths are those that Docker, containerd, CRI-O, Podman, the kubelet and slurmstepd make, under cgroup v1
(``12:memory:/slurm/uid_1000/job_7/step_0``) and v2 (``0::/system.slice/slurmstepd.scope/job_7/step_0/…``),
seen from the host or, with leading ``/..``, from inside a cgroup namespace.
"""

import re
from dataclasses import dataclass

_CONTAINER = re.compile(
    r"(?:^|[/:])"
    r"(?:(?:docker|cri-containerd|crio|libpod|nerdctl|containerd)[-:/])?"
    r"(?P<id>[0-9a-f]{64})"
    r"(?:\.scope)?(?=/|$)",
    re.MULTILINE,
)
_POD = re.compile(
    r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=\.slice|[/:.]|$)",
    re.MULTILINE,
)
_SLURM = re.compile(
    r"(?:slurm[^/\n]*(?:/uid_\d+)?/job_(?P<job>\d+)(?:/step_(?P<step>\w+))?)"
    r"|(?:/job_(?P<bare_job>\d+)/step_(?P<bare_step>\w+))"
)


_USER_SLICE = re.compile(r"/user-(?P<uid>\d+)\.slice(?=/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a process was put; ``container`` is the full id of 64 hex digits, ``pod`` the pod's uid.

    ``slice_uid`` is the person whose login it hangs below: a rootless container's owner.
    """

    container: str | None = None
    pod: str | None = None
    slurm_job: str | None = None
    slurm_step: str | None = None
    slice_uid: int | None = None


def placement(cgroup: str) -> Placement:
    """What ``/proc/PID/cgroup`` says; the innermost container when they are nested."""
    container = pod = job = step = slice_uid = None
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        container = container or _innermost_container(path)
        if pod is None and (match := _POD.search(path)):
            pod = _dashed(match["uid"])
        if match := _SLURM.search(path):
            job = job or match["job"] or match["bare_job"]
            step = step or match["step"] or match["bare_step"]
        if slice_uid is None and (match := _USER_SLICE.search(path)):
            slice_uid = int(match["uid"])
    return Placement(container=container, pod=pod, slurm_job=job, slurm_step=step, slice_uid=slice_uid)


def _innermost_container(path: str) -> str | None:
    found = None
    for match in _CONTAINER.finditer(path):
        found = match["id"]
    return found


def _dashed(uid: str) -> str:
    """The uid as Kubernetes prints it: systemd's slices write underscores for dashes."""
    return uid.replace("_", "-")
