"""What processes say of themselves, against those who would pay for it."""

from dataclasses import replace

import pytest

from collector.attribution import effective
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeClaim,
    NodeName,
)
from collector.reading import Reading
from tests.collector.attribution.test_attribution_cases import (
    CONTAINER,
    GPUS,
    NODE,
    POD,
    given,
    held,
    key,
    on,
    process,
    run,
    slurm,
)

OTHER_POD = POD[::-1]
OTHER_UID = "9f8b7c6d-1234-5678-90ab-cdef12345678"


def test_a_slurm_id_puts_no_hours_under_another_s_job_where_nobody_gave_the_gpu() -> None:
    liar = process(71, "bob", environment=(("SLURM_JOB_ID", "812"),))
    found = run([liar], on(1, 71), node_claims=slurm(812, 0))
    assert held(found)["GPU-1"] == [(f"pid:{NODE}/71@710", "process")]
    assert [each.holder.user for each in found.allocations] == ["ann", "bob"]


def test_one_s_own_slurm_job_keeps_its_name_where_nobody_gave_the_gpu() -> None:
    honest = process(71, environment=(("SLURM_JOB_ID", "812"),))
    found = run([honest], on(1, 71), node_claims=slurm(812, 0))
    assert held(found)["GPU-1"] == [("slurm:812", "process")]


@pytest.mark.parametrize("user", ["bob", None])
def test_a_slurm_id_of_nobody_known_is_no_job(user: str | None) -> None:
    liar = process(71, user, environment=(("SLURM_JOB_ID", "812"), ("FALLOW_JOB", "run-7")))
    found = run([liar], on(1, 71))
    assert held(found) == {"GPU-1": [(f"pid:{NODE}/71@710", "process")]}


def test_a_word_does_not_move_a_job_s_claim_onto_the_liar_s_gpu() -> None:
    liar = process(71, "bob", environment=(("SLURM_JOB_ID", "812"),))
    found = run([liar], on(2, 71), node_claims=slurm(812, None))
    assert held(found) == {"GPU-2": [(f"pid:{NODE}/71@710", "process")]}


def test_a_claim_of_an_environment_is_the_claimer_s_own() -> None:
    words = (("CUDA_VISIBLE_DEVICES", "2,3"), ("SLURM_JOB_GPUS", "2,3"), ("SLURM_JOB_ID", "812"))
    readings = [
        Reading(
            source="nvml",
            at_ms=1,
            gpus=tuple(GPUS),
            processes=(process(71, "bob", environment=words),),
            process_samples=tuple(on(2, 71)),
        ),
        Reading(source="slurm", at_ms=1, claims=tuple(slurm(812, 0))),
    ]
    found = effective(readings, 9)
    assert found is not None
    assert held(found)["GPU-3"] == [(f"pid:{NODE}/71@710", "environment")]
    assert {each.uuid: each.holder.user for each in found.allocations} == {
        "GPU-0": "ann",
        "GPU-2": "bob",
        "GPU-3": "bob",
    }


@pytest.mark.parametrize("source", [ClaimSource.SLURM, ClaimSource.LEASE])
def test_a_word_about_a_job_of_nobody_known_is_neither_a_proof_nor_a_fault(source: ClaimSource) -> None:
    words = (("SLURM_JOB_ID", "812"), ("FALLOW_JOB", "slurm:812"))
    found = run(
        [process(71, "bob", environment=words)], on(0, 71), [given(0, "slurm:812", source, user=None)]
    )
    assert found.unknown == {key(71)}


def test_a_job_that_one_word_names_without_a_person_is_the_person_s_whom_another_names() -> None:
    label = given(0, "slurm:812", ClaimSource.SLURM, user=None)
    words = (("SLURM_JOB_ID", "812"),)
    people = [process(71, environment=words), process(72, "bob", environment=words)]
    found = run(people, on(0, 71, 72), [label], slurm(812, 0))
    assert (found.owners, found.orphans) == ({key(71): "slurm:812"}, {key(72)})


