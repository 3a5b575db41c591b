"""The steps of the first half hour on a GPU, in their order. Pure: what each needs, may take and settles.

Limits are what a step may take before it is ended, seconds; the sum of a part fits into nine minutes.
"""

from dataclasses import dataclass

BUDGET_S = 540
"""A part: ten minutes is what one is lent a GPU for at a time, and a minute is for getting there and back."""
DRY_LIMIT_S = 90
"""None takes over ten seconds on a quiet machine; where tests run side by side, five times that."""
DRY_BUDGET_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One experiment, in ``tests/gpu/steps/NAME.py``. ``needs`` are asked of ``place.lacking`` beforehand.

    ``restores``: it brings processes back by CUDA's checkpoint; such a one is never killed, for that took a
    host down (cuda-checkpoint issue 53).
    """

    name: str
    part: int
    limit_s: int
    section: str
    settles: str
    needs: tuple[str, ...] = ()
    restores: bool = False


SEES, HOLDS, TRAINS = "What is seen", "Memory that is held", "Trainings"
RUNS, SHARES, FILLS, MOVES = "The service", "Sharing a GPU", "Filling holes", "Taking jobs off and back"

STEPS: tuple[Step, ...] = (
    Step(name="machine", part=1, limit_s=15, section=SEES, settles="what can be tried here at all"),
    Step(name="idle", part=1, limit_s=10, section=SEES, settles="the zero", needs=("nvml",)),
    Step(
        name="spin",
        part=1,
        limit_s=60,
        section=SEES,
        settles="the ladder of utilization: SM active, occupancy, and GPU utilization as an upper bound",
        needs=("nvml", "torch"),
    ),
    Step(
        name="units",
        part=1,
        limit_s=25,
        section=SEES,
        settles="tensor and DRAM columns, power and energy",
        needs=("nvml", "torch"),
    ),
    Step(
        name="holders",
        part=1,
        limit_s=30,
        section=SEES,
        settles="CONTEXT_BYTES, what each process holds and uses, lists in a pid namespace",
        needs=("nvml", "torch"),
    ),
    Step(
        name="cost",
        part=1,
        limit_s=20,
        section=SEES,
        settles="what a reading costs: `processes_every`",
        needs=("nvml",),
    ),
    Step(
        name="hogs",
        part=1,
        limit_s=60,
        section=HOLDS,
        settles="reclaiming memory that a framework takes ahead",
        needs=("nvml", "torch"),
    ),
    Step(
        name="caches",
        part=1,
        limit_s=20,
        section=HOLDS,
        settles="PyTorch's cache given back when asked",
        needs=("nvml", "torch"),
    ),
    Step(
        name="fraction",
        part=1,
        limit_s=20,
        section=HOLDS,
        settles="FALLOW_MEMORY_FRACTION",
        needs=("nvml", "torch"),
    ),
    Step(
        name="alone",
        part=1,
        limit_s=70,
        section=TRAINS,
        settles="that a trainer learns what a plain loop learns, and goes on after a save",
        needs=("torch",),
    ),
    Step(
        name="overhead",
        part=1,
        limit_s=60,
        section=TRAINS,
        settles="what a step costs beside a plain loop's",
        needs=("torch",),
    ),
    Step(
        name="two",
        part=1,
        limit_s=60,
        section=TRAINS,
        settles="two workers on one GPU: growing, shrinking, a death",
        needs=("torch",),
    ),
    Step(
        name="nccl",
        part=1,
        limit_s=10,
        section=TRAINS,
        settles="names and options of torch's NCCL group",
        needs=("torch", "nccl"),
    ),
    Step(
        name="service",
        part=1,
        limit_s=40,
        section=RUNS,
        settles="the service on a real driver",
        needs=("nvml", "service"),
    ),
    Step(
        name="pairs",
        part=2,
        limit_s=140,
        section=SHARES,
        settles="first expectations of `pairing`, and whether MPS is worth its fault domain",
        needs=("nvml", "torch"),
    ),
    Step(
        name="pieces",
        part=2,
        limit_s=40,
        section=FILLS,
        settles="how soon a gate can close",
        needs=("burst",),
    ),
    Step(
        name="page",
        part=2,
        limit_s=15,
        section=FILLS,
        settles="holes told by the GPU",
        needs=("burst",),
    ),
    Step(
        name="fill",
        part=2,
        limit_s=110,
        section=FILLS,
        settles="what work in holes costs the work in front",
        needs=("burst",),
    ),
    Step(
        name="lock",
        part=2,
        limit_s=20,
        section=MOVES,
        settles="a gate for strangers: how long the driver's lock takes",
        needs=("libcuda", "torch"),
        restores=True,
    ),
    Step(
        name="profile",
        part=2,
        limit_s=30,
        section=FILLS,
        settles="the planner's input",
        needs=("burst",),
    ),
    Step(
        name="two_gpus",
        part=2,
        limit_s=30,
        section=TRAINS,
        settles="workers on two GPUs over NCCL",
        needs=("torch", "two GPUs"),
    ),
    Step(
        name="move",
        part=2,
        limit_s=90,
        section=MOVES,
        settles="pausing strangers: seconds a GiB, MANAGED_BYTES, LONGEST_S, which jobs it breaks",
        needs=("nvml", "libcuda", "torch"),
        restores=True,
    ),
    Step(
        name="refused",
        part=2,
        limit_s=20,
        section=MOVES,
        settles="that a job which cannot come back is refused before the driver is asked",
        needs=("nvml", "libcuda", "torch"),
        restores=True,
    ),
    Step(
        name="mps_kill",
        part=2,
        limit_s=15,
        section=SHARES,
        settles="what the death of one MPS client does to its neighbour",
        needs=("nvml", "torch", "mps"),
    ),
)


def step_named(name: str) -> Step:
    """The step of that name. Raises KeyError."""
    return next(step for step in STEPS if step.name == name) if name in NAMES else _unknown(name)


NAMES = tuple(step.name for step in STEPS)


def _unknown(name: str) -> Step:
    raise KeyError(f"no step is named {name!r}; there are {', '.join(NAMES)}")
