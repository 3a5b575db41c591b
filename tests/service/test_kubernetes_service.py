"""A real service beside an API server (answers over https, a private CA) and an exporter: queue, holders."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.collector.dcgm import loopback
from tests.collector.managers.kubernetes import cluster_answers as answers
from tests.conftest import program
from tests.service.conftest import fallow, is_well, start, stop_well, until
from tests.service.node.fronts import front

pytestmark = [pytest.mark.process, pytest.mark.slow]

OF_A_POD = ',namespace="vision",pod="train-0",container="main"'
GPU = 'gpu="{0}",UUID="GPU-a{0}",device="nvidia{0}",modelName="NVIDIA A100",Hostname="gpu-a"{1}'
EXPORTED = "".join(
    f"# TYPE {name} gauge\n"
    + "".join(f"{name}{{{GPU.format(at, OF_A_POD if at == 0 else '')}}} {values[at]}\n" for at in (0, 1))
    for name, values in (
        ("DCGM_FI_DEV_GPU_UTIL", (50, 0)),
        ("DCGM_FI_DEV_FB_USED", (40_000, 1)),
        ("DCGM_FI_DEV_FB_FREE", (40_000, 79_999)),
    )
)
CONFIG = """[collect]
sources = ["dcgm={exporter}"]
tick_s = 1
inventory_every_s = 1
slurm = false
kubernetes = "{url}"
kubernetes_token_file = "{folder}/token"
kubernetes_ca_file = "{ca}"
"""


def test_pods_that_wait_are_in_the_queue_and_a_forbidden_list_is_a_gap(tmp_path: Path) -> None:
    for name, package in (("nginx", "nginx-light"), ("openssl", "openssl")):
        program(name, package)
    forbidden: list[str] = []
    lists = answers.serving(
        {
            "pods": [answers.pod("train-0", 1), answers.pod("train-1", 2, gpus=8, node=None)],
            "nodes": [answers.node("gpu-a", 2)],
            "workloads": [answers.workload("sweep", 5, answers.owner("Job", "sweep", 50))],
        }
    )

    def answer(path: str, headers: Mapping[str, str]) -> loopback.Answer:
        assert headers["Authorization"] == "Bearer secret-word"
        found = answers.refused(403, "pods is forbidden") if forbidden and "/pods" in path else lists(path)
        return loopback.Answer(body=json.dumps(found.body).encode(), status=found.status)

    (tmp_path / "token").write_text("secret-word")
    with (
        loopback.serving(answer) as api,
        loopback.serving(lambda path, headers: loopback.text(EXPORTED)) as exporter,
        front(tmp_path / "front", api) as https,
    ):
        said = CONFIG.format(exporter=exporter, url=https.url, folder=tmp_path, ca=https.ca_file)
        made = start(tmp_path / "data", (), said)
        try:
            until("the service is well", lambda: is_well(made))
            client = made.client()
            until("the cluster was looked at", lambda: bool(client.rows("manager_queue")))
            queue = fallow("queue", data=made.data).stdout
            assert "At Kubernetes, cluster kubernetes: 2 jobs wait" in queue, queue
            shown = {row["shown_id"]: row for row in client.rows("manager_queue")}
            assert shown["vision/train-1"]["reason"] == answers.INSUFFICIENT
            assert shown["vision/sweep"]["reason"] == answers.QUOTA
            held = {row["gpu_index"]: row["job"] for row in client.rows("gpus_now")}
            assert held == {0: "pod:vision/train-0", 1: None}
            assert client.rows("cluster_now")[0]["withheld_gpus"] == 0, "the pod's one GPU is named"
            forbidden.append("pods")
            reasons = lambda: fallow("doctor", data=made.data).stdout  # noqa: E731
            until("the gap is told", lambda: "may not list pods" in reasons())
            assert "secret-word" not in reasons()
            assert {row["shown_id"] for row in client.rows("manager_queue")} == set(shown), (
                "what was known holds"
            )
        finally:
            stop_well(made)
