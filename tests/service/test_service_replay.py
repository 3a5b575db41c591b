"""A service on a recording: whole at once, or at a chosen speed; then it rests and goes on answering."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.conftest import Running, fallow, start, until

pytestmark = pytest.mark.process

MAPPING = """
time = { column = "t_s", unit = "s", origin = "2026-03-02T00:00:00Z" }
gpu = "pod"
width_s = 60
node_name = "pods"
[sample]
gpu_utilization_ratio = { column = "util", unit = "percent" }
memory_used_bytes = { column = "mem", unit = "MiB" }
[holder]
job = "pod"
"""
MINUTES = 30


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two pods for half an hour: one works half, one holds memory and does nothing."""
    rows = [
        f"{60 * (m + 1)},{pod},{util},20000" for m in range(MINUTES) for pod, util in (("a", 50), ("b", 0))
    ]
    (tmp_path / "pods.csv").write_text("\n".join(["t_s,pod,util,mem", *rows]) + "\n")
    (tmp_path / "pods.toml").write_text(MAPPING)
    return tmp_path / "pods.csv"


@pytest.fixture(params=[0, 36_000], ids=["as fast as it goes", "at a speed"])
def service(request: pytest.FixtureRequest, recording: Path, tmp_path: Path) -> Iterator[Running]:
    config = f"[collect]\nreplay_speed = {request.param}\n"
    made = start(tmp_path / "data", words=("--source", f"replay={recording}"), config=config)
    try:
        yield made
    finally:
        _, complaints = made.stop()
    assert complaints == ""


def test_recording_ends_in_the_ledger_and_the_service_rests(service: Running) -> None:
    def over() -> bool:
        assert service.process.poll() is None, service.process.communicate()
        try:
            said = json.loads(service.get("/healthz")[2])
        except (OSError, AssertionError):
            return False
        return said["status"] == "ok" and "has ended" in str(said["reason"])

    until("the recording is over", over)
    words = ["--since", "2026-03-02T00:00", "--until", "2026-03-02T00:30", "--json"]
    rows = json.loads(fallow("ledger", "--by", "job", *words, data=service.data).stdout)
    used = {row["key"]: (row["held_gpu_hours"], row["used_gpu_hours"]) for row in rows if row["key"]}
    assert used == {"pod:a": (0.5, pytest.approx(0.25)), "pod:b": (0.5, 0.0)}
