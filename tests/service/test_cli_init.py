"""``fallow init`` on a site with Prometheus and dcgm-exporter: one command says who wasted its GPUs."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest

from service.config.file import load
from service.doctor_checks.surroundings import _kubernetes
from tests.collector.backfill.past import Life, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts
from tests.service.conftest import verb

STEP_MS, HOUR_MS = 60_000, 3_600_000
HOURS = 24
PODS = {0: ("vision", "train-a-0"), 1: ("nlp", "jupyter-bob"), 2: ("nlp", "debug-pod"), 3: None}
BUSY = {0: 0.95}
MEMORY_MIB = {0: 60_000, 1: 39_000}
"""One trains, one holds memory and computes nothing, one was never used, one is free."""


def board(gpu: int) -> Board:
    pod = PODS[gpu]
    holders = {} if pod is None else {"namespace": pod[0], "pod": pod[1], "container": "main"}
    return Board(uuid=f"GPU-{gpu}", index=gpu, node="gpu-a", holders=holders)


def facts(gpu: int) -> Facts:
    return Facts(gpu_utilization_ratio=BUSY.get(gpu, 0.0), memory_used_bytes=MEMORY_MIB.get(gpu, 0) * MIB)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Prometheus of a cluster, with a day of four GPUs."""
    end_ms = round(datetime.now(UTC).timestamp() * 1000) // STEP_MS * STEP_MS
    times = tuple(range(end_ms - HOURS * HOUR_MS, end_ms + 1, STEP_MS))
    lives = [
        Life(board=board(gpu), dialect=CLASSIC, at_ms=times, facts=lambda _, gpu=gpu: facts(gpu))  # type: ignore[misc]
        for gpu in PODS
    ]
    with prometheus(write_blocks(lives, tmp_path_factory.mktemp("prometheus"))) as url:
        yield url


@contextmanager
def exporter() -> Iterator[str]:
    """The same GPUs as their exporter tells of them now."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        lines = [
            f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="gpu-a"}} {value}'
            for gpu in PODS
            for name, value in (("GPU_UTIL", BUSY.get(gpu, 0) * 100), ("FB_USED", MEMORY_MIB.get(gpu, 0)))
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("\n".join(lines) + "\n").encode())

    def log_message(self, *_: object) -> None:
        pass


class Typed(StringIO):
    """A person at a terminal who typed this."""

    def isatty(self) -> bool:
        return True


@pytest.mark.process
@pytest.mark.slow
def test_one_command_finds_who_wastes_and_writes_what_is_read_from_now_on(site: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with exporter() as alive:
        words = ("init", "--prometheus", site, "--exporter", alive)
        looked = verb(*words, data=data)
        assert looked.returncode == 0 and "Nothing was done" in looked.stdout, looked
        assert not data.exists(), "looking writes nothing"
        assert f"{site}: 4 GPUs" in looked.stdout and "4 GPUs from 1 addresses" in looked.stdout
        done = verb(*words, "--yes", data=data)
    assert done.returncode == 0, done
    assert load(data / "fallow.toml").config.collect.sources == (f"dcgm={alive}",)
    assert (data / "fallow.toml").stat().st_mode & 0o777 == 0o600
    hours = {
        job: float(wasted)
        for job, wasted in re.findall(r"^pod:nlp/(\S+) +\S+ +([\d.]+) +", done.stdout, flags=re.MULTILINE)
    }
    assert hours == {name: pytest.approx(HOURS, rel=0.01) for name in ("debug-pod", "jupyter-bob")}
    assert "train-a-0" not in done.stdout
    assert re.search(
        r"`fallow up --data \S+` measures on; its dashboard is http://127.0.0.1:\d+", done.stdout
    )


@pytest.mark.process
@pytest.mark.slow
def test_a_configuration_that_is_there_is_replaced_only_after_a_yes_of_its_own(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, mine = tmp_path / "data", "[prices.per_gpu_hour]\n'*' = 1.0\n"
    data.mkdir(mode=0o700)
    (data / "fallow.toml").write_text(mine)
    with exporter() as alive:
        words = ("init", "--exporter", alive, "--prometheus", site, "--since", "1h")
        kept = verb(*words, "--yes", data=data)
        assert "stays as it is" in kept.stdout and (data / "fallow.toml").read_text() == mine
        monkeypatch.setattr("sys.stdin", Typed("y\nno\n"))
        assert "stays as it is" in verb(*words, data=data).stdout
        monkeypatch.setattr("sys.stdin", Typed("y\ny\n"))
        replaced = verb(*words, data=data)
    assert (data / "fallow.toml.before-init").read_text() == mine, replaced
    assert load(data / "fallow.toml").config.collect.sources == (f"dcgm={alive}",)


@pytest.mark.parametrize("flag", ["--prometheus", "--exporter"])
def test_an_address_where_nobody_answers_is_said_to_be_one(flag: str, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{probe.getsockname()[1]}"
    done = verb("init", flag, nobody, "--yes", data=tmp_path / "data")
    shown = " ".join(done.stdout.split())
    assert nobody.removeprefix("http://") in shown and "trouble" in shown, done
    if "NVIDIA driver absent" in shown and "none answers at http://127.0.0.1:9" in shown:
        assert done.returncode == 1 and "There is nothing to measure or import here" in shown
        assert not (tmp_path / "data").exists()


def test_kubernetes_is_seen_by_its_files_alone(tmp_path: Path) -> None:
    config = tmp_path / "config"
    absent = _kubernetes({"KUBECONFIG": str(config)}, inside=tmp_path / "none")
    assert "no kubeconfig" in absent.found
    config.touch()
    assert str(config) in _kubernetes({"KUBECONFIG": str(config)}, inside=tmp_path / "none").found
    assert "this is a pod" in _kubernetes({}, inside=tmp_path).found
