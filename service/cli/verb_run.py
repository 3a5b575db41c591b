"""``fallow run -- COMMAND``: run a command on leased GPUs, here or in the background."""

import argparse
import getpass
import os
import secrets
import signal
import socket
import sys
from pathlib import Path

from collector.model import JobId
from service.client.acting import connect_acting
from service.launcher import detaching
from service.launcher import order as orders
from service.launcher.order import Order
from service.launcher.submitting import submit

PROJECT_VARIABLE = "FALLOW_PROJECT"


def run(flags: argparse.Namespace) -> int:
    """Submit it, wait, run it; its exit status, as a shell says it."""
    order = _read(flags)
    data = None if flags.data is None else flags.data.absolute()
    entry = submit(connect_acting(data), order.submission)
    job = JobId(str(entry["job"]))
    if order.detach:
        log = detaching.make_log(job, order.submission.nonce)
        print(f"{job}\n{log}", flush=True)
        if detaching.is_original(log):
            return 0
    return _leave(detaching.run_here(order, job, data))


def _read(flags: argparse.Namespace) -> Order:
    user = getpass.getuser()
    return orders.read(
        flags,
        user=user,
        uid=os.getuid(),
        node=socket.gethostname(),
        folder=str(Path.cwd()),
        nonce=secrets.token_hex(16),
        project=os.environ.get(PROJECT_VARIABLE) or user,
    )


def _leave(code: int) -> int:
    """The status of a job that ended with ``code``. After Ctrl-C, die of it: a script's loop must see it."""
    sys.stdout.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code if code >= 0 else 128 - code
