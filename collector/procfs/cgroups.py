"""Which container, pod and Slurm step a control group's path names, and whose folders it lies below.

A path says what somebody wrote, so each part counts only where nobody but root could have made it: from the
top of the tree down to the first folder that is somebody's own (``user-1000.slice``, a folder that was given
to a uid, the inside of a container). Below one's own folder anybody may call a folder ``job_7/step_0`` or
``pod<uid>``: nothing there is believed but that it is that person's container.

Layouts, under cgroup v1 (``12:memory:/slurm/uid_1000/job_7/step_0``) and v2: slurmstepd (cgroup_v2.html of
Slurm), the kubelet with systemd's and its own driver, containerd, CRI-O, Docker, Podman, LXC, systemd-nspawn;
seen from the host or, with leading ``/..``, from inside a cgroup namespace (cgroup_namespaces(7)).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from collector.procfs.cgroup_folders import Folders

Look = Callable[[str, str], Folders | None]
"""Whose the folders are, of a hierarchy (the middle of a line of /proc/PID/cgroup) and a path there."""

_ID = r"[0-9a-f]{64}"
_ENGINE = r"(?:docker|cri-containerd|crio|libpod|libpod-payload|nerdctl|containerd)"
_CONTAINER = re.compile(rf"(?:.*:)?(?:{_ENGINE}[-:])?(?P<id>{_ID})(?:\.scope)?")
_NAMED_CONTAINER = re.compile(
    r"lxc\.payload\.(?P<lxc>.+)|systemd-nspawn@(?P<nspawn>.+)\.service|machine-(?!qemu)(?P<machine>.+)\.scope"
)
_LXC_FOLDERS = frozenset({"lxc", "lxc.payload"})
"""Below these LXC makes a folder a container, by its name (lxc.container.conf(5), lxc.cgroup.dir)."""

_POD_UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_POD = re.compile(rf"(?:pod|(?:[\w-]+-)?kubepods-(?:[a-z]+-)?pod){_POD_UID}(?:\.slice(?::.*)?)?")
_KUBEPODS = re.compile(r"(?:[\w-]+-)?kubepods(?:-[a-z]+)?(?:\.slice)?")
"""``kubepods``, ``kubepods.slice``, kind's ``kubelet-kubepods.slice``, and the slices of the classes."""

_CLASSES = frozenset({"besteffort", "burstable", "guaranteed"})

_MANAGERS = re.compile(
    r"(?:containerd|crio|docker|kubelet|k3s|k3s-agent|k0s\w*|rke2-server|rke2-agent|snap\.microk8s\.[\w.-]+)\.service"
)
"""Services below which a kubelet's pods hang where its driver and the runtime's differ; they run as root."""

_STEPD = re.compile(r"(?:[\w.-]+_)?slurmstepd\.scope")
"""With the node's name before it where one machine runs several slurmd (cgroup_v2.html)."""

_SLURM_V1 = re.compile(r"slurm(?:_[\w.-]+)?")
_SLURM_USER = re.compile(r"uid_\d+")
_JOB, _STEP = re.compile(r"job_(\d+)"), re.compile(r"step_(\w+)")

