"""Alibaba's openb trace (gpu-v2023, Weng et al., ATC 2023): pods that ask for GPUs or thousandths of one.

A pod runs from its creation for as long as it ran then (scheduled to deleted). The quality of service is its
project and its priority: latency-sensitive before burstable before best-effort. It says nothing of use.
"""

from pathlib import Path

from advisor.sim.traces.rows import Refused, Row, Unwanted, lasting, named, number, read_rows, size, whole
from advisor.sim.workload import TraceJob, Work, Workload

COLUMNS = (
    "name",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
# Latency-sensitive and guaranteed pods first, best effort last.
PRIORITIES = {"LS": 2, "Guaranteed": 2, "Burstable": 1, "BE": 0}
MILLI = 1000


def read_openb(path: Path, pick: str | None = None) -> Workload:
    """The pods that want a GPU; ``pick`` is a quality of service, else all."""
    return read_rows(path, COLUMNS, lambda row: _job(row, pick))


def _job(row: Row, pick: str | None) -> TraceJob:
    if whole(row, "num_gpu") == 0:
        raise Unwanted("asks for no GPU")
    gpus, milli = size(row, "num_gpu"), whole(row, "gpu_milli")
    if not 1 <= milli <= MILLI:
        raise Refused(f"gpu_milli is {milli}, which must be 1 to {MILLI}")
    if row["qos"] not in PRIORITIES:
        raise Refused(f"qos is {row['qos']!r}, not one of {', '.join(PRIORITIES)}")
    if pick is not None and row["qos"] != pick:
        raise Unwanted("of another quality of service")
    if not row["scheduled_time"]:
        raise Unwanted("was never scheduled: how long it would have run is not known")
    created = number(row, "creation_time")
    ran_s = number(row, "deletion_time") - number(row, "scheduled_time")
    if ran_s <= 0:
        raise Refused(f"it was deleted {-ran_s:g} s before it was scheduled or at once")
    return TraceJob(
        name=named(row, "name"),
        project=row["qos"],
        submitted_s=created,
        gpus=gpus,
        share=milli / MILLI,
        priority=PRIORITIES[row["qos"]],
        gpu_models=tuple(filter(None, row["gpu_spec"].split("|"))),
        work=Work(steps=lasting(ran_s)),
    )
