"""The states of a GPU in words, from the best use to none: the order of every stack and legend. Pure.

The names are ``collector.model.GpuState``, which the store decides by.
"""

from dataclasses import dataclass

from collector.model import GpuState as GpuState  # noqa: PLC0414
from collector.model import OutOfService


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A GPU state as screens name it; ``column`` is its column in ``states_over_time``."""

    key: GpuState
    label: str
    meaning: str

    @property
    def column(self) -> str:
        """The state's column in ``states_over_time`` and the ``ledger_by_`` queries."""
        return f"{self.key.replace('-', '_')}_gpu_hours"


STATES: tuple[State, ...] = (
    State(key=GpuState.GOOD, label="good use", meaning="at least 50 % busy"),
    State(key=GpuState.MODERATE, label="moderate", meaning="25 to 50 % busy"),
    State(key=GpuState.LOW_SATURATION, label="low saturation", meaning="busy, under 25 %"),
    State(key=GpuState.HELD_IDLE, label="held, idle", meaning="a process sits there, at most 1 % busy"),
    State(key=GpuState.ALLOCATED_EMPTY, label="held, empty", meaning="given to somebody, no process on it"),
    State(key=GpuState.SUSPECT, label="suspect", meaning="its counters contradict each other"),
    State(key=GpuState.UNKNOWN, label="unknown", meaning="not measured"),
    State(key=GpuState.WITHHELD, label="withheld", meaning="nobody may have it: drained, down or reserved"),
    State(key=GpuState.FREE, label="free", meaning="nobody holds it"),
)

WITHHELD = (OutOfService.DRAINED, OutOfService.DOWN, OutOfService.RESERVED)
"""What ``gpus_now`` says of a GPU that is withheld, instead of the state."""


def label_of(key: str | None) -> str:
    """What a state is called on screens; an unlisted one keeps its own name."""
    return next((state.label for state in STATES if state.key == key), key or GpuState.UNKNOWN.value)