def test_a_container_s_word_for_a_person_is_not_that_person_s() -> None:
    words = (("JUPYTERHUB_USER", "ann"), ("FALLOW_JOB", "run-7"), ("SLURM_JOB_ID", "812"))
    liar = process(71, None, uid=1000, container=CONTAINER, environment=words)
    lease = given(0, "run-7", ClaimSource.LEASE)
    found = run([liar], [*on(0, 71), *on(1, 71)], [lease], slurm(812, 2))
    users = {each.uuid: each.holder.user for each in found.allocations}
    assert users == {"GPU-0": "ann", "GPU-1": None, "GPU-2": "ann"}
    assert held(found)["GPU-1"] == [("container:0123456789ab", "process")]


def test_a_container_with_the_digits_of_another_s_is_not_that_one() -> None:
    theirs = process(71, None, uid=0, container=CONTAINER)
    liar = process(72, "bob", container=CONTAINER)
    found = run([theirs, liar], [*on(0, 71), *on(1, 72)])
    assert held(found) == {
        "GPU-0": [("container:0123456789ab", "process")],
        "GPU-1": [("container:bob/0123456789ab", "process")],
    }


def pods(*jobs: str) -> list:  # type: ignore[type-arg]
    return [given(0, f"pod:{job}", ClaimSource.KUBERNETES, user=None) for job in jobs]


def test_a_name_counts_between_the_pods_of_one_namespace_alone() -> None:
    named = process(71, None, pod=POD, environment=(("HOSTNAME", "train-1"),))
    assert run([named], on(0, 71), pods("a/train-0", "a/train-1")).owners == {key(71): "pod:a/train-1"}
    found = run([named], on(0, 71), pods("a/train-0", "b/train-1"))
    assert (found.owners, found.unknown) == ({}, {key(71)})


def with_uids(allocations: list[Allocation], *uids: str | None) -> list[Allocation]:
    return [replace(each, pod_uid=uid) for each, uid in zip(allocations, uids, strict=True)]


def test_uids_tell_pods_of_two_namespaces_apart_whatever_their_processes_say() -> None:
    two = with_uids(pods("a/train-0", "b/train-1"), POD, OTHER_UID)
    liar = process(71, None, pod=POD, environment=(("HOSTNAME", "train-1"), ("POD_NAMESPACE", "b")))
    honest, stranger = process(72, None, pod=OTHER_UID), process(73, None, pod=POD.replace("0", "9"))
    found = run([liar, honest, stranger], on(0, 71, 72, 73), two)
    assert found.owners == {key(71): "pod:a/train-0", key(72): "pod:b/train-1"}
    assert (found.unknown, found.intrusions) == ({key(73)}, ())


@pytest.mark.parametrize("uids", [(POD, None), (POD, POD)])
def test_uids_are_believed_where_each_pod_on_the_gpu_has_its_own(uids: tuple[str | None, ...]) -> None:
    """Where the exporter gives no uids, a label of that name on one's own pod is no more than a word."""
    two = with_uids(pods("a/train-0", "b/train-1"), *uids)
    found = run([process(71, None, pod=POD)], on(0, 71), two)
    assert (found.owners, found.unknown) == ({}, {key(71)})


def test_a_pod_of_another_uid_than_the_given_one_is_not_that_one() -> None:
    one = with_uids(pods("a/train-0"), OTHER_UID)
    found = run([process(71, None, pod=POD)], on(0, 71), one)
    assert (found.owners, found.unknown, found.intrusions) == ({}, {key(71)}, ())


@pytest.mark.parametrize("inside", [{"pod": "f" * 8 + OTHER_UID[8:]}, {"container": CONTAINER}])
def test_an_mps_server_in_a_pod_or_container_of_its_own_is_unknown(inside: dict[str, str]) -> None:
    """Name, uid and binary are the image's word: no bystander, nobody's job, and accused of nothing."""
    server = process(71, None, uid=0, name="nvidia-cuda-mps-server"[:15], **inside)
    client = process(72, None, uid=0, pod=POD)
    found = run([server, client], on(0, 71, 72), with_uids(pods("a/train-0", "b/train-1"), POD, OTHER_UID))
    assert found.owners == {key(72): "pod:a/train-0"}
    assert (found.unknown, found.bystanders, found.intrusions) == ({key(71)}, frozenset(), ())


