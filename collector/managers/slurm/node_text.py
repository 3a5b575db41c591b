"""Slurm's nodes as ``sinfo --Node --Format`` prints them: states, GPUs, and how many are given out. Pure."""

from dataclasses import replace

from collector.inventory.sinfo import reason_of, state_of
from collector.managers.model import ManagedNode
from collector.managers.slurm.gres import entries
from collector.managers.slurm.queue_text import records
from collector.model import NodeName

FIELDS = ("NodeList", "StateLong", "Gres", "GresUsed", "Partition", "User", "Reason")
"""sinfo(1), "--Format"; the reason last, as the one that a person writes."""


def format_of(mark: str) -> str:
    """The value of ``--Format`` that ends each field with ``mark``, in which no comma may be."""
    return ",".join(f"{name}:{mark}" for name in FIELDS)


def nodes_of(text: str, mark: str) -> tuple[ManagedNode, ...]:
    """The nodes; one of several partitions has a line in each. Raises NotQueue."""
    found: dict[NodeName, ManagedNode] = {}
    for row in records(text, mark, FIELDS):
        name, partition = NodeName(row["NodeList"]), row["Partition"].rstrip("*")
        if name in found:
            found[name] = replace(found[name], partitions=(*found[name].partitions, partition))
            continue
        state = state_of(row["StateLong"])
        used = list(entries(row["GresUsed"]))
        found[name] = ManagedNode(
            name=name,
            state=state,
            reason="" if state is None else reason_of(row["User"], row["Reason"]),
            gpus=sum(
                1 if each.count is None else each.count for each in entries(row["Gres"]) if not each.is_shared
            ),
            given_gpus=sum(each.count or 0 for each in used if not each.is_shared),
            given_shards=sum(each.count or 0 for each in used if each.is_shared),
            partitions=(partition,),
            gpu_types=tuple(
                dict.fromkeys(each.type for each in entries(row["Gres"]) if each.type and not each.is_shared)
            ),
        )
    return tuple(found.values())
