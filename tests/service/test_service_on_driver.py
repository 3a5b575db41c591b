"""The whole way on the stand-in driver: from NVML and /proc through store and API to what a person reads."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client import connect, running
from tests.driver.driver import GIB, CompilerMissing, Driver
from tests.service.conftest import EVENT, fallow, until

pytestmark = pytest.mark.process


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    try:
        made = Driver(tmp_path, gpus=2)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@pytest.fixture
def training() -> "Iterator[subprocess.Popen[bytes]]":
    """A real process that was given GPU 0 by its environment."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"})
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def data(driver: Driver, training: "subprocess.Popen[bytes]", tmp_path: Path) -> Iterator[Path]:
    """DATA of a service that has seen the process."""
    first = driver.gpu(0)
    first.utilization, first.memory_used = 80, 10 * GIB
    first.process(training.pid, memory=8 * GIB)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "fallow.toml").write_text("[collect]\nslurm = false\n")  # whatever is installed here
    command = [
        sys.executable,
        "-m",
        "service.cli",
        "serve",
        "--source",
        "nvml",
        "--tick",
        "1",
        "--data",
        str(folder),
    ]
    process = subprocess.Popen(
        command, env={**os.environ, **driver.environment()}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        until("the service answers", lambda: running(folder) is not None)
        until(
            "it has seen the process",
            lambda: any(row["user_name"] for row in connect(folder).rows("gpus_now")),
        )
        yield folder
    finally:
        process.terminate()
        _, complaints = process.communicate(timeout=30)
    assert [line for line in complaints.decode().splitlines() if not EVENT.match(line)] == []


def test_gpu_is_given_to_the_user_of_the_process_on_it(
    data: Path, training: "subprocess.Popen[bytes]"
) -> None:
    rows = json.loads(fallow("status", "--json", data=data).stdout)
    first, second = sorted(rows, key=lambda row: row["gpu_index"])
    assert first["user_name"] == account()
    assert first["memory_used_bytes"] == 10 * GIB
    assert (second["user_name"], second["state"]) == (None, "free")
    processes = connect(data).rows("processes_now", uuid=first["uuid"])
    assert [(row["pid"], row["process_name"], row["job"]) for row in processes] == [
        (training.pid, "sleep", first["job"])
    ]


def test_another_fallow_collects_the_same_from_its_metrics(data: Path) -> None:
    said = running(data)
    assert said is not None
    token = (data / "token").read_text().strip()
    done = fallow(
        "collect", "--once", "--json", "--source", f"fallow={said.url}", env={"FALLOW_PEER_TOKEN": token}
    )
    mine = {row["uuid"]: row for row in connect(data).rows("gpus_now")}
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout):
        assert row["job"] == mine[row["uuid"]]["job"]
        assert row["memory_used_bytes"] == mine[row["uuid"]]["memory_used_bytes"]
        assert row["node"] == mine[row["uuid"]]["node"]


def test_doctor_says_what_each_gpu_cannot_measure(driver: Driver) -> None:
    done = fallow("doctor", "--json", "--source", "nvml", env=dict(driver.environment()))
    by_subject = {row["subject"]: row for row in json.loads(done.stdout)}
    assert by_subject["NVIDIA driver"]["found"].startswith("driver ")
    assert by_subject["GPU 0"]["verdict"] == "limited"
    assert "SM active" in by_subject["GPU 0"]["found"]


def test_doctor_asks_the_driver_where_its_usual_signs_are_missing(driver: Driver, tmp_path: Path) -> None:
    """Nothing in /dev and /proc, as in some sandboxes; that is no word for "install the driver"."""
    done = fallow("doctor", "--json", data=tmp_path, env=dict(driver.environment()))
    by_subject = {row["subject"]: row for row in json.loads(done.stdout)}
    assert "2 GPUs" in by_subject["NVIDIA driver"]["found"]
    assert "no NVIDIA driver" not in by_subject["checkpoint"]["found"]


def test_doctor_names_the_missing_library_and_what_to_do(tmp_path: Path) -> None:
    done = fallow("doctor", "--json", "--source", "nvml", data=tmp_path)
    rows = {row["subject"]: row for row in json.loads(done.stdout)}
    if rows["NVIDIA driver"]["verdict"] == "good":
        pytest.skip("this machine has a driver")
    assert done.returncode == 1
    assert rows["NVIDIA driver"]["verdict"] == "trouble"
    assert "libnvidia-ml.so.1" in rows["NVIDIA driver"]["found"]


def account() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name
