"""``fallow run -- COMMAND``: run a command on leased GPUs, here or in the background."""

import argparse
import os
import secrets
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.model import ProjectName
from advisor.register.model import Submission
from advisor.written import to_tree
from collector.model import JobId
from collector.procfs.accounts import name_of
from service import names
from service.client.acting import ActingClient, connect_acting
from service.client.errors import ClientError, ServiceDown
from service.launcher import detaching
from service.launcher import order as orders
from service.launcher.order import PROJECT_VARIABLE, Order
from service.launcher.voice import plain
from service.trouble import Trouble

SUBMIT_LIMIT_S = 10.0
AGAIN_S = 0.5
NOT_SENT = ("user", "uid")
"""The service knows who calls."""


class NoHere(Trouble):
    """There is no folder to run in."""


def run(flags: argparse.Namespace) -> int:
    """Submit it, wait, run it; its exit status, as a shell says it."""
    order = _read(flags)
    data = None if flags.data is None else flags.data.absolute()
    client = connect_acting(data)
    if not _named_project(flags):
        order = _in_own_project(order, client)
    entry = submit(client, order.submission)
    job = JobId(str(entry["job"]))
    if order.detach:
        log = detaching.make_log(job, order.submission.nonce)
        print(f"{job}\n{log}", flush=True)
        if detaching.is_original(log):
            return 0
    return _leave(detaching.run_here(order, job, data))


def submit(client: ActingClient, submission: Submission) -> dict[str, Any]:
    """The new entry; asked again when the line breaks, which the nonce makes safe. Raises ``ClientError``."""
    body = {name: value for name, value in to_tree(submission).items() if name not in NOT_SENT}
    until_s = time.monotonic() + SUBMIT_LIMIT_S
    while True:
        try:
            return client.submit(body)
        except ServiceDown:
            if time.monotonic() + AGAIN_S > until_s:
                raise
            time.sleep(AGAIN_S)


def _read(flags: argparse.Namespace) -> Order:
    """The order; without a project named, this machine's own idea of one. Raises ``BadOrder``, ``NoHere``."""
    user = name_of(os.getuid())
    return orders.read(
        flags,
        user=user,
        uid=os.getuid(),
        node=socket.gethostname(),
        folder=_here(),
        nonce=secrets.token_hex(16),
        project=os.environ.get(PROJECT_VARIABLE) or names.as_project(user),
    )


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise NoHere(
            f"the folder that this is run in is gone or closed to you ({error.strerror}): change to one that "
            "is there, and run it again"
        ) from error


def _named_project(flags: argparse.Namespace) -> bool:
    return bool(flags.project or os.environ.get(PROJECT_VARIABLE))


def _in_own_project(order: Order, client: ActingClient) -> Order:
    """The order in its caller's own project, by the name that the service knows; says where it differs."""
    try:
        user = str(client.whoami()["name"])
    except (ClientError, KeyError):
        user = order.submission.user
    own = names.as_project(user)
    if own != user:
        print(
            f"fallow: the job's project is {own}, because your own name, {plain(user)}, cannot be one; name "
            f"another with --project or ${PROJECT_VARIABLE}",
            file=sys.stderr,
        )
    return replace(order, submission=replace(order.submission, user=user, project=ProjectName(own)))


def _leave(code: int) -> int:
    """The status of a job that ended with ``code``. After Ctrl-C, die of it: a script's loop must see it."""
    sys.stdout.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code if code >= 0 else 128 - code
