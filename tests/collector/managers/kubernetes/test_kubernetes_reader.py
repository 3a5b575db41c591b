"""What a Kubernetes cluster's answers mean: who holds which GPU, who waits and why, and what is no answer."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.attribution import effective
from collector.managers.kubernetes.api import PAGE, Account, Answer, NoAnswer, in_cluster
from collector.managers.kubernetes.reader import KubernetesManager
from collector.managers.model import JobState, Look, ManagedJob, WaitCause
from collector.managers.source import ManagerSource
from collector.model import (
    Allocation,
    ClaimSource,
    Gpu,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    OutOfService,
    Unavailable,
)
from collector.reading import Reading
from tests.collector.dcgm import loopback
from tests.collector.managers.kubernetes import cluster_answers as answers

NOW_MS = answers.BEGAN_MS + 3_600_000
BASE: dict[str, list[dict[str, Any]]] = {"pods": [], "nodes": [answers.node("gpu-a")]}


def none() -> Account:
    raise NoAnswer("nobody is asked")


def look(get: Callable[[str], Answer]) -> Look | Unavailable:
    return KubernetesManager(none, get=get).look(NOW_MS)


def seen(**lists: list[dict[str, Any]]) -> Look:
    found = look(answers.serving(BASE | lists))
    assert isinstance(found, Look), found
    return found


def only(found: Look) -> ManagedJob:
    (job,) = found.jobs
    return job


def test_a_bound_pod_holds_what_it_asked_for_and_the_node_says_so() -> None:
    found = seen(pods=[answers.pod("train-0", 1, gpus=3)])
    job = only(found)
    assert (job.state, job.holder.job, job.holder.project) == (
        JobState.RUNNING,
        "pod:vision/train-0",
        "vision",
    )
    assert [(each.node, each.gpus) for each in job.given or ()] == [("gpu-a", 3)]
    assert (job.key.id, job.key.submitted_ms) == (answers.uid(1), answers.BEGAN_MS)
    (node,) = found.nodes
    assert (node.gpus, node.given_gpus, node.gpu_types) == (4, 3, ("NVIDIA-A100-SXM4-80GB",))


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"phase": "Pending"}, JobState.RUNNING),  # bound, and its image is being fetched
        ({"phase": "Unknown"}, JobState.RUNNING),  # its node is silent: it holds on
        ({"phase": "Succeeded"}, None),
        ({"phase": "Failed"}, None),
    ],
)
def test_a_pod_holds_from_its_binding_to_its_end(change: dict[str, str], state: JobState | None) -> None:
    found = seen(pods=[answers.pod("train-0", 1, **change)])  # type: ignore[arg-type]
    assert [job.state for job in found.jobs] == ([] if state is None else [state])


def test_a_pod_that_is_being_deleted_holds_until_it_is_gone() -> None:
    going = answers.pod("train-0", 1)
    going["metadata"]["deletionTimestamp"] = answers.BEGAN
    job = only(seen(pods=[going]))
    assert job.state is JobState.ENDING and job.given


def test_pods_without_gpus_are_nobodys_jobs() -> None:
    assert seen(pods=[answers.pod("web", 1, gpus=0)]).jobs == ()


def test_init_containers_ask_beside_and_sidecars_with_the_others() -> None:
    made = answers.pod("train-0", 1, gpus=2)
    limits = {"limits": {"nvidia.com/gpu": "3"}}
    made["spec"]["initContainers"] = [{"name": "check", "resources": limits}]
    assert only(seen(pods=[made])).ask.gpus == 3, "the larger of the two"
    made["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    assert only(seen(pods=[made])).ask.gpus == 5, "a sidecar runs with them"


def test_a_pod_that_waits_has_its_schedulers_words() -> None:
    job = only(seen(pods=[answers.pod("train-1", 1, gpus=8, node=None)]))
    assert (job.state, job.given, job.ask.gpus) == (JobState.PENDING, (), 8)
    assert (job.reason, job.cause) == (answers.INSUFFICIENT, WaitCause.RESOURCES)


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        (
            "Unschedulable",
            "0/3 nodes are available: 3 node(s) had untolerated taint {team: speech}.",
            WaitCause.NODES,
        ),
        (
            "Unschedulable",
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            WaitCause.NODES,
        ),
        ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.", WaitCause.OTHER),
        ("Unschedulable", "0/3 nodes are available: 3 cannot allocate all claims.", WaitCause.RESOURCES),
        ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", WaitCause.HELD),
        ("", "", WaitCause.UNSAID),
    ],
)
def test_what_a_pod_waits_for(reason: str, message: str, cause: WaitCause) -> None:
    waiting = answers.pod("train-1", 1, node=None)
    waiting["status"]["conditions"][0] |= {"reason": reason, "message": message}
    assert only(seen(pods=[waiting])).cause is cause


def test_a_message_of_somebody_else_is_bounded_and_on_one_line() -> None:
    waiting = answers.pod("train-1", 1, node=None)
    waiting["status"]["conditions"][0]["message"] = "3 Insufficient nvidia.com/gpu\n\x1b[31m" + "x" * 5_000
    reason = only(seen(pods=[waiting])).reason
    assert len(reason) == 400 and reason.isprintable()


def claiming(number: int, node: str | None = "gpu-c") -> dict[str, Any]:
    made = answers.pod("llm-0", number, gpus=0, node=node)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "llm-0-gpu"}]
    return made


def test_a_claim_says_which_gpu_a_pod_has() -> None:
    found = seen(
        pods=[claiming(7)],
        nodes=[answers.node("gpu-c", 0)],
        resourceclaims=[answers.claim("llm-0-gpu", 7, "gpu-1")],
        resourceslices=[answers.resource_slice(1, uuids=("GPU-old", "GPU-older")), answers.resource_slice(2)],
    )
    job = only(found)
    assert [(each.node, each.gpus, each.uuids) for each in job.given or ()] == [("gpu-c", 1, ("GPU-c1",))]
    assert [(each.gpus, each.given_gpus) for each in found.nodes] == [(2, 1)], "the newest generation counts"


def test_a_claim_that_is_not_allocated_yet_waits() -> None:
    waiting = claiming(7, node=None)
    waiting["status"]["conditions"][0]["message"] = "0/3 nodes are available: 3 cannot allocate all claims."
    job = only(seen(pods=[waiting], resourceclaims=[answers.claim("llm-0-gpu", None)], resourceslices=[]))
    assert (job.state, job.ask.gpus, job.cause) == (JobState.PENDING, 1, WaitCause.RESOURCES)


def test_an_administrators_access_holds_nothing() -> None:
    lists = {
        "resourceclaims": [answers.claim("watch", 7, admin=True)],
        "resourceslices": [answers.resource_slice()],
    }
    assert seen(pods=[answers.pod("watch", 7, gpus=0)], **lists).jobs == ()


def test_a_suspended_job_is_in_the_queue_with_kueues_words() -> None:
    waiting = answers.workload("sweep", 5, answers.owner("Job", "sweep", 50))
    admitted = answers.workload("runs", 6, answers.owner("Job", "runs", 60), reserved=True)
    job = only(seen(workloads=[waiting, admitted]))
    assert (job.holder.job, job.ask.gpus, job.partition) == ("workload:vision/sweep", 4, "vision-queue")
    assert (job.state, job.cause, job.reason) == (JobState.PENDING, WaitCause.RESOURCES, answers.QUOTA)


def test_a_gated_pod_has_kueues_words_and_is_there_once() -> None:
    gated = answers.pod("train-1", 9, node=None)
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    gated["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "vision-queue"}
    job = only(
        seen(pods=[gated], workloads=[answers.workload("train-1", 5, answers.owner("Pod", "train-1", 9))])
    )
    assert (job.holder.job, job.reason, job.cause) == (
        "pod:vision/train-1",
        answers.QUOTA,
        WaitCause.RESOURCES,
    )
    assert job.partition == "vision-queue"


def test_a_pod_of_a_group_has_kais_words() -> None:
    grouped = answers.pod("train-1", 9, node=None)
    grouped["metadata"]["annotations"] = {"pod-group-name": "pg-train"}
    said = "Workload requested 2 GPUs, but team-a has reached its limit of 8 GPUs"
    job = only(seen(pods=[grouped], podgroups=[answers.pod_group("pg-train", "OverLimit", said)]))
    assert (job.reason, job.cause) == (said, WaitCause.LIMIT)


@pytest.mark.parametrize(
    ("change", "state"),
    [({"unschedulable": True}, OutOfService.DRAINED), ({}, None), (None, OutOfService.DOWN)],
)
def test_a_cordoned_node_and_a_silent_one_give_nothing(
    change: dict[str, bool] | None, state: OutOfService | None
) -> None:
    made = answers.node("gpu-a", ready="Unknown" if change is None else "True")
    made["spec"] = change or {}
    assert [each.state for each in seen(nodes=[made]).nodes] == [state]


def test_an_empty_list_that_is_one_says_that_there_is_nobody() -> None:
    assert seen().jobs == ()


@pytest.mark.parametrize(
    "kind", ["pods", "nodes", "resourceclaims", "resourceslices", "workloads", "podgroups"]
)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (answers.refused(403, "pods is forbidden: User cannot list resource"), "may not list"),
        (answers.refused(401, "Unauthorized"), "may not list"),
        (answers.refused(500, "etcdserver: leader changed"), "HTTP 500: etcdserver"),
        (answers.refused(410, "too old resource version"), "HTTP 410"),
        (Answer(status=200, body=None), "could not be listed"),
        (Answer(status=200, body={"items": []}), "no list of a Kubernetes API server"),
        (
            Answer(status=200, body={"kind": "PodList", "metadata": {}, "items": []}),
            "no list of a Kubernetes",
        ),
    ],
)
def test_what_is_no_whole_list_is_no_answer_and_never_nobody(kind: str, answer: Answer, says: str) -> None:
    well = answers.serving(
        BASE | {each: [] for each in answers.GROUPS} | {"pods": [answers.pod("train-0", 1)]}
    )
    found = look(lambda path: answer if path.partition("?")[0].endswith(f"/{kind}") else well(path))
    assert isinstance(found, Unavailable)
    assert says in found.reason


def test_a_group_is_read_only_where_the_cluster_says_that_it_has_it() -> None:
    """Who may list none of Kueue's workloads is refused with 403 also where there is no Kueue."""
    assert len(seen(pods=[answers.pod("train-0", 1)]).jobs) == 1
    newer = answers.Answer(
        status=200, body={"groups": [{"name": "kueue.x-k8s.io", "versions": [{"version": "v3"}]}]}
    )
    plain = answers.serving(BASE)
    found = look(lambda path: newer if path == "/apis" else plain(path))
    assert isinstance(found, Unavailable) and "serves kueue.x-k8s.io as v3" in found.reason
    silent = look(lambda path: answers.refused(503, "busy") if path == "/apis" else plain(path))
    assert isinstance(silent, Unavailable) and "which groups" in silent.reason


