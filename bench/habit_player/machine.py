"""A /proc for a habit's machine, so that its processes are described by the code that describes real ones.

Files as proc(5) has them, under a folder; only what Fallow reads: stat, status, cmdline, cgroup, maps,
environ, loginuid, fd, and the listening sockets in
``net/tcp``, of a pod in its own processes' folders and else at the root too.
"""

import hashlib
import os
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from bench.habit_player.model import ProcessPlan
from bench.habit_player.naming import job_name, pod_name, slurm_number
from bench.habit_player.world import Running, World
from collector.model import Process
from collector.procfs.process_table import ProcessTable

BOOT_S = 1_780_000_000
NO_LOGIN = 2**32 - 1
LIBRARIES = {
    "PyTorch": "/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so",
    "TensorFlow": "/opt/venv/lib/python3.11/site-packages/tensorflow/libtensorflow_framework.so.2",
    "JAX": "/opt/venv/lib/python3.11/site-packages/jaxlib/libjax_common.so",
    "Triton Inference Server": "/opt/tritonserver/lib/libtritonserver.so",
    "llama.cpp": "/usr/local/lib/libggml-cuda.so",
    "TensorRT": "/usr/lib/x86_64-linux-gnu/libnvinfer.so.10",
    "RAPIDS": "/opt/venv/lib/libcudf.so",
    "NCCL": "/opt/venv/lib/libnccl.so.2",
    "GROMACS": "/usr/local/gromacs/lib/libgromacs.so.9",
}
"""A file that each framework maps, as in its own packages."""

FIRST_INODE = 90_000
_LISTENING = "0A"
_HEX_ANY = "00000000"


