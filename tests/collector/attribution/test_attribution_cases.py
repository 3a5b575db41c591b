"""Whose process, whose GPU: the cases that happen on real machines."""

from dataclasses import replace

import pytest

from collector.attribution import Attribution, attribute, effective
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    JobKind,
    NodeClaim,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
    ProcessType,
)
from collector.reading import Reading

NODE = NodeName("gpu1.lab.example")
GPUS = [Gpu(uuid=GpuUuid(f"GPU-{i}"), node=NODE, index=i, model="A100") for i in range(4)]
CONTAINER = "0123456789abcdef" * 4
POD = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"


def key(pid: int) -> ProcessKey:
    return ProcessKey(node=NODE, pid=pid, started_ms=pid * 10)


def process(pid: int, user: str | None = "ann", tree: int | None = None, **fields: object) -> Process:
    uid = {"root": 0, "ann": 1000, "bob": 1001, None: None}.get(user, 5000)
    made = Process(key=key(pid), user=user, uid=uid, tree=key(tree or pid))
    return replace(made, **fields)  # type: ignore[arg-type]


def hidden(pid: int) -> Process:
    return Process(key=key(pid), unreadable=("hidden: /proc is mounted with hidepid",))


def on(gpu: int, *pids: int, type: ProcessType = ProcessType.COMPUTE) -> list[ProcessSample]:
    return [ProcessSample(uuid=GPUS[gpu].uuid, key=key(p), at_ms=1, width_ms=1, type=type) for p in pids]


def given(
    gpu: int, job: str, source: ClaimSource, user: str | None = "ann", share: float = 1.0
) -> Allocation:
    return Allocation(
        uuid=GPUS[gpu].uuid, holder=Holder(job=JobId(job), user=user), share=share, source=source
    )


def slurm(job: int, *indices: int | None, user: str = "ann", node: str = "gpu1") -> list[NodeClaim]:
    holder = Holder(job=JobId(f"slurm:{job}"), user=user, project="vision", kind=JobKind.BATCH)
    return [NodeClaim(node=NodeName(node), holder=holder, index=index) for index in indices]


def run(
    processes: list[Process] = [],  # noqa: B006
    samples: list[ProcessSample] = [],  # noqa: B006
    claims: list[Allocation] = [],  # noqa: B006
    node_claims: list[NodeClaim] = [],  # noqa: B006
    gpus: list[Gpu] = GPUS,
) -> Attribution:
    return attribute(gpus, claims, processes, samples, 7, node_claims=node_claims)


def held(found: Attribution) -> dict[str, list[tuple[str, str]]]:
    by_gpu: dict[str, list[tuple[str, str]]] = {}
    for each in found.allocations:
        by_gpu.setdefault(each.uuid, []).append((each.holder.job, str(each.source)))
    return by_gpu


@pytest.mark.parametrize("weaker", range(1, 5))
def test_the_strongest_word_wins_a_gpu(weaker: int) -> None:
    ranked = list(ClaimSource)
    words = [given(0, f"job-{source}", source) for source in ranked[weaker - 1 :]]
    found = run(claims=words[::-1])
    assert held(found) == {"GPU-0": [(f"job-{ranked[weaker - 1]}", str(ranked[weaker - 1]))]}


def test_slurm_s_indices_become_the_node_s_gpus() -> None:
    found = run(node_claims=[*slurm(812, 0, 3), *slurm(813, 1, user="bob")])
    assert held(found) == {
        "GPU-0": [("slurm:812", "slurm")],
        "GPU-1": [("slurm:813", "slurm")],
        "GPU-3": [("slurm:812", "slurm")],
    }
    assert found.allocations[0].holder.project == "vision"


def test_a_job_on_another_node_holds_nothing_here() -> None:
    assert run(node_claims=slurm(812, 0, node="gpu2")).allocations == ()


