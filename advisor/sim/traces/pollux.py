"""Pollux's workloads (Qiao et al., OSDI 2021): elastic training jobs with measured scaling, on T4 GPUs.

The tables ``placements``, ``scalability`` and ``validation`` lie beside the trace. A job keeps its global
batch and takes as many iterations as the validation run at that batch took; it runs on any number of GPUs at
which its step time was measured. An application is a project: the trace has no users.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import inf
from pathlib import Path

from advisor.sim.scaling import Application, ConstantBatch, Point, application
from advisor.sim.traces.rows import (
    Refused,
    Row,
    TraceError,
    Unwanted,
    measured,
    named,
    number,
    read_rows,
    size,
    table,
    whole,
)
from advisor.sim.workload import TraceJob, Work, Workload

COLUMNS = ("load", "workload", "name", "time", "application", "num_replicas", "batch_size")
MOST_GPUS = 64
LARGEST_MICRO = {"yolov3": 8}
"""Pollux runs yolov3 with at most 8 samples a GPU, although 11 and 16 were measured."""


def read_pollux(path: Path, pick: str | None = None) -> Workload:
    """The jobs of ``pick`` (``LOAD/WORKLOAD``, like ``1.0/1``), else of the file's first workload."""
    parts = tuple((pick or _first(path)).split("/"))
    if len(parts) != 2:
        raise TraceError(f"--pick {pick!r}: for pollux give LOAD/WORKLOAD, like 1.0/1")
    applications = read_applications(path.parent)
    curves: dict[tuple[str, int], ConstantBatch] = {}
    return read_rows(path, COLUMNS, lambda row: _job(row, parts, applications, curves))


def read_applications(folder: Path) -> Mapping[str, Application]:
    """The measurements beside the trace, by the application's name. Blocks; raises TraceError."""
    placed: defaultdict[str, list[tuple[tuple[int, ...], Point]]] = defaultdict(list)
    scaled: defaultdict[str, list[tuple[int, int, Point]]] = defaultdict(list)
    iterations: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def place(row: Row) -> None:
        placed[row["app"]].append((tuple(map(int, row["placement"])), _point(row)))

    def scale(row: Row) -> None:
        scaled[row["app"]].append((int(row["num_nodes"]), int(row["num_replicas"]), _point(row)))

    def validate(row: Row) -> None:
        batch, count = int(row["batch_size"]), int(row["iteration"])
        iterations[row["app"]][batch] = max(count, iterations[row["app"]].get(batch, 0))

    times = ("app", "local_bsz", "step_time", "sync_time")
    measured(folder / "placements.csv.gz", (*times, "placement"), place)
    measured(folder / "scalability.csv.gz", (*times, "num_nodes", "num_replicas"), scale)
    measured(folder / "validation.csv.gz", ("app", "batch_size", "iteration"), validate)
    return {
        name: application(
            name, placed[name], scaled[name], iterations[name], largest_micro=LARGEST_MICRO.get(name)
        )
        for name in sorted(placed)
    }


def _point(row: Row) -> Point:
    batch, step_s, sync_s = int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])
    if batch < 1 or not 0 < step_s < inf or not 0 <= sync_s < inf:
        raise ValueError(f"a step of {step_s:g} s, {sync_s:g} s of it to synchronise, with {batch} samples")
    return batch, step_s, sync_s


def _first(path: Path) -> str:
    return next((f"{row['load']}/{row['workload']}" for row in table(path, COLUMNS)), "")


def _job(
    row: Row,
    parts: tuple[str, ...],
    applications: Mapping[str, Application],
    curves: dict[tuple[str, int], ConstantBatch],
) -> TraceJob:
    if (row["load"], row["workload"]) != parts:
        raise Unwanted("of another workload")
    app = applications.get(row["application"])
    if app is None:
        raise Refused(f"application {row['application']!r} was never measured")
    batch = whole(row, "batch_size", least=1)
    if batch not in app.iterations:
        raise Refused(f"{app.name} has no validation run at batch {batch}")
    times = curves.setdefault((app.name, batch), ConstantBatch(application=app, batch=batch))
    most = times.most_gpus(MOST_GPUS)
    gpus = size(row, "num_replicas")
    if gpus > most:
        raise Refused(
            f"{app.name} at batch {batch} was measured on at most {most} GPUs, and {gpus} are asked"
        )
    return TraceJob(
        name=named(row, "name"),
        project=app.name,
        submitted_s=number(row, "time"),
        gpus=gpus,
        min_gpus=1,
        max_gpus=most,
        work=Work(steps=app.iterations[batch], times=times),
        label=app.name,
    )
