"""Looks whether an MPS control daemon runs on this machine, and whose it is. Only looks: never starts one.

Sources: NVIDIA "Multi-Process Service", Tools and Interface Reference: the daemon leaves its process id in
``nvidia-cuda-mps-control.pid`` in CUDA_MPS_PIPE_DIRECTORY, /tmp/nvidia-mps unless set. A daemon of a user
of its own serves that user alone; root's serves anybody, one user at a time (nvidia-cuda-mps-control(1)).

The daemon is found among the processes, and its directory is read as it sees it itself (/proc/PID/root,
proc(5)): a service whose unit has a /tmp of its own sees another. What counts is that jobs see the daemon's;
they live where the machine's first process does. The program of that name also talks to a daemon: only the
one that the process id in the directory names is one.

A folder that an account chose may lie on a file system that never answers (FUSE, a dead NFS server): each
process is looked at on a thread of its own, and one that does not come back holds up nobody.

None of this is believed of anybody. What a share's programs meet in that directory computes for them. So the
process has to be one account's through and through (a set-uid program that waits for a password is its
caller's), its program, its directory and the pipes in it have to be that account's or root's, and nobody else
may be able to exchange them.
"""

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.jobs.gpu_sharing import PIPE_DIRECTORY, Mps
from collector.clock import Clock
from collector.file_trust import ROOT_UID, distrust_way
from collector.procfs.accounts import name_of
from collector.procfs.proc_files import parse_uids

PROC = Path("/proc")
DEFAULT_DIRECTORY = "/tmp/nvidia-mps"
PID_FILE = "nvidia-cuda-mps-control.pid"
DAEMON = "nvidia-cuda-mps-control"
PIPES = ("control", "control_privileged", "control_lock", "log", PID_FILE)
"""What a daemon makes in its directory; its clients meet it at the first one, as its log says."""
DELETED = " (deleted)"
"""After the name of a program that was upgraded since it was started; proc_pid_exe(5)."""
LONGEST_COMM = 15
"""Characters of a name in /proc/PID/comm."""
MOST_OF_ONE = 8
"""Processes of that name of one account that are looked at: a daemon and a few that talk to it."""
MOST_PROGRAM_BYTES = 4096
"""Of a command line: the path of a program is no longer (PATH_MAX)."""
MOST_ENVIRONMENT_BYTES = 1 << 18
"""More than a shell with an HPC site's modules has; who is told of a directory beyond that is no daemon."""
# A pid has at most 7 digits (Linux: 2^22); what is longer is no pid file.
MOST_PID_BYTES = 32
PROCESS_S = 1.0
"""For a look at one process: a millisecond where its file system answers."""
MOST_HUNG_OF_ONE, MOST_HUNG = 2, 16
"""Looks that did not come back, of one account and of all: so many threads wait, and no more are begun."""
LOOK_S = 5.0
"""A daemon that was started meanwhile is found so much later at most."""


def find_mps(environment: Mapping[str, str] = os.environ, processes: Path = PROC) -> Mps:
    """One look of an ``MpsSearch`` of its own."""
    return MpsSearch(processes).find(environment)