def test_nobody_is_looked_up_for_jobs_that_hold_nothing_here() -> None:
    asked: list[str] = []
    elsewhere = [replace(claim, holder=Holder(job=JobId("slurm:5"), user="eve")) for claim in slurm(5, 0)]
    far = [replace(claim, node=NodeName("gpu2")) for claim in elsewhere]
    attribute(GPUS, [], [], [], 1, node_claims=[*far, *slurm(812, 0)], project_of=asked.append)
    assert asked == []


def test_a_short_name_that_two_nodes_bear_is_nobody_s() -> None:
    twin = Gpu(uuid=GpuUuid("GPU-x"), node=NodeName("gpu1.other.example"), index=0)
    assert run(node_claims=slurm(812, 0), gpus=[*GPUS, twin]).allocations == ()
    assert held(run(node_claims=slurm(812, 0, node=NODE), gpus=[*GPUS, twin])) == {
        "GPU-0": [("slurm:812", "slurm")]
    }


def test_a_gpu_that_fell_off_the_bus_is_not_replaced_by_another() -> None:
    found = run(node_claims=slurm(812, 0, 1), gpus=[GPUS[0], GPUS[2], GPUS[3]])
    assert held(found) == {"GPU-0": [("slurm:812", "slurm")]}


def test_a_claim_without_an_index_is_placed_by_the_job_s_processes() -> None:
    found = run(
        [process(71, slurm_job="812"), process(72, "bob")],
        [*on(2, 71), *on(2, 72)],
        node_claims=slurm(812, None, None),
    )
    assert held(found) == {"GPU-2": [("slurm:812", "slurm")]}
    assert found.owners == {key(71): "slurm:812"}
    assert found.orphans == {key(72)}


def test_indices_on_a_node_in_mig_mode_are_placed_by_processes() -> None:
    instance = Gpu(uuid=GpuUuid("MIG-1"), node=NODE, index=0, parent_uuid=GPUS[0].uuid)
    sample = ProcessSample(uuid=instance.uuid, key=key(71), at_ms=1, width_ms=1)
    found = run([process(71, slurm_job="812")], [sample], node_claims=slurm(812, 0), gpus=[*GPUS, instance])
    assert held(found) == {"MIG-1": [("slurm:812", "slurm")]}


def test_a_claim_on_a_device_covers_its_instances() -> None:
    instance = Gpu(uuid=GpuUuid("MIG-1"), node=NODE, parent_uuid=GPUS[0].uuid)
    found = run(claims=[given(0, "run-7", ClaimSource.LEASE)], gpus=[*GPUS, instance])
    assert held(found) == {"GPU-0": [("run-7", "lease")], "MIG-1": [("run-7", "lease")]}


def test_a_slurm_job_s_processes_are_owned_by_it_and_nobody_else_s() -> None:
    found = run(
        [process(71, slurm_job="812"), process(72, slurm_job="812", tree=71), process(80, "bob")],
        [*on(0, 71, 80), *on(1, 72)],
        node_claims=slurm(812, 0, 1),
    )
    assert found.owners == {key(71): "slurm:812", key(72): "slurm:812"}
    assert found.orphans == {key(80)}
    assert found.intrusions == (Intrusion(key=key(80), uuid=GPUS[0].uuid),)


def test_the_same_person_s_other_job_is_an_intruder_too() -> None:
    found = run(
        [process(71, slurm_job="813")],
        on(0, 71),
        node_claims=[*slurm(812, 0), *slurm(813, 1)],
    )
    assert found.orphans == {key(71)}


def test_a_job_that_slurm_has_not_yet_told_of_is_no_orphan() -> None:
    found = run([process(71, slurm_job="900")], on(0, 71), node_claims=slurm(812, 0))
    assert found.unknown == {key(71)}
    assert found.intrusions == ()


def test_a_person_s_process_outside_of_slurm_s_cgroups_is_their_job_s() -> None:
    found = run([process(71)], on(0, 71), node_claims=slurm(812, 0))
    assert found.owners == {key(71): "slurm:812"}


