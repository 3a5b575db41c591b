"""A site's own commands: what is never filled in, never run, and what they can't do to the service."""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from advisor.engines.hook_commands import FIELDS, KEPT_BYTES, BadHook, check_command, fault, filled, run

ROOT = frozenset({0})
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def script(folder: Path, text: str, mode: int = 0o755) -> Path:
    file = folder / "hook"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("hold", "{job}"), "no absolute path"),
        (("{job}",), "itself is not filled in"),
        (("/bin/sh", "-c", "kubectl delete pod {pod}"), "reads text as commands"),
        (("/bin/bash", "-xec", "true"), "reads text as commands"),
        (("/usr/bin/busybox", "sh", "-c", "true"), "reads text as commands"),
        (("/opt/hold", "{name}"), "is none of"),
        (("/opt/hold", "{job.__class__}"), "is none of"),
        (("http://example.org/hold",), "a webhook is"),
        (("https://example.org/hold", "{job}"), "a webhook is"),
    ],
)
def test_a_command_that_could_do_anything_is_refused(command: tuple[str, ...], reason: str) -> None:
    with pytest.raises(BadHook, match=reason):
        check_command(command, FIELDS)


def test_a_command_of_a_program_and_arguments_is_taken() -> None:
    for command in ((), ("/opt/hold", "-n", "{namespace}", "pod/{pod}"), ("https://hooks.example.org/hold",)):
        check_command(command, FIELDS)
    check_command(("/bin/sh", "/opt/hold.sh", "{pod}"), FIELDS)


@pytest.mark.parametrize(
    "value",
    [
        "--all",
        "-n",
        "x; rm -rf /",
        "$(id)",
        "`id`",
        "a b",
        "a\nb",
        "a\x00b",
        "../../etc",
        "a/../b",
        "*",
        "",
        "x" * 254,
        "\u202etxt",
        "ann\u0430",
        "{job}",
        "pod'",
    ],
)
def test_a_value_that_is_more_than_a_name_is_no_argument(value: str) -> None:
    with pytest.raises(BadHook):
        filled(("/opt/hold", "{pod}"), {"pod": value})
    with pytest.raises(BadHook):
        filled(("/opt/hold", "--pod={pod}"), {"pod": value})


def test_names_of_pods_jobs_and_people_are_arguments_as_they_are() -> None:
    values = {"job": "pod:ml-team/nb-ann.0", "user": "ann_b", "number": "812", "pod": "nb-ann.0"}
    got = filled(("/opt/hold", "{job}", "{user}", "pod/{pod}", "{number}"), values)
    assert got == ("/opt/hold", "pod:ml-team/nb-ann.0", "ann_b", "pod/nb-ann.0", "812")


def test_what_is_not_known_and_what_reads_as_an_option_is_refused() -> None:
    with pytest.raises(BadHook, match="needs its user, which is not known"):
        filled(("/opt/hold", "{user}"), {"user": None})
    with pytest.raises(BadHook, match="as an option"):
        filled(("/opt/tell", "{message}"), {"message": "--exec=sh is idle"})


def test_a_message_is_one_argument_in_one_line() -> None:
    (_, message) = filled(("/opt/tell", "{message}"), {"message": "ann's job\n$(id) \x1b[2J{user}"})
    assert message == "ann's job $(id) ?[2J{user}"


def test_a_command_is_given_its_job_as_json_and_its_end_is_told(tmp_path: Path) -> None:
    file = script(tmp_path, f'cat > {tmp_path}/in; echo "held $1"; exit 3')
    ended = run((str(file), "a b;c"), {"job": "pod:a/b", "name": 'x"\n\udcff'}, 10)
    assert (ended.code, ended.found, ended.is_well) == (3, "its command ended with 3: held a b;c", False)
    assert json.loads((tmp_path / "in").read_text())["job"] == "pod:a/b"