def test_pages_are_read_to_the_end_and_begun_anew_once_where_the_token_expired() -> None:
    expired: list[str] = []

    def get(path: str, gone: int) -> Answer:
        if "/pods" not in path:
            return answers.serving(BASE)(path)
        assert f"limit={PAGE}" in path
        if not answers.token_of(path):
            return answers.listed("Pod", [answers.pod("a", 1)], "next/=+")
        if len(expired) < gone:
            expired.append(answers.token_of(path))
            return answers.refused(410, "The provided continue parameter is too old")
        return answers.listed("Pod", [answers.pod("b", 2)])

    found = look(lambda path: get(path, 1))
    assert isinstance(found, Look) and [job.shown_id for job in found.jobs] == ["vision/a", "vision/b"]
    assert expired == ["next/=+"]
    expired.clear()
    cut = look(lambda path: get(path, 2))
    assert isinstance(cut, Unavailable) and "cut off twice" in cut.reason


def test_who_is_in_no_pod_is_told_what_to_give(tmp_path: Any) -> None:
    with pytest.raises(NoAnswer, match=r"collect\.kubernetes"):
        in_cluster({}, tmp_path)
    (tmp_path / "token").touch()
    given = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert in_cluster(given, tmp_path).url == "https://[fd00::1]:6443"


