"""What is started for a job on its lease: each worker's command and environment."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.engines.mps import DEFAULT_DIRECTORY, folder_fault
from advisor.jobs.gpu_sharing import NO_DAEMON_DIRECTORY, PIPE_DIRECTORY
from advisor.jobs.model import Elasticity
from service.launcher import world
from service.launcher.folder import StateDir
from service.launcher.idle_gaps import OTHERS_GAPS, OWN_GAPS
from service.launcher.model import Lease
from service.launcher.order import CONTROLLER, Order, elastic_parts

JOB_SOCKET = "FALLOW_JOB_SOCKET"
"""Where ``fallow`` in a plain job listens for requests."""
SAVED = "FALLOW_SAVED"
"""The file that a job touches when what it was asked to save is saved."""
JOB = "FALLOW_JOB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One worker's command and whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def starts(
    order: Order,
    lease: Lease,
    *,
    job: str,
    own: Mapping[str, str],
    meeting: StateDir,
    restarted: int,
    gaps: Mapping[str, str],
) -> tuple[Start, ...]:
    """A launch's workers in rank order; ``own`` is the launcher's environment, ``gaps`` says where idle gaps
    are told. Looks for free ports.
    """
    variables = {**own, **order.environment, JOB: job}
    user = {name: each for name, each in variables.items() if name not in (OWN_GAPS, OTHERS_GAPS)} | {**gaps}
    places = world.environments(
        order.workers,
        lease.gpus,
        free_ports(world.ports_needed(order.workers, len(lease.gpus))),
        job=job,
        restarts=restarted,
        most_restarts=order.submission.restarts,
    )
    result = []
    for index, place in enumerate(places):
        meets = {SAVED: str(meeting.saved), JOB_SOCKET: str(meeting.job(index))}
        if order.submission.mobility is Elasticity.ELASTIC:
            meets = {}
        env = world.joined(user, lease.settings, place | meets, threads=len(places) > 1)
        result.append(Start(argv=command(order, lease, meeting), env=env))
    return tuple(result)


def command(order: Order, lease: Lease, meeting: StateDir) -> tuple[str, ...]:
    """What is run: the user's command, an elastic training by way of its controller."""
    submission = order.submission
    if submission.mobility is not Elasticity.ELASTIC:
        return order.argv
    python, options, script = elastic_parts(order.argv)
    return (
        *python,
        "-m",
        CONTROLLER,
        *options,
        *("--min", str(submission.min_gpus), "--max", str(submission.max_gpus)),
        *("--devices", ",".join(lease.gpus), "--socket", str(meeting.control)),
        "--",
        *script,
    )


def without_strangers(
    settings: tuple[tuple[str, str], ...], user: Mapping[str, str], default: str = DEFAULT_DIRECTORY
) -> tuple[tuple[tuple[str, str], ...], str | None]:
    """The lease's settings, without a meeting place of MPS that isn't this account's or root's; what to say.

    Where neither lease nor user names one, CUDA looks at the default place, which anybody may have made.
    """
    named = dict(settings).get(PIPE_DIRECTORY)
    if named == NO_DAEMON_DIRECTORY or (named is None and PIPE_DIRECTORY in user):
        return settings, None
    place = named or default
    try:
        fault = folder_fault(Path(place), os.getuid())
    except FileNotFoundError:
        fault = None if named is None else f"there is no {place} any more"
    except OSError as error:
        fault = f"{place} cannot be looked at: {error.strerror}"
    if fault is None:
        return settings, None
    apart = tuple((name, value) for name, value in settings if name != PIPE_DIRECTORY)
    remark = None if named is None else f"the job runs without MPS: {fault}"
    return (*apart, (PIPE_DIRECTORY, NO_DAEMON_DIRECTORY)), remark


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens at now. They are not held, so another program may be faster."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for each in sockets:
            each.bind((world.HOST, 0))
        return tuple(int(each.getsockname()[1]) for each in sockets)
    finally:
        for each in sockets:
            each.close()
