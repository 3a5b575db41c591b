"""What ``squeue --json`` says: which job was given which GPUs of which nodes. Pure.

Shapes: Slurm 21.08 to 22.05 write plain numbers and one state word (openapi v0.0.37, v0.0.38; seen from a
real 22.05.8 on 21 November 2026); from 23.02 numbers come as {"set", "infinite", "number"} and states as a
list (data_parser v0.0.39 and later, squeue(1), "JSON"). Unknown fields are passed over, missing ones
make the job's GPUs unknown, never free.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.inventory.hostlist import expand
from collector.model import Holder, JobId, JobKind, NodeClaim, NodeName
from collector.procfs.accounts import nameless
from collector.procfs.commands import bounded

HOLDING_STATES = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
"""States in which a job keeps its GPUs; a suspended job keeps them too (gres.html, "Running jobs")."""

MOST_GPUS = 4096
"""Indices of one node; a bound against a misread range."""

NAME_CHARS = 256
"""Ours: a job is named as its owner likes, and a name is shown on other people's screens."""

ERROR_CHARS = 300
"""Of Slurm's own words on why it did not answer."""

NUMBER_DIGITS = 18
"""Slurm's numbers have 64 bits at most; ``int`` refuses a text of over 4,300 digits."""

_GRES = re.compile(
    r"(?<![^,])(?P<kind>gpu|shard|mps)(?::(?P<type>[^:(),]+))??(?::(?P<count>\d+))?"
    r"(?:\((?P<bracket>[^)]*)\))?(?=,|$)"
)
"""A type may look like a number (``gpu:3090:2``): the last number before the bracket is the count."""

_INDICES = re.compile(r"IDX:(?P<list>[\d,-]+)")
_TRES_GPUS = re.compile(r"(?:^|,)gres/gpu=(?P<count>\d+)")

Json = Mapping[str, object]


class NotSqueue(ValueError):
    """The text is not what ``squeue --json`` prints."""


