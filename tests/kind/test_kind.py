"""A real API server in kind: a Job that agreed is suspended and let go on, and one that didn't is refused.

It needs Docker, `kind` and `kubectl` on the path, and skips aloud elsewhere. **Nobody has seen it run yet.**
GPUs that aren't there are told to the node's status, as the device plugin would.
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from advisor.actions import Pause, Resume
from advisor.engines.kubernetes import KubernetesEngine, KubernetesEngineDependencies
from advisor.jobs.manager_acts import ManagerActStore
from advisor.outcomes import Done, Unsupported
from collector.clock import SystemClock
from collector.managers.kubernetes.api import Account, connected
from collector.managers.kubernetes.reader import KubernetesManager
from collector.managers.model import Look, ManagedJob
from tests.packaging.test_kubernetes_acting import ACTING
from tests.packaging.test_kubernetes_files import FILE
from tests.stores import open_store

pytestmark = [pytest.mark.slow, pytest.mark.process]

NAME = "fallow-test"
CONTEXT = f"--context=kind-{NAME}"
PATIENCE_S = 180
"""An image is fetched, and a pod has 1 s to end."""


def ask(*words: str, said: str | None = None) -> str:
    done = subprocess.run(words, input=said, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def until(what: str, holds: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while not (result := holds()):
        assert time.monotonic() < end_s, what
        time.sleep(1)
    return result


def job(name: str, annotations: dict[str, str]) -> str:
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"template": {"spec": pod}},
        }
    )


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    """Fallow's own account in a cluster of one node with 4 GPUs that aren't there."""
    missing = [each for each in ("docker", "kind", "kubectl") if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: nobody has seen Kubernetes' API server answer")
    if subprocess.run(("docker", "info"), capture_output=True, check=False).returncode != 0:
        pytest.skip("no Docker daemon answers: nobody has seen Kubernetes' API server answer")
    kubectl = partial(ask, "kubectl", CONTEXT)
    ask("kind", "create", "cluster", f"--name={NAME}", "--wait=180s")
    try:
        kubectl("apply", f"--filename={FILE}", f"--filename={ACTING}")
        node = kubectl("get", "nodes", "--output=name").strip()
        gpus = json.dumps({"status": {"capacity": {"nvidia.com/gpu": "4"}}})
        kubectl("patch", node, "--subresource=status", "--type=merge", f"--patch={gpus}")
        token = tmp_path / "token"
        token.write_text(kubectl("--namespace=fallow", "create", "token", "fallow", "--duration=1h"))
        config = json.loads(kubectl("config", "view", "--raw", "--minify", "--output=json"))
        cluster = config["clusters"][0]["cluster"]
        ca = tmp_path / "ca.pem"
        ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        yield Account(url=cluster["server"], token_file=token, ca_file=ca)
    finally:
        ask("kind", "delete", "cluster", f"--name={NAME}")


def test_a_job_that_agreed_is_suspended_and_one_that_did_not_is_refused_by_the_server(
    account: Account, tmp_path: Path
) -> None:
    kubectl = partial(ask, "kubectl", CONTEXT)
    for name, annotations in (("agreed", {"fallow/allow": "pause"}), ("silent", {})):
        kubectl("apply", "--filename=-", said=job(name, annotations))
    manager = KubernetesManager(lambda: account, jobs=True)
    looks: list[Look] = []

    def running(name: str) -> ManagedJob | None:
        look = manager.look(SystemClock().now_ms())
        assert isinstance(look, Look), look
        looks[:] = [look]
        return next((each for each in look.jobs if f"/{name}-" in each.shown_id and each.started_ms), None)

    until("both run", lambda: running("agreed") and running("silent"))
    with open_store(tmp_path / "fallow.duckdb") as store:
        engine = KubernetesEngine(
            KubernetesEngineDependencies(
                book=ManagerActStore(store, SystemClock()),
                connect=lambda: contextmanager(partial(connected, timeout_s=10.0))(account),
                clock=SystemClock(),
                looks=lambda: tuple(looks),
                against=lambda word, annotate: None,  # so that the server's own policy is what refuses
                gpus_of=lambda job: (),
            )
        )
        silent, agreed = running("silent"), running("agreed")
        assert silent is not None and agreed is not None
        assert silent.holder.job is not None and agreed.holder.job is not None
        refused = engine.do(Pause(job=silent.holder.job), 1)
        assert not isinstance(refused, Done | Unsupported) and "fallow/allow" in str(refused), refused
        assert isinstance(engine.do(Pause(job=agreed.holder.job), 2), Done)
        shown = json.loads(kubectl("get", "job", "agreed", "--output=json"))
        assert shown["spec"]["suspend"] is True and not shown["status"].get("active")
        assert isinstance(engine.do(Resume(job=agreed.holder.job, gpus=()), 3), Done)
        until("it runs again", lambda: running("agreed"))
