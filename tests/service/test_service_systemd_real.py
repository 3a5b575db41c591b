"""Installed with a real systemd: it runs, comes back when killed, stops in time, and goes without a trace.

A systemd of its own in namespaces, which root alone can make; the machine's own is not asked for anything.
"""

import contextlib
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from advisor.engines.cuda_checkpoint import Deed
from advisor.serialize import from_text
from service.units import HAND, units
from tests.advisor.engines.standin_parts import SOURCE
from tests.collector.dcgm.loopback import serving, text
from tests.conftest import program
from tests.service.conftest import fallow, is_well, start, stop_well, until
from tests.service.delivery.servers import webhook
from tests.service.test_service_systemd import deployment

pytestmark = pytest.mark.process

BOOT = Path(__file__).with_name("boot_systemd.sh")
PROGRAMS = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
HIDDEN = Path("/tmp")
"""The service has a /tmp of its own."""
BOOTS_WITHIN_S, COMES_WITHIN_S = 20.0, 30.0
CONFIG = "/root/.config"
NEEDED = tuple(dict.fromkeys(str(Path(each).resolve()) for each in (sys.base_prefix, sys.prefix, ROOT)))
"""What the service's account has to reach: the interpreter, its packages, and this checkout."""
BLOCKED = """[api]
port = {port}
[delivery.routes]
ops = ["json://127.0.0.1:{port}/hook?cto=5&rto=5"]
[alerts]
to = ["ops"]
"""
"""Its port is another program's: such a service never starts."""
NODE_TOML = """[node]
head = "{head}"
token = "${{file:/etc/fallow/token}}"
[collect]
sources = ["dcgm={exporter}"]
tick_s = 1
"""
EXPORTED = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a0",device="nvidia0",modelName="NVIDIA H100",Hostname="gpu-a"} 50
"""
GIVES_UP_WITHIN_S = 240.0
POWERS = {"fallow-probe": (2, 19), "fallow-hand": (2, 6, 7, 19)}
"""Numbers of capability.h: CAP_DAC_READ_SEARCH, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE."""
OWNED, JOBS_UID = "/var/lib/owned", 47001
JOB = ("setpriv", f"--reuid={JOBS_UID}", f"--regid={JOBS_UID}", "--clear-groups", "sleep", "600")
ASK = """
import sys
from advisor.engines.cuda_checkpointer import LocalCheckpointer
from advisor.serialize import to_text
asked = LocalCheckpointer(lambda: None, 5.0, as_owner=True).pause([int(sys.argv[1])], {})
print(to_text(asked.ended(60)))
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def inside() -> Iterator[Run]:
    """Runs a command where that systemd is the first process."""
    if os.geteuid() != 0:
        pytest.skip("a systemd of the tests' own needs root")
    if PROGRAMS.is_relative_to(HIDDEN):
        pytest.skip(f"{PROGRAMS} lies in {HIDDEN}, of which the service has its own")
    programs = [
        program("systemctl", "systemd"),
        program("unshare", "util-linux"),
        program("nsenter", "util-linux"),
    ]
    control = re.search(r"^\S+ (\S+) cgroup2 ", Path("/proc/mounts").read_text(), re.MULTILINE)
    if control is None:
        pytest.skip("no cgroup2 is mounted")
    group = Path(control[1]) / f"fallow-tests-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
    ours = (programs[1], "-Cmpuif", "--mount-proc", "--propagation", "private", str(BOOT), CONFIG, *NEEDED)
    booting = subprocess.Popen(
        ("sh", "-c", join, "sh", *ours), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield _entering(booting, programs[2])
    finally:
        for pid in _children(booting.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        booting.kill()
        booting.wait()
        _removed(group)


def _entering(booting: "subprocess.Popen[bytes]", nsenter: str) -> Run:
    environment = {
        "PATH": f"{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "XDG_RUNTIME_DIR": "/run/user/0",
    }

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        first = next(iter(_children(booting.pid)), None)
        where = () if first is None else (nsenter, "-t", str(first), "-m", "-p", "-u", "-i", "-C")
        if not where:
            return subprocess.CompletedProcess(words, 1, "", "nothing runs there")
        return subprocess.run(
            (*where, *words), capture_output=True, text=True, check=False, timeout=120, env=environment
        )

    deadline = time.monotonic() + BOOTS_WITHIN_S
    while (state := run("systemctl", "is-system-running").stdout.strip()) != "running":
        if time.monotonic() > deadline or booting.poll() is not None:
            pytest.skip(f"a systemd does not start in namespaces here: {state or 'it does not answer'}")
        time.sleep(0.2)
    return run


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _removed(group: Path) -> None:
    """The control groups, once all that was in them has died."""
    for _ in range(50):
        try:
            for each in sorted(group.rglob("*"), reverse=True):
                if each.is_dir():
                    each.rmdir()
            group.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return


OWNER = Path(__file__).stat().st_uid
TRUST = () if OWNER == 0 else ("--trust", pwd.getpwuid(OWNER).pw_name)
"""Whose checkout is tested is no matter here."""


def _until(run: Run, words: tuple[str, ...], holds: Callable[[str], bool]) -> str:
    deadline = time.monotonic() + COMES_WITHIN_S
    while not holds(told := run(*words).stdout):
        assert time.monotonic() < deadline, f"{' '.join(words)}: {told}"
        time.sleep(0.2)
    return told


def _pid(run: Run, unit: str = "fallow") -> int:
    return int(run("systemctl", "show", "-p", "MainPID", "--value", unit).stdout)


def _simulated(run: Run, data: str, more: str = "") -> None:
    """A configuration that asks for invented GPUs, for this machine has none, and for more."""
    text = f'[collect]\nsources = ["simulated"]\n{more}'
    wanted = f'mkdir -p {data} && printf %s "$1" > {data}/fallow.toml'
    assert run("sh", "-c", wanted, "sh", text).returncode == 0


def test_the_machines_service_lives_as_systemd_wants_it(inside: Run) -> None:
    _simulated(inside, "/var/lib/fallow")
    assert inside("fallow", "service", "status").returncode == 1
    installed = inside("fallow", "service", "install", "--yes", *TRUST)
    assert (installed.returncode, "starts with the machine" in installed.stdout) == (0, True), (
        installed.stderr
    )
    assert inside("systemctl", "is-enabled", "fallow").stdout.strip() == "enabled"
    _until(inside, ("fallow", "status"), lambda told: " GPUs " in told)
    for unit, account in (("fallow", "fallow"), ("fallow-probe", "root"), ("fallow-hand", "root")):
        assert inside("systemctl", "is-active", unit).stdout.strip() == "active", unit
        assert inside("sh", "-c", f"ps -o user= -p {_pid(inside, unit=unit)}").stdout.strip() == account
    status = inside("cat", f"/proc/{_pid(inside)}/status").stdout
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
    for unit, powers in POWERS.items():
        status = inside("cat", f"/proc/{_pid(inside, unit=unit)}/status").stdout
        held = sum(1 << number for number in powers)
        assert f"CapEff:\t{held:016x}" in status and f"CapBnd:\t{held:016x}" in status
        assert "NoNewPrivs:\t1" in status
    _until(inside, ("setpriv", "--reuid=4001", "--regid=4001", "--clear-groups", "fallow", "queue"), bool)
    others = ("setpriv", "--reuid=4001", "--regid=4001", "--clear-groups")
    refused = inside(*others, "fallow-hand", "--help")
    assert refused.returncode == 0, "the program may be run by anybody; its socket may not be asked"
    asked = "import socket; socket.socket(socket.AF_UNIX).connect('/run/fallow-hand/hand.sock')"
    assert "PermissionError" in inside(*others, "python", "-c", asked).stderr
    first = _pid(inside)
    assert inside("sh", "-c", f"kill -9 {first}").returncode == 0
    _until(inside, ("systemctl", "show", "-p", "NRestarts", "fallow"), lambda told: "NRestarts=1" in told)
    _until(inside, ("systemctl", "is-active", "fallow"), lambda told: told.strip() == "active")
    assert _pid(inside) not in (0, first)
    assert inside("systemctl", "stop", "fallow").returncode == 0
    ended = inside("systemctl", "show", "-p", "Result", "-p", "ExecMainStatus", "fallow").stdout
    assert ended.split() == ["Result=success", "ExecMainStatus=0"]
    assert inside("fallow", "service", "uninstall", "--yes").returncode == 0
    assert inside("sh", "-c", "ls /etc/systemd/system | grep fallow").returncode != 0
    assert inside("sh", "-c", "ls /var/lib/fallow/fallow.duckdb").returncode == 0, "what was measured stays"


@pytest.mark.slow
def test_under_the_units_filter_and_powers_the_driver_is_asked_in_the_owners_name(inside: Run) -> None:
    """The hand's unit with another program: what it is to do for a pause, on a stand-in libcuda."""
    compiler = program("cc", "gcc")
    assert inside("mkdir", "-m", "777", OWNED).returncode == 0
    library = f"{OWNED}/libcuda.so.1"
    assert inside(compiler, "-shared", "-fPIC", "-o", library, str(SOURCE)).returncode == 0
    assert inside("groupadd", "-f", "fallow").returncode == 0
    assert inside("systemd-run", "-q", "--unit=owned-job", *JOB).returncode == 0
    pid = _pid(inside, "owned-job")
    _until(inside, ("stat", "-c", "%u", f"/proc/{pid}"), lambda told: told.strip() == str(JOBS_UID))
    text = units(deployment())[HAND].replace("Type=notify", "Type=oneshot").replace("Restart=on-failure", "")
    ours = (
        f"Environment=LD_LIBRARY_PATH={OWNED}\nReadWritePaths={OWNED}\nStandardOutput=file:{OWNED}/deed\n"
        f"ExecStart={sys.executable} -P {OWNED}/ask.py {pid}\n"
    )
    text = re.sub(r"ExecStart=.*\n", lambda _: ours, text)
    made = f'echo 0 > {OWNED}/{pid}; echo 1 > {OWNED}/owners; printf %s "$1" > {OWNED}/ask.py; printf %s "$2"'
    where = "/etc/systemd/system/owned-hand.service"
    assert inside("sh", "-c", f"{made} > {where}; systemctl daemon-reload", "sh", ASK, text).returncode == 0
    started = inside("systemctl", "start", "owned-hand")
    try:
        deed: Deed = from_text(Deed, inside("cat", f"{OWNED}/deed").stdout)
        assert deed.states == {str(pid): "checkpointed"}, (deed, started.stderr)
        assert "NVML gives no list" in deed.found, "this machine has none: the owner's word is not enough"
        assert inside("cat", f"{OWNED}/asked.log").stdout == f"{JOBS_UID} {JOBS_UID} 0 0\n"
    finally:
        inside("systemctl", "stop", "owned-job")
        inside("rm", "-r", OWNED, where)


def test_what_ran_as_root_before_is_the_services_own_afterwards(inside: Run) -> None:
    installed = inside("fallow", "service", "install", "--yes", "--as-root", *TRUST)
    assert installed.returncode == 0, installed.stderr
    _until(inside, ("fallow", "status"), lambda told: " GPUs " in told)
    assert inside("sh", "-c", f"ps -o user= -p {_pid(inside)}").stdout.strip() == "root"
    assert inside("stat", "-c", "%U", "/var/lib/fallow/fallow.duckdb").stdout.strip() == "root"
    upgraded = inside("fallow", "service", "install", "--yes", *TRUST)
    assert upgraded.returncode == 0, upgraded.stderr
    _until(inside, ("fallow", "status"), lambda told: " GPUs " in told)
    assert inside("sh", "-c", f"ps -o user= -p {_pid(inside)}").stdout.strip() == "fallow"
    assert inside("stat", "-c", "%U", "/var/lib/fallow/fallow.duckdb").stdout.strip() == "fallow"
    assert inside("fallow", "service", "uninstall", "--yes").returncode == 0


@pytest.mark.long  # systemd's own patience: it waits for over two minutes
def test_a_service_that_never_starts_is_told_of_and_not_given_up(inside: Run) -> None:
    with webhook() as hook:
        _simulated(inside, "/var/lib/fallow", BLOCKED.format(port=hook.port))
        refused = inside("fallow", "service", "install", "--yes", *TRUST)
        assert refused.returncode == 2, refused
        deadline = time.monotonic() + GIVES_UP_WITHIN_S
        while not hook.taken and time.monotonic() < deadline:
            time.sleep(0.5)
        try:
            (told,) = hook.taken
            assert "the service does not start" in str(told["title"])
            assert "exit-code" in str(told["message"]) and "tried again" in str(told["message"])
            waiting = inside("systemctl", "show", "-p", "ActiveState", "--value", "fallow-failed").stdout
            assert waiting.strip() == "activating", "it waits for the start limit, and then starts it again"
        finally:
            assert inside("fallow", "service", "uninstall", "--yes").returncode == 0


@pytest.mark.slow
def test_a_node_pushes_from_its_unit_and_comes_back_when_killed(inside: Run, tmp_path: Path) -> None:
    head = start(tmp_path / "head", ("--source", "nodes"), "[collect]\ntick_s = 1\nslurm = false\n")
    token = fallow("token", "add", "--user", "gpu-a", "--role", "node", data=head.data).stdout
    try:
        until("the head is well", lambda: is_well(head))
        with serving(lambda path, headers: text(EXPORTED)) as exporter:
            said = NODE_TOML.format(head=head.url, exporter=exporter)
            made = 'mkdir -p /etc/fallow; cd /etc/fallow; printf %s "$1" > node.toml; printf %s "$2" > token'
            assert inside("sh", "-c", made, "sh", said, token).returncode == 0
            installed = inside("fallow", "service", "install", "--node", "--yes", *TRUST)
            assert installed.returncode == 0, installed.stderr
            until("the head has stored its ticks", lambda: bool(head.client().rows("nodes")))
            owned = inside("stat", "-c", "%U %G %a", "/etc/fallow/token", "/var/lib/fallow-node/spool.sqlite")
            assert owned.stdout.split("\n")[:2] == ["root fallow 640", "fallow fallow 600"]
            assert "active, enabled" in inside("fallow", "service", "status", "--node").stdout
            first = _pid(inside, unit="fallow-node")
            status = inside("cat", f"/proc/{first}/status").stdout
            assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
            assert head.url in inside("systemctl", "show", "-p", "StatusText", "fallow-node").stdout
            assert inside("systemctl", "is-active", "fallow-probe").stdout.strip() == "active"
            stored = head.client().rows("nodes")[0]["last_ts"]
            assert inside("sh", "-c", f"kill -9 {first}").returncode == 0
            again = ("systemctl", "show", "-p", "NRestarts", "fallow-node")
            _until(inside, again, lambda told: "NRestarts=1" in told)
            until("it pushes again", lambda: head.client().rows("nodes")[0]["last_ts"] > stored)
        removed = inside("fallow", "service", "uninstall", "--node", "--yes")
        assert removed.returncode == 0, removed.stderr
        assert inside("sh", "-c", "ls /etc/systemd/system | grep fallow").returncode != 0
        assert inside("ls", "/var/lib/fallow-node/spool.sqlite").returncode == 0, "what waits there stays"
    finally:
        stop_well(head)


def test_a_persons_service_needs_a_systemd_of_theirs_and_says_so(inside: Run) -> None:
    refused = inside("fallow", "service", "install", "--user", "--yes", "--data", "/tmp/mine")
    assert (refused.returncode, "loginctl enable-linger" in refused.stderr) == (2, True), refused
    assert inside("sh", "-c", f"ls {CONFIG}/systemd").returncode != 0, "nothing was written"
    begin = "mkdir -p -m 700 $XDG_RUNTIME_DIR && systemd-run -q --unit=theirs -p Delegate=yes"
    theirs = "--setenv=XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR --setenv=HOME=$HOME /lib/systemd/systemd --user"
    assert inside("sh", "-c", f"{begin} {theirs}").returncode == 0
    running = ("systemctl", "--user", "is-system-running")
    _until(inside, running, lambda told: told.strip() == "running")
    _simulated(inside, "/tmp/mine")
    installed = inside("fallow", "service", "install", "--user", "--yes", "--data", "/tmp/mine")
    assert (installed.returncode, "when you log in" in installed.stdout) == (0, True), installed.stderr
    assert "active, enabled" in inside("fallow", "service", "status", "--user").stdout
    _until(inside, ("fallow", "status", "--data", "/tmp/mine"), lambda told: "GPUs" in told)
    assert inside("fallow", "service", "uninstall", "--user", "--yes").returncode == 0
    assert "not installed" in inside("fallow", "service", "status", "--user").stdout
