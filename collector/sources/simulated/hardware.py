"""The machines of the simulated cluster: which GPUs stand where, and how watts follow from work.

Pure. Board limits and clocks are those of the vendor's data sheets (A100 SXM4 80 GB: 400 W, 1410 MHz;
H100 SXM5 80 GB: 700 W, 1980 MHz). The shape of the power formula was fitted to the single-job profiles of
MISO (Li et al., SoCC 2022) and to the power curves of the Acme trace (Hu et al., NSDI 2024): see
``bench/realism.py``.
"""

from dataclasses import dataclass

from collector.model import Gpu, GpuUuid, NodeName
from collector.sources.simulated.timeline import key_of

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A board. Watts are ``idle + context (while a process lives) + sm SM + memory MC + tensor T``."""

    name: str
    memory_bytes: int
    reserved_bytes: int
    limit_w: float
    idle_w: float
    context_w: float
    sm_w: float
    memory_w: float
    tensor_w: float
    idle_mhz: int
    sm_mhz: int
    memory_mhz: int

    @property
    def usable_bytes(self) -> int:
        """What programs can have: all but what the driver keeps for itself."""
        return self.memory_bytes - self.reserved_bytes


A100 = GpuModel(
    name="NVIDIA A100-SXM4-80GB",
    memory_bytes=81920 * MIB,
    reserved_bytes=646 * MIB,
    limit_w=400.0,
    idle_w=58.0,
    context_w=18.0,
    sm_w=75.0,
    memory_w=110.0,
    tensor_w=1270.0,
    idle_mhz=210,
    sm_mhz=1410,
    memory_mhz=1593,
)
H100 = GpuModel(
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=81559 * MIB,
    reserved_bytes=582 * MIB,
    limit_w=700.0,
    idle_w=70.0,
    context_w=40.0,
    sm_w=125.0,
    memory_w=160.0,
    tensor_w=1450.0,
    idle_mhz=345,
    sm_mhz=1980,
    memory_mhz=2619,
)
NODES_A_CELL = 4
"""Nodes come in cells of four, two of each model; a larger cluster is more cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU of the cluster and the model it is of."""

    gpu: Gpu
    model: GpuModel


def boards(seed: int, nodes: int, gpus_per_node: int) -> tuple[Board, ...]:
    """All GPUs, node by node; UUIDs differ between seeds."""
    return tuple(_board(seed, node, index) for node in range(nodes) for index in range(gpus_per_node))


def node_name(node: int) -> NodeName:
    """The name of the node at a place in the cluster."""
    prefix = "ampere" if node % NODES_A_CELL < NODES_A_CELL // 2 else "hopper"
    return NodeName(f"{prefix}-{node:02d}")


def _board(seed: int, node: int, index: int) -> Board:
    model = A100 if node % NODES_A_CELL < NODES_A_CELL // 2 else H100
    return Board(
        gpu=Gpu(
            uuid=_uuid(seed, node, index),
            node=node_name(node),
            index=index,
            model=model.name,
            memory_total_bytes=model.memory_bytes,
            driver_version="580.95.05",
            power_limit_mw=int(model.limit_w * 1000),
            persistence_mode=True,
        ),
        model=model,
    )


def _uuid(seed: int, node: int, index: int) -> GpuUuid:
    text = "".join(f"{key_of(seed, 'uuid', node, index, half):016x}" for half in (0, 1))
    return GpuUuid(f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
