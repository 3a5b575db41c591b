"""``fallow init``: look around, say what was found; after a yes write the configuration, import the past.

A file that exists is replaced only after a yes of its own, and kept beside the new one. It ends with who
wasted most of what was imported, and with what to type next.
"""

import argparse
import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from analytics.vocabulary.managers import SLURM
from service.cli import credentials, data, doctor, waste
from service.cli.parser import make_parser
from service.cli.screen import console
from service.client import running
from service.config.file import FILE_NAME, parse
from service.config.flags import Settings, settle
from service.doctor_checks.surroundings import (
    USUAL_PROMETHEUS,
    Seen,
    has_accounting,
    history_of,
    look_around,
    sources_of,
)
from service.errors import FallowError

NOTHING_FOUND = 1
CONFIGURATION = """\
# Written by `fallow init`. `fallow config` says what is in force, `fallow config --reference` every key.
[collect]
sources = {sources}

# What a GPU-hour costs makes money of the waste:
# [prices]
# currency = "EUR"
# per_gpu_hour = {{ "*" = 2.0 }}

# Who works for which project, where Slurm or Kubernetes doesn't say:
# [projects]
# ann = "vision"
"""
MODE = 0o600
"""Of the configuration: a receiver's address in it may be a secret."""


class NotWritten(FallowError):
    """The configuration could not be written."""


def run_init(flags: argparse.Namespace) -> int:
    """Look around, ask, write, import, show the waste; status 1 where there is nothing to measure."""
    settings = settle(flags)
    screen = console()
    surroundings = _look(flags, settings, screen)
    sources, history = sources_of(surroundings), history_of(surroundings)
    has_past = has_accounting(surroundings)
    if not sources and history is None and not has_past:
        screen.print("\nThere is nothing to measure or import here. Name what to watch:")
        screen.print("  fallow init --prometheus URL   a Prometheus that scrapes dcgm-exporter")
        screen.print("  fallow init --exporter URL     a dcgm-exporter")
        screen.print("  fallow up --simulated          or look around first: a cluster that is invented")
        return NOTHING_FOUND
    file = settings.data / FILE_NAME
    _say_plan(screen, sources, history, file, flags.since)
    if has_past:
        screen.print(f"The last {flags.since} of Slurm's accounting would be imported (sacct).")
    if not _agreed(flags, "Do it?"):
        screen.print("Nothing was done. `fallow init --yes` does it without asking.")
        return 0
    if sources:
        _write(screen, flags, file, configuration(sources))
    if history is not None:
        data.run_import(_order(flags, history, settings))
    if has_past:
        _import_accounting(screen, flags, settings)
    if history is not None:
        screen.print()
        waste.run_waste(_question(flags, settings))
    elif has_past:
        screen.print("What Slurm gave out is in `fallow ledger`; what of it was used was not measured yet.")
    _say_next(screen, flags, settings, live=bool(sources))
    return 0


def configuration(sources: Sequence[str]) -> str:
    """The file's text. Pure."""
    return CONFIGURATION.format(sources=json.dumps(list(sources)))


def _look(flags: argparse.Namespace, settings: Settings, screen: Console) -> list[Seen]:
    from collector.sources.prometheus.server import Access, Patience

    named = flags.prometheus
    flags.url = named or USUAL_PROMETHEUS
    flags.url = flags.url if "://" in flags.url else f"http://{flags.url}"
    door = credentials.wanted(flags, os.environ)
    patience = Patience(timeout_s=20.0, tries=1)
    access = Access(url=flags.url, patience=patience, **door)  # type: ignore[arg-type]
    surroundings = []
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    screen.print("Looking around:", style="bold")
    for each in look_around(
        settings.effective.config, access, given=named is not None, exporters=flags.exporter, now_ms=now_ms
    ):
        surroundings.append(each)
        for line in doctor.draw(each.finding):
            screen.print(line)
    return surroundings


def _say_plan(screen: Console, sources: Sequence[str], history: str | None, file: Path, since: str) -> None:
    screen.print()
    if sources:
        screen.print(f"{file} would say what to read from now on:", soft_wrap=True)
        for source in sources:
            screen.print(Text(f"  {source}", style="cyan"), soft_wrap=True)
    else:
        screen.print("Nothing that is alive can be read from this machine: only the past is imported.")
    if history is not None:
        screen.print(f"The last {since} would be imported from {history}.")


def _agreed(flags: argparse.Namespace, question: str) -> bool:
    """Whether somebody said yes: with --yes before, else at the terminal; without one it is no."""
    if flags.yes:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(screen: Console, flags: argparse.Namespace, file: Path, words: str) -> None:
    """Write it where there is none; else only after a yes of its own, the former kept beside it."""
    from service.server.startup import make_data_dir

    parse(words, origin=FILE_NAME)  # what is written is what the service takes
    make_data_dir(file.parent)
    try:
        if file.exists():
            if file.read_text() == words:
                screen.print(f"{file} says so already.", soft_wrap=True)
                return
            if flags.yes or not _agreed(flags, f"{file} exists. Replace it (the former is kept)?"):
                screen.print(f"{file} stays as it is.", soft_wrap=True)
                return
            former = _beside(file)
            file.rename(former)
            screen.print(f"The former is kept as {former}.", soft_wrap=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(words)
    except OSError as error:
        raise NotWritten(f"cannot write {file}: {error.strerror or error}") from error
    screen.print(f"Wrote {file}.", soft_wrap=True)


def _beside(file: Path) -> Path:
    """A name for the former file that nothing has."""
    names = (file.with_name(f"{file.name}.before-init{n or ''}") for n in range(1000))
    return next(each for each in names if not each.exists())


def _import_accounting(screen: Console, flags: argparse.Namespace, settings: Settings) -> None:
    """Slurm's past, told as it comes; where it can't be read, why: the rest is there all the same."""
    order = {"origin": "jobs", "origin_of": SLURM, "file": None, "timezone": None, "until": None, "yes": True}
    try:
        data.run_import(Namespace(**(vars(flags) | order | {"data": settings.data})))
    except FallowError as failure:
        screen.print(f"Slurm's past was not imported: {failure}", soft_wrap=True, markup=False)


def _order(flags: argparse.Namespace, history: str, settings: Settings) -> Namespace:
    order = {"origin": "prometheus", "url": history, "until": None, "match": None, "yes": True}
    return Namespace(**(vars(flags) | order | {"data": settings.data}))


def _question(flags: argparse.Namespace, settings: Settings) -> Namespace:
    plain = make_parser().parse_args(["waste"])  # so that a flag which the verb gets has its default here too
    return Namespace(**(vars(plain) | {"since": flags.since, "data": settings.data}))


def _say_next(screen: Console, flags: argparse.Namespace, settings: Settings, *, live: bool) -> None:
    """Where to look: the running service's address, else how one is started and where it will be."""
    named = f" --data {flags.data}" if flags.data is not None else ""
    port = settings.effective.config.dashboard.port
    screen.print()
    if (service := running(settings.data)) is not None:
        screen.print(f"A service runs at {service.url}; start it again to have it read what was written.")
    elif live:
        screen.print(f"Now `fallow up{named}` measures on; its dashboard is http://127.0.0.1:{port}")
    else:
        screen.print(f"`fallow waste{named}` shows it again; repeat `fallow init` to import what is new.")
