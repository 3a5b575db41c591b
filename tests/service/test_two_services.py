"""Two services with different folders on one machine: both measure a GPU, and one of them leases it."""

from pathlib import Path

import pytest

from service.client.jobs import connect_acting
from tests.driver.driver import CompilerMissing, Driver
from tests.service.conftest import until
from tests.service.test_service_simulated import measured, serving, submitted, waits

pytestmark = pytest.mark.process


def test_a_gpu_that_one_service_leased_is_leased_by_no_other(tmp_path: Path) -> None:
    try:
        made = Driver(tmp_path, gpus=1)
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    with made as driver:
        folders = [tmp_path / name for name in ("one", "other")]
        services = [serving(folder, "nvml", driver) for folder in folders]
        try:
            for folder in folders:
                until("it has measured", lambda folder=folder: measured(folder))
            first, second = (connect_acting(folder) for folder in folders)
            runs = submitted(folders[0], tmp_path / "home")
            until("the first one's job runs", lambda: first.job(runs).state == "running")
            other = submitted(folders[1], tmp_path / "home")
            until("the other has decided on it", lambda: waits(folders[1]) and tried(second, other))
            assert second.job(other).state == "pending"
            assert second.leases() == []
            first.cancel(runs)
            until("it has ended", lambda: first.job(runs).state == "ended")
            services[0].stop()
            until("the GPU is the other's now", lambda: second.job(other).state == "running", limit_s=120)
            second.cancel(other)
            until("it has ended too", lambda: second.job(other).state == "ended")
        finally:
            for service in services:
                service.stop()


def tried(line: object, job: str) -> bool:
    """Whether a start was tried, and refused by the lock."""
    actions = line.actions(job=job)  # type: ignore[attr-defined]
    return any("leased by another Fallow service" in str(row) for row in actions)
