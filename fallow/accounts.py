"""Which account of this machine is at the other end of a socket, owns a process or a file: the kernel's word.

What a peer says of itself is believed nowhere; what is asked here, it cannot choose. ``None`` is not known:
no Linux, or a process that has gone.
"""

import os
import socket
import struct
from pathlib import Path

ROOT = 0
NOBODY = -1
"""No one account: of a socket, its other end was closed already, which the kernel calls root's."""
CREDENTIALS = struct.Struct("3i")
"""``struct ucred`` of unix(7): pid, uid, gid."""
NO_INODE = "0"
TCP_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""A client that asks for ``::ffff:127.0.0.1`` stands in the second, though its packets are IPv4's."""


def of_socket(connection: socket.socket) -> int | None:
    """The account at the other end of a local socket: who called connect(2), or listen(2), there."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[1])


def at_other_end(connection: socket.socket) -> int | None:
    """The account that made the other end of a TCP connection over loopback (proc_pid_net(5))."""
    ends = _hexadecimal(connection.getpeername()), _hexadecimal(connection.getsockname())
    for table in TCP_TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if _is(fields[1], ends[0]) and _is(fields[2], ends[1]):
                return int(fields[7]) if fields[9] != NO_INODE else NOBODY
    return None


def of_process(pid: int) -> int | None:
    """The account that process ``pid`` acts for (proc_pid_status(5)); NOBODY for one that acts for several.

    The owner of ``/proc/PID`` would not do: it is root for a process that has changed its account.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    fields = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
    return int(fields[0]) if fields and len(set(fields)) == 1 else NOBODY


def is_ours(account: int | None) -> bool:
    """Whether ``account`` is this process's, or root, who can do as it likes anyway."""
    return account in (os.geteuid(), ROOT)


def _hexadecimal(end: tuple[str, int]) -> tuple[str, str]:
    """An IPv4 address and port as the kernel's tables write them: the address in the machine's byte order."""
    (address,) = struct.unpack("=I", socket.inet_aton(end[0]))
    return f"{address:08X}", f"{end[1]:04X}"


def _is(field: str, end: tuple[str, str]) -> bool:
    address, port = field.split(":")
    return port == end[1] and address[-8:] == end[0]
