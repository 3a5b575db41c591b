"""A real Slurm on this machine: munged, slurmctld and a slurmd a node, whose GPUs are clones of /dev/null.

As root, on Debian with slurm-wlm and munge (``tests/real_parts.sh`` installs them); elsewhere whoever asks
for it skips, and says what is missing. Everything lies in one folder and listens on loopback; nothing of the
machine's own Slurm, if it has one, is touched. Up in about a second.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue", "sinfo", "scontrol", "sbatch")
GPU_DEVICE = os.makedev(1, 3)
"""/dev/null's: Slurm hands out character devices only."""
PATIENCE_S = 30.0
CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1,batch_sched_delay=0,defer_batch=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
SlurmdParameters=config_overrides
JobRequeue=1
RequeueExitHold=75
KillWait=2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(kw_only=True)
class SlurmCluster:
    """Programs run with ``environment`` speak with it."""

    folder: Path
    nodes: tuple[str, ...]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    commands: dict[str, Sequence[str]] = field(default_factory=dict)
    """Of daemons that are none of Slurm's own three."""

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def ask(self, *command: str) -> str:
        """What one of Slurm's programs printed."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def submit(self, *options: str) -> str:
        """The number of a job that sleeps."""
        script = ("--parsable", "--output=/dev/null", "--chdir=/", "--wrap=sleep 600")
        return self.ask("sbatch", *options, *script).strip()

    def start(self, name: str) -> None:
        """Start a daemon: munged, slurmctld, slurmd of a node, or one of ``commands``."""
        command = self._command(name)
        log = (self.folder / "log" / f"{name}.start").open("ab")
        self.processes[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
        )
        log.close()

    def kill(self, name: str) -> None:
        """End a daemon at once, as a crash does."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def until(self, what: str, *command: str, says: str) -> None:
        """Wait until a program prints ``says``. Fails the test when it never does."""
        end_s = time.monotonic() + PATIENCE_S
        told = ""
        while time.monotonic() < end_s:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
            told = done.stdout.strip() + done.stderr
            if done.returncode == 0 and done.stdout.strip() == says:
                return
            time.sleep(0.05)
        raise AssertionError(f"{what} never came: {told}; logs in {self.folder}/log")

    def _command(self, name: str) -> Sequence[str]:
        if name in self.commands:
            return self.commands[name]
        munge = self.folder / "munge"
        if name == "munged":
            paths = [f"--{each}-file={munge / each}" for each in ("key", "pid", "log", "seed")]
            return [
                "munged",
                "--foreground",
                f"--socket={munge / 'sock'}",
                "--num-threads=2",
                "--force",
                *paths,
            ]
        if name == "slurmctld":
            return ["slurmctld", "-D", "-f", str(self.conf)]
        return ["slurmd", "-D", "-f", str(self.conf), "-N", name]


Accounting = Callable[[SlurmCluster, str, tuple[int, int]], None]


@contextmanager
def slurm_cluster(
    folder: Path, *, nodes: int = 3, gpus: int = 4, accounting: Accounting | None = None
) -> Iterator[SlurmCluster]:
    """A cluster of nodes n1.. with so many GPUs each, in an empty ``folder`` of a short name.

    ``accounting`` is called with the cluster, the host's name and two free ports before slurmctld starts.
    """
    _need()
    cluster = SlurmCluster(folder=folder, nodes=tuple(f"n{number}" for number in range(1, nodes + 1)))
    try:
        _write(cluster, gpus)
    except PermissionError as error:
        pytest.skip(f"no device files can be made here: {error}")
    with ExitStack() as stack:
        stack.callback(_end, cluster)
        cluster.start("munged")
        cluster.until(
            "munge", "munge", f"--socket={folder}/munge/sock", "--no-input", "--output=/dev/null", says=""
        )
        if accounting is not None:
            sql, dbd = _free_ports(2)
            accounting(cluster, _host(), (sql, dbd))
        cluster.start("slurmctld")
        for node in cluster.nodes:
            cluster.start(node)
        cluster.until("nodes", "sinfo", "--noheader", "--states=idle", "--format=%D", says=str(nodes))
        yield cluster


def _need() -> None:
    if os.geteuid() != 0:
        pytest.skip("a real Slurm needs root: slurmd starts jobs as their owners")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: Debian's slurm-wlm and munge have them")


def _write(cluster: SlurmCluster, gpus: int) -> None:
    folder, devices = cluster.folder, cluster.folder / "dev"
    folder.chmod(0o755)  # its socket is for every account
    for name, mode in (("munge", 0o755), ("state", 0o700), ("log", 0o755), ("dev", 0o755)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    (folder / "munge" / "key").write_bytes(os.urandom(128))
    (folder / "munge" / "key").chmod(0o400)
    for number in range(gpus):
        os.mknod(devices / f"nvidia{number}", 0o20666, GPU_DEVICE)
    ports = _free_ports(len(cluster.nodes) + 1)
    host = _host()
    conf = [CONF.format(folder=folder, host=host, port=ports[0])]
    gres = ["AutoDetect=off\n"]
    files = f"{devices}/nvidia[0-{gpus - 1}]"
    for node, port in zip(cluster.nodes, ports[1:], strict=True):
        (folder / f"spool.{node}").mkdir()
        conf.append(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 Boards=1 "
            f"SocketsPerBoard=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000 "
            f"Gres=gpu:h200:{gpus},shard:{gpus * 4} "
            "State=UNKNOWN\n"
        )
        gres.append(f"NodeName={node} Name=gpu Type=h200 File={files} Flags=nvidia_gpu_env\n")
        gres.append(f"NodeName={node} Name=shard Count={gpus * 4} File={files}\n")
    cluster.conf.write_text("".join(conf))
    (folder / "gres.conf").write_text("".join(gres))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]


def _end(cluster: SlurmCluster) -> None:
    """Jobs outlive their daemons: what has the folder in its command line or environment is the cluster's."""
    for process in cluster.processes.values():
        process.kill()
        process.wait()
    marks = (f"SLURM_CONF={cluster.conf}".encode(), str(cluster.folder / "spool").encode())
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                if any(mark in said for mark in marks):
                    os.kill(int(process.name), signal.SIGKILL)
