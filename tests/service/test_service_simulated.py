"""Invented data is shown where somebody asks for it, says what it is, and never goes beside real GPUs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client import connect, running
from service.client.jobs import connect_acting
from service.sources.gpu_presence import look_for_gpus
from tests.driver.driver import CompilerMissing, Driver
from tests.service.conftest import SMALL, Running, fallow, start, until

pytestmark = pytest.mark.process
QUICK = "[collect]\ntick_s = 1\n[acting]\nevery_s = 0.5\n"


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    try:
        made = Driver(tmp_path, gpus=1)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@pytest.fixture
def bare_machine() -> None:
    """Nothing of NVIDIA's is here."""
    found = look_for_gpus()
    if found.has_driver or found.without_driver:
        pytest.skip("this machine has an NVIDIA GPU")


def test_a_simulated_service_says_so_wherever_one_looks(service: Running, tmp_path: Path) -> None:
    _, _, body = service.get("/healthz")
    assert json.loads(body)["simulated"] is True
    assert "SIMULATED" in fallow("status", data=service.data).stdout.splitlines()[0]
    _, _, metrics = service.get("/metrics", **service.bearer())
    assert b"\nfallow_simulated 1\n" in metrics
    out = tmp_path / "week.md"
    fallow("report", "cluster-week", "--format", "md", "--out", str(out), data=service.data)
    report = out.read_text()
    assert report.startswith("# Simulated: ") and "are invented" in report


def test_no_source_and_no_gpu_is_refused_with_what_to_do_and_nothing_is_invented(
    tmp_path: Path, bare_machine: None
) -> None:
    done = fallow("serve", data=tmp_path)
    assert done.returncode == 2
    for part in ("no NVIDIA GPU", "--source dcgm=URL", "--simulated"):
        assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_neither_kind_of_store_takes_the_other_s_gpus(tmp_path: Path, driver: Driver) -> None:
    for first, second in (("--simulated", "nvml"), ("nvml", "--simulated")):
        data = tmp_path / first.strip("-")
        begun = serving(data, first, driver)
        try:
            until("it has measured", lambda data=data: measured(data))
        finally:
            begun.stop()
        refused = fallow("serve", *words(second), data=data, env=dict(driver.environment()))
        assert refused.returncode == 2, refused
        assert "--data" in refused.stderr and str(data) in refused.stderr


def test_a_driver_that_did_not_load_is_said_and_no_job_is_started_on_anything_invented(
    tmp_path: Path, driver: Driver, bare_machine: None
) -> None:
    """Two jobs on one GPU, so that one waits; then the machine starts again, and its driver does not."""
    data, home = tmp_path / "data", tmp_path / "home"
    begun = serving(data, "nvml", driver)
    try:
        until("it has measured", lambda: measured(data))
        jobs = [submitted(data, home) for _ in range(2)]
        line = connect_acting(data)
        until("one runs", lambda: {line.job(job).state for job in jobs} >= {"running", "pending"})
    finally:
        begun.stop()
    again = start(data, words=(), config=QUICK)
    try:
        until("it looks at the queue again", lambda: (running(data) is not None) and waits(data))
        with connect(data) as client:
            assert {row["uuid"] for row in client.rows("gpus_now")} == {driver.gpu(0).uuid}
            assert {row["source"]: row["reason"] is None for row in client.rows("sources")}["nvml"] is False
        line = connect_acting(data)
        assert {str(line.job(job).state) for job in jobs} == {"running", "pending"}
        for job in jobs:
            line.cancel(job)
        until("both have ended", lambda: all(line.job(job).state == "ended" for job in jobs))
    finally:
        again.stop()


def words(kind: str) -> tuple[str, ...]:
    return (kind,) if kind.startswith("--") else ("--source", kind)


def serving(data: Path, kind: str, driver: Driver) -> Running:
    data.mkdir(parents=True, exist_ok=True)
    (data / "fallow.toml").write_text(SMALL if kind == "--simulated" else QUICK)
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--data", str(data), *words(kind)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **driver.environment()},
    )
    return Running(data=data, process=process)


def measured(data: Path) -> bool:
    return running(data) is not None and bool(connect(data).rows("gpus_now"))


def submitted(data: Path, home: Path) -> str:
    own = {"XDG_STATE_HOME": str(home), "HOME": str(home)}
    done = fallow("run", "--data", str(data), "--detach", "--", "sleep", "600", env=own)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


def waits(data: Path) -> bool:
    """Whether the service has decided at least once since its start."""
    return connect_acting(data).acting().cycle_s is not None
