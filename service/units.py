"""The texts of systemd's units, and what each part may do. Pure.

    fallow.service         the service: an account of its own, no capability, no way to more
    fallow-probe.service   root, reads /proc of all users; changes nothing, no network, no devices
    fallow-hand.service    root, CUDA's checkpoint and messages on terminals; no network. It may become the
                           account whose process it is to pause: the driver takes that from nobody else
    fallow-failed.service  the service's account; when that fails for good: tells operators, starts it anew
    fallow-node.service    in place of all but the probe, on a machine that pushes to a head

``ProtectClock`` and ``PrivateDevices`` are left out where NVML or CUDA is called: both take /dev/nvidia* away
(the first by way of ``DeviceAllow=char-rtc``, which closes every other device). Sources: systemd.exec(5),
systemd.resource-control(5), systemd.service(5), sd_notify(3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.errors import FallowError

SERVICE, PROBE, HAND = "fallow.service", "fallow-probe.service", "fallow-hand.service"
NODE = "fallow-node.service"
FAILED = "fallow-failed.service"
"""What systemd starts when the service has failed so often that it would give up."""
STARTS, WITHIN_S = 10, 300
"""So many starts within so long, and systemd tries no more by itself: the fault won't go by itself soon."""
ACCOUNT = "fallow"
PROBE_SOCKET, HAND_SOCKET = "/run/fallow-probe/probe.sock", "/run/fallow-hand/hand.sock"
MACHINE_DATA = Path("/var/lib/fallow")
NODE_CONFIG = Path("/etc/fallow/node.toml")
"""Not in DATA: machines that are set up by the hundred have settings in /etc, a spool in /var/lib."""

USER_SHIELD = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""

SHIELD = f"""\
{USER_SHIELD}ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictNamespaces=yes
KeyringMode=private
SystemCallFilter=@system-service
SystemCallFilter=~@clock @privileged @obsolete
SystemCallErrorNumber=EPERM
"""
"""What every part of the machine's installation gives up."""

ROOT_SHIELD = f"""\
{USER_SHIELD}CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL
SupplementaryGroups=tty
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallFilter=~@clock
"""
"""Of a service that runs as root by the administrator's choice (``--as-root``), without probe and hand."""


class UnitTrouble(FallowError):
    """Something that no unit can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is to run: the service's command, on which DATA, for whom. ``None`` data: systemd's folder.

    ``probe`` and ``hand`` are their commands. ``as_root``: the service reads and acts by itself, as root.
    ``is_node``: the machine is measured for a head elsewhere, and nothing is decided here.
    """

    program: tuple[str, ...]
    data: Path | None
    config: Path | None
    for_user: bool
    probe: tuple[str, ...] = ()
    hand: tuple[str, ...] = ()
    as_root: bool = False
    is_node: bool = False


def units(deployment: Deployment) -> Mapping[str, str]:
    """The units of a deployment by name, the service's first. Raises ``UnitTrouble``."""
    if deployment.is_node:
        return {NODE: node_unit(deployment), PROBE: _probe_unit(deployment)}
    texts = {SERVICE: service_unit(deployment), FAILED: _failed_unit(deployment)}
    if deployment.for_user or deployment.as_root:
        return texts
    return {**texts, PROBE: _probe_unit(deployment), HAND: _hand_unit(deployment)}


def service_unit(deployment: Deployment) -> str:
    """The unit's file of the service."""
    command = _command(deployment, "serve")
    place = "StateDirectory=fallow\nStateDirectoryMode=0750\n"
    if deployment.data is not None:
        place = "" if deployment.for_user else f"ReadWritePaths={quoted('-' + str(deployment.data))}\n"
    apart = not (deployment.for_user or deployment.as_root)
    return (
        "[Unit]\n"
        "Description=Fallow, which finds GPU hours that lie fallow and gives them back\n"
        f"After=network.target nvidia-persistenced.service{f' {PROBE} {HAND}' if apart else ''}\n"
        f"{f'Wants={PROBE} {HAND}' + chr(10) if apart else ''}"
        f"StartLimitIntervalSec={WITHIN_S}\nStartLimitBurst={STARTS}\nOnFailure={FAILED}\n\n"
        "[Service]\n"
        f"Type=notify\nNotifyAccess=main\nExecStart={command}\n"
        "Restart=on-failure\nRestartSec=2\nTimeoutStartSec=60\nTimeoutStopSec=15\nKillMode=mixed\n"
        f"{place}RuntimeDirectory=fallow{'' if deployment.for_user else ' fallow-gpus'}\n"
        f"RuntimeDirectoryMode=0755\nRuntimeDirectoryPreserve=yes\nUMask=0027\nLimitNOFILE=16384\n"
        f"{_powers(deployment)}\n"
        "[Install]\n"
        f"WantedBy={'default.target' if deployment.for_user else 'multi-user.target'}\n"
    )


