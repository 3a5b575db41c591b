"""Whether a launcher lives is told by the kernel, for the process that was meant and no other."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from advisor.jobs.model import JobRecord, JobState, Launcher, Report, Submission
from advisor.state.model import ProjectName
from collector.model import JobId, NodeName
from collector.procfs.proc_files import parse_boot_ms, parse_stat, started_ms
from service.control import liveness as acting_eyes
from service.control.liveness import Liveness
from service.launcher.process import is_alive
from tests.headless import headless

NODE = NodeName(socket.gethostname())


def begun_ms(pid: int) -> int:
    stat = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    return started_ms(stat, parse_boot_ms(Path("/proc/stat").read_bytes()), os.sysconf("SC_CLK_TCK"))


def entry(pid: int, at_ms: int, node: NodeName = NODE, uid: int | None = os.getuid()) -> JobRecord:
    return JobRecord(
        id=JobId(f"fallow:{pid}"),
        submission=Submission(command=("train",), user="anna", uid=uid, project=ProjectName("lab")),
        launcher=Launcher(node=node, pid=pid, started_ms=at_ms),
    )


def looking() -> Liveness:
    return Liveness(frozenset)


def program() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def ended(process: "subprocess.Popen[bytes]") -> None:
    process.communicate()


def test_a_launcher_that_was_seen_and_has_ended_is_gone() -> None:
    eyes, process = looking(), program()
    launcher = entry(process.pid, begun_ms(process.pid))
    assert eyes.launcher(launcher) is True
    assert eyes.launcher(launcher) is True
    ended(process)
    assert eyes.launcher(launcher) is False
    assert eyes.launcher(launcher) is None, "it is said once, and then nobody knows it"


def test_one_whose_first_thread_has_ended_lives_while_another_does() -> None:
    """Else whatever ends its first thread frees the GPUs that it goes on using."""
    eyes = looking()
    with headless() as process:
        at_ms = begun_ms(process.pid)
        launcher = entry(process.pid, at_ms)
        assert eyes.launcher(launcher) is True
        assert launcher.launcher is not None and is_alive(launcher.launcher)
        report = Report(
            at_ms=at_ms + 60_000, launcher=launcher.launcher, state=JobState.RUNNING, pids=(process.pid,)
        )
        assert eyes.living(replace(launcher, report=report, submitted_ms=at_ms)) == (process.pid,)
        process.kill()
        process.wait()
        assert eyes.launcher(launcher) is False
        assert not is_alive(launcher.launcher)


def test_a_launcher_that_was_never_seen_may_be_in_a_place_of_its_own() -> None:
    eyes, process = looking(), program()
    other = entry(process.pid, begun_ms(process.pid) - 60_000)
    assert eyes.launcher(other) is None, "the pid is somebody else's"
    assert eyes.launcher(entry(process.pid, begun_ms(process.pid), NodeName("elsewhere"))) is None
    launcher = entry(process.pid, begun_ms(process.pid))
    ended(process)
    assert eyes.launcher(launcher) is None


def test_a_launcher_is_known_by_the_kernels_count_whatever_becomes_of_the_clock(tmp_path: Path) -> None:
    process = program()
    launcher = entry(process.pid, begun_ms(process.pid))
    proc = tmp_path / "proc"
    (proc / str(process.pid)).mkdir(parents=True)
    line = Path(f"/proc/{process.pid}/stat").read_bytes()
    (proc / str(process.pid) / "stat").write_bytes(line)
    (proc / str(process.pid) / "status").write_text(f"Uid:\t{os.getuid()}\t0\t0\t0\n")
    (proc / "stat").write_bytes(Path("/proc/stat").read_bytes())
    eyes = Liveness(frozenset, proc)
    assert eyes.launcher(launcher) is True
    (proc / "stat").write_bytes(b"btime 1000\n")  # the clock was set by decades
    assert eyes.launcher(launcher) is True
    fields = line.rsplit(b")", 1)[1].split()
    fields[19] = str(int(fields[19]) + 100).encode()  # another process has its pid by now
    (proc / str(process.pid) / "stat").write_bytes(b"1 (other) " + b" ".join(fields))
    assert eyes.launcher(launcher) is False
    ended(process)


def test_of_many_launchers_that_have_come_and_gone_the_living_are_remembered(tmp_path: Path) -> None:
    process = program()
    launcher = entry(process.pid, begun_ms(process.pid))
    proc = tmp_path / "proc"
    line = Path(f"/proc/{process.pid}/stat").read_bytes()
    (proc / str(process.pid)).mkdir(parents=True)
    (proc / str(process.pid) / "stat").write_bytes(line)
    (proc / str(process.pid) / "status").write_text(f"Uid:\t{os.getuid()}\t0\t0\t0\n")
    (proc / "stat").write_bytes(Path("/proc/stat").read_bytes())
    eyes = Liveness(frozenset, proc)
    assert eyes.launcher(launcher) is True
    passing = proc / "4194305"
    passing.mkdir()
    (passing / "status").write_text(f"Uid:\t{os.getuid()}\t0\t0\t0\n")
    for n in range(acting_eyes.MOST_MET + 1):
        fields = line.rsplit(b")", 1)[1].split()
        fields[19] = str(1000 * n).encode()
        (passing / "stat").write_bytes(b"1 (short) " + b" ".join(fields))
        at_ms = parse_boot_ms((proc / "stat").read_bytes()) + 1000 * n * 1000 // os.sysconf("SC_CLK_TCK")
        assert eyes.launcher(entry(4_194_305, at_ms)) is True
    ended(process)
    (proc / str(process.pid) / "stat").unlink()
    assert eyes.launcher(launcher) is False, "it was not forgotten among the others"


def test_a_process_of_somebody_else_is_nobodys_launcher() -> None:
    """Else a job would count as launched for as long as that lives: pid 1 does."""
    init = entry(1, begun_ms(1), uid=os.getuid() + 1)
    assert looking().launcher(init) is None
    assert looking().launcher(entry(os.getpid(), begun_ms(os.getpid()), uid=None)) is None
    assert looking().launcher(entry(os.getpid(), begun_ms(os.getpid()))) is True
