"""The store of a job, hosted in its controller's process."""

import socket
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist

PATIENCE = timedelta(seconds=30)
BACKLOG = 1024
"""All workers connect at once."""


def hosted(host: str) -> "dist.TCPStore":
    """A store that listens on ``host`` alone: left to itself it would listen on every interface."""
    import torch.distributed as dist  # takes a second, which ``resize N`` on the socket need not wait for

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((host, 0))
    listener.listen(BACKLOG)
    port = listener.getsockname()[1]
    return dist.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=PATIENCE,
        master_listen_fd=listener.detach(),
    )