def test_a_person_with_two_jobs_on_a_gpu_leaves_the_process_unknown() -> None:
    shards = [replace(claim, share=0.5) for claim in (*slurm(812, 0), *slurm(813, 0))]
    assert run([process(71)], on(0, 71), node_claims=shards).unknown == {key(71)}


def test_a_slurm_id_in_another_person_s_environment_is_not_believed() -> None:
    forged = process(71, "bob", environment=(("SLURM_JOB_ID", "812"),))
    honest = process(72, "ann", environment=(("SLURM_JOB_ID", "812"),))
    found = run([forged, honest], on(0, 71, 72), node_claims=slurm(812, 0))
    assert found.owners == {key(72): "slurm:812"}
    assert found.orphans == {key(71)}


@pytest.mark.parametrize(
    "who",
    [
        hidden(71),
        process(71, "root"),
        process(71, None, container=CONTAINER, uid=0),
        process(71, None, container=CONTAINER, uid=1001),
        process(71, None, container=CONTAINER, uid=1001, environment=(("JUPYTERHUB_USER", "bob"),)),
    ],
    ids=["hidden", "root", "a container's root", "a container's uid", "a container's own word"],
)
def test_who_cannot_be_told_is_never_called_an_intruder(who: Process) -> None:
    found = run([who], on(0, 71), node_claims=slurm(812, 0))
    assert (found.unknown, found.intrusions) == ({key(71)}, ())
    assert held(found) == {"GPU-0": [("slurm:812", "slurm")]}


def test_another_person_s_rootless_container_is_an_orphan() -> None:
    found = run([process(71, "bob", container=CONTAINER)], on(0, 71), node_claims=slurm(812, 0))
    assert found.orphans == {key(71)}


def test_a_sample_whose_process_nobody_described_is_unknown() -> None:
    assert run([], on(0, 71), node_claims=slurm(812, 0)).unknown == {key(71)}


def test_a_lease_is_known_by_the_job_in_the_environment() -> None:
    rank = process(71, environment=(("FALLOW_JOB", "run-7"),))
    found = run([rank, process(72, "bob")], on(0, 71, 72), [given(0, "run-7", ClaimSource.LEASE)])
    assert found.owners == {key(71): "run-7"}
    assert found.orphans == {key(72)}


def test_a_job_whose_lease_is_not_read_yet_is_not_taken_for_its_owner_s_other_job() -> None:
    second = process(72, environment=(("FALLOW_JOB", "run-8"),))
    leases = [given(0, f"run-{n}", ClaimSource.LEASE) for n in (7, 8)]
    assert run([second], on(0, 72), leases[:1]).unknown == {key(72)}
    assert run([second], on(0, 72), leases).owners == {key(72): "run-8"}


def test_one_pod_on_a_gpu_owns_the_processes_of_pods() -> None:
    pod = given(0, "pod:vision/train-0", ClaimSource.KUBERNETES, user=None)
    inside = process(71, None, pod=POD, container=CONTAINER)
    outside = process(72, "bob")
    blind = process(73, "bob", unreadable=("cgroup: permission denied",))
    found = run([inside, outside, blind], on(0, 71, 72, 73), [pod])
    assert found.owners == {key(71): "pod:vision/train-0"}
    assert (found.orphans, found.unknown) == ({key(72)}, {key(73)})


def test_two_pods_on_a_gpu_are_told_apart_by_their_names() -> None:
    pods = [given(0, f"pod:vision/train-{i}", ClaimSource.KUBERNETES, user=None) for i in range(2)]
    named = process(71, None, pod=POD, environment=(("HOSTNAME", "train-1"),))
    found = run([named, process(72, None, pod=POD)], on(0, 71, 72), pods)
    assert found.owners == {key(71): "pod:vision/train-1"}
    assert found.unknown == {key(72)}
    assert [each.share for each in found.allocations] == [0.5, 0.5]


