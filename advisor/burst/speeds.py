"""How fast a job should be on each number of GPUs, from its layers' measured times: before it has any. Pure.

One number of GPUs for all layers, gradients summed during the backward pass: plain data parallelism, as an
elastic training runs. What the host does between steps is not in it; ``advisor.jobs.predicted`` corrects it
by what was measured.
"""

from advisor.burst.cost import Network, Setting, share
from advisor.burst.evaluate import evaluate, uniform
from fallow.burst.table import LayerTable

US = 1e-6


def predicted_step_s(table: LayerTable, least: int, most: int, network: Network) -> dict[int, float]:
    """Seconds a step at the table's largest batch on ``least`` to ``most`` GPUs.

    Sizes are left out at which a GPU would have fewer samples than were measured: nothing is known there.
    """
    batch = table.largest_batch
    sizes = [n for n in range(least, most + 1) if n <= batch and share(batch, n) >= table.smallest_batch]
    return {
        n: evaluate(table, uniform(table, n), Setting(gpus=n, batch=batch, network=network)).time_us * US
        for n in sizes
    }
