"""The systemd unit of the service: what it says (pure), where it goes, and what systemd makes of it.

The machine's unit runs as root, because whose a process is and what it holds can be read by nobody less; root
with three capabilities only, a read-only file system but for its own folder, and no way to more. A single
user's unit has no powers to give up. Sources: systemd.exec(5), systemd.service(5), sd_notify(3).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.trouble import Trouble

UNIT = "fallow.service"
RUNNING_SYSTEMD = Path("/run/systemd/system")
MACHINE_UNITS = Path("/etc/systemd/system")
MACHINE_DATA = Path("/var/lib/fallow")
PATIENCE_S = 30
NO_BUS = "Failed to connect to bus"
NOT_LOGGED_IN = (
    "no systemd of yours runs: log in to this machine itself (not by su or sudo), or have root run "
    "`loginctl enable-linger YOU`, which keeps one running"
)

SHIELD = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""

MACHINE_SHIELD = """\
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL
SupplementaryGroups=tty
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""


class SystemdTrouble(Trouble):
    """systemd is not there, or refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is to run: the service's command, on which DATA, for whom. ``None`` data: systemd's folder."""

    program: tuple[str, ...]
    data: Path | None
    config: Path | None
    for_user: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What systemd says of the unit; ``active`` and ``enabled`` in its own words."""

    unit: Path
    installed: bool
    active: str | None
    enabled: str | None
    pid: int | None


def unit_text(wanted: Deployment) -> str:
    """The unit's file. Pure."""
    data = str(wanted.data) if wanted.data is not None else "%S/fallow"
    words = [*wanted.program, "serve", "--data", data]
    if wanted.config is not None:
        words += ["--config", str(wanted.config)]
    command = " ".join(word if word == "%S/fallow" else quoted(word) for word in words)
    place = "StateDirectory=fallow\nStateDirectoryMode=0750\n"
    if wanted.data is not None:
        place = "" if wanted.for_user else f"ReadWritePaths={quoted('-' + str(wanted.data))}\n"
    return (
        "[Unit]\n"
        "Description=Fallow, which finds GPU hours that lie fallow and gives them back\n"
        "After=network.target nvidia-persistenced.service\n"
        "StartLimitIntervalSec=300\nStartLimitBurst=10\n\n"
        "[Service]\n"
        f"Type=notify\nNotifyAccess=main\nExecStart={command}\n"
        "Restart=on-failure\nRestartSec=2\nTimeoutStartSec=60\nTimeoutStopSec=15\nKillMode=mixed\n"
        f"{place}RuntimeDirectory=fallow\nRuntimeDirectoryMode=0755\nUMask=0027\nLimitNOFILE=16384\n"
        f"{SHIELD}{'' if wanted.for_user else MACHINE_SHIELD}\n"
        "[Install]\n"
        f"WantedBy={'default.target' if wanted.for_user else 'multi-user.target'}\n"
    )


def quoted(word: str) -> str:
    """A word of a command line as systemd reads it back; systemd.syntax(7). Raises ``SystemdTrouble``."""
    if not word.isprintable():
        raise SystemdTrouble(f"{word!r} holds characters that a unit cannot; choose another path")
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return safe if safe and not set(safe) & set(" '\"\\;") else f'"{safe}"'


def unit_file(for_user: bool, environment: Mapping[str, str]) -> Path:
    """Where the unit belongs."""
    if not for_user:
        return MACHINE_UNITS / UNIT
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")) / ".config")
    return Path(home).expanduser() / "systemd" / "user" / UNIT


def this_program() -> tuple[str, ...]:
    """The command that is this program: the ``fallow`` beside this Python, else the module itself."""
    beside = Path(sys.executable).with_name("fallow")
    if os.access(beside, os.X_OK):
        return (str(beside),)
    return (sys.executable, "-P", "-m", "service.cli")


def must_have_systemd(running: Path = RUNNING_SYSTEMD) -> None:
    """Raises ``SystemdTrouble`` where systemd does not run this machine."""
    if not running.is_dir() or shutil.which("systemctl") is None:
        raise SystemdTrouble(
            "systemd does not run this machine, so it cannot be asked to run the service; have whatever does "
            "run `fallow serve --data DIR`, or see the unit with `fallow service install --dry-run`"
        )


def install(unit: Path, text: str, *, for_user: bool) -> None:
    """Write the unit, enable it and start it anew. Blocks until it is ready. Raises ``SystemdTrouble``.

    Nothing is written where no systemd answers.
    """
    _ask(("show", "--property=Version"), for_user)
    try:
        unit.parent.mkdir(parents=True, exist_ok=True)
        draft = unit.with_name(f".{unit.name}.writing")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o644)
        draft.replace(unit)
    except OSError as error:
        raise SystemdTrouble(f"cannot write {unit}: {error.strerror}; {_who(for_user)}") from error
    for words in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT)):
        _ask(words, for_user)


def uninstall(unit: Path, *, for_user: bool) -> None:
    """Stop the service, and take the unit away. Raises ``SystemdTrouble``."""
    _ask(("disable", "--now", UNIT), for_user)
    try:
        unit.unlink(missing_ok=True)
    except OSError as error:
        raise SystemdTrouble(f"cannot remove {unit}: {error.strerror}; {_who(for_user)}") from error
    _ask(("daemon-reload",), for_user)


def standing(unit: Path, *, for_user: bool) -> Standing:
    """How the unit stands. Raises ``SystemdTrouble``."""
    said = _ask(("show", UNIT, "--property=ActiveState,SubState,UnitFileState,MainPID"), for_user)
    found = dict(line.partition("=")[::2] for line in said.splitlines())
    pid = found.get("MainPID", "0")
    return Standing(
        unit=unit,
        installed=unit.exists(),
        active=found.get("ActiveState") or None,
        enabled=found.get("UnitFileState") or None,
        pid=int(pid) if pid.isdigit() and pid != "0" else None,
    )


def _ask(words: tuple[str, ...], for_user: bool) -> str:
    command = ["systemctl", *(["--user"] if for_user else []), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemdTrouble(f"`{' '.join(command)}` did not answer: {error}") from error
    if done.returncode != 0:
        found = done.stderr.strip() or f"status {done.returncode}"
        if for_user and NO_BUS in found:
            raise SystemdTrouble(NOT_LOGGED_IN)
        raise SystemdTrouble(f"`{' '.join(command)}` failed: {found}; see `journalctl -u {UNIT}`")
    return done.stdout


def _who(for_user: bool) -> str:
    return "check the folder's rights" if for_user else "root can (sudo), or use --user for yourself alone"
