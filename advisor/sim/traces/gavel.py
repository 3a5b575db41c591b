"""Gavel's physical-cluster traces (Narayanan et al., OSDI 2020), with its measured V100 step rates.

A job needs ``total_steps`` at the rate that ``isolated_throughputs`` beside the trace has for its model,
batch and number of GPUs, on one node or spread over several. A job whose rate was not measured is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

from advisor.sim.traces.rows import (
    Refused,
    Row,
    Unwanted,
    lasting,
    measured,
    number,
    read_rows,
    size,
    table,
    whole,
)
from advisor.sim.workload import TraceJob, Work, Workload

COLUMNS = (
    "trace",
    "job",
    "model",
    "batch_size",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "arrival_s",
)
RATES = "isolated_throughputs.csv.gz"
GPU_MODEL = "v100"
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelSteps:
    """Seconds a step on one node, and where the job is spread over several."""

    together_s: float
    apart_s: float | None

    def step_s(self, counts: tuple[int, ...]) -> float:
        """Seconds a step; as on one node where being spread was not measured."""
        return self.together_s if len(counts) == 1 or self.apart_s is None else self.apart_s


def read_gavel(path: Path, pick: str | None = None) -> Workload:
    """The jobs of the sub-trace ``pick``, else of the file's first one."""
    first = next((row["trace"] for row in table(path, COLUMNS)), "")
    model, rates = pick or first, _rates(path.parent / RATES)
    return read_rows(path, COLUMNS, lambda row: _job(row, model, rates))


def _rates(path: Path) -> Mapping[str, Mapping[Key, float]]:
    result: dict[str, dict[Key, float]] = {GPU_MODEL: {}, f"{GPU_MODEL}_unconsolidated": {}}

    def take(row: Row) -> None:
        rate = float(row["steps_per_s"])
        if row["worker_type"] in result and 0 < rate < inf:
            key = row["model"], int(row["batch_size"] or 0), int(row["scale_factor"])
            result[row["worker_type"]][key] = rate

    measured(path, ("worker_type", "model", "batch_size", "scale_factor", "steps_per_s"), take)
    return result


def _job(row: Row, model: str, rates: Mapping[str, Mapping[Key, float]]) -> TraceJob:
    if row["trace"] != model:
        raise Unwanted("of another sub-trace")
    gpus = size(row, "scale_factor")
    key = row["model"], whole(row, "batch_size") if row["batch_size"] else 0, gpus
    rate = rates[GPU_MODEL].get(key)
    if rate is None:
        raise Refused(f"{key[0]} with batch {key[1]} on {gpus} GPUs was never measured on a {GPU_MODEL}")
    apart = rates[f"{GPU_MODEL}_unconsolidated"].get(key)
    steps = number(row, "total_steps", least=1)
    lasting(steps / rate)
    times = GavelSteps(together_s=1 / rate, apart_s=None if apart is None else 1 / apart)
    return TraceJob(
        name=f"{model}-{whole(row, 'job')}",
        project=row["model"],
        submitted_s=number(row, "arrival_s"),
        gpus=gpus,
        work=Work(steps=steps, times=times),
        label=row["model"],
    )