_PERSON = re.compile(r"user-(?P<slice>[0-9]{1,10})\.slice|user@(?P<service>[0-9]{1,10})\.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a process was put; ``container`` is the full id of 64 hex digits or the name of an LXC or nspawn
    container, ``pod`` the pod's uid.

    ``slice_uid`` is the person whose own folders it hangs below: a rootless container's owner.
    """

    container: str | None = None
    pod: str | None = None
    slurm_job: str | None = None
    slurm_step: str | None = None
    slice_uid: int | None = None


def placement(cgroup: str, look: Look | None = None) -> Placement:
    """What ``/proc/PID/cgroup`` says; the innermost container when they are nested.

    Where ``look`` can't tell whose the folders are, the layouts decide alone, and no pod or job inside a
    container is believed: the container's root may have made it.
    """
    result = Placement()
    for line in cgroup.splitlines():
        _, _, rest = line.partition(":")
        hierarchy, _, path = rest.partition(":")
        result = _joined(result, _of_path(path, None if look is None else look(hierarchy, path)))
    return result


def _joined(before: Placement, now: Placement) -> Placement:
    """The first line with a word counts: cgroup v1 has a line a controller. A container keeps its owner."""
    if before.container is None and before.pod is None:
        owner = before.slice_uid
        if owner is None or now.container is not None or now.pod is not None:
            owner = now.slice_uid
        before = replace(before, container=now.container, pod=now.pod, slice_uid=owner)
    if before.slurm_job is None:
        before = replace(before, slurm_job=now.slurm_job, slurm_step=now.slurm_step)
    return before


def _of_path(path: str, folders: Folders | None) -> Placement:
    every = [part for part in path.split("/") if part]
    parts = [part for part in every if part != ".."]
    is_cut = len(parts) < len(every)
    box = next(_containers(parts), None)
    mine = next((i for i, part in enumerate(parts) if _PERSON.fullmatch(part)), len(parts))
    if mine < len(parts) and (box is None or mine < box[0]):
        match = _PERSON.fullmatch(parts[mine])
        assert match is not None
        return Placement(
            container=_innermost(parts[mine:]), slice_uid=int(match["slice"] or match["service"])
        )
    sure = len(parts) if folders is None else folders.by_root
    if box is not None and box[0] >= sure:
        return Placement(container=_innermost(parts), slice_uid=None if folders is None else folders.beneath)
    outside = parts[:sure] if box is None else parts[: box[0] + 1]
    result = _of_system(outside, is_cut=is_cut)
    if box is None:
        return result
    if folders is None:
        return replace(result, container=_innermost(parts))
    inside = parts[box[0] + 1 : sure]
    return _with_inside(
        replace(result, container=_innermost(inside) or box[1]), _of_system(inside, is_cut=False)
    )


def _of_system(parts: Sequence[str], *, is_cut: bool) -> Placement:
    """The pod and the job of a path that is root's; ``is_cut``: it is seen from inside a cgroup namespace."""
    job, step = _slurm(parts, is_cut=is_cut)
    return Placement(pod=_pod(parts, is_cut=is_cut), slurm_job=job, slurm_step=step)


def _with_inside(outer: Placement, inner: Placement) -> Placement:
    """With what root made in a container that is a machine of its own: a node of kind, a slurmd's pod."""
    if inner.slurm_job is not None:
        outer = replace(outer, slurm_job=inner.slurm_job, slurm_step=inner.slurm_step)
    return outer if inner.pod is None else replace(outer, pod=inner.pod)


def _containers(parts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Where in a path containers begin, and their ids or names, from the outside in."""
    for i, part in enumerate(parts):
        if match := _CONTAINER.fullmatch(part):
            yield i, match["id"]
        elif match := _NAMED_CONTAINER.fullmatch(part):
            yield i, match["lxc"] or match["nspawn"] or match["machine"]
        elif i and parts[i - 1] in _LXC_FOLDERS:
            yield i, part


def _innermost(parts: Sequence[str]) -> str | None:
    every = [name for _, name in _containers(parts)]
    return every[-1] if every else None


def _pod(parts: Sequence[str], *, is_cut: bool) -> str | None:
    """The pod's uid: below a kubelet's folder, or beside the reader's own pod."""
    is_kubelets = is_cut
    for part in parts:
        if (match := _POD.fullmatch(part)) and (is_kubelets or not part.startswith("pod")):
            return match["uid"].replace("_", "-")
        if _KUBEPODS.fullmatch(part):
            is_kubelets = True
        elif part.endswith((".service", ".scope")) and not _MANAGERS.fullmatch(part):
            return None
        elif part not in _CLASSES:
            is_kubelets = False
    return None


def _slurm(parts: Sequence[str], *, is_cut: bool) -> tuple[str | None, str | None]:
    """The job and step of a path that slurmstepd made, which stands at the top or in systemd's slices."""
    at = next((i for i, part in enumerate(parts) if not part.endswith(".slice")), len(parts))
    rest = parts[at:]
    if rest and _STEPD.fullmatch(rest[0]):
        return _job_and_step(rest[1:])
    if at == 0 and rest and _SLURM_V1.fullmatch(rest[0]):
        rest = rest[1:]
        return _job_and_step(rest[1:] if rest and _SLURM_USER.fullmatch(rest[0]) else rest)
    job, step = _job_and_step(rest) if is_cut and at == 0 else (None, None)
    return (None, None) if step is None else (job, step)


def _job_and_step(parts: Sequence[str]) -> tuple[str | None, str | None]:
    job = _JOB.fullmatch(parts[0]) if parts else None
    step = _STEP.fullmatch(parts[1]) if job and len(parts) > 1 else None
    return (None if job is None else job[1]), (None if step is None else step[1])
