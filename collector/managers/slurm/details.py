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
    head = _HEAD.search(text)
    while head is not None:
        number, name = head["id"], names.get(head["id"], "")
        is_own = text.startswith(f"{name} UserId=", head.end())
        behind = head.end() + (len(name) if is_own else 0)  # what a name says is no line of its own
        following = _HEAD.search(text, behind)
        line = text[behind : len(text) if following is None else following.start()]
        if number in names:
            found[number].append(_grants(line) if is_own else None)
        head = following
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
