"""Onto what a step brings its job: these devices, or so many GPUs that its workload manager chooses. Pure.

Who chooses devices is an engine's own (``Capabilities.chooser``). Where a manager does, the devices are what
comes of a step (``Done.given``), never what it asks for.
"""

from dataclasses import dataclass, replace

from advisor.actions import Action, Move, Resize, Resume, Start
from analytics.text import many
from collector.model import GpuUuid, NodeName


@dataclass(frozen=True, slots=True)
class OnDevices:
    """These GPUs and no others."""

    gpus: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True)
class OnNodes:
    """So many GPUs of each node; of ``None``: of any."""

    places: tuple[tuple[NodeName | None, int], ...]

    @property
    def gpus(self) -> int:
        """How many in all."""
        return sum(count for _, count in self.places)


Target = OnDevices | OnNodes


def target_of(step: Action) -> Target | None:
    """Where a step brings its job; ``None`` for one that brings it nowhere, or to where it was."""
    if isinstance(step, Resume) and step.places:
        return OnNodes(step.places)
    if isinstance(step, Start | Resume | Resize | Move) and step.gpus:
        return OnDevices(step.gpus)
    return None


def left_to(manager: str | None, step: Action) -> Action:
    """The step as it is asked of who chooses its job's GPUs: of a manager as many, of Fallow these."""
    if manager is None or not isinstance(step, Resume) or not step.gpus:
        return step
    return replace(step, gpus=(), places=((None, len(step.gpus)),))


def where(step: Action) -> str:
    """The target as the end of a sentence about the step: `` on 2 GPUs``; empty where there is none."""
    match target_of(step):
        case OnDevices(gpus=gpus):
            return f" on {many(len(gpus), 'GPU')}"
        case OnNodes(places=places) as target:
            named = ", ".join(f"{count} of {node}" for node, count in places if node is not None)
            return f" on {named or many(target.gpus, 'GPU')}, which its manager chooses"
        case None:
            return ""