def test_the_api_server_is_asked_over_http_as_the_account_whose_token_is_renewed(tmp_path: Path) -> None:
    token, asked = tmp_path / "token", list[str]()
    lists = answers.serving(BASE | {"pods": [answers.pod("train-0", 1)]})

    def answer(path: str, headers: Mapping[str, str]) -> loopback.Answer:
        asked.append(headers["Authorization"])
        found = lists(path)
        return loopback.Answer(body=json.dumps(found.body).encode(), status=found.status)

    with loopback.serving(answer) as url:
        manager = KubernetesManager(lambda: Account(url=url, token_file=token, ca_file=None))
        assert isinstance(manager.look(NOW_MS), Unavailable), "there is no token yet"
        for word in ("one", "two"):
            token.write_text(word)
            found = manager.look(NOW_MS)
            assert isinstance(found, Look) and len(found.jobs) == 1
    assert set(asked) == {"Bearer one", "Bearer two"}
    gone = manager.look(NOW_MS)
    assert isinstance(gone, Unavailable) and "does not answer" in gone.reason


def readings(labels: tuple[Allocation, ...], **lists: list[dict[str, Any]]) -> list[Reading]:
    """What an exporter measures on gpu-a and gpu-c, with its pod labels, and what the API server says."""
    gpus = tuple(
        Gpu(uuid=GpuUuid(f"GPU-{node}{i}"), node=NodeName(f"gpu-{node}"), index=i)
        for node in "ac"
        for i in range(2)
    )
    exporter = Reading(source="dcgm", at_ms=NOW_MS, gpus=gpus, allocations=labels)
    api = ManagerSource(KubernetesManager(none, get=answers.serving(BASE | lists))).read(NOW_MS)
    assert isinstance(api, Reading)
    return [exporter, api]


