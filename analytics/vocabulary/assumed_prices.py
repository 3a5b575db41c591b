"""What a GPU-hour may cost where the site set no price: one vendor's public on-demand prices. Pure.

Assumed, and never used for a sum: they are shown to be taken or changed. Only models that such a machine has,
by the name that the driver gives them; another board of the same chip costs something else. The price is the
instance's, with its processors, memory and network, divided by its GPUs, and rounded to cents.

Amazon EC2, on demand, Linux, us-east-1 (https://aws.amazon.com/ec2/pricing/on-demand/), as public lists had
it on 27 November 2026; those of p4 and p5 are from after the cut of June 2025.
"""

from collections.abc import Iterable
from dataclasses import dataclass

SOURCE = "Amazon EC2 on demand, us-east-1, Linux, read on 27 November 2026"
CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedPrice:
    """The instance, what an hour of it costs, and how many GPUs it has."""

    instance: str
    per_hour: float
    gpus: int

    @property
    def per_gpu_hour(self) -> float:
        """One GPU's part, in cents."""
        return round(self.per_hour / self.gpus, 2)


ASSUMED: dict[str, AssumedPrice] = {
    "NVIDIA H200": AssumedPrice(instance="p5en.48xlarge", per_hour=63.296, gpus=8),
    "NVIDIA H100 80GB HBM3": AssumedPrice(instance="p5.48xlarge", per_hour=55.04, gpus=8),
    "NVIDIA A100-SXM4-80GB": AssumedPrice(instance="p4de.24xlarge", per_hour=27.44705, gpus=8),
    "NVIDIA A100-SXM4-40GB": AssumedPrice(instance="p4d.24xlarge", per_hour=21.957642, gpus=8),
    "NVIDIA L40S": AssumedPrice(instance="g6e.xlarge", per_hour=1.861, gpus=1),
    "NVIDIA L4": AssumedPrice(instance="g6.xlarge", per_hour=0.8048, gpus=1),
    "NVIDIA A10G": AssumedPrice(instance="g5.xlarge", per_hour=1.006, gpus=1),
    "Tesla T4": AssumedPrice(instance="g4dn.xlarge", per_hour=0.526, gpus=1),
    "Tesla V100-SXM2-16GB": AssumedPrice(instance="p3.2xlarge", per_hour=3.06, gpus=1),
}


def as_configuration(models: Iterable[str]) -> str:
    """The table of these models for ``fallow.toml``; one that has no assumed price has a line to fill in."""
    lines = [f"# Assumed: {SOURCE}.", "# Write what you pay.", "[prices]", f'currency = "{CURRENCY}"', ""]
    lines.append("[prices.per_gpu_hour]")
    for model in sorted(set(models)):
        price = ASSUMED.get(model)
        name = '"' + "".join(c for c in model if c.isprintable() and c not in '"\\') + '"'
        if price is None:
            lines.append(f"# {name} =        # nothing is assumed of this model")
        else:
            lines.append(f"{name} = {price.per_gpu_hour:.2f}  # {price.instance}, a GPU of {price.gpus}")
    return "\n".join(lines) + "\n"
