"""A burst plan: which ranks compute which layer, for one number of GPUs and one global batch. Pure.

A layer on ``gpus`` ranks from ``first_rank`` on has the whole global batch between them, ``ceil(batch /
gpus)`` samples a rank at most. What a plan predicts is microseconds of one training step and
GPU-microseconds, the sum over ranks of what each is busy for.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = "fallow burst plan 1"
"""Written into each file; another number means that a file is read differently."""


class BadPlan(ValueError):
    """A plan contradicts itself or the model; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One layer on the ranks ``first_rank`` to ``first_rank + gpus - 1``."""

    layer: str
    first_rank: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What a step takes: microseconds from start to end, and GPU-microseconds of work over all ranks."""

    time_us: float
    gpu_time_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan, what it promises, and what it was held against.

    ``aim`` is ``time`` or ``gpu-time``: which of the two was to be least under a limit on the other.
    ``bound`` is a proven lower bound of it: no plan of the kind that is searched is below. ``uniform_gpus``
    is the best number of GPUs for all layers alike under that limit, ``uniform`` its prediction. ``verdict``
    is ``bursts`` or ``uniform``: which of the two to run. ``busy_us`` is for each GPU what it works in a
    step; the rest of the step it waits.
    """

    model: str
    gpus: int
    global_batch: int
    network: str
    overlap: bool
    placements: tuple[Placement, ...]
    predicted: Predicted
    busy_us: tuple[float, ...]
    aim: str
    bound: float
    one_gpu: Predicted
    uniform_gpus: int
    uniform: Predicted
    verdict: str

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.global_batch < 1:
            raise BadPlan("a plan is for at least one GPU and one sample")
        for placed in self.placements:
            if placed.gpus < 1 or placed.first_rank < 0 or placed.first_rank + placed.gpus > self.gpus:
                raise BadPlan(
                    f"layer {placed.layer!r} is on ranks {placed.first_rank} to "
                    f"{placed.first_rank + placed.gpus - 1} of {self.gpus}"
                )
        if self.aim not in ("time", "gpu-time") or self.verdict not in ("bursts", "uniform"):
            raise BadPlan(
                f"aim is {self.aim!r} and verdict {self.verdict!r}: time or gpu-time, bursts or uniform"
            )
        if len(self.busy_us) != self.gpus:
            raise BadPlan(f"busy_us has {len(self.busy_us)} entries for {self.gpus} GPUs")
        names = [placed.layer for placed in self.placements]
        if len(set(names)) < len(names):
            raise BadPlan("a layer is placed twice")

    def to_json(self) -> str:
        """The plan as a file's text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)


def read_plan(text: str) -> Plan:
    """The plan in a file's text. Raises: BadPlan with what is wrong."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadPlan(f"not a burst plan: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadPlan(f'not a burst plan: a file of "format": "{FORMAT}" is expected')
    try:
        return Plan(
            model=str(document["model"]),
            gpus=int(document["gpus"]),
            global_batch=int(document["global_batch"]),
            network=str(document["network"]),
            overlap=bool(document["overlap"]),
            placements=tuple(
                Placement(str(each["layer"]), int(each["first_rank"]), int(each["gpus"]))
                for each in document["placements"]
            ),
            predicted=_predicted(document["predicted"]),
            busy_us=tuple(float(each) for each in document["busy_us"]),
            aim=str(document["aim"]),
            bound=float(document["bound"]),
            one_gpu=_predicted(document["one_gpu"]),
            uniform_gpus=int(document["uniform_gpus"]),
            uniform=_predicted(document["uniform"]),
            verdict=str(document["verdict"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadPlan):
            raise
        raise BadPlan(f"a burst plan is incomplete: {type(error).__name__}: {error}") from error


def _predicted(document: Mapping[str, Any]) -> Predicted:
    return Predicted(time_us=float(document["time_us"]), gpu_time_us=float(document["gpu_time_us"]))