def test_a_static_pod_is_not_known_by_the_uid_of_the_api_server() -> None:
    one = with_uids(pods("a/train-0"), OTHER_UID)
    static = process(71, None, pod="0b1c2d3e4f5061728394a5b6c7d8e9f0")
    assert run([static], on(0, 71), one).owners == {key(71): "pod:a/train-0"}


def test_a_container_of_one_s_own_is_no_hiding_place_on_a_pod_s_gpu() -> None:
    own = process(71, "bob", container=CONTAINER)
    found = run([own, process(72, None, uid=1001, container=CONTAINER)], on(0, 71, 72), pods("a/train-0"))
    assert (found.orphans, found.unknown) == ({key(71)}, {key(72)})


def test_a_pod_that_is_on_a_gpu_of_another_is_not_that_other() -> None:
    stranger = process(71, None, pod=OTHER_POD, environment=(("HOSTNAME", "eval-0"),))
    elsewhere = NodeClaim(node=NODE, holder=Holder(job=JobId("pod:b/eval-0")), index=3)
    found = run([stranger], on(0, 71), pods("a/train-0"), [elsewhere])
    assert (found.owners, found.unknown) == ({}, {key(71)})


AWAY = NodeName("gpu9")


def peer(*allocations: Allocation, gpus: tuple[Gpu, ...] = ()) -> Reading:
    far = Gpu(uuid=GpuUuid("GPU-far"), node=AWAY, index=0)
    return Reading(source="fallow", at_ms=1, gpus=(far, *gpus), allocations=allocations)


def said_of(uuid: str, job: str, user: str = "mallory") -> Allocation:
    return Allocation(
        uuid=GpuUuid(uuid), holder=Holder(job=JobId(job), user=user, project="p"), source=ClaimSource.LEASE
    )


def test_another_machine_says_nothing_of_gpus_and_jobs_that_are_measured_here() -> None:
    local = Reading(
        source="nvml",
        at_ms=1,
        gpus=tuple(GPUS),
        processes=(process(71), process(72, slurm_job="813")),
        process_samples=(*on(1, 71), *on(2, 72)),
    )
    squeue = Reading(source="slurm", at_ms=1, claims=tuple(slurm(812, 0)))
    forged = (
        said_of("GPU-0", "fallow:1"),
        said_of("GPU-far", "slurm:812"),
        said_of("GPU-far", f"pid:{NODE}/71@710"),
        said_of("GPU-far", "slurm:813"),
    )
    fake = Gpu(uuid=GpuUuid("MIG-x"), node=NODE, index=0, parent_uuid=GpuUuid("GPU-0"))
    moved = replace(GPUS[0], index=None, node=AWAY)
    for readings in (
        [local, squeue, peer(*forged, gpus=(fake, moved))],
        [peer(*forged, gpus=(fake, moved)), squeue, local],
    ):
        found = effective(readings, 9)
        assert found is not None
        users = {(each.uuid, each.holder.job): each.holder.user for each in found.allocations}
        assert users == {
            ("GPU-0", "slurm:812"): "ann",
            ("GPU-1", f"pid:{NODE}/71@710"): "ann",
            ("GPU-2", "slurm:813"): "ann",
            ("GPU-far", "slurm:812"): "ann",
            ("GPU-far", "slurm:813"): "ann",
            ("GPU-far", f"pid:{NODE}/71@710"): "ann",
        }


def test_another_machine_s_word_on_its_own_gpus_counts() -> None:
    found = effective([peer(said_of("GPU-far", "fallow:3"))], 9)
    assert found is not None
    ((allocation,)) = found.allocations
    assert (allocation.holder.user, allocation.source) == ("mallory", ClaimSource.LEASE)
