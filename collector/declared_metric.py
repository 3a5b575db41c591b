"""What can be declared of a measure of a GPU, beside its field in ``collector.metrics``. Pure.

The process that reads NVML imports this file: nothing but the standard library may be imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, NamedTuple

METRIC = "metric"
"""The key of a declaration in its field's metadata."""


class Simulated(Enum):
    """What a simulated GPU says of a measure: nothing, what its load comes to, or always 0."""

    NOT_MEASURED = "not measured"
    PLAYED = "played"
    ZERO = "zero"


class Exposed(NamedTuple):
    """A family of ``/metrics``: ``fallow_gpu_NAME``, in Prometheus's base units.

    The sample's value times ``factor`` is the family's.
    """

    name: str
    help: str
    factor: float = 1.0
    is_counter: bool = False


class Nvml(NamedTuple):
    """How the driver is asked for one value; with nothing given, ``device`` has a reader of its own for it.

    ``field_id`` is an NVML_FI_DEV_* of the batched call. ``calls`` are the other ways, best first: a
    function and its arguments before the result. ``has_period``: a second result says what time was sampled.
    ``gpm`` is an NVML_GPM_METRIC_*. ``is_percent``: of a ratio, whether the row of the pipe has it in
    percent. ``words`` is what ``fallow doctor`` calls a value that is read by itself.
    """

    field_id: int | None = None
    calls: tuple[tuple[str, tuple[int, ...]], ...] = ()
    has_period: bool = False
    gpm: int | None = None
    is_percent: bool = True
    words: str = ""


class Timeline(NamedTuple):
    """A measure in the timelines of GPUs and jobs, and in their charts.

    ``steps`` says what a step has of its samples, ``avg`` or ``max``; a second one is a column of its own.
    ``about`` describes each column. The chart has it in ``lane``, as ``label``; ``is_first`` puts it before
    its lane's others. Without a lane it is not drawn.
    """

    steps: tuple[str, ...]
    about: tuple[str, ...]
    lane: str = ""
    label: str = ""
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is declared beside one field of ``GpuSample``; ``name`` is the field's, with the unit at its end.

    ``arrow`` is the type of the column, as Arrow calls it; the store keeps a ratio as ten-thousandths.
    ``dcgm`` has the exporter's names, the one that is believed first, each with its unit as
    ``dcgm.vocabulary`` writes it; with ``engines``, a name stands for that many, and the busiest counts.
    ``of_board``: while MIG is on the exporter repeats the board's value for each instance. ``smi`` has
    nvidia-smi's columns, likewise in order. ``is_stored`` is false for what is kept with the GPU instead.
    ``is_printed``: ``fallow collect`` has it. ``most``: no GPU has more; a value above it is in another
    unit, and not measured.
    """

    name: str = ""
    arrow: str = "int64"
    exposed: Exposed | None = None
    nvml: Nvml | None = None
    dcgm: Mapping[str, str] = field(default_factory=dict)
    engines: int = 0
    of_board: bool = False
    smi: tuple[str, ...] = ()
    simulated: Simulated = Simulated.NOT_MEASURED
    timeline: Timeline | None = None
    is_stored: bool = True
    is_printed: bool = False
    most: float | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether it is a share, 0 to 1."""
        return self.name.endswith("_ratio")

    @property
    def column(self) -> str:
        """Its column in the store: ``x_ratio`` is kept as ``x_e4``."""
        return f"{self.name.removesuffix('_ratio')}_e4" if self.is_ratio else self.name

    @property
    def on_screen(self) -> str:
        """Its name where people read it: power in W."""
        return f"{self.name.removesuffix('_mw')}_w" if self.name.endswith("_mw") else self.name

    @property
    def short(self) -> str:
        """Its name without the unit of a ratio: in the pipe from the driver, for the doctor, in flags."""
        return self.name.removesuffix("_ratio")


def declares(**told: Any) -> dict[str, Metric]:
    """The metadata of a field with what is declared of it."""
    return {METRIC: Metric(**told)}


def declared(**told: Any) -> Any:
    """A field that is ``None`` unless it was measured, with what is declared of it."""
    return field(default=None, metadata=declares(**told))


def ratio(**told: Any) -> Any:
    """The same for a share, 0 to 1."""
    return declared(arrow="float", **told)


def metrics_of(sample: type) -> tuple[Metric, ...]:
    """What is declared beside the fields of a dataclass, in their order."""
    return tuple(
        replace(each.metadata[METRIC], name=each.name) for each in fields(sample) if METRIC in each.metadata
    )
