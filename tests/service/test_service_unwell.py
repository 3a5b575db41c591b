"""What a running service says of itself when a part of it does not work: a full disk, a driver that hangs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.client import connect, running
from service.client.jobs import connect_acting
from service.errors import ServiceBusy
from tests.driver.driver import CompilerMissing, Driver
from tests.service.conftest import Running, fallow, is_well, start, until
from tests.service.delivery.servers import webhook

pytestmark = pytest.mark.process

SMALL_BYTES = 48 * 2**20
ALERTING = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 1
backfill_days = 0
[delivery.routes]
ops = ["{address}"]
[alerts]
to = ["ops"]
opens_after_s = 2
closes_after_s = 2
"""
HANGS = """
[collect]
tick_s = 1
source_timeout_s = 0.5
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB of its own."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting a small file system takes root's rights here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def health(service: Running) -> tuple[int, dict[str, Any]]:
    status, _, body = service.get("/healthz")
    return status, json.loads(body)


def states(service: Running) -> dict[str, str]:
    return {each["name"]: each["state"] for each in health(service)[1]["components"]}


def test_a_full_disk_is_told_to_operators_though_nothing_can_be_written(small_disk: Path) -> None:
    with webhook() as hook:
        service = start(small_disk / "data", config=ALERTING.format(address=hook.address))
        try:
            until("the service is well", lambda: is_well(service))
            filler = small_disk / "filler"
            fill(filler)
            until("the store is said to fail", lambda: states(service)["store"] == "failing")
            status, said = health(service)
            assert status == 503 and "store" in said["reason"] and "no room left" in said["reason"]
            with pytest.raises(ServiceBusy, match=r"nothing was done, .*: .*no room left"):
                connect_acting(service.data).submit({"command": ["true"], "project": "p", "name": "full"})
            until("an operator is told", lambda: bool(hook.taken))
            told = hook.taken[0]
            assert "store" in str(told["title"])
            assert "no room left" in str(told["message"]) and re.search(
                r"\d KiB of room for ", str(told["message"])
            )
            filler.unlink()
            until("it is well again", lambda: health(service)[0] == 200)
            until("that is told as well", lambda: "Over" in str(hook.taken[-1]["title"]))
        finally:
            _, complaints = service.stop()
    assert "Traceback" not in complaints, complaints
    assert "component-unwell component=store" in complaints
    assert "fallback-alert title=" in complaints and "bound-reached" not in complaints


def fill(filler: Path) -> None:
    """Take all room there is."""
    with filler.open("wb", buffering=0) as out:
        for piece in (1 << 20, 4096, 1):
            try:
                while True:
                    out.write(bytes(piece))
            except OSError:
                continue


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    try:
        made = Driver(tmp_path, gpus=2)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def test_a_driver_call_that_never_returns_fails_the_health_and_no_gpu_is_called_known(
    tmp_path: Path, driver: Driver
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "fallow.toml").write_text(HANGS)
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--data", str(data), "--source", "nvml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **driver.environment()},
    )
    service = Running(data=data, process=process)
    try:
        until("it has measured", lambda: running(data) is not None and bool(connect(data).rows("gpus_now")))
        until("it is well", lambda: health(service)[0] == 200)
        driver.fail("nvmlDeviceGetUtilizationRates", 0, delay_s=600)
        driver.fail("nvmlDeviceGetMemoryInfo_v2", 0, delay_s=600)
        driver.fail("nvmlDeviceGetPowerUsage", 0, delay_s=600)
        until("the source is named", lambda: states(service)["source:nvml"] in ("failing", "late"))
        status, said = health(service)
        assert status == 503 and "source:nvml" in said["reason"]
        assert states(service)["sampler"] == "ok" and states(service)["store"] == "ok"
        until("its GPUs are unknown", lambda: connect(data).rows("cluster_now")[0]["unknown_gpus"] == 2)
        shown = fallow("status", data=data).stdout
        assert "2 unknown" in shown and "source:nvml" in shown
    finally:
        process.kill()
        process.communicate(timeout=30)
