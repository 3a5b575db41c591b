"""Writes what ``squeue --json`` prints, in the shapes of several Slurm versions.

``v38`` is Slurm 22.05 (plain numbers, one state), ``v39`` 23.02 (numbers as objects), ``v41`` 24.05 and
later (states as lists, nodes inside ``job_resources``).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHAPES = ("v38", "v39", "v41")


@dataclass(frozen=True, kw_only=True)
class Job:
    id: int
    user: str = "ann"
    uid: int = 1000
    account: str = "vision"
    name: str = "train"
    state: str = "RUNNING"
    nodes: str = "gpu1"
    node_names: tuple[str, ...] = ("gpu1",)
    gres: tuple[str, ...] = ("gpu:a100:2(IDX:0-1)",)
    tres: str = ""
    array: tuple[int, int] | None = None
    batch: bool = True


def document(jobs: Sequence[Job], shape: str) -> dict[str, object]:
    return {
        "meta": {"plugin": {"type": "openapi/v0.0.38" if shape == "v38" else "data_parser/v0.0.41"}},
        "jobs": [_job(job, shape) for job in jobs],
        "errors": [],
        "warnings": [],
    }


def stand_in(folder: Path, body: str) -> Path:
    """An executable ``squeue`` in ``folder``; ``body`` is shell."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def printing(folder: Path, jobs: Sequence[Job], shape: str) -> Path:
    """A ``squeue`` that prints these jobs and notes how it was called."""
    answer = folder / "answer.json"
    answer.write_text(json.dumps(document(jobs, shape)))
    return stand_in(folder, f'echo "$@" > "{folder}/called"\ncat "{answer}"')


def _job(job: Job, shape: str) -> dict[str, object]:
    number = _plain if shape == "v38" else _object
    array_job, array_task = job.array or (0, None)
    return {
        "job_id": job.id,
        "user_name": job.user,
        "user_id": job.uid,
        "account": job.account,
        "name": job.name,
        "job_state": [job.state] if shape == "v41" else job.state,
        "nodes": job.nodes,
        "gres_detail": list(job.gres),
        "tres_alloc_str": job.tres,
        "array_job_id": number(array_job),
        "array_task_id": number(array_task),
        "batch_flag": job.batch,
        "start_time": number(1_790_000_000),
        "job_resources": _resources(job, shape),
    }


def _resources(job: Job, shape: str) -> object:
    if not job.node_names:
        return None
    if shape == "v41":
        rows = [{"index": i, "name": name} for i, name in enumerate(job.node_names)]
        return {"select_type": ["CORE"], "nodes": {"count": len(rows), "list": job.nodes, "allocation": rows}}
    return {"nodes": job.nodes, "allocated_nodes": [{"nodename": name} for name in job.node_names]}


def _plain(value: int | None) -> int | None:
    return value


def _object(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}
