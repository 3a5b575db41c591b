"""Where the Unix socket lies, what is done about one that is there already, and who finds it."""

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from service import data_folder as client_place
from service.client import local as client_local
from service.client.jobs import connect_acting
from service.client.queries import connect
from service.client.transport import LONGEST_ADDRESS, UNIX
from service.server.startup import ServiceRefused, bind
from service.server.unix_socket import OFF, open_local
from tests.service.conftest import is_well, start, until

pytestmark = pytest.mark.process

TINY = """
[collect]
tick_s = 1
[simulated]
nodes = 1
gpus_per_node = 2
backfill_days = 0
"""


def test_socket_lies_in_data_and_everybody_may_connect(tmp_path: Path) -> None:
    door, remark = open_local("", tmp_path, {})
    assert door is not None
    assert (door.path, remark) == (tmp_path / "fallow.sock", "")
    assert stat.S_IMODE(door.path.stat().st_mode) == 0o666
    door.close()
    assert not (tmp_path / "fallow.sock").exists()


def test_folder_that_systemd_made_comes_first(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    door, _ = open_local("", tmp_path, {"RUNTIME_DIRECTORY": str(tmp_path / "run")})
    assert door is not None
    assert door.path == tmp_path / "run" / "fallow.sock"
    door.close()


def test_chosen_folder_is_made_so_that_others_can_pass_it(tmp_path: Path) -> None:
    door, _ = open_local(str(tmp_path / "new" / "a.sock"), tmp_path, {})
    assert door is not None
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755
    door.close()


def test_no_socket_where_none_is_wanted(tmp_path: Path) -> None:
    assert open_local(OFF, tmp_path, {}) == (None, "")


def test_socket_of_a_dead_service_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "fallow.sock"))
    door, _ = open_local("", tmp_path, {})
    assert door is not None
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(door.path))
    door.close()


def test_socket_of_a_living_service_is_refused_and_left_alone(tmp_path: Path) -> None:
    first, _ = open_local("", tmp_path, {})
    assert first is not None
    with pytest.raises(ServiceRefused, match="another service listens"):
        open_local("", tmp_path, {})
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(first.path))
    first.close()


def test_socket_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "fallow.sock"))
        other.listen()
        with pytest.raises(ServiceRefused, match="another service listens"):
            open_local("", tmp_path, {})


def test_machines_place_that_is_taken_gives_way_to_data(tmp_path: Path) -> None:
    shared = {"RUNTIME_DIRECTORY": str(tmp_path / "run")}
    (tmp_path / "run").mkdir()
    (tmp_path / "data").mkdir()
    first, _ = open_local("", tmp_path, shared)
    second, remark = open_local("", tmp_path / "data", shared)
    assert first is not None
    assert second is not None
    assert second.path == tmp_path / "data" / "fallow.sock"
    assert "listens at" in remark
    for each in (first, second):
        each.close()


def test_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "fallow.sock").write_text("precious")
    with pytest.raises(ServiceRefused, match="is no socket"):
        open_local("", tmp_path, {})
    assert (tmp_path / "fallow.sock").read_text() == "precious"


def test_place_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ServiceRefused, match=r"api\.socket"):
        open_local("/proc/nowhere/a.sock", tmp_path, {})


def test_closing_removes_nobody_elses_socket(tmp_path: Path) -> None:
    door, _ = open_local("", tmp_path, {})
    assert door is not None
    door.path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(door.path))
        door.close()
        assert door.path.exists()


def test_service_is_found_by_its_folder_its_socket_or_nothing_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    made = start(deep, config=TINY)
    try:
        until("the service is well", lambda: is_well(made))
        path = deep / "fallow.sock"
        assert len(str(path)) > LONGEST_ADDRESS
        monkeypatch.chdir(tmp_path)
        for name in ("FALLOW_DATA", "FALLOW_URL", "FALLOW_SOCKET", "FALLOW_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        assert connect_acting(deep).url == f"{UNIX}{path}"
        assert connect_acting(deep).whoami().role == "operator"
        monkeypatch.setenv("FALLOW_SOCKET", str(path))
        assert connect_acting().whoami().role == "operator"
        assert len(connect().rows("gpus_now")) == 2
        monkeypatch.delenv("FALLOW_SOCKET")
        monkeypatch.setattr(client_place, "RUN_DIR", deep)
        assert client_local.machine_service() == f"{UNIX}{path}"
        assert connect_acting().whoami().role == "operator"
        assert len(connect().rows("gpus_now")) == 2
    finally:
        made.stop()
    assert not path.exists()


def test_what_comes_by_tcp_is_answered_without_waiting_for_acknowledgements() -> None:
    found: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def asked() -> None:
        server = await asyncio.start_server(answer, sock=bind("127.0.0.1", 0, fall_back=False))
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
        server.close()

    asyncio.run(asked())
    assert found == [1]
