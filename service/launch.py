"""Starts and stops the two programs of ``fallow up``, the service and the dashboard, as child processes.

Both start at once and are waited for together; when one ends, the other is stopped. Children live in
sessions of their own, so that Ctrl-C reaches this process alone and the order of stopping is ours.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

from service.client import ClientError, connect, running
from service.client.local import health
from service.data_folder import CODE_VARIABLE, HOSTS_VARIABLE
from service.errors import FallowError, ServiceDown, Untrusted
from service.trust.peers import must_trust_peer

START_LIMIT_S = 60
"""A start takes 2 s (docs/performance.md); a store that a crash left has its log read again first."""
STOP_LIMIT_S = 10
"""For both to end by themselves."""
POLL_S = 0.05
WATCH_S = 0.5
# linux/prctl.h; the standard library names no prctl.
PR_SET_PDEATHSIG = 1
LOOK = Path(__file__).parent / "pages" / "look"
"""The folder whose ``.streamlit`` has the dashboard's colours and manners; it is installed as well."""


class LaunchFailed(FallowError):
    """A program could not be started, or ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command to run, and how to tell that it answers. ``command`` is empty when it runs already.

    ``busy`` says what it still does, once it answers, before there is anything to see. ``secrets`` are handed
    to it in its environment, which only its own user can read. ``folder`` is where it stands; ``None``: here.
    """

    name: str
    command: tuple[str, ...]
    answers: Callable[[], bool]
    busy: Callable[[], str | None] = lambda: None
    secrets: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


def service_program(data: Path, flags: Sequence[str]) -> Program:
    """The service of a DATA directory; nothing to start where one answers already.

    Paths among its ``flags`` are as they were typed, so it stands where this process does; with -P nothing of
    that folder is imported, which may be somebody else's.
    """
    module = (sys.executable, "-P", "-m", "service.cli")
    command = (*module, "serve", "--log-to-file", "--data", str(data), *flags)
    return Program(
        name="service",
        command=() if running(data) is not None else command,
        answers=lambda: running(data) is not None,
        busy=lambda: _still_starting(data),
    )


def machine_program(url: str) -> Program:
    """The machine's service, which runs already."""
    return Program(name="service", command=(), answers=lambda: health(url) is not None)


def dashboard_program(port: int, code: str | None = None, hosts: Sequence[str] = ()) -> Program:
    """The dashboard on loopback, opening no browser. Raises ``LaunchFailed`` where it is missing.

    With a ``code``, who knows it may act from it as the user that starts it
    (docs/decisions/0008-acting-from-the-dashboard.md). It answers to ``hosts`` too. It stands in a folder of
    the package: Streamlit reads ``.streamlit/config.toml`` of where it stands, and that of wherever
    `fallow up` was typed may be somebody else's.
    """
    options = {
        "server.address": "127.0.0.1",
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "logger.level": "warning",
    }
    app = dashboard_file()
    # -P: no module comes from the folder one stands in (docs/decisions/0035).
    command = (sys.executable, "-P", "-m", "service.pages", str(app))
    return Program(
        name="dashboard",
        command=(*command, *(f"--{key}={value}" for key, value in options.items())),
        answers=lambda: _is_well(port),
        secrets={HOSTS_VARIABLE: ",".join(hosts)} | ({} if code is None else {CODE_VARIABLE: code}),
        folder=LOOK,
    )


def dashboard_file() -> Path:
    """Where app.py lies: beside the service in a checkout, else where Python finds it."""
    beside = Path(__file__).parents[1] / "app.py"
    if beside.is_file():
        return beside
    spec = find_spec("app")
    if spec is None or spec.origin is None:
        raise LaunchFailed(
            "the dashboard (app.py) is not installed; install Fallow again, or use `fallow serve`"
        )
    return Path(spec.origin)


def free_port(first: int, *, fixed: bool) -> int:
    """The port if nobody has it, else any free one; a fixed one that is taken raises ``LaunchFailed``."""
    for port in (first, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if fixed:
                    message = (
                        f"port {first} for the dashboard is in use; choose another with --dashboard-port"
                    )
                    raise LaunchFailed(message) from error
                continue
            free: int = probe.getsockname()[1]
            return free
    raise LaunchFailed("no free port on 127.0.0.1")


def run_together(
    programs: Sequence[Program],
    where: Mapping[str, str],
    *,
    tell: Callable[[str], None],
    ready: Callable[[], None],
) -> None:
    """Start all, call ``ready`` once all can be used, and stay until one ends or Ctrl-C. Always stops all.

    ``where`` in their environment says which service they are about. ``tell`` is called with what is still
    going on, over and over.

    Raises ``LaunchFailed`` when one ends by itself or does not answer in time.
    """
    inherited = {key: value for key, value in os.environ.items() if key != CODE_VARIABLE}
    environment = {**inherited, **where}
    started: list[tuple[Program, subprocess.Popen[bytes]]] = []
    try:
        for program in programs:
            if program.command:
                started.append((program, _start(program, {**environment, **program.secrets})))
        _await(programs, started)
        while busy := next(filter(None, (program.busy() for program in programs)), None):
            tell(busy)
            _check(started)
            time.sleep(POLL_S)
        ready()
        while True:
            _check(started)
            time.sleep(WATCH_S)
    finally:
        _stop([child for _, child in reversed(started)])


def _start(program: Program, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        program.command,
        preexec_fn=_end_with_parent(),  # noqa: PLW1509  one system call, no locks, no allocation of ours
        env=environment,
        cwd=program.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end_with_parent() -> Callable[[], None] | None:
    """Run in a child: have the kernel ask it to end should we be killed outright (Linux only)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _await(programs: Sequence[Program], started: Sequence[tuple[Program, "subprocess.Popen[bytes]"]]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    waiting = list(programs)
    while waiting:
        _check(started)
        waiting = [program for program in waiting if not program.answers()]
        if waiting and time.monotonic() > deadline:
            names = " and ".join(program.name for program in waiting)
            raise LaunchFailed(f"the {names} did not answer within {START_LIMIT_S} s; see `fallow doctor`")
        time.sleep(POLL_S)


def _check(started: Sequence[tuple[Program, "subprocess.Popen[bytes]"]]) -> None:
    for program, child in started:
        status = child.poll()
        if status is not None:
            others = "; the other was stopped" if len(started) > 1 else ""
            raise LaunchFailed(f"the {program.name} ended by itself (status {status}){others}")


def _stop(children: Sequence["subprocess.Popen[bytes]"]) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            child.terminate()
    deadline = time.monotonic() + STOP_LIMIT_S
    for child in children:
        try:
            child.wait(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _still_starting(data: Path) -> str | None:
    announcement = running(data)
    if announcement is None:
        return None
    try:
        health = connect(data).health()
    except ClientError:
        return None
    return health.reason if health.status == "starting" else None


def _is_well(port: int) -> bool:
    """Whether the dashboard answers at this port of the machine. Raises ``LaunchFailed`` for a stranger's.

    Its port stands in the child's command line before it listens, so anybody could be there first and be sent
    the code of whoever opens the page.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.connect()
        must_trust_peer(connection.sock, f"http://127.0.0.1:{port}")
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == 200
    except Untrusted as stranger:
        raise LaunchFailed(
            f"port {port} for the dashboard was taken by another account ({stranger}); choose another with "
            "--dashboard-port"
        ) from stranger
    except (OSError, HTTPException, ServiceDown):
        return False
    finally:
        connection.close()
