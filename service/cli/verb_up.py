"""``fallow up``: the service and the dashboard together, until Ctrl-C."""

import argparse
import secrets
import signal
from shlex import quote
from types import FrameType

from service.cli.screen import console
from service.cli.settings import Settings, settle
from service.client.place import default_data

PASSED_ON = ("tick", "host", "port", "config")


def run(flags: argparse.Namespace) -> int:
    """Start both, print the address once, stop both at the end."""
    from service.daemon.start import make_data_dir
    from service.launch import dashboard_program, free_port, run_together, service_program

    settings = _chosen(flags)
    look = settings.effective.config.dashboard
    code = secrets.token_urlsafe() if look.acting else None
    make_data_dir(settings.data)
    port = free_port(look.port, fixed=settings.chosen("dashboard.port"))
    service = service_program(settings.data, _passed_on(flags))
    screen = console()
    for remark in _remarks(settings, runs_already=not service.command):
        screen.print(remark)

    waiting = screen.status("starting")

    def ready() -> None:
        waiting.stop()
        screen.print(f"Fallow is up at http://127.0.0.1:{port}  (Ctrl-C stops it)")
        if flags.data is not None and settings.data != default_data():
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
        run_together(programs, settings.data, tell=waiting.update, ready=ready)
    except KeyboardInterrupt:
        waiting.stop()
        screen.print("Stopped." if service.command else "The dashboard is stopped; the service runs on.")
    return 0


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


def _passed_on(flags: argparse.Namespace) -> list[str]:
    """The flags that are the service's, as they were typed."""
    given = [f"--source={each}" for each in flags.source or ()]
    given += [f"--{name}={value}" for name in PASSED_ON if (value := getattr(flags, name)) is not None]
    return given


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
