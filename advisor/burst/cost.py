"""What a layer, an exchange of samples and a sum of gradients take. Pure.

Times are microseconds. A layer on g GPUs has ``ceil(batch / g)`` samples on each. Between two layers with
unequal shares samples change GPUs, forward and their gradients backward; the time is the consumer's. GPUs are
numbered so that a layer's are the first g (*nested*); a branch that runs beside another has GPUs of its own
(*disjoint*).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fallow.burst.table import Layer

BYTES = 4
"""Of an element: gradients and activations travel as float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What one GPU sends and receives: bytes a microsecond, and microseconds before the first byte."""

    name: str
    bandwidth: float
    latency_us: float
    source: str

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.latency_us >= 0):
            raise ValueError(f"network {self.name!r}: a bandwidth is above 0, a latency 0 or more")


NETWORKS = {
    network.name: network
    for network in (
        Network(
            name="nvswitch",
            bandwidth=2.66e5,
            latency_us=40.0,
            source="A100 with NVSwitch, as measured and published with DeepPool (MLSys 2022)",
        ),
        Network(
            name="pcie",
            bandwidth=2.0e4,
            latency_us=40.0,
            source="PCIe 4.0 x16: 31.5 GB/s on paper, some 20 GB/s between two GPUs through the host",
        ),
        Network(
            name="100gbe", bandwidth=1.25e4, latency_us=40.0, source="the line rate of 100 Gbit/s Ethernet"
        ),
        Network(
            name="10gbe", bandwidth=1.25e3, latency_us=60.0, source="the line rate of 10 Gbit/s Ethernet"
        ),
        Network(name="1gbe", bandwidth=1.25e2, latency_us=100.0, source="the line rate of 1 Gbit/s Ethernet"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is planned for: GPUs, samples a step, network, and whether gradients are summed during the
    backward pass.

    ``powers_of_two`` restricts each layer's GPUs to 1, 2, 4 and so on. ``memory_bytes`` bounds one GPU's
    memory for parameters (with their gradients and two optimizer states) and kept activations; None: no
    bound.
    """

    gpus: int
    batch: int
    network: Network
    overlap: bool = True
    powers_of_two: bool = False
    memory_bytes: float | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.batch < 1:
            raise ValueError("a plan is for at least one GPU and one sample a step")


PARAMETER_COPIES = 4
"""A parameter, its gradient and two states of Adam."""


def widths(setting: Setting, cap: int | None = None) -> tuple[int, ...]:
    """The numbers of GPUs that a layer may have, ascending, at most ``cap``.

    Of all that give the same largest share only the smallest is of use: the others have as many samples on
    the fullest GPU and idle more. That leaves at most ``2 * sqrt(batch)``.
    """
    most = min(setting.gpus if cap is None else cap, setting.batch)
    if setting.powers_of_two:
        return tuple(1 << power for power in range(most.bit_length()) if 1 << power <= most)
    least: dict[int, int] = {}
    for gpus in range(1, most + 1):
        least.setdefault(share(setting.batch, gpus), gpus)
    return tuple(sorted(least.values()))


def share(batch: int, gpus: int) -> int:
    """Samples on the fullest of ``gpus``."""
    return -(-batch // gpus)


def compute(layer: Layer, gpus: int, setting: Setting) -> float:
    """The forward and backward pass of a layer on ``gpus``."""
    timing = layer.at(share(setting.batch, gpus))
    return timing.forward_us + timing.backward_us


def backward(layer: Layer, gpus: int, setting: Setting) -> float:
    """The backward pass alone: what a sum of gradients can hide behind."""
    return layer.at(share(setting.batch, gpus)).backward_us


def gradient_sum(layer: Layer, gpus: int, network: Network) -> float:
    """A ring sums a layer's gradients over ``gpus``: each sends and receives ``2 (g-1)/g`` of them."""
    return 2 * (gpus - 1) / gpus * BYTES * layer.parameters / network.bandwidth


def exchange(output: int, before: int, behind: int, setting: Setting, *, disjoint: bool = False) -> float:
    """Samples of ``output`` elements go from ``before`` GPUs to ``behind``, and their gradients back.

    On nested GPUs what stays is not sent, and nothing is where the shares are equal.
    """
    sent, received = share(setting.batch, before), share(setting.batch, behind)
    if not disjoint and sent == received:
        return 0.0
    samples = max(sent, received) if disjoint else abs(sent - received)
    return 2 * (BYTES * samples * output / setting.network.bandwidth + setting.network.latency_us)


def memory(layer: Layer, gpus: int, setting: Setting) -> float:
    """Bytes on the fullest GPU: each GPU keeps all parameters, and what its samples leave behind."""
    return BYTES * PARAMETER_COPIES * layer.parameters + layer.kept_bytes * share(setting.batch, gpus)


def backlog(order: Iterable[tuple[float, float]]) -> float:
    """How long after the last backward pass gradients still travel.

    ``order`` holds (backward, sum of gradients) of each layer from the last to the first: one queue that is
    worked off while later backward passes run.
    """
    total = 0.0
    for backward_us, sum_us in order:
        total = max(0.0, total - backward_us) + sum_us
    return total
