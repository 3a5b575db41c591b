"""The classes of action in words: what a site switches one by one, and what an advice is about. Pure.

The command line reads this file at each start, so it loads nothing else of ours (a dataclass costs 0.4 ms).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class ActionClass(StrEnum):
    """Classes of action that a site or an owner switches one by one; also what an advice is about."""

    SCHEDULE = "schedule"
    FAIR_SHARE = "fair-share"
    RECLAIM = "reclaim"
    CAP_MEMORY = "cap-memory"
    PACK = "pack"
    RESIZE = "resize"
    CONSOLIDATE = "consolidate"
    RIGHT_SIZE = "right-size"
    TERMINATE = "terminate"
    BACKGROUND = "background"


class ActionWords(NamedTuple):
    """One class: its label on a screen, and what it is in a few words."""

    label: str
    says: str


ACTIONS: Mapping[ActionClass, ActionWords] = {
    ActionClass.SCHEDULE: ActionWords(
        label="Schedule",
        says="starting, resuming, promising a start: of jobs that were submitted, on free GPUs, which "
        "disturbs nobody",
    ),
    ActionClass.FAIR_SHARE: ActionWords(label="Fair share", says="taking borrowed GPUs back"),
    ActionClass.RECLAIM: ActionWords(
        label="Give back", says="asking idle holders for their GPUs, step by step: shown, told, paused"
    ),
    ActionClass.CAP_MEMORY: ActionWords(label="Cap memory", says="settings and releases of GPU memory"),
    ActionClass.PACK: ActionWords(label="Pack", says="two jobs on one GPU"),
    ActionClass.RESIZE: ActionWords(label="Resize", says="growing and shrinking elastic jobs"),
    ActionClass.CONSOLIDATE: ActionWords(label="Consolidate", says="moves so that a gang fits"),
    ActionClass.RIGHT_SIZE: ActionWords(label="Right-size", says="smaller requests"),
    ActionClass.TERMINATE: ActionWords(
        label="End", says="ending a job that stays idle after all other steps"
    ),
    ActionClass.BACKGROUND: ActionWords(
        label="Background", says="starting background jobs in the idle gaps of others"
    ),
}

ADVISED = (
    ActionClass.RECLAIM,
    ActionClass.CAP_MEMORY,
    ActionClass.PACK,
    ActionClass.CONSOLIDATE,
    ActionClass.RIGHT_SIZE,
    ActionClass.TERMINATE,
    ActionClass.BACKGROUND,
)
"""Those that ``fallow advise`` tells of; the others are decided for jobs that were submitted."""


def label_of_action(name: str) -> str:
    """What a class is called on a screen; one that only a newer Fallow knows keeps its own name."""
    return ACTIONS[ActionClass(name)].label if name in ACTIONS else name