class NotAnswered(ValueError):
    """Slurm's client printed an answer that says itself that it is none; the message is Slurm's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """``count`` GPUs, or that many shards of the GPUs at ``indices``, as one gres entry says."""

    is_shared: bool
    count: int
    indices: tuple[int, ...]


def claims(document: object) -> tuple[NodeClaim, ...]:
    """A claim for every GPU that a job holds now. Raises NotSqueue, NotAnswered.

    With its controller or munge away ``squeue --json`` of 22.05 ends with 0, no jobs, and an entry under
    ``errors``: an empty list is believed only where there is none (seen from a real 22.05.8).
    """
    if isinstance(document, Mapping) and (errors := tuple(_objects(document.get("errors")))):
        raise NotAnswered("; ".join(map(_error, errors))[:ERROR_CHARS])
    if not isinstance(document, Mapping) or not isinstance(document.get("jobs"), Sequence):
        raise NotSqueue("no list of jobs")
    found: list[NodeClaim] = []
    shared: list[NodeClaim] = []
    for job in document["jobs"]:
        if not isinstance(job, Mapping):
            raise NotSqueue(f"a job that is not an object: {job!r:.80}")
        if not HOLDING_STATES.isdisjoint(_states(job)):
            for claim, is_shared in _claims_of(job):
                (shared if is_shared else found).append(claim)
    return (*found, *_with_shares(shared))


def _error(entry: Json) -> str:
    """An entry of ``errors`` as a sentence: what failed, of which call."""
    said = [_text(entry.get(name)) for name in ("description", "error", "source")]
    return ", ".join(each for each in said if each) or "an error without a word"


def _claims_of(job: Json) -> Iterator[tuple[NodeClaim, bool]]:
    holder = _holder(job)
    nodes = _nodes(job)
    details = _texts(job.get("gres_detail"))
    if len(details) != len(nodes):
        yield from ((claim, False) for claim in _somewhere(job, holder, nodes))
        return
    for node, detail in zip(nodes, details, strict=True):
        for grant in _grants(detail):
            for index, share in _given(grant):
                claim = NodeClaim(node=NodeName(node), holder=holder, index=index, share=share)
                yield claim, grant.is_shared


def _given(grant: _Grant) -> Iterator[tuple[int | None, float]]:
    """The indices of a grant with what is given of each; ``None`` for those that are not named."""
    if grant.is_shared:
        yield from ((index, grant.count / len(grant.indices)) for index in grant.indices)
        return
    unnamed = max(0, grant.count - len(grant.indices))
    yield from ((index, 1.0) for index in (*grant.indices, *(None,) * unnamed))


def _somewhere(job: Json, holder: Holder, nodes: Sequence[str]) -> Iterator[NodeClaim]:
    """Claims without an index, when the job has GPUs and it is not said which."""
    match = _TRES_GPUS.search(_text(job.get("tres_alloc_str")))
    each = int(match["count"]) // len(nodes) if match and nodes else 0
    for node in nodes:
        yield from (NodeClaim(node=NodeName(node), holder=holder) for _ in range(each))


def _with_shares(shared: Sequence[NodeClaim]) -> Iterator[NodeClaim]:
    """Shards as fractions of what is given of their GPU: squeue does not say how many it has."""
    given: defaultdict[tuple[str, int | None], float] = defaultdict(float)
    for claim in shared:
        given[claim.node, claim.index] += claim.share
    for claim in shared:
        yield replace(claim, share=claim.share / given[claim.node, claim.index])


def _grants(detail: str) -> Iterator[_Grant]:
    """The parts of ``gpu:a100:2(IDX:0-1,5),shard:3(IDX:3)`` that are GPUs."""
    for match in _GRES.finditer(detail):
        count = min(int(match["count"] or 0), MOST_GPUS)
        indices = _INDICES.search(match["bracket"] or "")
        numbers = _numbers(indices["list"]) if indices else ()
        if count or numbers:
            yield _Grant(is_shared=match["kind"] != "gpu", count=count or len(numbers), indices=numbers)


def _numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first and len(found) < MOST_GPUS:
            found.extend(range(int(first), min(int(last or first), MOST_GPUS) + 1))
    return tuple(dict.fromkeys(found))


def _holder(job: Json) -> Holder:
    array_job, array_task = _number(job.get("array_job_id")), _number(job.get("array_task_id"))
    name = _name(job.get("name"))
    if array_job and array_task is not None:
        name = f"{name} [{array_job}_{array_task}]"
    uid = _number(job.get("user_id"))
    return Holder(
        job=JobId(f"slurm:{_number(job.get('job_id'))}"),
        user=_name(job.get("user_name")) or (None if uid is None else nameless(uid)),
        project=_name(job.get("account")) or None,
        name=name or None,
        kind=_kind(job.get("batch_flag")),
    )


def _kind(batch: object) -> JobKind | None:
    """A batch script, or somebody at the other end of salloc or srun."""
    match batch:
        case True | 1:
            return JobKind.BATCH
        case False | 0:
            return JobKind.INTERACTIVE
        case _:
            return None


def _nodes(job: Json) -> tuple[str, ...]:
    """The job's nodes in the order of ``gres_detail``: by name, where listed, else the expanded list."""
    resources = job.get("job_resources")
    if isinstance(resources, Mapping):
        for rows, label in (
            (resources.get("allocated_nodes"), "nodename"),
            (_inside(resources.get("nodes"), "allocation"), "name"),
        ):
            names = tuple(_text(row.get(label)) for row in _objects(rows))
            if names and all(names):
                return names
    return expand(_text(job.get("nodes")))


def _states(job: Json) -> frozenset[str]:
    states = job.get("job_state")
    return frozenset([states] if isinstance(states, str) else _texts(states))


def _number(value: object) -> int | None:
    """A number of either shape; ``None`` when it is not set, or infinite."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if isinstance(value, str) and value.isdecimal() and len(value) <= NUMBER_DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _name(value: object) -> str:
    return bounded(_text(value), NAME_CHARS)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _objects(value: object) -> Iterable[Json]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return (row for row in value if isinstance(row, Mapping))


def _inside(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
