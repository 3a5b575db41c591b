"""Which TCP ports a process waits for requests on: what makes a server, whatever its command is called.

A network namespace lists the sockets that listen (``net/tcp``, ``net/tcp6``, proc(5)), and a process's open
files name those that it has, by inode. The process that computes is often not the one that listens: an API
server and its engine are parent and child. So ancestors within the job and children count too, of one session
or control group.

Trainings listen as well. Left out are the ports that the kernel chose (its ephemeral range, where NCCL, Gloo
and notebook kernels bind), those of torch's store, processes of launchers whose ranks meet, and programs that
only watch. A training's own metrics endpoint on a port of its choice cannot be told from a server.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.job_root import arguments, is_inference_server, launcher, notebook_kernel
from collector.procfs.proc_files import (
    MOST_DESCRIPTORS,
    MOST_NEAR_DESCRIPTORS,
    Denied,
    Folder,
    open_folder,
    parse_stat,
    read_file,
)

MOST_TABLE_BYTES = 1 << 20
"""About 7,000 rows. The kernel lists those that listen before all others, and reading ends with them."""
MOST_CHILDREN = 64
"""A data loader has as many workers; a server's front end is among the first children."""
EPHEMERAL_FROM = 32_768
"""Linux's default of net.ipv4.ip_local_port_range (ip(7)) begins here; who binds to port 0 gets one of it."""
_LISTENS = b"0A"
_RENDEZVOUS = frozenset({12_355, *range(29_400, 29_601)})
"""torch's store: 29400 (torchrun), 29500 (MASTER_PORT), those after them, 12355 (PyTorch's tutorial)."""
_WATCHING = frozenset({22, 5_678, 6_006, 6_379, 8_265, 8_786, 8_787})
"""The defaults of ssh, debugpy, TensorBoard, Ray's store and dashboard, Dask's scheduler and dashboard."""
_RANKS = frozenset({"torchrun", "accelerate", "deepspeed", "horovodrun", "mpi", "ray", "dask"})
"""Launchers whose processes listen to each other: Ray's workers from port 10002 on (ray start --help)."""
_NO_SERVER = re.compile(
    r"(?:^|[/ ])(?:tensorboard|jupyter(?:-\w+)?|jupyterhub|ipykernel\w*|sshd?|dropbear|debugpy|pydevd"
    r"|gdbserver|code-server|node|mlflow|wandb(?:-core)?|visdom|aim|gcs_server|raylet|dask-scheduler|redis-server|etcd"
    r"|node_exporter|dcgm-exporter|nv-hostengine|nsys|ncu|cloudflared|ngrok|frpc|fallow)(?=[ .:]|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A process, or one near it; ``sockets`` are the inodes of those that it has open."""

    argv: tuple[str, ...]
    name: str
    parent_pid: int
    session: int
    group: bytes | None
    sockets: tuple[int, ...]


def served_ports(
    folder: Folder,
    ancestors: Sequence[int],
    variables: Mapping[str, str],
    launched_by: str | None,
    root: Path,
) -> tuple[int, ...] | Denied:
    """The TCP ports on which a process serves, in order; Denied where that cannot be known, with the reason.

    ``ancestors``: the pids above it within its job, the nearest first. ``variables`` of its environment.
    """
    own = _look(folder)
    if isinstance(own, Denied):
        return own
    sockets = listening_sockets(folder)
    if isinstance(sockets, Denied):
        return sockets
    fixed = range(1, _ephemeral_from(root))
    if launched_by in _RANKS or not any(port in fixed for port in sockets.values()):
        return ()
    return serving(own, _near(folder, ancestors, root), sockets, variables, fixed)


def serving(
    own: Near, near: Iterable[Near], sockets: Mapping[int, int], variables: Mapping[str, str], fixed: range
) -> tuple[int, ...] | Denied:
    """The same from what was read: pure. ``sockets``: the ports that are listened on, by inode.

    ``fixed``: the ports that the kernel gives to nobody. Denied where a process has one of these beside
    one of the kernel's, as a server may, and as a rank does that keeps torch's store for the others.
    """
    store = variables.get("MASTER_PORT")
    if notebook_kernel(own.argv) or _is_rank(own, variables):
        return ()
    mine = _ports(own, sockets)
    ports = {port for port in mine if port in fixed and _may_serve(own, port, store)}
    if ports and any(port not in fixed for port in mine) and not is_inference_server(own.argv):
        return Denied(reason="it listens as a server does, and as a rank that keeps a training's store")
    for each in near:
        if _are_together(own, each):
            ports |= {
                port for port in _ports(each, sockets) if port in fixed and _may_serve(each, port, store)
            }
    return tuple(sorted(ports))


def listening_sockets(folder: Folder) -> dict[int, int] | Denied:
    """The listening TCP sockets of a process's network namespace: the port by the inode."""
    ports: dict[int, int] = {}
    for name in ("net/tcp", "net/tcp6"):
        table = folder.read_start(name, MOST_TABLE_BYTES, _is_past_listening)
        if isinstance(table, Denied):
            if table.gone:  # a kernel without IPv6, or without TCP
                continue
            return table
        for row in table.splitlines():
            words = row.split()
            if len(words) >= 10 and words[3] == _LISTENS and words[9].isdigit():
                ports[int(words[9])] = int(words[1].rpartition(b":")[2], 16)
    return ports


def _is_past_listening(table: bytes) -> bool:
    words = table.rpartition(b"\n")[0].rpartition(b"\n")[2].split()
    return len(words) >= 10 and words[0].endswith(b":") and words[3] != _LISTENS


def _near(folder: Folder, ancestors: Sequence[int], root: Path) -> Iterator[Near]:
    """Its ancestors within the job, and its first children, as far as they can be read."""
    told = folder.read(f"task/{folder.pid}/children")
    children = [] if isinstance(told, Denied) else [int(pid) for pid in told.split()[:MOST_CHILDREN]]
    for pid in (*ancestors, *children):
        other = open_folder(root, pid)
        if isinstance(other, Denied):
            continue
        near = _look(other, MOST_NEAR_DESCRIPTORS)
        other.close()
        if isinstance(near, Near) and (pid in ancestors or near.parent_pid == folder.pid):
            yield near


def _look(folder: Folder, most: int = MOST_DESCRIPTORS) -> Near | Denied:
    inodes, stat = folder.sockets(most), folder.read("stat")
    if isinstance(inodes, Denied):
        return inodes
    if isinstance(stat, Denied):
        return stat
    try:
        fields = parse_stat(stat)
    except ValueError as error:
        return Denied(reason=str(error))
    command, group = folder.command(), folder.read("cgroup")
    return Near(
        argv=() if isinstance(command, Denied) else arguments(command),
        name=fields.name,
        parent_pid=fields.parent_pid,
        session=fields.session,
        group=None if isinstance(group, Denied) else group,
        sockets=inodes,
    )


def _ephemeral_from(root: Path) -> int:
    words = (read_file(root / "sys/net/ipv4/ip_local_port_range") or b"").split()
    return int(words[0]) if len(words) == 2 and words[0].isdigit() else EPHEMERAL_FROM


def _ports(one: Near, sockets: Mapping[int, int]) -> list[int]:
    return [sockets[inode] for inode in one.sockets if inode in sockets]


def _is_rank(one: Near, variables: Mapping[str, str]) -> bool:
    """One of several processes of a training, which meet over sockets."""
    named = launcher(one.argv) in _RANKS or "TORCHELASTIC_RUN_ID" in variables or "RANK" in variables
    return named or variables.get("WORLD_SIZE", "1") != "1"


def _may_serve(one: Near, port: int, store: str | None) -> bool:
    """Whether what this process waits for on a port can be requests to a model."""
    if port in _RENDEZVOUS or port in _WATCHING or str(port) == store:
        return False
    if launcher(one.argv) in _RANKS or notebook_kernel(one.argv):
        return False
    return _NO_SERVER.search(" ".join(one.argv[:4]) or one.name) is None


def _are_together(one: Near, other: Near) -> bool:
    return one.session == other.session or (one.group is not None and one.group == other.group)
