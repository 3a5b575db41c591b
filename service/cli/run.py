"""``fallow run -- COMMAND``: run a command on leased GPUs, here or in the background."""

import argparse
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.jobs.model import Elasticity
from advisor.state.model import ProjectName
from collector.model import JobId
from collector.procfs.owners import whose_uid
from service import names
from service.cli.asking import asked_to_act
from service.cli.streams import quiet_stdout
from service.client.jobs import ActingClient, connect_acting
from service.errors import ClientError, FallowError, JobEnded
from service.launcher import detaching
from service.launcher import order as orders
from service.launcher.calling_off import calling_off, why
from service.launcher.folder import StateDir, check_logs, meeting
from service.launcher.order import PROJECT_VARIABLE, BadOrder, Order
from service.launcher.submitting import submit
from service.printable import on_a_line

CANCEL_LIMIT_S = 5.0


class NotLeft(FallowError):
    """A detached job cannot be left behind."""


class NoHere(FallowError):
    """There is no folder to run in."""


def run_run(flags: argparse.Namespace) -> int:
    """Submit it, wait, run it; its exit status, as a shell says it."""
    order = _with_speeds(_read(flags), flags)
    if (shown := orders.shown_to_all(order.argv, flags.env)) is not None:
        print(f"fallow: {shown}; export it, and name it: --env NAME", file=sys.stderr)
    data = None if flags.data is None else flags.data.absolute()
    client = asked_to_act(flags, sys.stderr)
    if not (flags.project or os.environ.get(PROJECT_VARIABLE)):
        order = _in_own_project(order, client)
    if order.detach:
        check_logs()
    met = meeting(detached=order.detach)
    try:
        code = _launched(order, client, data, met)
    except BaseException:
        met.remove()
        raise
    if code is None:
        return 0
    met.remove()
    # After Ctrl-C it dies of that signal itself: a script's loop goes on after a mere status of 130.
    sys.stdout.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code if code >= 0 else 128 - code


def _launched(order: Order, client: ActingClient, data: Path | None, met: StateDir) -> int | None:
    """Submit it and be its launcher: its exit code; ``None``: a process of its own is that now."""
    jobs: list[JobId] = []
    with calling_off(lambda error: _cancel(order, jobs, data, error)):
        jobs.append(submit(client, order.submission))
        if order.detach and _is_left(order, jobs[0]):
            return None
        return detaching.run_here(order, jobs[0], data, met)


def _is_left(order: Order, job: JobId) -> bool:
    """Say its number, and go on twice: whether this is the one that may go."""
    log = detaching.make_log(job, order.submission.nonce)
    try:
        print(f"{job}\n{log}", flush=True)
        return detaching.is_original(log)
    except OSError as error:
        quiet_stdout()
        raise NotLeft(
            f"{job} is cancelled: its number cannot be printed, or no process made for it ({error.strerror})"
        ) from error


def _cancel(order: Order, jobs: Sequence[JobId], data: Path | None, error: BaseException) -> None:
    """Cancel what was submitted; where its number was not heard any more, the nonce finds it."""
    if not jobs and isinstance(error, ClientError):
        return  # the service has not taken it, or nobody can ask it
    try:
        client = connect_acting(data, timeout_s=CANCEL_LIMIT_S)
        job = jobs[0] if jobs else submit(client, order.submission)
        client.cancel(job, because=why(error), nonce=order.submission.nonce)
    except JobEnded:
        return
    except ClientError as trouble:
        print(f"fallow: {jobs[0] if jobs else 'the job'} is not cancelled: {trouble}", file=sys.stderr)


def _read(flags: argparse.Namespace) -> Order:
    """The order; without a project named, this machine's own idea of one. Raises ``BadOrder``, ``NoHere``."""
    user = whose_uid(os.getuid())
    return orders.read(
        flags,
        user=user,
        uid=os.getuid(),
        node=socket.gethostname(),
        folder=_here(),
        nonce=secrets.token_hex(16),
        project=os.environ.get(PROJECT_VARIABLE) or names.as_project(user),
        environment=os.environ,
    )


def _with_speeds(order: Order, flags: argparse.Namespace) -> Order:
    """The order with what its layers' times let expect on each number of GPUs. Raises ``BadOrder``."""
    if flags.layers is None:
        return order
    from advisor.burst.speeds import predicted_step_s
    from fallow.burst.table import BadTable, read_table
    from service.cli.burst import network_of, read_text

    submission = order.submission
    if submission.mobility is not Elasticity.ELASTIC:
        raise BadOrder(
            "--layers predicts the speeds between which an elastic training is resized: add --elastic"
        )
    if flags.max_micro_batch is not None and flags.max_micro_batch < 1:
        raise BadOrder("--max-micro-batch is a number of samples: 1 or more")
    try:
        table = read_table(read_text(flags.layers))
    except BadTable as error:
        raise BadOrder(f"--layers {flags.layers}: {error}") from error
    network = network_of(flags.network, None)
    speeds = predicted_step_s(table, 1, submission.max_gpus, network, flags.max_micro_batch)
    return replace(order, submission=replace(submission, step_s_predicted=speeds))


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise NoHere(
            f"the folder that this is run in is gone or closed to you ({error.strerror}): change to one that "
            "is there, and run it again"
        ) from error


def _in_own_project(order: Order, client: ActingClient) -> Order:
    """The order in its caller's own project, by the name that the service knows; says where it differs."""
    try:
        user = client.whoami().name
    except ClientError:
        user = order.submission.user
    own = names.as_project(user)
    if own != user:
        print(
            f"fallow: the job's project is {own}, because your own name, {on_a_line(user)}, cannot be one; "
            f"name another with --project or ${PROJECT_VARIABLE}",
            file=sys.stderr,
        )
    return replace(order, submission=replace(order.submission, user=user, project=ProjectName(own)))
