"""Looks whether an MPS control daemon runs on this machine, and whose it is. Only looks: never starts one.

Sources: NVIDIA "Multi-Process Service", Tools and Interface Reference: the daemon leaves its process id in
``nvidia-cuda-mps-control.pid`` in CUDA_MPS_PIPE_DIRECTORY, /tmp/nvidia-mps unless set. A daemon of a user
of its own serves that user alone; root's serves anybody, one user at a time (nvidia-cuda-mps-control(1)).
"""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from advisor.register.shares import PIPE_DIRECTORY, Mps

DEFAULT_DIRECTORY = "/tmp/nvidia-mps"
PID_FILE = "nvidia-cuda-mps-control.pid"
DAEMON = "nvidia-cuda-mps"
"""How the daemon's name begins in /proc/PID/comm, which has 15 characters."""


def find_mps(environment: Mapping[str, str] = os.environ, processes: Path = Path("/proc")) -> Mps:
    """The daemon that jobs of this machine could use; without ``users``, which leases know. Never blocks."""
    directory = environment.get(PIPE_DIRECTORY) or DEFAULT_DIRECTORY
    try:
        pid = int((Path(directory) / PID_FILE).read_text())
    except (OSError, ValueError):
        return Mps(why=f"no MPS control daemon was found at {directory}")
    process = processes / str(pid)
    try:
        name = (process / "comm").read_text().strip()
        uid = process.stat().st_uid
    except OSError:
        return Mps(why=f"the MPS control daemon of {directory} (process {pid}) runs no more")
    if not name.startswith(DAEMON):
        return Mps(why=f"process {pid}, which {directory} names, is {name} and no MPS control daemon")
    return Mps(pipe_directory=directory, why="", owner=None if uid == 0 else _name(uid))


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
