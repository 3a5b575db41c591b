"""How fast a job should be on each number of GPUs, from its layers' measured times: before it has any. Pure.

One number of GPUs for all layers, gradients summed during the backward pass: plain data parallelism, as an
elastic training runs. What the host does between steps is not in it; ``advisor.jobs.predicted`` corrects it
by what was measured.
"""

from advisor.burst.cost import Network, Setting, share
from advisor.burst.evaluate import evaluate, uniform
from fallow.burst.table import LayerTable
from fallow.data.batch_plan import even_split

US = 1e-6


def predicted_step_s(
    table: LayerTable, least: int, most: int, network: Network, max_micro_batch: int | None = None
) -> dict[int, float]:
    """Seconds a step at the table's largest batch on ``least`` to ``most`` GPUs.

    A GPU goes through its samples in micro-batches of at most ``max_micro_batch``, as the trainer splits
    them; gradients are summed during the last one's backward pass. Sizes are left out at which a micro-batch
    would have fewer samples than were measured: nothing is known there.
    """
    batch, speeds = table.largest_batch, {}
    for n in range(least, min(most, batch) + 1):
        own = share(batch, n)
        parts = even_split(own, 1 if max_micro_batch is None else share(own, max_micro_batch))
        if min(parts) >= table.smallest_batch:
            before = sum(_step_us(table, 1, part, network) for part in parts[:-1])
            last = batch if len(parts) == 1 else parts[-1] * n
            speeds[n] = (before + _step_us(table, n, last, network)) * US
    return speeds


def _step_us(table: LayerTable, gpus: int, batch: int, network: Network) -> float:
    return evaluate(table, uniform(table, gpus), Setting(gpus=gpus, batch=batch, network=network)).time_us
