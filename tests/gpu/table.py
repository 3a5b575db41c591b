"""The steps of the first half hour on a GPU, in their order. Pure: what each needs, may take and settles.

Limits are what a step may take before it is ended, seconds; the sum of a part fits into nine minutes.
"""

from dataclasses import dataclass

BUDGET_S = 540
"""A part: ten minutes is what one is lent a GPU for at a time, and a minute is for getting there and back."""
DRY_LIMIT_S = 150
"""None takes over 25 s on a quiet machine; where tests run side by side, five times that."""
DRY_BUDGET_S = 120


@dataclass(frozen=True, slots=True)
class Step:
    """One experiment, in ``tests/gpu/steps/NAME.py``; ``settles`` is what is known after it.

    ``needs`` are asked of ``place.lacking`` beforehand. ``restores``: it brings processes back by CUDA's
    checkpoint; such a one is never killed, for that took a host down (cuda-checkpoint issue 53).
    """

    name: str
    part: int
    limit_s: int
    section: str
    settles: str
    needs: tuple[str, ...] = ()
    restores: bool = False


SEES, HOLDS, TRAINS = "What is seen", "Memory that is held", "Trainings"
RUNS, SHARES, FILLS, MOVES = "The service", "Sharing a GPU", "Filling idle gaps", "Taking jobs off and back"

STEPS: tuple[Step, ...] = (
    Step("machine", 1, 15, SEES, "what can be tried here at all"),
    Step("idle", 1, 15, SEES, "the zero", ("nvml",)),
    Step(
        "spin",
        1,
        60,
        SEES,
        "the ladder of utilization: SM active, occupancy, and GPU utilization as an upper bound",
        ("nvml", "torch"),
    ),
    Step("units", 1, 45, SEES, "tensor and DRAM columns, power and energy", ("nvml", "torch")),
    Step(
        "holders",
        1,
        30,
        SEES,
        "CONTEXT_BYTES, what each process holds and uses, lists in a pid namespace",
        ("nvml", "torch"),
    ),
    Step("cost", 1, 20, SEES, "what a reading costs: `processes_every`", ("nvml",)),
    Step("hogs", 1, 60, HOLDS, "reclaiming memory that a framework takes ahead", ("nvml", "torch")),
    Step("caches", 1, 20, HOLDS, "PyTorch's cache given back when asked", ("nvml", "torch")),
    Step("fraction", 1, 20, HOLDS, "FALLOW_MEMORY_FRACTION", ("nvml", "torch")),
    Step(
        "alone",
        1,
        45,
        TRAINS,
        "that a trainer learns what a plain loop learns, and goes on after a save",
        ("torch",),
    ),
    Step("overhead", 1, 60, TRAINS, "what a step costs beside a plain loop's", ("torch",)),
    Step("two", 1, 60, TRAINS, "two workers on one GPU: growing, a death, what is learned", ("torch",)),
    Step("nccl", 1, 60, TRAINS, "names and options of torch's NCCL group", ("torch", "nccl")),
    Step("service", 1, 30, RUNS, "the service on a real driver", ("nvml", "service")),
    Step(
        "pairs",
        2,
        130,
        SHARES,
        "first expectations of `pairing`, and whether MPS is worth its fault domain",
        ("nvml", "torch"),
    ),
    Step("pieces", 2, 40, FILLS, "how soon a gate can close", ("torch",)),
    Step("page", 2, 25, FILLS, "idle gaps told by the GPU", ("torch",)),
    Step("fill", 2, 110, FILLS, "what work in idle gaps costs the work in front", ("torch",)),
    Step(
        "lock",
        3,
        20,
        MOVES,
        "a gate for strangers: how long the driver's lock takes",
        ("libcuda", "torch"),
        restores=True,
    ),
    Step("profile", 2, 35, FILLS, "whether a plan's input is right on a GPU", ("torch",)),
    Step(
        "two_gpus",
        2,
        190,
        TRAINS,
        "workers on two GPUs over NCCL: growing, shrinking, each one's death, GB/s of a hand-over",
        ("torch", "two GPUs"),
    ),
    Step(
        "one_gpu",
        3,
        120,
        TRAINS,
        "two workers on one GPU: shrinking, each one's death, GB/s of a hand-over, ms from birth to joining",
        ("torch",),
    ),
    Step(
        "move",
        3,
        195,
        MOVES,
        "pausing strangers: seconds a GiB, MANAGED_BYTES, LONGEST_S, which jobs it breaks",
        ("nvml", "libcuda", "torch"),
        restores=True,
    ),
    Step(
        "refused",
        3,
        25,
        MOVES,
        "that a job which cannot come back is refused before the driver is asked",
        ("nvml", "libcuda", "torch"),
        restores=True,
    ),
    Step(
        "stranger",
        3,
        60,
        MOVES,
        "a stranger's job paused and resumed by the service, on its owner's word",
        ("nvml", "libcuda", "torch", "service"),
        restores=True,
    ),
    Step(
        "rights",
        3,
        60,
        MOVES,
        "who may take another account's process off and back; that fallow-hand can, in its owner's name",
        ("nvml", "libcuda", "torch"),
        restores=True,
    ),
    Step(
        "mps_kill",
        3,
        60,
        SHARES,
        "what the death of one MPS client does to its neighbour",
        ("nvml", "torch", "mps"),
    ),
)
PARTS = tuple(sorted({step.part for step in STEPS}))
"""What is seen and trained; what is shared and filled; what is moved, taken off and brought back."""
NAMES = tuple(step.name for step in STEPS)


def step_named(name: str) -> Step:
    """The step of that name. Raises KeyError."""
    if name not in NAMES:
        raise KeyError(f"no step is named {name!r}; there are {', '.join(NAMES)}")
    return STEPS[NAMES.index(name)]
