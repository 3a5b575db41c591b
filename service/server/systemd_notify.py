"""Tells systemd that the service is ready, and that it stops; elsewhere it does nothing. sd_notify(3)."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` where somebody waits for it; never raises."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection,
    ):
        connection.sendto(state.encode(), target)
