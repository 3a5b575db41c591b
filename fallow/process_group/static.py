"""A world that nobody resizes: the workers that ``torchrun`` started, or srun or mpirun, by their variables.

The same arithmetic as under a controller, so the same guarantees, except that nobody replaces a worker that
dies. A store of its own is used, or the launcher's, never torch's global process group: a script may have its
own use for that.

These launchers give their workers no secret, so nothing here is sealed: as with any training under them,
whoever can reach the store and the workers' ports is believed. Where all workers are on one machine, ports
are opened on loopback alone.
"""

import ipaddress
import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from fallow.errors import Mistake
from fallow.process_group import group as groups
from fallow.process_group.collectives import Group, GroupBroken
from fallow.process_group.membership_client import Holder
from fallow.process_group.state_transfer import receive_state, send_state

MEET_TIMEOUT = timedelta(minutes=10)
"""How far apart workers may start; data sets are downloaded in that time."""
LOOPBACK = "127.0.0.1"
BACKLOG = 1024
"""Workers connect all at once."""
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def from_environment(environment: Mapping[str, str], device: torch.device) -> Group | None:
    """The group of all workers of the launcher's world; ``None`` when there is no launcher, or one worker.

    Blocks until all have come. Raises Mistake for senseless variables, GroupBroken if someone stays away.
    """
    if "WORLD_SIZE" not in environment or "RANK" not in environment:
        return None
    rank, world_size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if world_size == 1:
        return None
    missing = [name for name in VARIABLES if name not in environment]
    if missing or not 0 <= rank < world_size:
        raise Mistake(
            f"RANK={rank} and WORLD_SIZE={world_size} are set"
            + (f", but {' and '.join(missing)} not" if missing else ", which cannot be")
            + ": start the workers with torchrun, or unset them to train alone"
        )
    if _number(environment, "MASTER_PORT") == 0:
        raise Mistake(
            "MASTER_PORT=0 is any free port, which each worker would choose for itself: give torchrun a port "
            "(--master-port=29500), or leave it out with --standalone"
        )
    store = _store(environment, rank, world_size)
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    turn = store.add(f"fallow/{restarts}/turn/{rank}", 1)  # a script may connect more than once
    meeting = dist.PrefixStore(f"fallow/{restarts}/{turn}", store)
    meeting.set(f"here/{rank}", "1")
    try:
        meeting.wait([f"here/{other}" for other in range(world_size)], MEET_TIMEOUT)
    except dist.DistStoreError as error:
        raise GroupBroken(
            f"rank {rank} waited {MEET_TIMEOUT} for the other workers of {world_size}: {error}"
        ) from error
    host = LOOPBACK if _is_one_machine(environment) else None
    # A miss ends the training here, and nobody waits for another try.
    return groups.connect(meeting, rank, world_size, device, host, nccl_timeout=MEET_TIMEOUT)


def spread(group: Group, holder: Holder) -> None:
    """Everybody starts from rank 0's state, as it was made or resumed there. Raises GroupBroken."""
    if group.rank == 0:
        state: Any = holder.state()
        for other in range(1, group.world_size):
            send_state(group, other, state, holder.device)
    else:
        holder.load(receive_state(group, 0, holder.state(), holder.device))


def place(device: torch.device | str, environment: Mapping[str, str]) -> torch.device:
    """``device``; for a GPU without a number the one that LOCAL_RANK names, if this process sees several.

    A GPU is this thread's current one afterwards: scripts and libraries that name none mean it. Raises
    Mistake for one that this process doesn't see.
    """
    wanted_device = torch.device(device)
    if wanted_device.type != "cuda":
        return wanted_device
    index, count = wanted_device.index, torch.cuda.device_count()
    if count == 0:
        raise Mistake(
            f"connect({str(wanted_device)!r}): this process sees no GPU; look at CUDA_VISIBLE_DEVICES, the "
            'driver (nvidia-smi) and whether this torch was built for GPUs, or train with connect("cpu")'
        )
    if index is None:
        local_rank = int(environment.get("LOCAL_RANK", "0"))
        index = local_rank if local_rank < count else torch.cuda.current_device()
    elif index >= count:
        raise Mistake(
            f"connect({str(wanted_device)!r}): this process sees {count} GPUs, numbered from 0; name another"
        )
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _is_one_machine(environment: Mapping[str, str]) -> bool:
    """Whether all workers are here: torchrun counts them, others give an address that leads nowhere else."""
    return environment.get("LOCAL_WORLD_SIZE") == environment["WORLD_SIZE"] or _is_loopback(
        environment["MASTER_ADDR"]
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listener(host: str, port: int) -> int | None:
    """A descriptor that listens on ``host`` alone; ``None`` leaves it to the store, which takes any address.

    So where this process listens there already: a script that connects twice shares its first store.
    """
    try:
        listener = socket.create_server((host, port), backlog=BACKLOG)
    except OSError:
        return None
    return listener.detach()


def _store(environment: Mapping[str, str], rank: int, world_size: int) -> dist.Store:
    hosted_by_agent = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    host, port = environment["MASTER_ADDR"], _number(environment, "MASTER_PORT")
    hosts = rank == 0 and not hosted_by_agent
    return dist.TCPStore(
        host,
        port,
        world_size=None,
        is_master=hosts,
        master_listen_fd=_listener(host, port) if hosts and _is_loopback(host) else None,
        timeout=MEET_TIMEOUT,
        wait_for_workers=False,
        multi_tenant=True,
    )


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise Mistake(f"{name}={environment[name]!r} is no number: torchrun sets it, or unset it") from None