class MpsSearch:
    """Looks again and again, and remembers whose looks have not come back. For one thread."""

    def __init__(self, processes: Path = PROC, process_s: float = PROCESS_S) -> None:
        self._processes, self._process_s = processes, process_s
        self._hung: dict[int, list[threading.Thread]] = {}

    def find(self, environment: Mapping[str, str] = os.environ) -> Mps:
        """The daemon that jobs of this machine could use; without ``users``, which leases know.

        Where ``environment`` names a directory, only a daemon of that one counts; else root's before others.
        Blocks for a second at most for each account whose processes cannot be looked at.
        """
        named = environment.get(PIPE_DIRECTORY)
        daemons = [self._look(process, uid) for process, uid in _controls(self._processes)]
        fit = [
            mps for mps in daemons if named in (None, mps.pipe_directory) and mps.pipe_directory is not None
        ]
        if fit:
            return min(fit, key=lambda mps: mps.owner is not None)
        if named is not None:
            return Mps(why=f"no MPS control daemon was found at {named}")
        return daemons[0] if daemons else Mps(why="no MPS control daemon runs")

    def _look(self, process: Path, uid: int) -> Mps:
        hung = {
            each: alive for each, looks in self._hung.items() if (alive := [t for t in looks if t.is_alive()])
        }
        self._hung = hung
        # A folder on a file system that never answers leaves its thread behind: two looks of an account, no
        # third (docs/decisions/0061).
        if len(hung.get(uid, ())) >= MOST_HUNG_OF_ONE or sum(map(len, hung.values())) >= MOST_HUNG:
            return Mps(why=_unseen(process))
        answers: list[Mps] = []
        looking = threading.Thread(
            target=lambda: answers.append(_looked_at(process, self._processes)), name="mps-look", daemon=True
        )
        looking.start()
        looking.join(self._process_s)
        if looking.is_alive():
            hung.setdefault(uid, []).append(looking)
        return answers[0] if answers else Mps(why=_unseen(process))


def _unseen(process: Path) -> str:
    return (
        f"process {process.name}, an MPS control program, cannot be looked at: the file system that its "
        "folder is on does not answer"
    )


def seldom(find: Callable[[], Mps], clock: Clock, every_s: float = LOOK_S) -> Callable[[], Mps]:
    """``find``, whose answer is kept for so long: it goes through all processes."""
    newest: tuple[int, Mps] | None = None

    def answer() -> Mps:
        nonlocal newest
        now_ms = clock.monotonic_ms()
        if newest is None or now_ms - newest[0] >= every_s * 1000:
            newest = now_ms, find()
        return newest[1]

    return answer


def _controls(processes: Path) -> Iterator[tuple[Path, int]]:
    """The processes of that name and their accounts, the oldest numbers first; of each account a few."""
    counts: Counter[int] = Counter()
    pids = sorted(int(entry.name) for entry in os.scandir(processes) if entry.name.isdigit())
    for pid in pids:
        process = processes / str(pid)
        try:
            if (process / "comm").read_bytes().strip() != DAEMON[:LONGEST_COMM].encode():
                continue
            program = _start(process / "cmdline", MOST_PROGRAM_BYTES).partition(b"\0")[0]
            uids = parse_uids((process / "status").read_bytes())
        except OSError:
            continue
        if uids and program.rpartition(b"/")[2].startswith(DAEMON.encode()) and counts[uids[0]] < MOST_OF_ONE:
            counts[uids[0]] += 1
            yield process, uids[0]


@dataclass(frozen=True, slots=True)
class _Refused(Exception):
    """The process is no daemon whose directory others may be led to, and why."""

    why: str


def _looked_at(process: Path, processes: Path) -> Mps:
    """What the process is, and whether jobs can reach it and may be led there."""
    who = f"process {process.name}, an MPS control program,"
    try:
        uid = _owner(process)
        directory = _directory_of(process)
        if not _is_daemon(process, directory):
            return Mps(why=f"{who} is no daemon of {directory}")
        fault = _program_fault(process, uid) or folder_fault(Path(directory), uid, _root(process))
    except _Refused as refused:
        return Mps(why=f"{who} {refused.why}")
    except OSError as error:
        return Mps(why=f"{who} cannot be looked at: {error.strerror}")
    if fault is not None:
        return Mps(why=f"the MPS daemon, process {process.name}, is not used: {fault}")
    if not _is_visible(_inside(process, directory), directory, processes / "1"):
        return Mps(why=f"the MPS daemon, process {process.name}, has a {directory} that jobs do not see")
    return Mps(pipe_directory=directory, why="", owner=None if uid == ROOT_UID else name_of(uid))


