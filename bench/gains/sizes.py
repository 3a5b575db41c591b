"""Expected gain of asking for a smaller size, beside what MISO's measured A100 slices give (SoCC '22).

A job that was measured for a day is advised a MIG slice or none. It is expected to need the same hours of a
smaller part; what it then takes is longer by as much as MISO measured it slower on that slice.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.observed import JobUse, Observed
from advisor.planner.plan import Advice
from advisor.policies import right_size
from advisor.policies.mig_profiles import slices_of
from advisor.state.model import ClusterState, Gpu, Job, Phase, Placement, ProjectName, Telemetry, Use
from bench.gains.case import Case
from collector.model import Basis, GpuUuid, JobId, NodeName

DAY_H, HOUR_MS, GIB = 24, 3_600_000, 1 << 30
A100 = Gpu(
    uuid=GpuUuid("g0"),
    node=NodeName("n0"),
    model="NVIDIA A100-PCIE-40GB",
    memory_bytes=40 * GIB,
    telemetry=Telemetry.GOOD,
)
JOB = Job(
    id=JobId("job"),
    project=ProjectName("lab"),
    user="ann",
    phase=Phase.RUNNING,
    use=Use.ACTIVE,
    started_ms=0,
    attached=False,
)


def cases(folder: Path) -> list[Case]:
    """Every job of MISO's that is advised a slice on which MISO ran it."""
    with (folder / "a100_mig_iteration_time.csv").open() as file:
        speeds = {
            (row["model"], row["batch_size"], row["mig_profile"]): float(row["rel_speed_vs_7g"])
            for row in csv.DictReader(file)
        }
    return [
        Case(kind=f"{model}/{batch}", expected=gain, came=came)
        for model, batch, piece, ratio, gain in _advised(folder)
        if (speed := speeds.get((model, batch, piece))) is not None
        and (came := max(0.0, DAY_H * (1 - ratio / speed))) is not None
    ]


def _advised(folder: Path) -> Iterator[tuple[str, str, str, float, float]]:
    """Model, batch size, slice, the slice's part of the GPU, and the expected gain in GPU-hours."""
    state = ClusterState(
        as_of_ms=(DAY_H + 1) * HOUR_MS,
        gpus={A100.uuid: A100},
        jobs={JOB.id: JOB},
        placements={JOB.id: Placement(gpus=(A100.uuid,))},
    )
    ratios = {piece.name: piece.hours_ratio for piece in slices_of(A100.model, A100.memory_bytes)}
    with (folder / "a100_single_job_profile.csv").open() as file:
        for row in csv.DictReader(file):
            use = JobUse(
                job=JOB.id,
                from_ms=HOUR_MS,
                to_ms=(DAY_H + 1) * HOUR_MS,
                coverage_ratio=1.0,
                rung=Basis.GPU_UTILIZATION,
                held_gpu_hours=DAY_H,
                utilization_mean_ratio=float(row["sm_util_pct"]) / 100,
                utilization_p95_ratio=float(row["sm_util_pct"]) / 100,
                # MISO tells one number a job: as if each of its minutes were like that
                excess_ratios=tuple(
                    max(0.0, float(row["sm_util_pct"]) / 100 - edge / 20) for edge in range(1, 20)
                ),
                controller_p95_ratio=float(row["mem_bw_util_pct"]) / 100,
                memory_peak_bytes=round(float(row["gpu_mem_used_mib"])) << 20,
                gpus_used=1,
            )
            observed = Observed(uses={JOB.id: use})
            for answer in right_size.advise(state, observed, Limits(), PlannerConfig()):
                if isinstance(answer, Advice):
                    piece = answer.what.split(" slice")[0].split()[-1]
                    yield row["model"], row["batch_size"], piece, ratios[piece], answer.gain_gpu_hours
