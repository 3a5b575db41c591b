"""One process, read as far as its files may be read: what was denied is named, and the rest still counts.

As another user ``environ``, ``maps`` and ``fd`` are denied (ptrace access, proc(5)), while ``stat``,
``status``, ``cmdline``, ``cgroup`` and ``loginuid`` are readable; as root all of them are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from collector.model import JobKind, NodeName, Process, ProcessKey
from collector.procfs.cgroups import Look, Placement, placement
from collector.procfs.environment import allowed_environment
from collector.procfs.job_root import (
    Family,
    Kin,
    Mapped,
    arguments,
    bounded,
    family,
    job_kind,
    launcher,
    mapped,
    notebook_kernel,
    storable,
)
from collector.procfs.listening import served_ports
from collector.procfs.owners import whose_uid
from collector.procfs.proc_files import MOST_ENVIRONMENT_BYTES, Denied, Folder, Stat, parse_stat, parse_uid

GPU_DEVICE = "/dev/nvidia"
"""Followed by a digit: /dev/nvidiactl and /dev/nvidia-uvm alone are what a monitor opens too."""

T = TypeVar("T", bytes, bool)

Ancestors = Callable[[Kin], list[Kin]]

NO_LOGIN = 2**32 - 1
"""What the kernel writes into ``loginuid`` of who never logged in: -1 as an unsigned number."""
NAME_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is the same for every process of one /proc: where it lies, its node, boot, clock and user names.

    ``user_name`` may block on a directory service, so its caller caches. ``group_folders`` says whose the
    folders of a control group are (``collector.procfs.cgroups``); ``None`` where nobody can. ``seated``: who
    sits at the machine's own seats (``collector.procfs.seats``). ``lender``: whose uids without an account
    are, by the ranges that people were lent for their namespaces (``collector.procfs.owners``).
    """

    root: Path
    node: NodeName
    boot_ms: int
    ticks_per_s: int
    user_name: Callable[[int], str | None]
    group_folders: Look | None = None
    seated: Callable[[], frozenset[int] | None] = lambda: None
    lender: Callable[[int], str | None] = lambda uid: None

    def started_ms(self, stat: Stat) -> int:
        """When the process started, UTC; the kernel counts in ticks (10 ms) from boot."""
        return self.boot_ms + stat.started_ticks * 1000 // self.ticks_per_s


def read_stat(folder: Folder) -> Stat | Denied:
    """The process's ``stat``, or why not."""
    text = folder.read("stat")
    if isinstance(text, Denied):
        return text
    try:
        return parse_stat(text)
    except ValueError as error:
        return Denied(reason=str(error))


def read_kin(folder: Folder, machine: Machine) -> Kin | Denied:
    """What kinship needs to know of a process, or why it could not be learned."""
    stat = read_stat(folder)
    if isinstance(stat, Denied):
        return stat
    status, command = folder.read("status"), folder.command()
    return Kin(
        pid=folder.pid,
        started_ms=machine.started_ms(stat),
        parent_pid=stat.parent_pid,
        uid=None if isinstance(status, Denied) else parse_uid(status),
        name=stat.name,
        argv=() if isinstance(command, Denied) else arguments(command),
    )


def describe(folder: Folder, stat: Stat, machine: Machine, ancestors: Ancestors) -> Process:
    """All that may be learned of the process behind ``folder`` now; ``ancestors`` brings its line."""
    notes = _Notes()
    own = read_kin(folder, machine)
    if isinstance(own, Denied):
        raise ProcessLookupError(f"process {folder.pid} ended while it was read")
    libraries = _libraries(folder, notes)
    place = _place(folder, notes, machine)
    line = ancestors(own)
    relatives = family([own, *line])
    head = relatives.head
    environment = _environment(folder, notes)
    opened = notes.keep("fd", folder.holds_open(GPU_DEVICE))
    listens = _listens(folder, relatives, dict(environment), machine, notes)
    return Process(
        key=ProcessKey(node=machine.node, pid=own.pid, started_ms=own.started_ms),
        user=_user(folder, own.uid, place, machine),
        uid=own.uid,
        name=bounded(own.name, NAME_CHARS),
        command=storable(own.argv),
        frameworks=libraries.frameworks if libraries else (),
        container=place.container,
        pod=place.pod,
        slurm_job=place.slurm_job,
        slurm_step=place.slurm_step,
        notebook=relatives.notebook or notebook_kernel(own.argv),
        parent_pid=own.parent_pid,
        environment=environment,
        tree=ProcessKey(node=machine.node, pid=head.pid, started_ms=head.started_ms),
        launcher=relatives.launcher or launcher(own.argv),
        kind=job_kind(
            relatives,
            at_terminal=stat.tty != 0 and stat.foreground_group == stat.group,
            listens=bool(listens),
        ),
        cuda_mapped=libraries.cuda if libraries else None,
        device_open=opened,
        listens=listens,
        at_seat=_at_seat(own.uid, place, machine),
        parent_of_root=bounded(line[0].name, NAME_CHARS) if line and line[0].uid == 0 else None,
        unreadable=notes.unreadable(),
    )


