"""``fallow up``: the service and the dashboard together, until Ctrl-C."""

import argparse
import os
import secrets
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING

from service import data_folder
from service.cli.screen import console
from service.client import ClientError, connect, running
from service.client.local import machine_service
from service.client.transport import UNIX
from service.config.flags import Settings, settle

if TYPE_CHECKING:
    from rich.console import Console

    from service.doctor_checks.answers import Answers
    from service.launch import Program

FIRST_READING_S = 15.0
"""Longer than a source may take (collect.source_timeout_s, at most a tick); then its silence is told."""
POLL_S = 0.1
PASSED_ON = ("tick", "host", "port", "config")


def run_up(flags: argparse.Namespace) -> int:
    """Start both, print the address once, stop both at the end."""
    from service.launch import dashboard_program, free_port, run_together

    settings = _chosen(flags)
    look = settings.effective.config.dashboard
    code = secrets.token_urlsafe() if look.acting else None
    service, where, remarks = _service(flags, settings)
    port = free_port(look.port, fixed=settings.chosen("dashboard.port"))
    screen = console()
    for remark in remarks:
        screen.print(remark)

    waiting = screen.status("starting")

    def ready() -> None:
        answered = _answers(where)
        waiting.stop()
        _say_answers(screen, answered)
        address = f"http://127.0.0.1:{port}  (Ctrl-C stops it)"
        if answered is None or answered.measured:
            screen.print(f"Fallow is up at {address}")
        else:
            screen.print(f"Nothing is measured: see `fallow doctor`. The dashboard is at {address}")
        if flags.data is not None and settings.data != data_folder.default_data():
            named = quote(str(settings.data))
            screen.print(f"In other terminals: export FALLOW_DATA={named}", soft_wrap=True)
        if code is not None:
            link = f"http://127.0.0.1:{port}/?code={code}"
            screen.print(f"To act from it as yourself, keep this link to yourself: {link}", soft_wrap=True)

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupt)
    try:
        if screen.is_terminal:
            waiting.start()
        programs = (service, dashboard_program(port, code, look.hosts))
        run_together(programs, where, tell=waiting.update, ready=ready)
    except KeyboardInterrupt:
        waiting.stop()
        screen.print("Stopped." if service.command else "The dashboard is stopped; the service runs on.")
    return 0


def _answers(where: "Mapping[str, str]") -> "Answers | None":
    """What the service's sources answered to its first reading; ``None`` where it can't be asked. Blocks."""
    from service.doctor_checks.answers import answers_of

    data, socket = where.get(data_folder.DATA_VARIABLE), where.get(data_folder.SOCKET_VARIABLE)
    try:
        with connect(Path(data) if data else None, url=f"{UNIX}{socket}" if socket else None) as client:
            deadline = time.monotonic() + FIRST_READING_S
            while client.health().last_tick_ms is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
            return answers_of(client)
    except ClientError:
        return None


def _say_answers(screen: "Console", answered: "Answers | None") -> None:
    """A line for each source, and how many GPUs are measured."""
    from service.doctor_checks.answers import lines

    if answered is not None:
        for line in lines(answered):
            screen.print(f"  {line}")


def _service(
    flags: argparse.Namespace, settings: Settings
) -> "tuple[Program, Mapping[str, str], tuple[str, ...]]":
    """The service, how the dashboard finds it, and what to say: the machine's, where no other is wanted."""
    from service.launch import machine_program, service_program
    from service.server.startup import make_data_dir

    if (address := _machines(flags)) is not None:
        used = (f"Using the machine's service at {address}; --data DIR starts one of your own.",)
        return machine_program(address), {data_folder.SOCKET_VARIABLE: address.removeprefix(UNIX)}, used
    make_data_dir(settings.data)
    arguments = [f"--source={each}" for each in flags.source or ()]
    arguments += [f"--{name}={value}" for name in PASSED_ON if (value := getattr(flags, name)) is not None]
    service = service_program(settings.data, arguments)
    remarks = _remarks(settings, runs_already=not service.command)
    return service, {data_folder.DATA_VARIABLE: str(settings.data)}, remarks


def _machines(flags: argparse.Namespace) -> str | None:
    """The address of the machine's service, where nothing is named and none of this user's own runs."""
    variables = (data_folder.DATA_VARIABLE, data_folder.SOCKET_VARIABLE, data_folder.URL_VARIABLE)
    typed = any(getattr(flags, name) is not None for name in ("data", "source", *PASSED_ON))
    if typed or any(map(os.environ.get, variables)) or running(data_folder.default_data()) is not None:
        return None
    return machine_service()


def _chosen(flags: argparse.Namespace) -> Settings:
    """What was typed; with --or-simulated, where nothing can be measured: the simulated cluster's own."""
    from service.sources.simulated_choice import simulated_instead

    settings = settle(flags)
    folder = simulated_instead(settings.effective.config, settings.data) if flags.or_simulated else None
    if folder is None:
        return settings
    flags.data, flags.source = folder, ["simulated"]
    return settle(flags)


def _remarks(settings: Settings, *, runs_already: bool) -> tuple[str, ...]:
    from service.sources.making import chosen_specs
    from service.sources.simulated_choice import told_simulated

    used = (f"Using the service that runs already for {settings.data}.",) if runs_already else ()
    specs, faults = chosen_specs(settings.effective.config)
    return (*used, *told_simulated(specs, settings.data), *(() if runs_already else faults))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
