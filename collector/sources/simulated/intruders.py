"""Somebody else's program on a GPU that a job was given: who comes, when, and what it does there.

Pure. An intruder comes while the job holds the GPU and goes before it does; nothing ties its process to the
job: no Slurm step, no pod, another account.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collector.model import Process, ProcessKey
from collector.sources.simulated.hardware import GIB, NODES_A_CELL, Board
from collector.sources.simulated.labels import LabelKind
from collector.sources.simulated.people import HOUR_MS, MINUTE_MS, people_of
from collector.sources.simulated.timeline import Stretches, Work, chained, draw_from, key_of, stretch
from collector.sources.simulated.workload import PlannedJob

CHANCE = 0.5
"""Half of the jobs that an intruder could come to have one, and half stay clean beside them."""
COMMAND = "python quick_test.py --device 5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A process of an intruder, and its stretches: the visit, and the free time after it."""

    process: Process
    filled: Stretches


def visits(where: tuple[int, int], jobs: Sequence[PlannedJob], board: Board) -> Iterator[Visit]:
    """The visits to the GPU of these jobs, at most one a job; ``where`` is (seed, node)."""
    seed, node = where
    for job in jobs:
        draw = draw_from(seed, "intruder", node, job.from_ms, job.gpus[0], 0)
        begins, lasts = _times(draw, job)
        if draw.random() < CHANCE and begins + lasts <= job.to_ms:
            yield _visit(draw, node, job, board, (begins, begins + lasts))


def _times(draw: np.random.Generator, job: PlannedJob) -> tuple[int, int]:
    after = int(draw.integers(20, 120)) * MINUTE_MS
    lasts = (
        round(float(np.clip(draw.lognormal(np.log(1.5), 0.7), 0.2, 6.0)) * HOUR_MS / MINUTE_MS) * MINUTE_MS
    )
    return job.from_ms + after, lasts


def _visit(
    draw: np.random.Generator, node: int, job: PlannedJob, board: Board, span: tuple[int, int]
) -> Visit:
    strangers = [p for p in people_of(node // NODES_A_CELL) if p.project != job.person.project]
    person = strangers[int(draw.integers(len(strangers)))]
    sm = draw.uniform(0.1, 0.4)
    work = Work(sm=sm, util=sm * 1.4, controller=sm * 0.2, jitter=0.1)
    memory = int(draw.integers(1, 5)) * GIB
    pid = 10_000 + key_of(str(job.holder.job), str(board.gpu.uuid), "intruder") % 4_000_000
    key = ProcessKey(node=board.gpu.node, pid=pid, started_ms=span[0])
    return Visit(
        process=Process(
            key=key,
            user=person.user,
            uid=person.uid,
            name="python",
            command=COMMAND,
            frameworks=("PyTorch",),
            tree=key,
        ),
        filled=chained(
            stretch(span[0], LabelKind.INTRUDER, work=work, memory_bytes=memory, run=0),
            stretch(span[1], LabelKind.FREE),
        ),
    )