def node_unit(deployment: Deployment) -> str:
    """The unit's file of a machine that pushes. It is started again for ever: nobody looks at each of many.

    Its token is read by the account; the network is there for the head alone.
    """
    command = _command(deployment, "node")
    place = "StateDirectory=fallow-node\nStateDirectoryMode=0750\n"
    if deployment.data is not None:
        place = f"ReadWritePaths={quoted('-' + str(deployment.data))}\n"
    return (
        "[Unit]\n"
        "Description=Fallow's node: measures this machine's GPUs and pushes that to a head\n"
        f"Wants=network-online.target {PROBE}\n"
        f"After=network-online.target nvidia-persistenced.service {PROBE}\nStartLimitIntervalSec=0\n\n"
        "[Service]\n"
        f"Type=notify\nNotifyAccess=main\nExecStart={command}\n"
        "Restart=always\nRestartSec=10\nTimeoutStartSec=60\nTimeoutStopSec=15\nKillMode=mixed\n"
        f"{place}UMask=0077\n{_powers(deployment)}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _failed_unit(deployment: Deployment) -> str:
    """The unit that tells operators that the service failed for good, and starts it anew a while later.

    It is not over before the start limit of the other one is, or systemd would refuse that start.
    """
    return (
        "[Unit]\n"
        "Description=Tell that Fallow's service does not start, and try again a while later\n"
        f"OnSuccess={SERVICE}\n\n"
        "[Service]\n"
        f"Type=oneshot\nExecStart=-{_command(deployment, 'service', 'tell-failure')}\n"
        f"ExecStart=/bin/sleep {WITHIN_S}\n"
        "RuntimeDirectory=fallow-failed\nRuntimeDirectoryPreserve=yes\nUMask=0027\n"
        f"{_powers(deployment)}"
    )


def _command(deployment: Deployment, *verb: str) -> str:
    place = "%S/fallow-node" if deployment.is_node else "%S/fallow"
    data = str(deployment.data) if deployment.data is not None else place
    words = [*deployment.program, *verb, "--data", data]
    if deployment.config is not None:
        words += ["--config", str(deployment.config)]
    return " ".join(argument if argument == place else quoted(argument) for argument in words)


def _powers(deployment: Deployment) -> str:
    if deployment.for_user:
        return USER_SHIELD
    if deployment.as_root:
        return ROOT_SHIELD
    hand = "" if deployment.is_node else f" FALLOW_HAND={HAND_SOCKET}"
    return (
        f"User={ACCOUNT}\nGroup={ACCOUNT}\nCapabilityBoundingSet=\nAmbientCapabilities=\n"
        f"Environment=FALLOW_PROBE={PROBE_SOCKET}{hand}\n"
        f"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\nRemoveIPC=yes\n{SHIELD}"
    )


def _probe_unit(deployment: Deployment) -> str:
    command = (*deployment.probe, "--socket", PROBE_SOCKET, "--user", ACCOUNT)
    return _root_unit(
        "Fallow's probe: reads /proc of all users for the service",
        command,
        "RuntimeDirectory=fallow-probe\nRuntimeDirectoryMode=0755\nPrivateDevices=yes\nProtectClock=yes\n",
    )


def _hand_unit(deployment: Deployment) -> str:
    data = MACHINE_DATA if deployment.data is None else deployment.data
    command = (
        *deployment.hand,
        "--socket",
        HAND_SOCKET,
        "--user",
        ACCOUNT,
        "--journal",
        "/var/lib/fallow-hand",
        "--stop-file",
        str(data / "stop-acting"),
    )
    return _root_unit(
        "Fallow's hand: CUDA's process checkpoint and messages on terminals, by a closed list of verbs",
        command,
        "RuntimeDirectory=fallow-hand\nRuntimeDirectoryMode=0755\n"
        "StateDirectory=fallow-hand\nStateDirectoryMode=0700\nSupplementaryGroups=tty\n",
        powers=f"{LOOKING} {BECOMING}",
        # What was begun goes on when the hand is stopped or started anew: a job half restored is lost.
        more=f"KillMode=process\nSystemCallFilter={' '.join(BECOMING_CALLS)}\n",
    )


LOOKING = "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
"""To look into processes, and into folders."""
BECOMING = "CAP_SETUID CAP_SETGID"
"""To become another account (credentials(7)); who has become one has none of them any more."""
BECOMING_CALLS = ("setgroups", "setreuid", "setregid")
"""What a child calls for that before its program begins; allowed again after @privileged was taken away."""


def _root_unit(
    about: str, command: tuple[str, ...], own: str, *, powers: str = LOOKING, more: str = ""
) -> str:
    """A part that keeps a few of root's powers."""
    return (
        f"[Unit]\nDescription={about}\n\n"
        f"[Service]\nType=notify\nNotifyAccess=main\nExecStart={' '.join(map(quoted, command))}\n"
        "Restart=on-failure\nRestartSec=2\nTimeoutStopSec=15\nUMask=0027\n"
        f"Group={ACCOUNT}\n{own}"
        f"CapabilityBoundingSet={powers}\n"
        f"PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\n{SHIELD}{more}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def quoted(argument: str) -> str:
    """A word of a command line as systemd reads it back; systemd.syntax(7). Raises ``UnitTrouble``."""
    if not argument.isprintable():
        raise UnitTrouble(f"{argument!r} holds characters that a unit cannot; choose another path")
    safe = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return safe if safe and not set(safe) & set(" '\"\\;") else f'"{safe}"'
