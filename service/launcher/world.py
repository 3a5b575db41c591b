"""What workers see of their place: devices, ranks, settings of the lease. Pure: ports are handed in.

The names are torchrun's (https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables") and
tf.distribute's (https://www.tensorflow.org/guide/distributed_training, "Setting up the TF_CONFIG environment
variable").
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from advisor.jobs import gpu_sharing

HOST = "127.0.0.1"
DEVICES = "CUDA_VISIBLE_DEVICES"


class Workers(StrEnum):
    """How a job's processes are laid out on its devices.

    ONE sees all devices. TORCHRUN: one a device, all see all, each takes number LOCAL_RANK. TENSORFLOW: one
    a device, each sees its own, and TF_CONFIG names them all.
    """

    ONE = "one"
    TORCHRUN = "torchrun"
    TENSORFLOW = "tensorflow"


def count(workers: Workers, devices: int) -> int:
    """How many processes that makes."""
    return 1 if workers is Workers.ONE else devices


def ports_needed(workers: Workers, devices: int) -> int:
    """How many free ports of this machine ``environments`` wants."""
    match workers:
        case Workers.ONE:
            return 0
        case Workers.TORCHRUN:
            return 1
        case Workers.TENSORFLOW:
            return devices


def environments(
    workers: Workers,
    devices: Sequence[str],
    ports: Sequence[int],
    *,
    job: str,
    restarts: int,
    most_restarts: int,
) -> tuple[dict[str, str], ...]:
    """What each worker's environment gets of its place, in rank order."""
    shown = ",".join(devices)
    match workers:
        case Workers.ONE:
            return ({DEVICES: shown},)
        case Workers.TORCHRUN:
            size = len(devices)
            shared = {
                DEVICES: shown,
                "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(size),
                "GROUP_RANK": "0",
                "GROUP_WORLD_SIZE": "1",
                "ROLE_NAME": "default",
                "ROLE_WORLD_SIZE": str(size),
                "MASTER_ADDR": HOST,
                "MASTER_PORT": str(ports[0]),
                "TORCHELASTIC_RESTART_COUNT": str(restarts),
                "TORCHELASTIC_MAX_RESTARTS": str(most_restarts),
                "TORCHELASTIC_RUN_ID": job,
            }
            ranks = (
                {name: str(rank) for name in ("RANK", "LOCAL_RANK", "ROLE_RANK")} for rank in range(size)
            )
            return tuple(shared | rank for rank in ranks)
        case Workers.TENSORFLOW:
            cluster = {"worker": [f"{HOST}:{port}" for port in ports]}
            tasks = ({"type": "worker", "index": index} for index in range(len(devices)))
            return tuple(
                {DEVICES: device, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
                for device, task in zip(devices, tasks, strict=True)
            )


def joined(
    user: Mapping[str, str], settings: Sequence[tuple[str, str]], place: Mapping[str, str], *, threads: bool
) -> dict[str, str]:
    """A worker's whole environment: the user's, the lease's settings, its place.

    ``threads``: one compute thread unless the user chose, as torchrun does for several workers.
    """
    few = {"OMP_NUM_THREADS": "1"} if threads and "OMP_NUM_THREADS" not in user else {}
    return {**user, **few, **gpu_sharing.environment(settings, user), **place}
