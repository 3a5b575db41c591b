"""``fallow service``: have systemd run the service, for the machine or for one user."""

import argparse
import os
from pathlib import Path

from service import systemd
from service.cli.screen import console, print_json
from service.cli.settings import settle

NOT_RUNNING = 1


def run(flags: argparse.Namespace) -> int:
    """Install, show or uninstall; status 1 when ``status`` finds it not running."""
    unit = systemd.unit_file(flags.user, os.environ)
    match flags.order:
        case "install":
            return _install(flags, unit)
        case "uninstall":
            return _uninstall(flags, unit)
        case _:
            return _status(flags, unit)


def _install(flags: argparse.Namespace, unit: Path) -> int:
    wanted = systemd.Deployment(
        program=systemd.this_program(),
        data=None if flags.data is None else settle(flags).data,
        config=None if flags.config is None else flags.config.absolute(),
        for_user=flags.user,
    )
    text = systemd.unit_text(wanted)
    if flags.dry_run:
        print(text, end="")
        return 0
    systemd.must_have_systemd()
    if not flags.yes:
        print(
            f"This would write {unit}, enable it and start it anew. Jobs that run go on meanwhile.\n"
            "With --dry-run the unit is shown; with --yes it is done."
        )
        return 0
    systemd.install(unit, text, for_user=flags.user)
    starts = (
        "when you log in (`loginctl enable-linger`: with the machine)" if flags.user else "with the machine"
    )
    status = "fallow service status --user" if flags.user else "fallow service status"
    print(f"Installed {unit}; it runs, and starts {starts}. See `{status}`.")
    return 0


def _uninstall(flags: argparse.Namespace, unit: Path) -> int:
    systemd.must_have_systemd()
    if not unit.exists():
        print(f"Nothing to do: there is no {unit}.")
        return 0
    if not flags.yes:
        print(
            f"This would stop the service and remove {unit}. Jobs that run go on; what was measured stays.\n"
            "With --yes it is done."
        )
        return 0
    systemd.uninstall(unit, for_user=flags.user)
    print(f"Removed {unit}; what was measured stays.")
    return 0


def _status(flags: argparse.Namespace, unit: Path) -> int:
    systemd.must_have_systemd()
    found = systemd.standing(unit, for_user=flags.user)
    if flags.json:
        row = {
            "unit": str(found.unit),
            "installed": found.installed,
            "active": found.active,
            "enabled": found.enabled,
            "pid": found.pid,
        }
        print_json([row])
    else:
        where = str(found.unit) if found.installed else f"not installed ({found.unit})"
        pid = "" if found.pid is None else f", process {found.pid}"
        console().print(f"{where}: {found.active or 'unknown'}, {found.enabled or 'not enabled'}{pid}")
    return 0 if found.active == "active" else NOT_RUNNING
