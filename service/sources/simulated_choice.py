"""When ``fallow up --or-simulated`` shows the simulated cluster, and in which folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from service.client import ClientError, connect
from service.data_folder import store_file
from service.sources.gpu_presence import GpuPresence, look_for_gpus
from service.sources.specs import SimulatedSpec, SourceSpec

if TYPE_CHECKING:
    from service.config.model import Config

SUFFIX = "-simulated"


def simulated_instead(config: "Config", data: Path, presence: GpuPresence | None = None) -> Path | None:
    """The folder of the simulated cluster, where it is to be shown instead of ``data``; ``None``: it is not.

    It is where nobody chose a source and this machine has no NVIDIA GPU at all. A store that is in ``data``
    has measured something, and that its GPUs are gone is a fault to be told; unless it is simulated itself.
    """
    if config.collect.sources:
        return None
    presence_now = presence or look_for_gpus()
    if presence_now.has_driver or presence_now.without_driver:
        return None
    if store_file(data).exists():
        return data if _is_simulated(data) else None
    return data.with_name(f"{data.name}{SUFFIX}")


def told_simulated(specs: Sequence[SourceSpec], data: Path) -> tuple[str, ...]:
    """What is said at a start that shows the simulated cluster."""
    if SimulatedSpec() not in specs:
        return ()
    return (
        "SIMULATED: the GPUs, people and jobs that are shown are invented; nothing is measured on this "
        f"machine. They are kept in {data}: other verbs show them with --data {data}",
    )


def _is_simulated(data: Path) -> bool:
    try:
        with connect(data) as client:
            return client.is_simulated()
    except ClientError:
        return False
