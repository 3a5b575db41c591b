"""Imports from a real Prometheus behind a proxy over https that wants a tenant's header and a login."""

import base64
import http.server
import os
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collector.backfill.past import Life, prometheus, write_blocks
from tests.collector.dcgm.dcgm_writer import CLASSIC, MIB, Board, Facts
from tests.conftest import program
from tests.other_machines import other_machines
from tests.service.conftest import Running, is_well, start, until
from tests.service.test_cli_import import END_MS, GPUS, START_MS, STEP_MS, iso

pytestmark = pytest.mark.process

PASSWORD = "open-sesame"
TENANT = ("X-Scope-OrgID", "team")
SPAN = ["--since", iso(START_MS), "--until", iso(END_MS)]


@dataclass(frozen=True)
class Door:
    """The proxy's URL, and the certificate that it shows."""

    url: str
    ca: Path


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    times = tuple(range(START_MS + STEP_MS, END_MS + 1, STEP_MS))
    lives = [
        Life(
            board=Board(uuid=f"GPU-{gpu}", index=gpu, node="node-1"),
            dialect=CLASSIC,
            at_ms=times,
            facts=lambda at_ms: Facts(gpu_utilization_ratio=0.5, memory_used_bytes=1000 * MIB),
        )
        for gpu in range(GPUS)
    ]
    with prometheus(write_blocks(lives, folder)) as behind, proxy(behind, folder) as opened:
        yield opened


@contextmanager
def proxy(behind: str, folder: Path) -> Iterator[Door]:
    """A small https server that passes on what carries the tenant's header and the login, no more."""
    ca, key = folder / "ca.pem", folder / "key.pem"
    words = [program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-keyout", str(key), "-out", str(ca), "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(words, check=True, capture_output=True)
    login = "Basic " + base64.b64encode(f"ana:{PASSWORD}".encode()).decode()

    class Gate(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get(TENANT[0]) != TENANT[1]:
                return self._say(401, b"no org id")
            if self.headers.get("Authorization") != login:
                return self._say(401, b"wrong login")
            try:
                with urllib.request.urlopen(behind + self.path) as answer:
                    self._say(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._say(error.code, error.read())
            return None

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Door(url=f"https://127.0.0.1:{server.server_address[1]}", ca=ca)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=["through a service", "with none"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "with none":
        yield tmp_path
        return
    with other_machines(nodes=1, gpus_per_node=1) as url:
        words = ("--source", f"fallow={url}/metrics")
        service: Running = start(tmp_path / "data", words, "[collect]\ntick_s = 1\nslurm = false\n")
        try:
            until("the service is well", lambda: is_well(service))
            yield service.data
        finally:
            _, complaints = service.stop()
    assert complaints == "", "and above all no secret"


def run(data: Path, url: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service.cli", "import", "prometheus", "--url", url, *SPAN, *words]
    return subprocess.run(
        [*command, "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def test_tenant_login_and_ca_open_the_door(door: Door, data: Path) -> None:
    words = ["--header", ": ".join(TENANT), "--login", "ana", "--ca-file", str(door.ca), "--yes"]
    done = run(data, door.url, *words, FALLOW_PROMETHEUS_PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr
    assert f"{GPUS * 240:,} new samples" in done.stdout
    assert f"{door.url} X-Scope-OrgID: team" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    again = run(data, door.url, *words, FALLOW_PROMETHEUS_PASSWORD=PASSWORD)
    assert (again.returncode, "\n0 new samples of" in again.stdout) == (0, True)


def test_password_and_secret_headers_may_come_from_files(door: Door, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "headers").write_text(f"# the tenant\n{': '.join(TENANT)}\n")
    words = ["--login", "ana", "--password-file", str(tmp_path / "password"), "--ca-file", str(door.ca)]
    done = run(tmp_path / "data", door.url, *words, "--header-file", str(tmp_path / "headers"))
    assert done.returncode == 0, done.stderr
    assert "team" not in done.stdout, "what came from a file is told nowhere"


def test_what_is_missing_is_named(door: Door, tmp_path: Path) -> None:
    bare = run(tmp_path, door.url)
    assert (bare.returncode, "cannot be verified" in bare.stderr) == (2, True), bare.stderr
    trusted = ["--ca-file", str(door.ca)]
    nobody = run(tmp_path, door.url, *trusted)
    assert (nobody.returncode, "HTTP 401 (no org id)" in nobody.stderr) == (2, True), nobody.stderr
    wrong = [*trusted, "--header", ": ".join(TENANT), "--login", "ana"]
    refused = run(tmp_path, door.url, *wrong, FALLOW_PROMETHEUS_PASSWORD="guess")
    assert (refused.returncode, "HTTP 401 (wrong login)" in refused.stderr) == (2, True), refused.stderr
    assert "guess" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--header", "Authorization: Bearer x"], "looks like a secret"),
        (["--header", "X-Api-Key: x"], "--header-file"),
        (["--header", "no colon"], "give NAME: VALUE"),
        (["--header", "X: a\nY: b"], "give NAME: VALUE"),
        (["--login", "ana"], "needs a password"),
        (["--password-file", "/dev/null"], "needs --login"),
        (["--ca-file", "/nowhere/ca.pem"], "cannot read /nowhere/ca.pem"),
        (["--ca-file", __file__], "no certificate in PEM"),
    ],
)
def test_misuse_is_told_before_anything_is_asked(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = run(tmp_path, "https://127.0.0.1:9", *words)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://",
        "ftp://prometheus",
        "http://127.0.0.1:99999",
        "http://a:b",
        "http://a\nb:9090",
    ],
)
def test_address_that_is_none_is_told_with_an_example(tmp_path: Path, url: str) -> None:
    done = run(tmp_path, url)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("fallow: ") and "http://prometheus:9090" in done.stderr


def test_password_in_the_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path, "https://ana:hush-hush@127.0.0.1:9")
    assert (done.returncode, "--password-file" in done.stderr) == (2, True)
    assert "hush-hush" not in done.stderr


def test_login_and_token_together_are_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "https://127.0.0.1:9", "--login", "ana", FALLOW_PROMETHEUS_TOKEN="t0ken")
    assert (done.returncode, "cannot both be sent" in done.stderr) == (2, True)
    assert "t0ken" not in done.stderr