class Machine:
    """The processes of one world as files; ``look`` brings them to an instant and describes them."""

    def __init__(self, world: World, root: Path) -> None:
        self._world = world
        self._root = root
        self._there: dict[int, Running] = {}
        self._users: dict[int, str] = {}
        (root / "self" / "ns").mkdir(parents=True)
        (root / "self" / "ns" / "pid").symlink_to("pid:[4026531836]")
        (root / "self" / "mountinfo").write_text(f"22 27 0:21 / {root} rw,relatime - proc proc rw\n")
        (root / "stat").write_text(f"cpu  1 2 3 4\nbtime {BOOT_S}\nprocesses 12\n")
        self._table = ProcessTable(
            world.node,  # type: ignore[arg-type]
            root,
            host_pids=True,
            user_name=self._users.get,
            exists=lambda _: False,
            seated=self._seated,
        )

    @property
    def root(self) -> Path:
        """Where its /proc lies."""
        return self._root

    def bring_to(self, at_ms: int) -> None:
        """The processes that run at an instant are there, the others are not."""
        wanted = {one.pid: one for one in self._world.running if one.from_ms < at_ms <= one.to_ms}
        for pid in self._there.keys() - wanted.keys():
            shutil.rmtree(self._root / str(pid), ignore_errors=True)
        for pid in wanted.keys() - self._there.keys():
            if not wanted[pid].plan.dead:
                self._write(wanted[pid])
        if wanted.keys() != self._there.keys():
            self._there = wanted
            _listen(self._root / "net", [one for one in wanted.values() if not _is_in_a_pod(one)])

    def look(self, pids: tuple[int, ...], at_ms: int) -> dict[int, Process]:
        """What can be learned of these pids."""
        return self._table.look(pids, at_ms)

    def _seated(self) -> frozenset[int]:
        """Whoever draws on a screen of this machine sits before it."""
        return frozenset(uid_of(one.plan.user) for one in self._there.values() if one.plan.graphics)

    def close(self) -> None:
        """Give the descriptors back."""
        self._table.close()

    def _beside(self, one: Running) -> list[Running]:
        """Those who share a process's network: itself in a pod, else all others outside of pods."""
        if _is_in_a_pod(one):
            return [one]
        return [each for each in self._world.running if not _is_in_a_pod(each) and _meets(each, one)]

    def _write(self, one: Running) -> None:
        folder = self._root / str(one.pid)
        folder.mkdir()
        plan, uid = one.plan, uid_of(one.plan.user)
        self._users[uid] = plan.user or "root"
        ticks = max(0, one.from_ms - BOOT_S * 1000) * os.sysconf("SC_CLK_TCK") // 1000
        tty, group = (34817, one.pid) if plan.terminal else (0, -1)
        head = f"{one.pid} ({plan.comm}) S 1 {one.pid} {one.pid} {tty} {group} 4194304"
        (folder / "stat").write_text(f"{head}{' 0' * 12} {ticks} 1000 100{' 0' * 28}\n")
        (folder / "status").write_text(
            f"Name:\t{plan.comm}\nPid:\t{one.pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        )
        (folder / "cmdline").write_bytes(b"".join(a.encode() + b"\0" for a in shlex.split(plan.command)))
        (folder / "cgroup").write_text(_cgroup(self._world, one, uid))
        (folder / "loginuid").write_text(str(NO_LOGIN))
        maps = ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"]
        maps += [LIBRARIES[name] for name in plan.libraries]
        rows = [f"7f{i:010x}-7f{i + 1:010x} r-xp 00000000 fe:00 {i + 9}   {p}\n" for i, p in enumerate(maps)]
        (folder / "maps").write_text("".join(rows))
        block = b"".join(f"{k}={v}".encode() + b"\0" for k, v in _environment(self._world, one).items())
        (folder / "environ").write_bytes(block)
        _open_files(folder, plan)
        _listen(folder / "net", self._beside(one))


def uid_of(user: str | None) -> int:
    """A number for a person, the same everywhere; 0 for nobody."""
    return 0 if user is None else 1000 + int(hashlib.sha256(user.encode()).hexdigest()[:6], 16) % 50_000


def _open_files(folder: Path, plan: ProcessPlan) -> None:
    (folder / "fd").mkdir()
    opens = ["/dev/null", "/dev/nvidiactl", "/dev/nvidia0"]
    sockets = [f"socket:[{FIRST_INODE + port}]" for port in plan.listens]
    for number, target in enumerate([*opens, *sockets]):
        (folder / "fd" / str(number)).symlink_to(target)


def _listen(folder: Path, running: Iterable[Running]) -> None:
    """The TCP sockets that these processes listen on, as a network namespace shows them."""
    folder.mkdir(exist_ok=True)
    title = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    ports = [port for one in running if not one.plan.dead for port in one.plan.listens]
    rows = [
        f"{at:4d}: {_HEX_ANY}:{port:04X} {_HEX_ANY}:0000 {_LISTENING} 00000000:00000000 00:00000000 00000000"
        f"  1000        0 {FIRST_INODE + port} 1 0000000000000000 100 0 0 10 0\n"
        for at, port in enumerate(ports)
    ]
    (folder / "tcp").write_text(title + "".join(rows))
    (folder / "tcp6").write_text(title)


def _meets(one: Running, other: Running) -> bool:
    """Whether one runs when the other begins."""
    return one.from_ms <= other.from_ms < one.to_ms


def _is_in_a_pod(one: Running) -> bool:
    """Whether it has a network of its own."""
    return one.holding is not None and one.holding.plan.by == "kubernetes"


def _cgroup(world: World, one: Running, uid: int) -> str:
    holding = one.holding
    if holding is None or holding.plan.by in ("nobody", "lease"):
        return f"0::/user.slice/user-{uid}.slice/session-3.scope\n"
    if holding.plan.by == "slurm":
        return f"0::/system.slice/slurmstepd.scope/job_{slurm_number(world, holding)}/step_0/user/task_0\n"
    digest = hashlib.sha256(pod_name(world, holding).encode()).hexdigest()
    uid_text = "_".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
    scope = f"kubepods-burstable-pod{uid_text}.slice/cri-containerd-{digest}.scope"
    return f"0::/kubepods.slice/kubepods-burstable.slice/{scope}\n"


def _environment(world: World, one: Running) -> dict[str, str]:
    told = dict(one.plan.environment)
    holding = one.holding
    if holding is None:
        return told
    if holding.plan.by == "lease":
        return {"FALLOW_JOB": job_name(world, holding), **told}
    if holding.plan.by == "kubernetes":
        return {"HOSTNAME": pod_name(world, holding), **told}
    return told