def folder_fault(folder: Path, uid: int, root: Path = Path("/")) -> str | None:
    """Why programs of ``uid`` must not meet a daemon there; ``None``: it is that account's or root's alone.

    ``root`` as the daemon sees it. A sticky folder will do: nobody can exchange a pipe in it. Raises OSError
    where it cannot be looked at.
    """
    trusted = frozenset({uid, ROOT_UID})
    fault = distrust_way(folder / PIPES[0], trusted, root)
    if fault is not None:
        if fault.owner is None and fault.place == folder:
            return f"{fault}, so others can put their own pipes there; as root: `chmod +t {folder}`"
        return f"{fault}, who could put pipes of their own there"
    inside = root / str(folder).lstrip("/")
    for name in PIPES:
        try:
            owner = (inside / name).lstat().st_uid
        except FileNotFoundError:
            if name == PIPES[0] and inside.stat().st_mode & stat.S_ISVTX:
                return f"there is no {name} in {folder}, and anybody could put one there"
            continue
        if owner not in trusted:
            return f"{folder / name} belongs to {name_of(owner)}"
    return None


def _owner(process: Path) -> int:
    """The account that it is: real, effective, saved and file system uid. Raises ``_Refused``, OSError."""
    uids = set(parse_uids((process / "status").read_bytes()))
    # A set-uid program that waits for a password under the daemon's name is two accounts at once
    # (docs/decisions/0036).
    if len(uids) != 1:
        names = " and ".join(name_of(uid) for uid in sorted(uids))
        raise _Refused(f"runs as {names} at once, as programs do that root lets others start")
    return uids.pop()


def _is_daemon(process: Path, directory: str) -> bool:
    try:
        pid_text = _start(_inside(process, directory) / PID_FILE, MOST_PID_BYTES)
    except OSError:
        return False
    return pid_text.strip() == process.name.encode()


def _start(file: Path, most: int) -> bytes:
    """The first bytes of a file, never of a pipe, a device or what a link leads to. Raises OSError.

    Its name was given by whoever's process it is: to open a FIFO would wait for ever, to read a device may.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags), "rb") as opened:
        return opened.read(most) if stat.S_ISREG(os.fstat(opened.fileno()).st_mode) else b""


def _program_fault(process: Path, uid: int) -> str | None:
    """What is wrong with the program that it runs; nothing where only root could say which it is."""
    try:
        program = str((process / "exe").readlink()).removesuffix(DELETED)
        status = (process / "exe").stat()
    except PermissionError:
        return None
    # A process may call itself anything; what it runs is the kernel's word (docs/decisions/0036).
    if program.rpartition("/")[2] != DAEMON:
        return f"its program is {program} under another name"
    if status.st_uid not in (uid, ROOT_UID) or status.st_mode & stat.S_IWOTH:
        return f"its program {program} is {name_of(status.st_uid)}'s, or others may write it"
    return None


def _directory_of(process: Path) -> str:
    """Where it was told to meet its clients; the default where it wasn't, or where that cannot be read.

    Raises ``_Refused`` for a place that no lease can name.
    """
    try:
        environment = _start(process / "environ", MOST_ENVIRONMENT_BYTES)
    except OSError:
        return DEFAULT_DIRECTORY
    variables = dict(each.partition(b"=")[::2] for each in environment.split(b"\0"))
    directory = os.fsdecode(variables.get(PIPE_DIRECTORY.encode(), b"")) or DEFAULT_DIRECTORY
    if not directory.startswith("/") or not directory.isprintable():
        raise _Refused(f"meets its clients at {directory!r}, which is no absolute path")
    return directory


def _inside(process: Path, directory: str) -> Path:
    """The directory as that process sees it; as we do where we may not look through its eyes."""
    return _root(process) / directory.lstrip("/")


def _root(process: Path) -> Path:
    root = process / "root"
    return root if os.access(root, os.X_OK) else Path("/")


def _is_visible(own: Path, directory: str, first: Path) -> bool:
    """Whether the machine's first process sees the daemon's folder there; where nobody can tell, it does."""
    if not os.access(first / "root", os.X_OK):
        return True
    try:
        return own.samefile(_inside(first, directory))
    except OSError:
        return False
