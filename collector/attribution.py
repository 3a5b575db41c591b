"""Given times used: which allocations hold on each GPU, and whose job each process on it is. Pure.

The strongest word wins a GPU: lease, Slurm, Kubernetes, Ray, environment, and last the processes on it. A
process is owned by one job, is an orphan (its GPUs were given to others), unknown (nobody can tell), or a
bystander (a desktop, a daemon of the driver). "I cannot tell" is never an accusation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.clusters import with_nodes_apart
from collector.inventory.bystanders import Presence, presence
from collector.inventory.environment import environment_claims
from collector.inventory.holders import (
    JobUsers,
    claimed_by,
    holder_of,
    is_of,
    job_among,
    tree_job,
    users_of,
)
from collector.inventory.ownership import Nobody, Owned, Unknown, Verdict, verdict_on
from collector.inventory.placement import Where, as_on_gpus, doubted, withheld, without_jobs
from collector.inventory.projects import ProjectOf
from collector.inventory.reused_numbers import with_job_of_now
from collector.model import (
    NODES_SOURCE,
    PEER_SOURCE,
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    NodeClaim,
    NodeState,
    Process,
    ProcessKey,
    ProcessSample,
    Withheld,
)
from collector.procfs.proc_files import is_same_start
from collector.reading import Reading

STRENGTH = {source: rank for rank, source in enumerate(ClaimSource)}
"""0 is the strongest, as the enum is written."""

GIVEN = frozenset({ClaimSource.LEASE, ClaimSource.SLURM, ClaimSource.KUBERNETES, ClaimSource.RAY})
"""The words of those who hand out GPUs: a process that they do not mean is an orphan."""

ELSEWHERE = frozenset({PEER_SOURCE, NODES_SOURCE})
"""Sources that bring another machine's words about its own GPUs, without its processes."""

