"""Connects the workers that compute together now, over whatever carries their tensors.

``init_process_group`` is global state, so the old group and its successor could not live side by side;
groups are built directly on a store prefix instead. No policy here: who is in a group, the plan says.

    CPU                                                       gloo
    GPUs, one a worker                                        NCCL
    GPUs of which two workers name the same, or ENV_BACKEND   gloo over copies on the host (``staged_group``)
    any other device                                          the same
"""

import atexit
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from weakref import WeakSet

import torch
import torch.distributed as dist

from fallow.errors import Mistake
from fallow.process_group import address_store, connections, local_copy, nccl_group
from fallow.process_group.address_store import Meeting
from fallow.process_group.collectives import Alone, Group, GroupBroken
from fallow.process_group.connections import Connections
from fallow.process_group.staged_group import StagedGroup
from fallow.process_group.torch_group import TorchGroup
from fallow.workers.interfaces import was_chosen

CONNECT_TIMEOUT = timedelta(seconds=10)
"""For gloo, and for what is told before anybody connects."""
NCCL_TIMEOUT = timedelta(seconds=60)
"""For NCCL's communicator: it loads libraries of hundreds of MB and looks at the machine's links first. One
rank alone took 0.5 s on an H100 (2026-11-26); how long many take, nobody has seen here."""
ENV_STEP_TIMEOUT = "FALLOW_STEP_TIMEOUT_S"
STEP_TIMEOUT_S = 120.0
"""How long a worker waits for another in a sum, unless ENV_STEP_TIMEOUT says otherwise.

The dead are noticed at once, the frozen are ended by the controller, and a wait for peers that are cut off is
ended where the group's connections are known (``connections``); this is for all others. A worker that is
merely slower than that costs a step taken again, nothing more.
"""
LONGEST_STEP_S = 2_592_000
"""30 days, after which torch itself would end the wait (``nccl_group.NEVER``)."""
PEER_SILENCE_S = 6
"""A machine whose kernel acknowledges nothing for so long is cut off, and its group ends. A cable that is out
for less changes nothing; the controller, which is told, then waits no longer for that machine's agent."""
ENV_BACKEND = "FALLOW_BACKEND"
"""``gloo``: sums go over copies on the host though every worker has a GPU of its own. If one member says so,
all do. ``nccl``, said by all: over NCCL though two have one GPU, which NCCL 2.30 allows where
NCCL_MULTI_RANK_GPU_ENABLE=1; earlier ones refuse it."""
BACKENDS = ("gloo", "nccl")
OWN_SUMS: dict[str, Callable[..., Group]] = {"cuda": nccl_group.connect}
"""Devices that sum among themselves, and what connects them."""


def connect(
    store: dist.Store,
    rank: int,
    world_size: int,
    device: torch.device,
    host: str | None = None,
    *,
    prove: Callable[[Group], None] = lambda group: None,
    nccl_timeout: timedelta = NCCL_TIMEOUT,
) -> Group:
    """Build the group of ``world_size`` workers that meet in ``store``; blocks until all are there.

    ``host`` is the address at which the others reach this worker, for gloo; without it, or where a person
    chose GLOO_SOCKET_IFNAME, that decides, else whatever the machine's name resolves to. ``prove`` finds out
    whether gloo has connected the right ones, before anything else goes over it. Raises GroupBroken when they
    are not there within CONNECT_TIMEOUT, or ``nccl_timeout`` over NCCL, and what ``prove`` raises.
    """
    if world_size == 1:
        return Alone()
    try:
        own_sums = OWN_SUMS.get(device.type)
        if own_sums is not None and not _goes_over_the_host(store, rank, world_size, device):
            met = address_store.local_copy(store, rank, nccl_timeout) if isinstance(store, Meeting) else store
            times = {"timeout_s": _step_timeout_s(), "connect_timeout_s": nccl_timeout.total_seconds()}
            return own_sums(met, rank, world_size, device, **times)
        process_group, connected = _gloo(store, rank, world_size, host)
        group = (TorchGroup if device.type == "cpu" else StagedGroup)(process_group, store, connected)
        _prove(group, prove)
        process_group.set_timeout(timedelta(seconds=_step_timeout_s()))
        _connected.add(group)
        return group
    except RuntimeError as error:
        raise GroupBroken(f"rank {rank} of {world_size} could not connect: {error}") from error