def test_whoever_is_on_a_gpu_that_nobody_gave_holds_it() -> None:
    found = run([process(71), process(72, "bob")], [*on(0, 71), *on(1, 72)])
    assert held(found) == {
        "GPU-0": [(f"pid:{NODE}/71@710", "process")],
        "GPU-1": [(f"pid:{NODE}/72@720", "process")],
    }
    assert [each.holder.user for each in found.allocations] == ["ann", "bob"]


def test_ranks_workers_and_notebook_cells_are_one_job_each() -> None:
    ranks = [process(pid, tree=70, frameworks=("PyTorch",)) for pid in (71, 72, 73)]
    cells = [process(pid, "bob", tree=90, notebook="ab") for pid in (90, 91)]
    found = run([*ranks, *cells], [*on(0, 71, 73), *on(1, 72), *on(2, 90, 91)])
    assert held(found) == {
        "GPU-0": [(f"pid:{NODE}/70@700", "process")],
        "GPU-1": [(f"pid:{NODE}/70@700", "process")],
        "GPU-2": [(f"pid:{NODE}/90@900", "process")],
    }
    assert found.allocations[0].holder == found.allocations[1].holder
    assert found.allocations[0].holder.framework == "PyTorch"
    assert found.allocations[2].holder.kind is JobKind.INTERACTIVE


def test_jobs_that_share_a_gpu_share_its_time() -> None:
    found = run([process(71), process(72, "bob"), process(73, "bob")], on(0, 71, 72, 73))
    assert [each.share for each in found.allocations] == pytest.approx([1 / 3] * 3)


def test_stated_fractions_stay_as_they_were_given() -> None:
    leases = [given(0, "a", ClaimSource.LEASE, share=0.25), given(0, "b", ClaimSource.LEASE, share=0.5)]
    assert [each.share for each in run(claims=leases).allocations] == [0.25, 0.5]


def test_an_environment_s_claim_and_whoever_else_is_there_share_the_gpu() -> None:
    claim = given(1, f"pid:{NODE}/71@710", ClaimSource.ENVIRONMENT)
    found = run([process(71), process(72, "bob")], [*on(0, 71), *on(1, 72)], [claim])
    assert held(found)["GPU-1"] == [
        (f"pid:{NODE}/71@710", "environment"),
        (f"pid:{NODE}/72@720", "environment"),
    ]
    assert found.orphans == frozenset()


def test_a_hidden_process_still_holds_its_gpu_under_its_pid() -> None:
    found = run([hidden(71)], on(0, 71))
    ((allocation,)) = found.allocations
    assert (allocation.holder.job, allocation.holder.user) == (f"pid:{NODE}/71@710", None)
    assert found.unknown == {key(71)}


@pytest.mark.parametrize("name", ["Xorg", "nvidia-cuda-mps", "nv-hostengine"])
def test_a_daemon_is_a_bystander_and_holds_nothing(name: str) -> None:
    found = run([process(71, "root", name=name)], on(0, 71, type=ProcessType.BOTH))
    assert (found.bystanders, found.allocations) == ({key(71)}, ())


def test_a_desktop_s_graphics_hold_nothing() -> None:
    found = run([process(71, name="blender", at_seat=True)], on(0, 71, type=ProcessType.GRAPHICS))
    assert (found.bystanders, found.allocations) == ({key(71)}, ())


def test_a_process_with_graphics_here_and_computing_there_is_a_job() -> None:
    found = run([process(71)], [*on(0, 71, type=ProcessType.GRAPHICS), *on(1, 71)])
    assert found.bystanders == frozenset()
    assert held(found) == {"GPU-1": [(f"pid:{NODE}/71@710", "process")]}


def test_a_leased_job_keeps_its_name_on_gpus_that_nobody_gave() -> None:
    rank = process(71, environment=(("FALLOW_JOB", "run-7"),))
    found = run([rank], [*on(0, 71), *on(1, 71)], [given(0, "run-7", ClaimSource.LEASE)])
    assert held(found) == {"GPU-0": [("run-7", "lease")], "GPU-1": [("run-7", "process")]}