def test_a_command_that_reads_nothing_and_one_that_is_no_program(tmp_path: Path) -> None:
    assert run(("/bin/true",), {"long": "x" * 1_000_000}, 10).is_well
    assert "could not begin" in run((str(tmp_path),), {}, 10).found


def test_a_flood_is_thrown_away_as_it_comes(tmp_path: Path) -> None:
    file = script(tmp_path, "head -c 200000000 /dev/zero | tr '\\0' x; echo; exit 0")
    ended = run((str(file),), {}, 60)
    assert ended.is_well and len(ended.found) < KEPT_BYTES


def test_a_command_that_hangs_is_ended_with_all_that_it_began(tmp_path: Path) -> None:
    file = script(tmp_path, f"trap '' TERM; sleep 300 & echo $! > {tmp_path}/child; wait; sleep 300")
    ended = run((str(file),), {}, 1)
    assert ended.code is None and "limit of 1 s" in ended.found
    _gone(int((tmp_path / "child").read_text()))


def test_a_child_that_holds_its_output_keeps_nobody_waiting(tmp_path: Path) -> None:
    file = script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; echo well")
    begun_s = time.monotonic()
    ended = run((str(file),), {}, 250)
    assert ended.is_well and time.monotonic() - begun_s < 200
    _gone(int((tmp_path / "child").read_text()))


def test_no_word_of_the_services_environment_reaches_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALLOW_TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    run((str(script(tmp_path, f"env > {tmp_path}/env")),), {}, 10)
    text = (tmp_path / "env").read_text()
    assert "secret" not in text and "LD_PRELOAD" not in text and "PATH=" in text


def test_a_program_that_others_may_write_is_not_run() -> None:
    mine = frozenset({0, os.geteuid()})
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pytest's own are closed to others, who get at nothing there
        Path(folder).chmod(0o755)
        _faults(script(Path(folder), "true"), mine)


def _faults(file: Path, mine: frozenset[int]) -> None:
    assert fault((str(file),), mine) is None
    file.chmod(0o777)
    assert "written by everybody" in str(fault((str(file),), mine))
    file.chmod(0o644)
    assert "is no program" in str(fault((str(file),), mine))
    assert "can't be looked at" in str(fault((str(file.parent / "none"),), mine))
    assert fault(("https://example.org",), mine) is None


@NEEDS_ROOT
def test_somebody_elses_program_and_a_link_to_it_are_not_run(tmp_path: Path) -> None:
    file = script(tmp_path, "true")
    os.chown(file, 65534, 65534)
    assert "belongs to" in str(fault((str(file),), ROOT))
    link = tmp_path / "link"
    link.symlink_to(file)
    assert "belongs to" in str(fault((str(link),), ROOT))
    inner = tmp_path / "bin"
    inner.mkdir()
    inside = script(inner, "true")
    assert fault((str(inside),), ROOT) is None
    os.chown(inner, 65534, 65534)
    assert "belongs to" in str(fault((str(inside),), ROOT)), "whoever has the folder exchanges the file"


class _Answer(BaseHTTPRequestHandler):
    got: list[tuple[str, bytes]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, body))
        code = {"/well": 204, "/moved": 307}.get(self.path, 500)
        self.send_response(code)
        if code == 307:
            self.send_header("Location", "/well")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def web() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_webhook_is_posted_the_job_and_leads_nowhere_else() -> None:
    with web() as address:
        _Answer.got.clear()
        assert run((f"{address}/well",), {"job": "pod:a/b"}, 5).is_well
        moved, broken = run((f"{address}/moved",), {}, 5), run((f"{address}/x",), {}, 5)
    assert (moved.code, broken.code) == (307, 500)
    assert [path for path, _ in _Answer.got] == ["/well", "/moved", "/x"]
    assert json.loads(_Answer.got[0][1]) == {"job": "pod:a/b"}
    assert not run((f"{address}/well",), {}, 5).is_well, "nobody answers there any more"


def _gone(pid: int) -> None:
    """The process has ended; a zombie that nobody reads counts."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(0.05)
    raise AssertionError(f"{pid} lives on")