def check_backend(environment: Mapping[str, str]) -> None:
    """Raises Mistake for a backend that isn't known or a time that is none, before anybody waits for us."""
    told = environment.get(ENV_STEP_TIMEOUT)
    if told is not None and not 0 < _seconds(told) <= LONGEST_STEP_S:
        raise Mistake(
            f"{ENV_STEP_TIMEOUT}={told!r}: set it to how many seconds a worker waits for another in a step, "
            f"above 0 and at most {LONGEST_STEP_S}, or unset it for {STEP_TIMEOUT_S:g}"
        )
    backend = environment.get(ENV_BACKEND, BACKENDS[0])
    if backend not in BACKENDS:
        raise Mistake(f"{ENV_BACKEND}={backend!r}: set it to {' or '.join(BACKENDS)}, or unset it")


def _goes_over_the_host(store: dist.Store, rank: int, world_size: int, device: torch.device) -> bool:
    """Whether some member asks for gloo, or two have one GPU and not all ask for NCCL. All agree."""
    asks = os.environ.get(ENV_BACKEND, "")
    store.set(f"device/{rank}", json.dumps([asks, *_names(device)]))
    keys = [f"device/{other}" for other in range(world_size)]
    store.wait(keys, CONNECT_TIMEOUT)
    backends, uuids, places = zip(*(json.loads(bytes(store.get(key))) for key in keys), strict=True)
    one_each = len(set(uuids)) == world_size == len(set(places))
    return "gloo" in backends or (not one_each and set(backends) != {"nccl"})


def _names(device: torch.device) -> tuple[str, str]:
    """A GPU's UUID, and its machine with its place on the PCI bus there.

    NCCL goes by the place ("Duplicate GPU detected", NCCL issue 1716). Instances of one GPU (MIG) share it,
    though each has a UUID of its own. Containers of one machine share its boot id, by which it is known.
    """
    gpu = torch.cuda.get_device_properties(device)
    place = f"{gpu.pci_domain_id:04x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}"
    return str(gpu.uuid), f"{_machine()} {place}"


def _machine() -> str:
    try:
        return local_copy.BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()


_connected: "WeakSet[TorchGroup]" = WeakSet()


@atexit.register
def _leave() -> None:
    """End gloo's threads while Python is whole.

    One that lets go of a tensor while the interpreter is taken down waits for a lock that it never gets, is
    unwound by force, and C++ then ends the process: "terminate called without an active exception".
    """
    for group in list(_connected):
        group.leave()


def _prove(group: TorchGroup, prove: Callable[[Group], None]) -> None:
    """A group that is not of the right ones ends at once: whoever waits in it is freed."""
    try:
        prove(group)
    except BaseException:
        group.abort()
        raise


_making = threading.Lock()
"""Two groups are made at the same time where a plan follows another: each must see its own port appear."""


def _step_timeout_s() -> float:
    return float(os.environ.get(ENV_STEP_TIMEOUT, STEP_TIMEOUT_S))


def _seconds(told: str) -> float:
    """The number, or NaN, which is neither more nor less than any."""
    try:
        return float(told)
    except ValueError:
        return float("nan")


def _gloo(
    store: dist.Store, rank: int, world_size: int, host: str | None
) -> tuple[dist.ProcessGroupGloo, Connections | None]:
    """The group, and its connections where all members tell at which port they listen."""
    if host is None or was_chosen(os.environ):
        return dist.ProcessGroupGloo(store, rank, world_size, CONNECT_TIMEOUT), None
    options = dist.ProcessGroupGloo._Options()
    options._timeout = CONNECT_TIMEOUT
    with _making:
        device, own = connections.listener_of(lambda: dist.ProcessGroupGloo.create_device(hostname=host))
    options._devices = [device]
    store.set(f"listens/{rank}", connections.written(own))
    process_group = dist.ProcessGroupGloo(store, rank, world_size, options)
    keys = [f"listens/{other}" for other in range(world_size)]
    store.wait(keys, CONNECT_TIMEOUT)
    addresses = [connections.read(bytes(store.get(key)).decode()) for key in keys]
    listening = frozenset(address for address in addresses if address is not None)
    if len(listening) < world_size:
        return process_group, None
    connected = Connections(listening=listening)
    connected.watch(PEER_SILENCE_S)
    return process_group, connected
