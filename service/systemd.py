"""The systemd units of an installation: where they go, for which account, and what systemd makes of them.

What they say is ``service.units``'s.
"""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.file_trust import distrust, distrust_inside
from collector.procfs.accounts import uid_of
from service.errors import FallowError
from service.trust.believed import ONLY_ROOT, SYSTEM_FILE, system
from service.units import ACCOUNT, FAILED, HAND, MACHINE_DATA, NODE, PROBE, SERVICE

RUNNING_SYSTEMD = Path("/run/systemd/system")
MACHINE_SERVICES = Path("/etc/systemd/system")
PATIENCE_S = 30
"""For ``systemctl``: it waits for a unit's own start, which takes seconds."""
PACKAGES = ("advisor", "analytics", "collector", "fallow", "service")
"""This program's own, which lie beside each other in a checkout, with much there that nothing loads."""
ONLY_IN_A_CHECKOUT = "constraints.txt"
"""Lies beside them there; where they are installed, everything beside them is loaded by them."""
NO_BUS = "Failed to connect to bus"
NOT_LOGGED_IN = (
    "no systemd of yours runs: log in to this machine itself (not by su or sudo), or have root run "
    "`loginctl enable-linger YOU`, which keeps one running"
)


class SystemdTrouble(FallowError):
    """systemd is not there, or refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What systemd says of the unit; ``active`` and ``enabled`` in its own words."""

    unit: Path
    installed: bool
    active: str | None
    enabled: str | None
    pid: int | None


def unit_file(for_user: bool, environment: Mapping[str, str], name: str = SERVICE) -> Path:
    """Where the unit belongs."""
    if not for_user:
        return MACHINE_SERVICES / name
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")) / ".config")
    return Path(home).expanduser() / "systemd" / "user" / SERVICE


def this_program(name: str = "fallow", module: str = "service.cli") -> tuple[str, ...]:
    """The command that is this program: the one of that name beside this Python, else the module itself."""
    beside = Path(sys.executable).with_name(name)
    if os.access(beside, os.X_OK):
        return (str(beside),)
    # -P: no module comes from the folder one stands in (docs/decisions/0035).
    return (sys.executable, "-P", "-m", module)


def beyond_account(program: Path) -> Path | None:
    """The first folder on the way to a program that an account without powers cannot pass, or ``None``.

    Followed through links: an interpreter in root's home cannot be run by anybody else.
    """
    for path in (program, program.resolve(), Path(sys.executable).resolve(), Path(sys.prefix)):
        for folder in reversed(path.parents):
            if folder.exists() and not folder.stat().st_mode & 0o001:
                return folder
    return None


def strangers_program(program: Path, trusted: frozenset[int] = ONLY_ROOT) -> str | None:
    """Why somebody else than ``trusted`` uids could change what root would run as a unit; ``None``: nobody
    can.

    Looked at are the program, the interpreter, and every folder of code that it could load: its own packages,
    and all that Python finds modules in. Blocks for a second or two where there is much.
    """
    code = Path(__file__).resolve().parents[1]
    single = (program.resolve(), Path(sys.executable).resolve(), Path(sys.prefix), code)
    searched = {Path(each).resolve() for each in sys.path if Path(each).is_absolute()}
    if (code / ONLY_IN_A_CHECKOUT).is_file():
        searched.discard(code)
    trees = [code / name for name in PACKAGES] + sorted(each for each in searched if each.is_dir())
    try:
        for path in single:
            if (fault := distrust(path, trusted)) is not None:
                return str(fault)
        for tree in trees:
            for folder, _, _ in os.walk(tree):
                if (fault := distrust_inside(Path(folder), trusted)) is not None:
                    return str(fault)
    except OSError as error:
        return f"{error.filename} cannot be looked at: {error.strerror}"
    return None


def trusted_by_root(names: Sequence[str]) -> frozenset[int]:
    """Root's uid, and those of the accounts of these names. Raises ``SystemdTrouble``."""
    uids = {name: uid_of(name) for name in names}
    unknown = sorted(name for name, uid in uids.items() if uid is None)
    if unknown:
        raise SystemdTrouble(f"--trust names {', '.join(unknown)}, and there is no such account")
    return ONLY_ROOT | {uid for uid in uids.values() if uid is not None}