def unseen(key: ProcessKey, reason: str) -> Process:
    """A process of which nothing is known but that the driver names it."""
    return Process(key=key, unreadable=(reason,))


def looked_again(before: Process, now: Process) -> Process:
    """The second look at a process: what is newer, but the tree it was first seen in.

    A parent that ended meanwhile would make it look like a job of its own.
    """
    return replace(
        now,
        tree=before.tree or now.tree,
        notebook=before.notebook or now.notebook,
        launcher=before.launcher or now.launcher,
        kind=_steadier(before.kind, now.kind),
    )


def looked_for_ports(before: Process, folder: Folder, machine: Machine, ancestors: Ancestors) -> Process:
    """The process, a server if it listens by now; the same object where nothing is new."""
    own = read_kin(folder, machine)
    if before.listens or before.notebook or isinstance(own, Denied):
        return before
    relatives = family([own, *ancestors(own)])
    variables = dict(before.environment)
    listens = served_ports(folder, relatives.above, variables, before.launcher, machine.root)
    if isinstance(listens, Denied) or not listens:
        return before
    return replace(before, listens=listens, kind=_steadier(before.kind, JobKind.INFERENCE))


def _steadier(before: JobKind | None, now: JobKind | None) -> JobKind | None:
    """A batch job can turn out to be anything, and what sits at a terminal a server."""
    return now if before in (None, JobKind.BATCH) or now is JobKind.INFERENCE else before


class _Notes:
    """Collects what was denied while one process is read."""

    def __init__(self) -> None:
        self._denied: list[str] = []

    def keep(self, name: str, value: T | Denied) -> T | None:
        if isinstance(value, Denied):
            self._denied.append(f"{name}: {value.reason}")
            return None
        return value

    def has(self, name: str) -> bool:
        return any(note.startswith(f"{name}:") for note in self._denied)

    def unreadable(self) -> tuple[str, ...]:
        return tuple(self._denied)


def _libraries(folder: Folder, notes: _Notes) -> Mapped | None:
    maps = notes.keep("maps", folder.read("maps"))
    if maps is None:
        return None
    frameworks = mapped(maps)
    if not frameworks.is_whole:
        notes.keep("maps", Denied(reason="more mappings than are looked at"))
    return frameworks


def _place(folder: Folder, notes: _Notes, machine: Machine) -> Placement:
    groups = notes.keep("cgroup", folder.read("cgroup"))
    if groups is None:
        return Placement()
    return placement(groups.decode("utf-8", "replace"), machine.group_folders)


def _listens(
    folder: Folder, relatives: Family, variables: Mapping[str, str], machine: Machine, notes: _Notes
) -> tuple[int, ...] | None:
    """The ports it serves on; what keeps them from being known is noted, unless it is noted already."""
    ports = served_ports(folder, relatives.above, variables, relatives.launcher, machine.root)
    if not isinstance(ports, Denied):
        return ports
    if not notes.has("fd"):
        notes.keep("listens", ports)
    return None


def _environment(folder: Folder, notes: _Notes) -> tuple[tuple[str, str], ...]:
    block = notes.keep("environ", folder.read_start("environ", MOST_ENVIRONMENT_BYTES))
    if block is None:
        return ()
    if len(block) >= MOST_ENVIRONMENT_BYTES:
        notes.keep("environ", Denied(reason="more variables than are looked at"))
    return allowed_environment(block)


def _user(folder: Folder, uid: int | None, place: Placement, machine: Machine) -> str | None:
    """The account of the person: the real user's; outside a container, of who logged in before sudo.

    Inside a container a uid is whatever the image says, and the same number is somebody else outside:
    there the owner of a rootless container is known by whose folders it hangs below, and no other is.
    """
    if place.container is not None or place.pod is not None:
        owner = place.slice_uid
        return None if owner is None else whose_uid(owner, machine.user_name, machine.lender)
    if uid == 0:
        uid = _login_uid(folder) or 0
    return None if uid is None else whose_uid(uid, machine.user_name, machine.lender)


def _at_seat(uid: int | None, place: Placement, machine: Machine) -> bool | None:
    """Whether its owner sits at this machine; in a container only a rootless one has an owner."""
    seated = machine.seated()
    if place.container is not None or place.pod is not None:
        uid = place.slice_uid
    if seated is None:
        return None
    return uid in seated


def _login_uid(folder: Folder) -> int | None:
    """The audit login uid, which survives su and sudo; ``None`` for what no person started."""
    text = folder.read("loginuid")
    if isinstance(text, Denied) or not text.strip().isdigit():
        return None
    uid = int(text)
    return None if uid == NO_LOGIN else uid
