"""Looks whether an MPS control daemon runs on this machine, and whose it is. Only looks: never starts one.

Sources: NVIDIA "Multi-Process Service", Tools and Interface Reference: the daemon leaves its process id in
``nvidia-cuda-mps-control.pid`` in CUDA_MPS_PIPE_DIRECTORY, /tmp/nvidia-mps unless set. A daemon of a user
of its own serves that user alone; root's serves anybody, one user at a time (nvidia-cuda-mps-control(1)).

The daemon is found among the processes, and its directory is read as it sees it itself (/proc/PID/root,
proc(5)): a service whose unit has a /tmp of its own sees another. What counts is that jobs see the daemon's;
they live where the machine's first process does. The program of that name also talks to a daemon: only the
one that the process id in the directory names is one.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from advisor.register.shares import PIPE_DIRECTORY, Mps
from collector.clock import Clock
from collector.procfs.accounts import name_of

DEFAULT_DIRECTORY = "/tmp/nvidia-mps"
PID_FILE = "nvidia-cuda-mps-control.pid"
DAEMON = "nvidia-cuda-mps-control"
LONGEST_COMM = 15
"""Characters of a name in /proc/PID/comm."""
LOOK_S = 5.0
"""A daemon that was started meanwhile is found so much later at most."""


def find_mps(environment: Mapping[str, str] = os.environ, processes: Path = Path("/proc")) -> Mps:
    """The daemon that jobs of this machine could use; without ``users``, which leases know. Never blocks.

    Where ``environment`` names a directory, only a daemon of that one counts; else root's before others.
    """
    named = environment.get(PIPE_DIRECTORY)
    found = [_looked_at(process, processes) for process in _controls(processes)]
    fit = [mps for mps in found if named in (None, mps.pipe_directory) and mps.pipe_directory is not None]
    if fit:
        return min(fit, key=lambda mps: mps.owner is not None)
    if named is not None:
        return Mps(why=f"no MPS control daemon was found at {named}")
    return found[0] if found else Mps(why="no MPS control daemon runs")


def seldom(find: Callable[[], Mps], clock: Clock, every_s: float = LOOK_S) -> Callable[[], Mps]:
    """``find``, whose answer is kept for so long: it goes through all processes."""
    kept: tuple[int, Mps] | None = None

    def found() -> Mps:
        nonlocal kept
        now_ms = clock.monotonic_ms()
        if kept is None or now_ms - kept[0] >= every_s * 1000:
            kept = now_ms, find()
        return kept[1]

    return found


def _controls(processes: Path) -> Iterator[Path]:
    """The processes of that name, the oldest numbers first."""
    pids = sorted(int(entry.name) for entry in os.scandir(processes) if entry.name.isdigit())
    for pid in pids:
        process = processes / str(pid)
        try:
            name = (process / "comm").read_text().strip()
            program = (process / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
        except (OSError, UnicodeDecodeError):
            continue
        if name == DAEMON[:LONGEST_COMM] and program.rpartition("/")[2].startswith(DAEMON):
            yield process


def _looked_at(process: Path, processes: Path) -> Mps:
    """What the process says that it is, and whether jobs can reach it."""
    directory = _directory_of(process)
    own = _inside(process, directory)
    try:
        is_daemon = (own / PID_FILE).read_text().strip() == process.name
        uid = process.stat().st_uid
    except OSError:
        is_daemon = False
    if not is_daemon:
        return Mps(why=f"process {process.name}, an MPS control program, is no daemon of {directory}")
    if not _is_seen(own, directory, processes / "1"):
        return Mps(why=f"the MPS daemon, process {process.name}, has a {directory} that jobs do not see")
    return Mps(pipe_directory=directory, why="", owner=None if uid == 0 else name_of(uid))


def _directory_of(process: Path) -> str:
    """Where it was told to meet its clients; the default where it wasn't, or where that cannot be read."""
    try:
        environment = (process / "environ").read_bytes()
    except OSError:
        return DEFAULT_DIRECTORY
    said = dict(each.partition(b"=")[::2] for each in environment.split(b"\0"))
    return os.fsdecode(said.get(PIPE_DIRECTORY.encode(), b"")) or DEFAULT_DIRECTORY


def _inside(process: Path, directory: str) -> Path:
    """The directory as that process sees it; as we do where we may not look through its eyes."""
    root = process / "root"
    return root / directory.lstrip("/") if os.access(root, os.X_OK) else Path(directory)


def _is_seen(own: Path, directory: str, first: Path) -> bool:
    """Whether the machine's first process sees the daemon's folder there; where nobody can tell, it does."""
    if not os.access(first / "root", os.X_OK):
        return True
    try:
        return own.samefile(_inside(first, directory))
    except OSError:
        return False
