"""What people can put into names, and what becomes of it: refused, or kept as harmless text."""

import contextlib
import json
import socket
from typing import Any
from urllib.parse import quote

import pytest

from tests.service.api.conftest import Door, submission

HARDEST = ["a\x1b[31mb", "\u202egpj.exe", "\ud800", "x" * 1_000_000]
"""What a terminal, a reader, an encoding and a log suffer from; test_service_names.py has the others."""


@pytest.mark.parametrize("field", ["name", "project", "node", "nonce"])
def test_hostile_name_is_refused_and_not_repeated(door: Door, field: str) -> None:
    for name in HARDEST:
        status, said = door.ask("POST", "/v1/jobs", body=submission(**{field: name}))
        assert (status, said["error"]) == (422, "bad-order"), ascii(name)[:24]
        assert len(said["message"]) < 1_000, ascii(name)[:24]
        assert said["message"].isprintable(), ascii(name)[:24]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/jobs", submission(node="a b"), "body.node: this should be the name of a machine"),
        ("/v1/jobs/fallow:1/pause", {"because": "a\u200bb"}, "body.because: this should be one line of text"),
        ("/v1/jobs/a%20b/pause", {}, "path.job: this should be the id of a job"),
    ],
)
def test_what_was_expected_is_said_in_words(door: Door, path: str, body: dict[str, Any], says: str) -> None:
    status, said = door.ask("POST", path, body=body)
    assert (status, said["error"]) == (422, "bad-order")
    assert says in said["message"] and "[" not in said["message"]


def test_names_of_all_languages_are_welcome(door: Door) -> None:
    for name in ("resnet-50, lr=0.1", "Größe (2)", "訓練", "обучение", "a.b_c+d@e#1", ""):
        status, entry = door.ask("POST", "/v1/jobs", body=submission(name=name))
        assert (status, entry["submission"]["name"]) == (201, name)


def test_jobs_and_projects_bear_names_of_all_languages(door: Door) -> None:
    every = ("تدريب", "हिन्दी", "ทีม", "தமிழ்", "ትምህርት", "עברית", "データ・セット", "col·lecció", "𞤆𞤵𞤤𞤢𞤪")
    for name in every:
        status, entry = door.ask("POST", "/v1/jobs", body=submission(name=name, project=name))
        kept = entry["submission"]
        assert (status, kept["name"], kept["project"]) == (201, name, name)


def test_two_ways_of_writing_one_name_are_one(door: Door) -> None:
    kept = [
        door.ask("POST", "/v1/jobs", body=submission(project=each))[1]["submission"]["project"]
        for each in ("re\u0301seau", "r\u00e9seau")
    ]
    assert kept == ["r\u00e9seau"] * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"project": "a/b"}, "body.project: a project cannot hold '/' (U+002F, solidus); 1 to 64 letters"),
        ({"project": ""}, "body.project: a project cannot be empty; 1 to 64 letters"),
        (
            {"name": "a\u202eb"},
            "body.name: a name cannot hold U+202E, right-to-left override; 1 to 100 letters",
        ),
        ({"name": "x" * 101}, "body.name: a name has 100 characters at most, not 101; 1 to 100 letters"),
    ],
)
def test_refused_name_is_told_in_a_sentence_what_is_wrong_and_what_would_do(
    door: Door, changes: dict[str, object], said: str
) -> None:
    assert door.ask("POST", "/v1/jobs", body=submission(**changes))[1]["message"].startswith(said)


def test_command_is_kept_for_reading_with_what_cannot_be_seen_written_out(door: Door) -> None:
    words = ["python", "-c", "print('a')\n\x1b[2J\u202e", "--x", "x" * 100_000, "y"]
    status, entry = door.ask("POST", "/v1/jobs", body=submission(command=words, folder="/tmp/a\nb"))
    kept = entry["submission"]["command"]
    assert status == 201
    assert kept[2] == "print('a')\\n\\x1b[2J\\u202e"
    assert kept[-1] == "…"
    assert sum(map(len, kept)) < 9_000
    assert entry["submission"]["folder"] == "/tmp/a\\nb"