Claims = Mapping[GpuUuid, tuple[Allocation, ...]]
Verdicts = Mapping[tuple[ProcessKey, GpuUuid], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Who holds each GPU at ``at_ms``; every process is in exactly one of the four that follow.

    ``allocations`` are sorted by GPU and job, of one source a GPU, with shares of at most 1 in sum.
    ``unclear`` says which environments could not be read as a claim, and why. ``withheld``: the GPUs that
    nobody holds and that are not free. ``out_of_service``: the nodes that get no jobs and have none.
    """

    at_ms: int
    allocations: tuple[Allocation, ...] = ()
    owners: Mapping[ProcessKey, JobId]
    orphans: frozenset[ProcessKey] = frozenset()
    unknown: frozenset[ProcessKey] = frozenset()
    bystanders: frozenset[ProcessKey] = frozenset()
    intrusions: tuple[Intrusion, ...] = ()
    unclear: tuple[tuple[ProcessKey, str], ...] = ()
    withheld: tuple[Withheld, ...] = ()
    out_of_service: tuple[NodeState, ...] = ()


def no_project(user: str) -> None:
    """The lookup for a site that configured no projects."""


def effective(
    readings: Sequence[Reading], now_ms: int, *, project_of: ProjectOf = no_project
) -> Attribution | None:
    """The attribution of all that the readings know, or ``None`` when not one of them looked."""
    looked = ((r.allocations, r.claims, r.processes, r.nodes, r.withheld or None) for r in readings)
    if all(each == (None,) * 5 for each in looked):
        return None
    readings = with_nodes_apart(readings)
    own = [reading for reading in readings if reading.source not in ELSEWHERE]
    gpus, others = _with_peers(own, [reading for reading in readings if reading.source in ELSEWHERE])
    node_claims = tuple(claim for reading in readings for claim in reading.claims or ())
    processes = with_job_of_now(
        tuple(process for reading in readings for process in reading.processes or ()),
        {claim.holder.job for claim in node_claims},
    )
    samples = tuple(sample for reading in readings for sample in reading.process_samples or ())
    allocations = tuple(allocation for reading in own for allocation in reading.allocations or ())
    users = users_of((*(claim.holder for claim in allocations), *(claim.holder for claim in node_claims)))
    environments = environment_claims(_hardware(gpus).values(), processes, samples, users)
    attribution = attribute(
        gpus,
        (*allocations, *environments.allocations),
        processes,
        samples,
        now_ms,
        node_claims=node_claims,
        others=others,
        project_of=project_of,
    )
    told_nodes = (node for reading in readings for node in reading.nodes or ())
    nodes = doubted(told_nodes, _hardware(gpus).values(), attribution.allocations)
    uuids = frozenset(allocation.uuid for allocation in attribution.allocations)
    free = {uuid: gpu for uuid, gpu in _hardware(gpus).items() if uuid not in uuids}
    withheld_gpus = {
        each.uuid: each for reading in readings for each in reading.withheld if each.uuid in free
    }
    withheld_gpus |= {each.uuid: each for each in withheld(nodes, free.values())}
    return replace(
        attribution,
        unclear=environments.unclear,
        withheld=tuple(withheld_gpus.values()),
        out_of_service=without_jobs(nodes, node_claims),
    )


def _with_peers(
    own: Sequence[Reading], peers: Sequence[Reading]
) -> tuple[tuple[Gpu, ...], tuple[Allocation, ...]]:
    """All GPUs, and what peers say of theirs; a peer has no word on a GPU or a node that is measured here."""
    here = tuple(gpu for reading in own for gpu in reading.gpus)
    uuids, nodes = {gpu.uuid for gpu in here}, {gpu.node for gpu in here}
    theirs = (gpu for reading in peers for gpu in reading.gpus)
    away = tuple(gpu for gpu in theirs if gpu.uuid not in uuids and gpu.node not in nodes)
    allocations = (allocation for reading in peers for allocation in reading.allocations or ())
    return (*here, *away), tuple(each for each in allocations if each.uuid not in uuids)


def attribute(
    gpus: Iterable[Gpu],
    claims: Iterable[Allocation],
    processes: Iterable[Process],
    process_samples: Iterable[ProcessSample],
    now_ms: int,
    *,
    node_claims: Sequence[NodeClaim] = (),
    others: Iterable[Allocation] = (),
    project_of: ProjectOf = no_project,
) -> Attribution:
    """Effective allocations and owners at ``now_ms``; the same for any order of the arguments.

    ``others`` are another machine's words about its own GPUs: of a job that is known here they say nothing.
    A sample without its process, or on a GPU that is not among ``gpus``, has an unknown owner.
    """
    hardware, people = _hardware(gpus), _people(processes)
    present = presence(tuple(process_samples), people)
    on = present.on
    placed = as_on_gpus(node_claims, hardware.values(), people, on)
    claims_in_order, elsewhere = _ordered((*claims, *placed)), _ordered(others)
    winning = _winners(_ordered((*claims_in_order, *elsewhere)), hardware)
    named = (
        *(claim.holder for claim in claims_in_order),
        *_in_words_order(claim.holder for claim in node_claims),
    )
    managed = {uuid: words for uuid, words in winning.items() if words[0].source in GIVEN}
    users = users_of(named)
    verdicts = _verdicts(present, people, managed, users)
    owners = _owners(on, people, hardware, verdicts, users)
    holding = _with_those_present(winning, present, owners, hardware)
    here = users.keys() | set(owners.values())
    named = (*named, *(claim.holder for claim in elsewhere if claim.holder.job not in here))
    holding_jobs = {claim.holder.job for claims in holding.values() for claim in claims}
    owners = {key: job for key, job in owners.items() if job in holding_jobs}  # a screen alone holds nothing
    orphans = on.keys() - owners.keys()
    unknown = frozenset(key for key in orphans if not _is_orphan(key, on[key], verdicts))
    return Attribution(
        at_ms=now_ms,
        allocations=_effective(holding, _holders(holding_jobs, named, owners, people, project_of)),
        owners=owners,
        orphans=frozenset(orphans - unknown),
        unknown=unknown,
        bystanders=present.bystanders,
        intrusions=tuple(
            sorted(Intrusion(key=k, uuid=u) for (k, u), v in verdicts.items() if isinstance(v, Nobody))
        ),
    )


def _hardware(gpus: Iterable[Gpu]) -> dict[GpuUuid, Gpu]:
    """One GPU a UUID: of two descriptions, the one that knows the index, then whichever sorts first."""
    gpus_by_uuid: dict[GpuUuid, Gpu] = {}
    for gpu in gpus:
        first = gpus_by_uuid.setdefault(gpu.uuid, gpu)
        if first != gpu:
            gpus_by_uuid[gpu.uuid] = min(first, gpu, key=lambda each: (each.index is None, repr(each)))
    return gpus_by_uuid


def _people(processes: Iterable[Process]) -> dict[ProcessKey, Process]:
    """One description a process: of two, the one that could read more, then whichever sorts first."""
    people: dict[ProcessKey, Process] = {}
    for process in processes:
        first = people.setdefault(process.key, process)
        if first != process:
            people[process.key] = min(first, process, key=lambda each: (len(each.unreadable), repr(each)))
    return people


def _ordered(claims: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """Strongest word first, then in an order that does not depend on who was asked first."""
    return tuple(sorted(claims, key=_word_order))


def _word_order(claim: Allocation) -> tuple[object, ...]:
    uid = claim.pod_uid or ""
    return STRENGTH[claim.source], claim.uuid, claim.share, _words(claim.holder), uid


def _in_words_order(holders: Iterable[Holder]) -> list[Holder]:
    return sorted(set(holders), key=_words)


def _words(holder: Holder) -> tuple[str, ...]:
    """What a holder is called, as something that can be sorted."""
    fields = (
        holder.job,
        holder.user,
        holder.project,
        holder.name,
        holder.kind,
        holder.framework,
        holder.command,
    )
    return tuple("" if word is None else f"={word}" for word in fields)


def _winners(
    allocations: Sequence[Allocation], hardware: Mapping[GpuUuid, Gpu]
) -> dict[GpuUuid, tuple[Allocation, ...]]:
    """The strongest claims on each GPU, one a job; a claim on a device covers its MIG instances."""
    instances: defaultdict[GpuUuid, list[GpuUuid]] = defaultdict(list)
    for gpu in hardware.values():
        if gpu.parent_uuid is not None:
            instances[gpu.parent_uuid].append(gpu.uuid)
    won: defaultdict[GpuUuid, dict[JobId, Allocation]] = defaultdict(dict)
    for claim in allocations:
        for uuid in (claim.uuid, *instances.get(claim.uuid, ())):
            rivals = won[uuid]
            if uuid in hardware and all(rival.source is claim.source for rival in rivals.values()):
                rivals.setdefault(claim.holder.job, claim)
    return {uuid: tuple(rivals.values()) for uuid, rivals in won.items() if rivals}


def _verdicts(
    present: Presence, people: Mapping[ProcessKey, Process], claims: Claims, users: JobUsers
) -> dict[tuple[ProcessKey, GpuUuid], Verdict]:
    """What each process is to those who were given the GPU it is on."""
    verdicts: dict[tuple[ProcessKey, GpuUuid], Verdict] = {}
    for key, uuids in present.on.items():
        process = people.get(key)
        for uuid in uuids & claims.keys():
            words = (claim.holder for claim in claims[uuid])
            holders = [replace(each, user=each.user or users.get(each.job)) for each in words]
            launcher_of = _launcher_of(key, claims[uuid])
            if launcher_of is not None:
                verdicts[key, uuid] = Owned(job=launcher_of)
                continue
            uids = {claim.holder.job: claim.pod_uid for claim in claims[uuid] if claim.pod_uid}
            verdict = verdict_on(process, holders, users.keys(), uids) if process else Unknown()
            guests = [guest for claim in claims[uuid] for guest in claim.guests]
            if process and isinstance(verdict, Nobody) and _is_guest(process, guests):
                verdict = Unknown()
            is_doubtful = (key, uuid) in present.doubtful and isinstance(verdict, Nobody)
            verdicts[key, uuid] = Unknown() if is_doubtful else verdict
    return verdicts


def _launcher_of(key: ProcessKey, allocations: Iterable[Allocation]) -> JobId | None:
    """The job whose launcher is seen to have started the process."""
    for claim in allocations:
        for each in claim.launched:
            is_it = (each.node, each.pid) == (key.node, key.pid)
            if is_it and is_same_start(each.started_ms, key.started_ms):
                return claim.holder.job
    return None


def _is_guest(process: Process, guests: Sequence[Holder]) -> bool:
    """Whether it is a process of a background job that was let in: by what it says, where it is that
    person's.
    """
    named = claimed_by(process)
    return any(guest.job in named and is_of(process, guest.job, guest.user) for guest in guests)


def _owners(
    on: Where,
    people: Mapping[ProcessKey, Process],
    hardware: Mapping[GpuUuid, Gpu],
    verdicts: Verdicts,
    users: JobUsers,
) -> dict[ProcessKey, JobId]:
    """The job of each process: the one it was given a GPU as, else its own where nobody gave the GPU."""
    owners: dict[ProcessKey, JobId] = {}
    for key in sorted(on):
        own = [verdicts.get((key, uuid)) for uuid in on[key] if uuid in hardware]
        jobs = sorted(verdict.job for verdict in own if isinstance(verdict, Owned))
        job = job_among(people[key], users) if key in people and None in own else None
        if jobs or job is not None:
            owners[key] = jobs[0] if jobs else job  # type: ignore[assignment]
    return owners


def _is_orphan(key: ProcessKey, uuids: frozenset[GpuUuid], verdicts: Verdicts) -> bool:
    return all(isinstance(verdicts.get((key, uuid)), Nobody) for uuid in uuids)


def _with_those_present(
    winning: Claims, present: Presence, owners: Mapping[ProcessKey, JobId], hardware: Mapping[GpuUuid, Gpu]
) -> dict[GpuUuid, tuple[Allocation, ...]]:
    """The winners, and on GPUs that nobody gave away the jobs that are on them, on the same word.

    A process of which nothing is known still holds its GPU, under its own pid.
    """
    holding = {uuid: list(claims) for uuid, claims in winning.items()}
    for key in sorted(present.on):
        job = owners.get(key, tree_job(key))
        for uuid in present.on[key] & hardware.keys():
            if (key, uuid) in present.drawn:
                continue
            claims = holding.setdefault(uuid, [])
            source = claims[0].source if claims else ClaimSource.PROCESS
            if source not in GIVEN and all(claim.holder.job != job for claim in claims):
                claims.append(Allocation(uuid=uuid, holder=Holder(job=job), source=source))
    return {uuid: tuple(claims) for uuid, claims in holding.items()}


def _holders(
    jobs: set[JobId],
    named: Iterable[Holder],
    owners: Mapping[ProcessKey, JobId],
    people: Mapping[ProcessKey, Process],
    project_of: ProjectOf,
) -> dict[JobId, Holder]:
    """One holder a job, the same on all its GPUs: what was said of it, then what its processes show."""
    words: dict[JobId, list[Holder]] = {job: [] for job in jobs}
    for holder in named:
        if holder.job in jobs and holder not in words[holder.job]:
            words[holder.job].append(holder)
    own: dict[JobId, list[Process]] = {job: [] for job in jobs}
    for key, job in owners.items():
        own[job].append(people[key])
    return {job: holder_of(job, words[job], own[job], project_of) for job in jobs}


def _effective(holding: Claims, holders: Mapping[JobId, Holder]) -> tuple[Allocation, ...]:
    """The claims with full holders; shares that sum to more than the GPU are scaled down to it."""
    allocations: list[Allocation] = []
    for uuid in sorted(holding):
        total = sum(claim.share for claim in holding[uuid])
        for claim in sorted(holding[uuid], key=lambda each: each.holder.job):
            holder = holders[claim.holder.job]
            share = claim.share / max(1.0, total)
            allocations.append(Allocation(uuid=uuid, holder=holder, share=share, source=claim.source))
    return tuple(allocations)