def make_account(name: str = ACCOUNT, home: Path = MACHINE_DATA) -> bool:
    """Make the service's account where it is missing; whether it was. Raises ``SystemdTrouble``."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        shell = "/usr/sbin/nologin"
        words = ["useradd", "--system", "--user-group", "--no-create-home"]
        words += ["--home-dir", str(home), "--shell", shell, name]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SystemdTrouble(f"the account {name} cannot be made: {error}; make it by hand") from error
        if done.returncode != 0:
            raise SystemdTrouble(
                f"the account {name} cannot be made (`{' '.join(words)}`: {done.stderr.strip()}); make it by "
                "hand, or install with --as-root"
            ) from None
        return True
    return False


def must_have_systemd(running: Path = RUNNING_SYSTEMD) -> None:
    """Raises ``SystemdTrouble`` where systemd does not run this machine."""
    if not running.is_dir() or shutil.which("systemctl") is None:
        raise SystemdTrouble(
            "systemd does not run this machine, so it cannot be asked to run the service; have whatever does "
            "run `fallow serve --data DIR`, or see the unit with `fallow service install --dry-run`"
        )


def tell_accounts(data: Path, name: str = ACCOUNT, file: Path = SYSTEM_FILE) -> bool:
    """Have root's file name the account that everybody believes; whether it was written now.

    A file that is there is left as it is. Raises ``SystemdTrouble`` where it names another account, or none.
    """
    content = f'[system]\naccount = "{name}"\ndata = "{data}"\n'
    content_now = system(file)
    if content_now.account == name:
        return False
    if file.exists():
        other = f"names {content_now.account}" if content_now.account else "names no account"
        raise SystemdTrouble(
            f"{file} {other}; people's commands believe this service once it says:\n{content}"
        )
    _write(file, content, for_user=False)
    return True


def install(folder: Path, units: Mapping[str, str], *, for_user: bool) -> None:
    """Write the units, enable them and start them anew. Blocks until ready. Raises ``SystemdTrouble``.

    Nothing is written where no systemd answers. Units of an installation that had more parts are taken away;
    a node beside a service shares its probe.
    """
    _ask(("show", "--property=Version"), for_user)
    for name in () if for_user or NODE in units else _parts(folder, NODE):
        if name not in units and (folder / name).exists():
            _ask(("disable", "--now", name), for_user)
            _remove(folder / name, for_user)
    for name, text in units.items():
        _write(folder / name, text, for_user)
    _ask(("daemon-reload",), for_user)
    for name in reversed([name for name in units if name != FAILED]):  # what the service asks is there first
        _ask(("enable", name), for_user)
        _ask(("restart", name), for_user)


def uninstall(folder: Path, *, for_user: bool, is_node: bool = False) -> None:
    """Stop all parts, and take their units away. Raises ``SystemdTrouble``."""
    if (folder / FAILED).exists() and not is_node:
        _ask(("stop", FAILED), for_user)
        _remove(folder / FAILED, for_user)
    names: tuple[str, ...]
    if is_node:
        names = (NODE,) if (folder / SERVICE).exists() else (NODE, PROBE)
    else:
        names = (SERVICE,) if for_user else (SERVICE, *_parts(folder, NODE))
    for name in names:
        if (folder / name).exists():
            _ask(("disable", "--now", name), for_user)
            _remove(folder / name, for_user)
    _ask(("daemon-reload",), for_user)


def _parts(folder: Path, beside: str) -> tuple[str, ...]:
    """The service's parts with root's powers that nobody else needs: a node beside it has the same probe."""
    return (HAND,) if (folder / beside).exists() else (PROBE, HAND)


def _write(file: Path, text: str, for_user: bool) -> None:
    """Whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.writing")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o644)
        draft.replace(file)
    except OSError as error:
        raise SystemdTrouble(f"cannot write {file}: {error.strerror}; {_who(for_user)}") from error


def _remove(unit: Path, for_user: bool) -> None:
    try:
        unit.unlink(missing_ok=True)
    except OSError as error:
        raise SystemdTrouble(f"cannot remove {unit}: {error.strerror}; {_who(for_user)}") from error


def standing(unit: Path, *, for_user: bool) -> Standing:
    """How the unit stands. Raises ``SystemdTrouble``."""
    output = _ask(("show", unit.name, "--property=ActiveState,SubState,UnitFileState,MainPID"), for_user)
    properties = dict(line.partition("=")[::2] for line in output.splitlines())
    pid = properties.get("MainPID", "0")
    return Standing(
        unit=unit,
        installed=unit.exists(),
        active=properties.get("ActiveState") or None,
        enabled=properties.get("UnitFileState") or None,
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
    )


def _ask(words: tuple[str, ...], for_user: bool) -> str:
    command = ["systemctl", *(["--user"] if for_user else []), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemdTrouble(f"`{' '.join(command)}` did not answer: {error}") from error
    if done.returncode != 0:
        message = done.stderr.strip() or f"status {done.returncode}"
        if for_user and NO_BUS in message:
            raise SystemdTrouble(NOT_LOGGED_IN)
        raise SystemdTrouble(f"`{' '.join(command)}` failed: {message}; see `journalctl -u {_named(words)}`")
    return done.stdout


def _named(words: tuple[str, ...]) -> str:
    """The unit that a question is about."""
    return NODE if NODE in words else SERVICE


def _who(for_user: bool) -> str:
    return "check the folder's rights" if for_user else "root can (sudo), or use --user for yourself alone"
