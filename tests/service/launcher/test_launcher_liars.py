"""Another account's processes on the GPUs of a real service, under a borrowed name and another's job."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.client import connect
from tests.driver.driver import GIB, GRAPHICS
from tests.service.api.conftest import BOB
from tests.service.launcher.site import Site, until_some
from tests.service.launcher.test_launcher_claims import site  # noqa: F401 - the fixture of the same site
from tests.service.launcher.test_launcher_real import waits

LIAR = """
import ctypes, os, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
ctypes.CDLL(None).prctl(15, b"Xorg", 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""
"""PR_SET_NAME, prctl(2)."""


@contextmanager
def lying(job: str) -> Iterator[int]:
    words = {"FALLOW_JOB": job, "SLURM_JOB_ID": "812", "JUPYTERHUB_USER": "root", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", LIAR, str(BOB)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=words) as child:
        try:
            assert child.stdout is not None and child.stdout.readline()
            yield child.pid
        finally:
            child.kill()


def test_a_liar_is_an_intruder_on_a_leased_gpu_and_pays_for_a_free_one(
    site: Site,  # noqa: F811 - its fixture
    tmp_path: Path,
) -> None:
    job = site.run("held", "--gpus", "1", "--", *waits(tmp_path / "held"))
    (leased,) = site.stands(job, "running")["gpus"]
    (free,) = set(site.gpus) - {leased}
    with lying(job) as computing, lying(job) as drawing:
        site.driver.gpu(site.gpus.index(leased)).process(computing, memory=8 * GIB)
        site.driver.gpu(site.gpus.index(free)).process(drawing, 8 * GIB, GRAPHICS)

        def seen() -> tuple[dict[str, Any], dict[str, Any]] | None:
            window = {"from_ts": "2000-01-01T00:00:00Z", "to_ts": "2100-01-01T00:00:00Z", "open": True}
            intruders = connect(site.data).rows("intrusions", **window)
            held = [row for row in connect(site.data).rows("gpus_now") if row["uuid"] == free and row["job"]]
            return (intruders[0], held[0]) if intruders and held else None

        intruder, paid = until_some(seen, "both are seen")
    assert (intruder["uuid"], intruder["pid"], intruder["user_name"]) == (leased, computing, f"uid-{BOB}")
    assert intruder["process_name"] == "Xorg"
    assert (paid["user_name"], paid["job"] == job) == (f"uid-{BOB}", False)
    (tmp_path / "held").touch()
    assert site.stands(job, "ended")["exit_reason"] == "done"
