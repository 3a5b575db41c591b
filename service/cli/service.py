"""``fallow service``: have systemd run the service, for the machine or for one user."""

import argparse
import os
from pathlib import Path

from service import systemd
from service.cli.screen import console, print_json
from service.config.flags import settle
from service.node.token_file import give, must_know_its_head
from service.trust.believed import SYSTEM_FILE
from service.units import ACCOUNT, MACHINE_DATA, NODE, NODE_CONFIG, SERVICE, Deployment, units

NOT_RUNNING = 1


def run_service(flags: argparse.Namespace) -> int:
    """Install, show or uninstall; status 1 when ``status`` finds it not running."""
    name = NODE if getattr(flags, "node", False) else SERVICE
    unit = systemd.unit_file(getattr(flags, "user", False), os.environ, name)
    match flags.order:
        case "install":
            return _install(flags, unit)
        case "uninstall":
            return _uninstall(flags, unit)
        case "tell-failure":
            from service.alerts.failed_service import tell_failure

            return tell_failure(lambda: settle(flags), os.environ)
        case _:
            return _status(flags, unit)


PARTS = """\
  fallow.service         account fallow, no capability: measures, decides, answers
  fallow-probe.service   root, two capabilities, no network, no devices: reads /proc of all users
  fallow-hand.service    root, four capabilities, no network: pauses by CUDA's checkpoint, in the name of
                         whose process it is, and writes on terminals
"""
PARTS_OF_A_NODE = """\
  fallow-node.service    account fallow, no capability: measures and pushes to the head; nothing listens
  fallow-probe.service   root, two capabilities, no network, no devices: reads /proc of all users
"""


def _install(flags: argparse.Namespace, unit: Path) -> int:
    deployment = _deployment(flags)
    texts, in_parts = units(deployment), not (flags.user or flags.as_root)
    if flags.dry_run:
        print("\n".join(f"# {unit.with_name(name)}\n{text}" for name, text in texts.items()), end="")
        return 0
    systemd.must_have_systemd()
    if not flags.user:
        _must_be_roots(Path(deployment.program[0]), flags.trust)
    if in_parts:
        closed = systemd.beyond_account(Path(deployment.program[0]))
        if closed is not None:
            raise systemd.SystemdTrouble(
                f"the account {ACCOUNT} cannot run {deployment.program[0]}: {closed} is closed to others. "
                "Install Fallow where others can reach it (/opt/fallow, say), or use --as-root, which runs "
                "the service as root"
            )
    token = must_know_its_head(deployment.config) if deployment.is_node and deployment.config else None
    if not flags.yes:
        parts = (PARTS_OF_A_NODE if deployment.is_node else PARTS) if in_parts else ""
        if not flags.user:
            parts += f"Root runs files of {' and '.join(['root', *flags.trust])} for that.\n"
        files = ", ".join(str(unit.with_name(name)) for name in texts)
        print(
            f"This would write {files}, enable and start anew:\n{parts}Jobs that run go on meanwhile. "
            "With --dry-run the units are shown; with --yes it is done."
        )
        return 0
    if in_parts:
        if systemd.make_account():
            print(f"Made the account {ACCOUNT}, without a password or a shell.")
        if token is not None:
            give(token, ACCOUNT)
            print(f"{token} is root's, for the group {ACCOUNT} to read and nobody else.")
        elif systemd.tell_accounts(deployment.data or MACHINE_DATA):
            print(f"Wrote {SYSTEM_FILE}, by which everybody's commands believe a service of {ACCOUNT}.")
    systemd.install(unit.parent, texts, for_user=flags.user)
    starts = (
        "when you log in (`loginctl enable-linger`: with the machine)" if flags.user else "with the machine"
    )
    kind = " --user" if flags.user else " --node" if deployment.is_node else ""
    status = f"fallow service status{kind}"
    print(f"Installed {unit}; it runs, and starts {starts}. See `{status}`.")
    return 0


def _deployment(flags: argparse.Namespace) -> Deployment:
    if flags.node and (flags.user or flags.as_root):
        raise systemd.SystemdTrouble(
            "--node goes with neither --user nor --as-root: it is the machine's, and needs no rights of root"
        )
    config = NODE_CONFIG if flags.node and flags.config is None else flags.config
    return Deployment(
        program=systemd.this_program(),
        data=None if flags.data is None else settle(flags).data,
        config=None if config is None else config.absolute(),
        for_user=flags.user,
        probe=systemd.this_program("fallow-probe", "service.privileged.probe"),
        hand=systemd.this_program("fallow-hand", "service.privileged.hand"),
        as_root=flags.as_root,
        is_node=flags.node,
    )


def _must_be_roots(program: Path, trust: list[str]) -> None:
    """What root is to run may be changed by root and ``trust`` alone. Raises ``SystemdTrouble``."""
    fault = systemd.strangers_program(program, systemd.trusted_by_root(trust))
    if fault is not None:
        raise systemd.SystemdTrouble(
            f"root would run {program}, and others could change what that is: {fault}. Install Fallow as "
            "root where nobody else can write (/opt/fallow, say), or say with --trust ACCOUNT that this "
            "account may have root run anything"
        )


def _uninstall(flags: argparse.Namespace, unit: Path) -> int:
    systemd.must_have_systemd()
    if not unit.exists():
        print(f"Nothing to do: there is no {unit}.")
        return 0
    if not flags.yes:
        print(
            f"This would stop {unit.name} and remove {unit}. Jobs that run go on; what was measured stays.\n"
            "With --yes it is done."
        )
        return 0
    systemd.uninstall(unit.parent, for_user=flags.user, is_node=flags.node)
    print(f"Removed {unit}; what was measured stays.")
    return 0


def _status(flags: argparse.Namespace, unit: Path) -> int:
    systemd.must_have_systemd()
    standing = systemd.standing(unit, for_user=flags.user)
    if flags.json:
        row = {
            "unit": str(standing.unit),
            "installed": standing.installed,
            "active": standing.active,
            "enabled": standing.enabled,
            "pid": standing.pid,
        }
        print_json([row], flags)
    else:
        where = str(standing.unit) if standing.installed else f"not installed ({standing.unit})"
        pid = "" if standing.pid is None else f", process {standing.pid}"
        console().print(f"{where}: {standing.active or 'unknown'}, {standing.enabled or 'not enabled'}{pid}")
    return 0 if standing.active == "active" else NOT_RUNNING
