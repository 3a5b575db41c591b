"""What holds for every attribution, whatever the machines, the people and the words."""

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.attribution import GIVEN, Attribution, attribute
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeClaim,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
    ProcessType,
)

NODES = [NodeName("a"), NodeName("b.lab")]
USERS = ["ann", "bob", "root", None]
JOBS = ["slurm:1", "slurm:2", "pod:x/p", "pod:x/q", "run-7", "pid:a/1@1"]
PODS = ["0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0", None, None]

keys = st.builds(ProcessKey, node=st.sampled_from(NODES), pid=st.integers(1, 5), started_ms=st.integers(1, 2))
uuids = st.sampled_from([GpuUuid(f"GPU-{i}") for i in range(5)])
holders = st.builds(
    Holder,
    job=st.sampled_from(JOBS).map(JobId),
    user=st.sampled_from(USERS),
    project=st.sampled_from(["p", None]),
)
shares = st.sampled_from([0.25, 0.5, 1.0])
environments = st.dictionaries(
    st.sampled_from(["SLURM_JOB_ID", "FALLOW_JOB", "HOSTNAME", "JUPYTERHUB_USER"]),
    st.sampled_from(["1", "2", "run-7", "p", "ann"]),
    max_size=2,
).map(lambda kept: tuple(sorted(kept.items())))
processes = st.builds(
    Process,
    key=keys,
    user=st.sampled_from(USERS),
    uid=st.sampled_from([0, 1000, None]),
    name=st.sampled_from(["python", "Xorg", None]),
    frameworks=st.sampled_from([(), ("PyTorch",), ("JAX",)]),
    container=st.sampled_from(["c0de" * 16, None, None]),
    pod=st.sampled_from(PODS),
    slurm_job=st.sampled_from(["1", "3", None, None]),
    tree=st.one_of(st.none(), keys),
    environment=environments,
    unreadable=st.sampled_from([(), ("cgroup: permission denied",)]),
)
samples = st.builds(
    ProcessSample,
    uuid=uuids,
    key=keys,
    at_ms=st.just(1),
    width_ms=st.just(1),
    type=st.sampled_from(ProcessType),
)
claims = st.builds(Allocation, uuid=uuids, holder=holders, share=shares, source=st.sampled_from(ClaimSource))
node_claims = st.builds(
    NodeClaim,
    node=st.sampled_from([*NODES, NodeName("b")]),
    holder=holders,
    index=st.one_of(st.none(), st.integers(0, 3)),
    share=shares,
)
gpus = st.lists(
    st.builds(
        Gpu,
        uuid=uuids,
        node=st.sampled_from(NODES),
        index=st.one_of(st.none(), st.integers(0, 3)),
        parent_uuid=st.one_of(st.none(), st.just(GpuUuid("GPU-0"))),
    ),
    max_size=4,
    unique_by=lambda gpu: gpu.uuid,
)
worlds = st.tuples(
    gpus,
    st.lists(claims, max_size=6),
    st.lists(processes, max_size=6, unique_by=lambda process: process.key),
    st.lists(samples, max_size=8),
    st.lists(node_claims, max_size=4),
)
World = tuple[list[Gpu], list[Allocation], list[Process], list[ProcessSample], list[NodeClaim]]


def attributed(world: World) -> Attribution:
    hardware, words, people, seen, counted = world
    return attribute(hardware, words, people, seen, 1, node_claims=counted)


@given(worlds)
@settings(max_examples=60)
def test_every_process_on_a_gpu_is_in_exactly_one_place(world: World) -> None:
    found = attributed(world)
    places = [found.owners.keys(), found.orphans, found.unknown, found.bystanders]
    assert set().union(*places) == {sample.key for sample in world[3]}
    assert sum(len(place) for place in places) == len(set().union(*places))


@given(worlds)
@settings(max_examples=60)
def test_no_gpu_is_held_on_words_of_different_strength(world: World) -> None:
    sources: dict[str, set[ClaimSource]] = {}
    for each in attributed(world).allocations:
        sources.setdefault(each.uuid, set()).add(each.source)
    assert all(len(words) == 1 for words in sources.values())


@given(worlds)
@settings(max_examples=60)
def test_no_weaker_word_stands_where_a_stronger_was_given(world: World) -> None:
    ranked = list(ClaimSource)
    held = {each.uuid: each.source for each in attributed(world).allocations}
    known = {gpu.uuid for gpu in world[0]}
    for claim in world[1]:
        if claim.uuid in known:
            assert ranked.index(held[claim.uuid]) <= ranked.index(claim.source)


@given(worlds)
@settings(max_examples=60)
def test_the_shares_of_a_gpu_never_exceed_it_and_a_job_holds_it_once(world: World) -> None:
    found = attributed(world)
    totals: dict[str, float] = {}
    for each in found.allocations:
        assert 0 < each.share <= 1
        totals[each.uuid] = totals.get(each.uuid, 0.0) + each.share
    assert all(total <= 1 + 1e-9 for total in totals.values())
    pairs = [(each.uuid, each.holder.job) for each in found.allocations]
    assert len(pairs) == len(set(pairs))


@given(worlds)
@settings(max_examples=60)
def test_a_job_is_the_same_holder_on_all_its_gpus(world: World) -> None:
    holders_of: dict[str, set[Holder]] = {}
    for each in attributed(world).allocations:
        holders_of.setdefault(each.holder.job, set()).add(each.holder)
    assert all(len(found) == 1 for found in holders_of.values())


@given(worlds)
@settings(max_examples=60)
def test_only_known_gpus_are_held_and_an_owner_holds_one_of_them(world: World) -> None:
    found = attributed(world)
    known = {gpu.uuid for gpu in world[0]}
    assert {each.uuid for each in found.allocations} <= known
    jobs = {each.holder.job for each in found.allocations}
    assert set(found.owners.values()) <= jobs


@given(worlds)
@settings(max_examples=60)
def test_an_intruder_is_on_a_gpu_that_was_given_away(world: World) -> None:
    found = attributed(world)
    given_away = {each.uuid for each in found.allocations if each.source in GIVEN}
    on = {(sample.key, sample.uuid) for sample in world[3]}
    for intrusion in found.intrusions:
        assert intrusion.uuid in given_away
        assert (intrusion.key, intrusion.uuid) in on
    assert found.orphans <= {intrusion.key for intrusion in found.intrusions}


@given(worlds, st.randoms(use_true_random=False))
def test_the_order_of_what_was_said_changes_nothing(world: World, random: object) -> None:
    shuffled = tuple(list(part) for part in world)
    for part in shuffled:
        random.shuffle(part)  # type: ignore[attr-defined]
    first, second = attributed(world), attributed(shuffled)  # type: ignore[arg-type]
    assert first == second
    assert list(first.owners) == list(second.owners)


@given(worlds)
@settings(max_examples=60)
def test_a_process_that_slurm_placed_elsewhere_is_never_given_another_slurm_job(world: World) -> None:
    found = attributed(world)
    people = {process.key: process for process in world[2]}
    for key, job in found.owners.items():
        own = people[key].slurm_job
        if own is not None and job.startswith("slurm:"):
            named = dict(people[key].environment).get("FALLOW_JOB")
            assert job in (f"slurm:{own}", named)