def test_a_job_that_also_strays_owns_its_process_and_intrudes_elsewhere() -> None:
    found = run(
        [process(71, slurm_job="812")],
        [*on(0, 71), *on(1, 71)],
        node_claims=[*slurm(812, 0), *slurm(813, 1, user="bob")],
    )
    assert found.owners == {key(71): "slurm:812"}
    assert found.intrusions == (Intrusion(key=key(71), uuid=GPUS[1].uuid),)
    assert found.orphans == frozenset()


def test_nobody_looked_is_not_nobody_holds() -> None:
    blind = Reading(source="dcgm", at_ms=1, gpus=tuple(GPUS))
    assert effective([blind], 1) is None
    looked = replace(blind, source="nvml", processes=(), process_samples=())
    found = effective([looked], 1)
    assert found is not None
    assert found.allocations == ()


def test_readings_are_joined_across_sources_and_projects_looked_up() -> None:
    trainer = process(71, environment=(("CUDA_VISIBLE_DEVICES", "2,3"),))
    nvml = Reading(
        source="nvml", at_ms=1, gpus=tuple(GPUS), processes=(trainer,), process_samples=tuple(on(2, 71))
    )
    queue = Reading(source="slurm", at_ms=1, claims=tuple(slurm(812, 0, user="bob")))
    found = effective([nvml, queue], 9, project_of={"ann": "nlp"}.get)
    assert found is not None
    assert held(found) == {
        "GPU-0": [("slurm:812", "slurm")],
        "GPU-2": [(f"pid:{NODE}/71@710", "environment")],
        "GPU-3": [(f"pid:{NODE}/71@710", "environment")],
    }
    assert [each.holder.project for each in found.allocations] == ["vision", "nlp", "nlp"]
    assert found.at_ms == 9


def test_an_environment_that_fits_two_readings_claims_nothing_and_says_why() -> None:
    trainer = process(71, environment=(("CUDA_VISIBLE_DEVICES", "0"), ("SLURM_JOB_ID", "8")))
    reading = Reading(
        source="nvml", at_ms=1, gpus=tuple(GPUS), processes=(trainer,), process_samples=tuple(on(2, 71))
    )
    found = effective([reading], 1)
    assert found is not None
    assert held(found) == {"GPU-2": [(f"pid:{NODE}/71@710", "process")]}
    ((who, why),) = found.unclear
    assert who == key(71)
    assert "SLURM_JOB_GPUS is not set" in why


def test_two_sources_of_one_word_agree_on_one_holder() -> None:
    label = given(0, "slurm:812", ClaimSource.SLURM, user=None)
    ((allocation,)) = run(claims=[label], node_claims=slurm(812, 0)).allocations
    assert (allocation.holder.user, allocation.holder.project, allocation.share) == ("ann", "vision", 1.0)


def test_a_background_job_that_was_let_in_is_no_intruder_and_holds_nothing() -> None:
    guest = Holder(job=JobId("fallow:2"), user="bob")
    claim = replace(given(0, "fallow:1", ClaimSource.LEASE), guests=(guest,))
    sweeps = (("FALLOW_JOB", "fallow:2"),)

    def seen(
        claims: list[Allocation], user: str = "bob", words: tuple[tuple[str, str], ...] = sweeps
    ) -> Attribution:
        return run([process(70), process(71, user, environment=words)], on(0, 70, 71), claims)

    let_in = seen([claim])
    assert let_in.intrusions == () and let_in.unknown == {key(71)}
    assert held(let_in) == {"GPU-0": [("fallow:1", "lease")]} and let_in.owners == {key(70): "fallow:1"}
    intrusion = (Intrusion(key=key(71), uuid=GPUS[0].uuid),)
    assert seen([replace(claim, guests=())]).intrusions == intrusion, "who was not let in"
    assert seen([claim], words=()).intrusions == intrusion, "another process of that person"
    assert seen([claim], user="eve").intrusions == intrusion, "another person's under that job's name"
