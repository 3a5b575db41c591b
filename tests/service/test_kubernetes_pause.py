"""A real service that may act beside an API server (https, a private CA): pause, journal, resume."""

from pathlib import Path

import pytest

from tests.collector.dcgm import loopback
from tests.collector.managers.kubernetes.api_server import JOB, POD, ApiServer, serving
from tests.conftest import program
from tests.service.conftest import fallow, is_well, start, stop_well, until
from tests.service.node.fronts import front
from tests.service.test_kubernetes_service import CONFIG, GPU

pytestmark = [pytest.mark.process, pytest.mark.slow]

ID = "pod:vision/train-x7k2p"
ACTS = f"{CONFIG}[foreign]\nkubernetes = true\n"


def exported(server: ApiServer) -> str:
    """One GPU, which is the pod's while there is one."""
    of_pod = ',namespace="vision",pod="train-x7k2p",container="main"' if POD in server.objects else ""
    used = 40_000 if of_pod else 1
    values = (("GPU_UTIL", 0), ("FB_USED", used), ("FB_FREE", 80_000 - used))
    return "".join(
        f"# TYPE DCGM_FI_DEV_{name} gauge\nDCGM_FI_DEV_{name}{{{GPU.format(0, of_pod)}}} {value}\n"
        for name, value in values
    )


def test_an_operator_pauses_a_job_that_agreed_and_lets_it_go_on(tmp_path: Path) -> None:
    for name, package in (("nginx", "nginx-light"), ("openssl", "openssl")):
        program(name, package)
    server = ApiServer()
    (tmp_path / "token").write_text("secret-word")
    with (
        serving(server) as api,
        loopback.serving(lambda path, headers: loopback.text(exported(server))) as exporter,
        front(tmp_path / "front", api) as https,
    ):
        said = ACTS.format(exporter=exporter, url=https.url, folder=tmp_path, ca=https.ca_file)
        made = start(tmp_path / "data", (), said)
        try:
            until("the service is well", lambda: is_well(made))
            held = lambda: [row["job"] for row in made.client().rows("gpus_now")]  # noqa: E731
            until("the pod is seen", lambda: held() == [ID])
            annotations = server.objects[JOB]["metadata"]["annotations"]
            word = annotations.pop("fallow/allow")  # taken back: that counts before the next look
            until(
                "acting has seen it too",
                lambda: "no job" not in fallow("pause", ID, data=made.data).stderr,
            )
            refused = fallow("pause", ID, data=made.data)
            assert (
                refused.returncode != 0
                and "-n vision annotate job train fallow/allow=pause" in refused.stderr
            ), refused
            assert server.changes == []
            server.objects[JOB]["metadata"]["annotations"]["fallow/allow"] = word
            done = fallow("pause", ID, data=made.data)
            assert done.returncode == 0, done
            assert server.objects[JOB]["spec"]["suspend"] is True and POD not in server.objects
            actions = [line.split() for line in fallow("actions", data=made.data).stdout.splitlines()[2:]]
            assert [("done" in line, "stale" in line) for line in actions] == [
                (True, False),
                (False, True),
                (False, True),
            ]
            assert actions[0][-3:] == ["fallow", "resume", ID], "how it is undone"
            until("it waits", lambda: "vision/train" in fallow("queue", data=made.data).stdout)
            again = fallow("resume", ID, data=made.data)
            assert again.returncode == 0, again
            assert server.objects[JOB]["spec"]["suspend"] is False
            assert len(server.bodies) == 2 and held() == [None]
            engines = " ".join(fallow("doctor", data=made.data).stdout.split())
            assert "to Kubernetes' Jobs (foreign.kubernetes): pause, resume, notify" in engines, engines
        finally:
            stop_well(made)