@pytest.mark.parametrize(
    "job",
    [
        "..",
        "../../acting",
        "fallow:1\n",
        "fallow:1\x00",
        "fallow:1' OR 1=1 --",
        "x" * 300,
        "\u202e1",
        "-1",
        " ",
    ],
)
def test_hostile_job_in_the_path_is_no_job(door: Door, job: str) -> None:
    for method, tail in (("GET", ""), ("POST", "/cancel"), ("POST", "/keep"), ("GET", "/directives")):
        body = {"hours": 4} if tail == "/keep" else {}
        status, _ = door.ask(
            method, f"/v1/jobs/{quote(job, safe='')}{tail}", body=body if method == "POST" else None
        )
        assert status in (400, 404, 422), (method, tail)


def test_names_of_jobs_that_others_launched_reach_the_desk_whole(door: Door) -> None:
    for job in ("pid:node-1/123@1700000000000", "pod:team/train-0", "slurm:12_3"):
        status, said = door.ask("GET", f"/v1/jobs/{quote(job, safe='')}")
        assert (status, said["error"], job in said["message"]) == (404, "unknown-job", True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"command": ["x"], "project": "p", "share": NaN}',
        b'{"command": ["x"], "project": "p", "share": 1e999}',
        b'{"command": ["x"], "project": "p", "memory_bytes": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'{"command": ["x"], "project": "p", "min_gpus": true}',
        b'{"command": ["x"], "project": "p", "min_gpus": "1"}',
        b'{"command": ["x"], "project": "p", "min_gpus": 1.5}',
        b'{"command": ["x"], "project": "p", "min_gpus": 3, "max_gpus": 2}',
        b'{"command": [], "project": "p"}',
        b'{"command": ["\\ud800"], "project": "p", "mobility": "checkpoints"}',
    ],
    ids=lambda text: ascii(text[-24:]),
)
def test_body_that_is_no_submission_is_refused(door: Door, body: bytes) -> None:
    status, said = door.ask("POST", "/v1/jobs", body=body)
    assert (status in (400, 422), said["error"]) == (True, "bad-order")
    assert len(said["message"]) < 2_000


def test_body_of_another_kind_is_not_read(door: Door) -> None:
    body = json.dumps(submission()).encode()
    assert door.ask("POST", "/v1/jobs", body=body, **{"Content-Type": "text/plain"})[0] == 422


def test_body_that_is_too_long_is_refused_before_it_is_read(door: Door) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(door.socket))
        made.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n{")
        assert made.recv(65_536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("length", ["²".encode("latin-1"), b"7" * 5_000, b"-1", b"many"])
def test_length_of_a_body_that_is_no_number_is_refused(door: Door, length: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(door.socket))
        made.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n{")
        assert made.recv(65_536).startswith(b"HTTP/1.1 4")
    assert door.ask("GET", "/v1/jobs")[0] == 200


def test_body_in_pieces_that_add_up_to_too_much_is_refused(door: Door) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(door.socket))
        head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
        made.sendall(f"{head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(20):
                made.sendall(piece)
        assert made.recv(65_536).startswith(b"HTTP/1.1 4")


def test_a_body_in_pieces_is_refused_by_its_head_and_nothing_behind_it_is_a_request(door: Door) -> None:
    """A piece of a byte costs the loop as much as a request; and two lengths make two readings."""
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    pieces = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * (1 << 18) + b"0\r\n\r\n"
    both = head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for sent in (pieces, both + b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n"):
        answer = b""
        with socket.socket(socket.AF_UNIX) as made, contextlib.suppress(ConnectionResetError):
            made.settimeout(20)
            made.connect(str(door.socket))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                made.sendall(sent)
            while piece := made.recv(65_536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 411")
        assert answer.count(b"HTTP/1.1") == 1 and b"Content-Length" in answer.partition(b"\r\n\r\n")[2]


def test_unknown_path_and_method_are_told_in_json(door: Door) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/jobs", 405),
        ("PUT", "/docs", 405),
    ):
        found, said = door.ask(method, path)
        assert (found, said["error"]) == (status, "unknown-route")
