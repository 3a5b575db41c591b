"""Makes the configured sources out of their names; imports only what is asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from service.source_specs import (
    DcgmSpec,
    NvmlSpec,
    PeerSpec,
    ReplaySpec,
    SimulatedSpec,
    SourceSpec,
    parse_specs,
)

if TYPE_CHECKING:
    from collector.simulated.cluster import SimulatedCluster
    from collector.source import Source
    from service.config import Config

DRIVER_SIGNS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is read each tick; ``simulated`` is the cluster behind it, when there is one."""

    live: "tuple[Source, ...]"
    simulated: "SimulatedCluster | None"
    remarks: tuple[str, ...]


def chosen_specs(config: "Config") -> tuple[tuple[SourceSpec, ...], tuple[str, ...]]:
    """The sources and, where nobody chose them, a remark that says what was taken and why."""
    if config.collect.sources:
        return parse_specs(config.collect.sources), ()
    if has_driver():
        return (NvmlSpec(),), ()
    remark = (
        "No NVIDIA driver on this machine: showing a simulated cluster. "
        "For real GPUs elsewhere, use --source dcgm=URL or fallow=URL."
    )
    return (SimulatedSpec(),), (remark,)


def has_driver() -> bool:
    """Whether an NVIDIA driver is loaded here, without loading its library: a device or its /proc entry."""
    return any(path.exists() for path in DRIVER_SIGNS)


def make_sources(config: "Config") -> Sources:
    """The sources, ready to be read; opens no connection yet. Raises ``BadSource``."""
    specs, remarks = chosen_specs(config)
    cluster = _cluster(config) if SimulatedSpec() in specs else None
    live = tuple(source for spec in specs for source in _make(spec, config, cluster))
    return Sources(live=live, simulated=cluster, remarks=remarks)


def _cluster(config: "Config") -> "SimulatedCluster":
    from collector.simulated.cluster import SimulatedCluster

    shape = config.simulated
    return SimulatedCluster(seed=shape.seed, nodes=shape.nodes, gpus_per_node=shape.gpus_per_node)


def _make(spec: SourceSpec, config: "Config", cluster: "SimulatedCluster | None") -> "Iterator[Source]":
    match spec:
        case SimulatedSpec():
            assert cluster is not None
            yield cluster.source()
        case NvmlSpec():
            raise NotImplementedError
        case DcgmSpec() | PeerSpec() | ReplaySpec():
            raise NotImplementedError
        case _:
            assert_never(spec)