def label(uuid: str, pod: str) -> Allocation:
    return Allocation(
        uuid=GpuUuid(uuid), holder=Holder(job=JobId(f"pod:vision/{pod}")), source=ClaimSource.KUBERNETES
    )


def test_labels_of_the_exporter_name_the_gpus_and_the_others_are_free() -> None:
    found = effective(
        readings(
            (label("GPU-a0", "train-0"),), pods=[answers.pod("train-0", 1)], nodes=[answers.node("gpu-a", 2)]
        ),
        NOW_MS,
    )
    assert found is not None
    assert [(each.uuid, each.holder.job) for each in found.allocations] == [("GPU-a0", "pod:vision/train-0")]
    assert found.withheld == ()


def test_without_labels_no_gpu_of_a_node_with_pods_is_free() -> None:
    found = effective(
        readings((), pods=[answers.pod("train-0", 1)], nodes=[answers.node("gpu-a", 2)]), NOW_MS
    )
    assert found is not None and found.allocations == ()
    assert [(each.uuid, each.state) for each in found.withheld] == [
        ("GPU-a0", OutOfService.UNASKED),
        ("GPU-a1", OutOfService.UNASKED),
    ]
    assert "1 GPU of this node is given to pods, and nobody says which" in found.withheld[0].reason


def test_a_claims_device_is_the_pods_without_any_exporters_word() -> None:
    found = effective(
        readings(
            (),
            pods=[claiming(7)],
            nodes=[answers.node("gpu-c", 0)],
            resourceclaims=[answers.claim("llm-0-gpu", 7, "gpu-1")],
            resourceslices=[answers.resource_slice()],
        ),
        NOW_MS,
    )
    assert found is not None
    assert [(each.uuid, each.holder.job, each.source) for each in found.allocations] == [
        ("GPU-c1", "pod:vision/llm-0", ClaimSource.KUBERNETES)
    ]
    assert found.withheld == ()
