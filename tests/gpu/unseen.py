"""What of a step that was played is still to be seen on hardware, for ``written`` to list with its command.

Figures that it did not come to, mends that came after it, boards and drivers that nobody had. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seen when a run has a figure of that step whose name begins so (empty: any) and which was tried.

    It ended at ``since`` or later, UTC; the fact named in ``only_where`` begins with one of its words there.
    """

    step: str
    settles: str
    why: str
    figure: str = ""
    since: str = ""
    only_where: tuple[str, tuple[str, ...]] | None = None


NOT_TRIED = "not tried"
"""How figures begin that say why there is none."""

POINTS: tuple[Point, ...] = (
    Point(
        step="overhead",
        figure="transformer of 124 M, bf16: ours",
        since="2026-11-26T11:14:48Z",
        settles="what is left of the 7 ms a step of a transformer that is bound by its launches, and where "
        "they were spent: before or after the host waits",
        why="walks over a model's names were taken out of each step after the run; on a CPU a step of 12 "
        "layers has 3 operations more than the 2,400 of a plain loop",
    ),
    Point(
        step="fill",
        figure="gate, training: behind",
        since="2026-11-26T11:35:22Z",
        settles="how well idle gaps are filled by a gate that keeps a bounded queue",
        why="the gate was mended after the run",
    ),
    Point(
        step="move",
        figure="hold 16384 MiB: off",
        settles="seconds a GiB of a job that holds 16 GiB: LONGEST_S, what a pause is said to take",
        why="the step was over its limit before it came to its sizes",
    ),
    Point(
        step="move",
        figure="compiled training: the child",
        settles="what the processes of a compiler have of the GPU: whether a compiled training may be paused",
        why="what they show of it is written since that run; such a training is refused until then",
    ),
    Point(
        step="rights",
        figure="by fallow-hand, with the powers of its unit",
        settles="that fallow-hand takes another account's process off and back in its owner's name",
        why="the driver refused CAP_SYS_PTRACE alone; the hand asks as the owner since that run",
    ),
    Point(
        step="nccl",
        figure="plain:",
        settles="two ranks of NCCL on one GPU",
        why="NCCL 2.28 refuses them; 2.30 or later is said to allow them",
    ),
    Point(
        step="holders",
        only_where=("GPU", ("NVIDIA B", "NVIDIA GB", "NVIDIA RTX PRO")),
        settles="use by process through the newer call of NVML, where a board has no other",
        why="no Blackwell board was at hand",
    ),
    Point(
        step="move",
        figure="training: resume",
        only_where=("driver", ("570", "575")),
        settles="taking processes off and back under drivers 570 and 575",
        why="no machine with one of these drivers was at hand",
    ),
    Point(
        step="overhead",
        figure="MLP of 0.3 M: waits a step",
        since="2026-11-27T14:20:00Z",
        settles="whether a step waits for the GPU oftener than a plain loop's",
        why="-1 says nothing: it was counted by torch's warnings, which tell of a number that is read "
        "and of no event that is waited for; CUDA's own calls are counted since",
    ),
)


NO_STEP: tuple[tuple[str, str, str], ...] = (
    (
        "MIG: what an instance shows and holds, two workers on two instances of one board",
        "no board cut into instances was at hand",
        "CUDA_VISIBLE_DEVICES=MIG-... python -m tests.gpu.run --out hardware --part 1",
    ),
    (
        "whether a service that was installed with `--as-root` may take jobs off their GPUs",
        "the run is no installed service; pause a job of another account on it",
        "fallow service install --as-root",
    ),
    (
        "frameworks with float16 and a gradient scaler, driven over NCCL: Accelerate, Lightning",
        "no step plays a framework",
        "fallow run --gpus 2 -- python examples/accelerated.py",
    ),
    (
        "the first sum of a new communicator of NCCL beside a step of the old one (NCCL warns of that "
        "order, its issue 195), and how long connecting takes by the number of workers",
        "no machine with two GPUs was at hand; the step grows to two",
        "python -m tests.gpu.run --out hardware --only two_gpus, then a training of eight workers",
    ),
    (
        "what the driver says of a process whose restore was begun by a child that was killed",
        "no step kills one: a restore that is cut off took a host down elsewhere (cuda-checkpoint issue 53): "
        "by hand, with kill -9 of the child amid it",
        "fallow resume JOB",
    ),
    (
        "a compiled training, and one with mixed precision, that grows and shrinks on a GPU",
        "`alone` plays both without a controller; resized they are tested on a CPU",
        "python -m fallow.controller --max 2 --socket PATH -- TRAINING, and resize 2 and 1 there",
    ),
    (
        "whether `deterministic=True` alone waits for a GPU oftener than a plain loop",
        "`overhead` counts the plain mode's waits; the pretend device counts none more of this one",
        "nsys profile python TRAINING: its calls of cudaEventSynchronize and cudaStreamSynchronize by step",
    ),
    (
        "a background job whose model is on a GPU that is not the current one, or on two",
        "no machine with two GPUs was at hand; the pretend device beside the CPU shows where marks lie. "
        "TRAINING has its model on cuda:1 of two visible",
        "fallow run --background --memory 4GiB -- python TRAINING",
    ),
    (
        "a background job of another owner beside a training, both on a real GPU",
        "pages between two accounts were tried without a GPU; both allow `share` first",
        "fallow run --background --memory 4GiB -- python TRAINING",
    ),
    (
        "CUDA graphs that a script captures while a group of NCCL is driven",
        "no step captures one",
        "a driven training that calls torch.cuda.make_graphed_callables between two steps",
    ),
)
"""What no step shows, why, and what would."""


WRITTEN: Mapping[str, str] = {"one_gpu": "2026-11-27T12:30:00Z"}
"""Steps that a run before then could not play."""


def open_points(documents: Sequence[Document], played: Sequence[str]) -> list[Point]:
    """Those of steps that were ``played`` which none of the runs has shown."""
    return [
        point
        for point in POINTS
        if point.step in played and not any(_shows(document, point) for document in documents)
    ]


def _shows(document: Document, point: Point) -> bool:
    if document["at"] < point.since:
        return False
    if point.only_where is not None:
        fact, words = point.only_where
        if not str(document["machine"].get(fact)).startswith(words):
            return False
    return any(
        figure["name"].startswith(point.figure) and not str(figure["value"]).startswith(NOT_TRIED)
        for step in document["steps"]
        if step["name"] == point.step
        for figure in step.get("figures", ())
    )
