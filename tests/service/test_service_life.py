"""A service's life in real processes: starting, being refused, stopping, dying, and coming back."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service import data_folder as client_place
from service.client import NoData, StoreUnusable, connect
from tests.service.conftest import Running, fallow, is_well, start, until

pytestmark = pytest.mark.process

TINY = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
"""


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    made = start(tmp_path / "data", config=TINY)
    try:
        until("the service is well", lambda: is_well(made))
        yield made
    finally:
        made.stop(signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_service_stops_cleanly_and_leaves_a_store_that_can_be_read(
    fresh: Running, how: signal.Signals
) -> None:
    said, complaints = fresh.stop(how)
    assert (fresh.process.returncode, complaints) == (0, "")
    assert "Fallow answers at http://127.0.0.1:" in said
    assert not client_place.announcement_file(fresh.data).exists()
    client = connect(fresh.data)
    assert client.mode == "file"
    assert len(client.rows("gpus_now")) == 2


def test_second_service_on_the_same_data_is_refused_and_the_first_goes_on(fresh: Running) -> None:
    second = fallow("serve", "--source", "simulated", data=fresh.data)
    assert second.returncode == 2
    assert f"process {fresh.process.pid}, {fresh.url}" in second.stderr
    assert second.stderr.count("\n") == 1
    assert fresh.client().health().status == "ok"


def test_service_that_was_killed_comes_back_and_says_the_gap(fresh: Running) -> None:
    before = int(fresh.client().health().last_tick_ms or 0)
    fresh.stop(signal.SIGKILL)
    assert client_place.announcement_file(fresh.data).exists(), "a killed service cannot withdraw"
    assert connect(fresh.data).mode == "file", "its announcement is not believed"
    until("the dead time is longer than two ticks", lambda: now_ms() - before > 4_000)
    again = start(fresh.data, config=TINY)
    try:
        until("the service is well", lambda: is_well(again))
        end = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        gaps = again.client().rows("gaps", from_ts=end - timedelta(minutes=10), to_ts=end)
        assert [gap["reason"] for gap in gaps if gap["source"] == "simulated"] == [
            "the service was not running"
        ]
    finally:
        told, complaints = again.stop()
    assert complaints == ""
    assert "Nothing was measured by simulated since" in told


def test_chosen_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = fallow("serve", "--source", "simulated", "--port", str(port), data=tmp_path)
    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 is in use" in done.stderr


def test_default_port_that_is_taken_gives_way_to_a_free_one(fresh: Running, tmp_path: Path) -> None:
    other = start(tmp_path / "other", config=TINY)
    try:
        until("the service is well", lambda: is_well(other))
        assert other.url != fresh.url
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: root / "file" / "data", "a file of that name is in the way"),
        (lambda root: Path("/proc/fallow"), "cannot write /proc/fallow"),
    ],
)
def test_data_that_cannot_be_a_folder_is_refused(make: object, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fallow("serve", "--source", "simulated", data=make(tmp_path))  # type: ignore[operator]
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_data_of_somebody_else_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("theirs")
    script = (
        "import os, sys; from pathlib import Path; from service.server.startup import make_data_dir; "
        "os.setuid(65534); make_data_dir(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", script, str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ServiceRefused: no permission to write" in done.stderr


def test_file_from_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    import duckdb

    made = start(tmp_path, config=TINY)
    until("the service is well", lambda: is_well(made))
    made.stop()
    path = client_place.store_file(tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO schema_migrations (number, name) VALUES (999, 'tomorrow')")
    before = path.read_bytes()
    done = fallow("serve", "--source", "simulated", data=tmp_path)
    assert done.returncode == 2
    assert "newer" in done.stderr
    assert path.read_bytes() == before


def test_full_disk_costs_ticks_but_not_the_service_nor_what_was_stored(tmp_path: Path) -> None:
    made = start(tmp_path, config=TINY)
    try:
        until("the service is well", lambda: is_well(made))
        stored = len(made.client().rows("gpus_now"))
        resource.prlimit(made.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        until("the service says so", lambda: "could not be stored" in str(health(made)["reason"]))
        assert health(made)["status"] == "degraded"
        resource.prlimit(
            made.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        until("ticks are stored again", lambda: health(made)["status"] == "ok")
        assert len(made.client().rows("gpus_now")) == stored
        assert any("could not be stored" in gap["reason"] for gap in gaps(made))
    finally:
        _, complaints = made.stop()
    assert "Traceback" not in complaints


def test_reader_with_no_store_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(NoData, match="fallow serve"):
        connect(tmp_path / "nothing").rows("span")


def test_reader_of_a_store_that_a_silent_service_owns_is_told_by_whom(fresh: Running) -> None:
    fresh.process.send_signal(signal.SIGSTOP)
    try:
        client = connect(fresh.data)
        with pytest.raises(StoreUnusable, match=f"process {fresh.process.pid}"):
            client.rows("span")
    finally:
        fresh.process.send_signal(signal.SIGCONT)


def test_client_follows_the_service_as_it_comes_and_goes(fresh: Running) -> None:
    client = connect(fresh.data)
    modes = [client.mode]
    fresh.stop()
    assert len(client.rows("gpus_now")) == 2
    modes.append(client.mode)
    again = start(fresh.data, config=TINY)
    try:
        until("the service is well", lambda: is_well(again))
        assert len(client.rows("gpus_now")) == 2
        modes.append(client.mode)
    finally:
        again.stop()
    assert modes == ["service", "file", "service"]


def health(service: Running) -> dict[str, object]:
    return json.loads(service.get("/healthz")[2])  # type: ignore[no-any-return]


def gaps(service: Running) -> list[dict[str, str]]:
    end = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    return service.client().rows("gaps", from_ts=end - timedelta(minutes=30), to_ts=end)


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)
