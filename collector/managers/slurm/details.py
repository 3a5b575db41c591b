"""Which of its nodes' GPUs a running job has, as ``scontrol --details --oneliner show job`` prints it. Pure.

Only there does Slurm 22.05 say indices in text. A name and a comment are their owner's: a job's own line is
known by its number and by the name that squeue told, its grant is looked for behind that, and a job of which
two lines speak has no known grant.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

from collector.inventory.hostlist import expand
from collector.managers.model import Grant
from collector.managers.slurm.gres import entries
from collector.model import NodeName

_HEAD = re.compile(r"^JobId=(?P<id>\d+) (?:\w+=\S+ )*?JobName=", re.MULTILINE)
_GRANT = re.compile(r" JOB_GRES=(?P<whole>\S*)(?P<parts>(?:\s+Nodes=\S+ CPU_IDs=\S* Mem=\S* GRES=\S*)*)")
_PART = re.compile(r"Nodes=(?P<nodes>\S+) CPU_IDs=\S* Mem=\S* GRES=(?P<gres>\S*)")


def grants_of(text: str, names: Mapping[str, str]) -> dict[str, tuple[Grant, ...] | None]:
    """What each job in ``names`` (number to name, as told) was given, by its number.

    Nothing for a job that isn't in the text; ``None`` where the text can't be believed or doesn't say.
    """
    found: defaultdict[str, list[tuple[Grant, ...] | None]] = defaultdict(list)
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        number = head["id"]
        if number in names:
            name = names[number]
            own = text[head.end() : end]
            # A name may look like a head itself: then the text ends early, and its job has two lines.
            found[number].append(_grants(own[len(name) :]) if own.startswith(f"{name} UserId=") else None)
    return {number: rows[0] if len(rows) == 1 else None for number, rows in found.items()}


def _grants(text: str) -> tuple[Grant, ...] | None:
    match = _GRANT.search(text)
    if match is None:
        return ()
    found: list[Grant] = []
    for part in _PART.finditer(match["parts"]):
        for node in expand(part["nodes"]):
            for gres in entries(part["gres"]):
                count = len(gres.indices) if gres.count is None else gres.count
                if count or gres.indices:
                    found.append(
                        Grant(
                            node=NodeName(node),
                            gpus=count or len(gres.indices),
                            indices=gres.indices,
                            is_shared=gres.is_shared,
                        )
                    )
    return tuple(found) if found or not list(entries(match["whole"])) else None
