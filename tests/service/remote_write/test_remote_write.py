"""Pushing pages of metrics: what goes over the wire, what waits, what is lost and what is told of it."""

import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from service.config.file import parse
from service.config.model import Config, ConfigError
from service.config.remote_write import RemoteWriteConfig
from service.remote_write import sender
from service.remote_write.sender import NotTaken, RemoteWriter
from service.remote_write.wire import WriteRequest

STALE_BITS = 0x7FF0000000000002
"""https://prometheus.io/docs/specs/prw/remote_write_spec/#stale-markers"""

Read = dict[tuple[tuple[str, str], ...], tuple[float, int]]


@dataclass
class Receiver:
    """A receiver of remote writes that answers as it is told to."""

    answers: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    url: str = ""

    def read(self) -> list[Read]:
        """Each accepted request: labels to value and time."""
        return [read(body) for body in self.bodies]


def read(body: bytes) -> Read:
    """The series of a request, decoded by the length that snappy's own header tells."""
    length, shift, at = 0, 0, 0
    while True:
        length |= (body[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not body[at - 1] & 0x80:
            break
    plain = pa.decompress(body, decompressed_size=length, codec="snappy", asbytes=True)
    found = WriteRequest.FromString(plain)
    return {
        tuple((label.name, label.value) for label in series.labels): (
            series.samples[0].value,
            series.samples[0].timestamp,
        )
        for series in found.timeseries
    }


@contextmanager
def receiving(*answers: int) -> Iterator[Receiver]:
    """A receiver that gives these answers in turn, then 204."""
    receiver = Receiver(answers=list(answers))

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.answers.pop(0) if receiver.answers else 204
            if status < 300:
                receiver.bodies.append(body)
            receiver.headers.append(dict(self.headers))
            self.send_response(status)
            text = b"" if status < 300 else b"out of \x1b[31morder\nsecond line"
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Nothing on the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/api/v1/write"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Ticks:
    """A page and its tick, which a test turns."""

    lines: tuple[str, ...] = ("fallow_gpus 2",)
    at_ms: int = 1_000
    told: list[str | None] = field(default_factory=list)

    def writer(self, url: str, **settings: Any) -> RemoteWriter:
        config = RemoteWriteConfig(url=url, **{"labels": {"instance": "head"}, **settings})
        return RemoteWriter(config, self.page, lambda: self.at_ms, self.told.append)

    def page(self) -> bytes:
        return (
            "# HELP fallow_gpus Said.\n# TYPE fallow_gpus gauge\n" + "\n".join(self.lines) + "\n"
        ).encode()

    def next(self, *lines: str) -> None:
        self.at_ms += 1_000
        self.lines = lines


def labels(family: str, **others: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"__name__": family, "instance": "head", **others}.items()))


def test_a_tick_is_pushed_once_with_its_own_time_and_what_ended_is_ended() -> None:
    job = r'fallow_gpu_allocation_ratio{uuid="GPU-1",name="say \"hi\", a\\b",job="1 2"} 0.5'
    with receiving() as receiver:
        ticks = Ticks(lines=("fallow_gpus 2", job))
        writer = ticks.writer(receiver.url, headers={"X-Scope-OrgID": "team"})
        writer.turn()
        writer.turn()
        assert len(receiver.bodies) == 1, "without a new tick nothing is new"
        ticks.next("fallow_gpus 3")
        writer.turn()
        ticks.next("fallow_gpus 3")
        writer.turn()
        ticks.at_ms = 500
        writer.turn()
    first, second, third, after = receiver.read()
    held = labels("fallow_gpu_allocation_ratio", uuid="GPU-1", name='say "hi", a\\b', job="1 2")
    assert first == {labels("fallow_gpus"): (2.0, 1_000), held: (0.5, 1_000)}
    assert second[labels("fallow_gpus")] == (3.0, 2_000)
    value, at_ms = second[held]
    assert (struct.unpack("<Q", struct.pack("<d", value))[0], at_ms) == (STALE_BITS, 2_000)
    assert third == {labels("fallow_gpus"): (3.0, 3_000)}, "a series is ended once"
    assert after == {labels("fallow_gpus"): (3.0, 500)}, "a clock that was set back silences nobody"
    sent = receiver.headers[0]
    assert (sent["Content-Encoding"], sent["Content-Type"]) == ("snappy", "application/x-protobuf")
    assert (sent["X-Prometheus-Remote-Write-Version"], sent["X-Scope-OrgID"]) == ("0.1.0", "team")


@pytest.mark.parametrize("status", [500, 503, 429, 401, 403, 404, 302])
def test_what_may_be_mended_waits_and_comes_later_in_order(status: int) -> None:
    with receiving(status, status) as receiver:
        ticks = Ticks()
        writer = ticks.writer(receiver.url)
        with pytest.raises(NotTaken, match=rf"HTTP {status} .*; 1 samples wait"):
            writer.turn()
        ticks.next("fallow_gpus 3")
        with pytest.raises(NotTaken, match="2 samples wait") as told:
            writer.turn()
        assert "\x1b" not in str(told.value) and "\n" not in str(told.value), "a receiver's words don't steer"
        writer.turn()
    assert [each[labels("fallow_gpus")] for each in receiver.read()] == [(2.0, 1_000), (3.0, 2_000)]


def test_what_is_refused_for_good_is_dropped_counted_and_told() -> None:
    with receiving(400) as receiver:
        ticks = Ticks()
        writer = ticks.writer(receiver.url)
        with pytest.raises(NotTaken, match="refused samples for good: HTTP 400"):
            writer.turn()
        ticks.next("fallow_gpus 3")
        writer.turn()
    assert [each[labels("fallow_gpus")] for each in receiver.read()] == [(3.0, 2_000)]
    page = writer.metrics().decode()
    assert 'outcome="refused"} 1\n' in page and 'outcome="sent"} 1\n' in page
    assert "fallow_remote_write_waiting_samples 0\n" in page


def test_a_silent_receiver_costs_bounded_memory_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "SERIES_A_REQUEST", 1_000)
    ticks = Ticks()
    writer = ticks.writer("http://127.0.0.1:1/", waiting_mib=1)
    monkeypatch.setattr(sender, "MIB", 100_000)
    for tick in range(12):
        ticks.next(*(f'fallow_gpus{{uuid="{hash((tick, n)):x}{n}"}} {n}' for n in range(1_000)))
        with pytest.raises(NotTaken, match=r"127\.0\.0\.1:1"):
            writer.turn()
    assert sum(len(each.body) for each in writer._queue) <= 100_000
    assert writer._queue[-1].samples, "the newest stay"
    with pytest.raises(NotTaken, match="dropped for want of room"):
        writer.turn()


def test_a_thread_pushes_tells_how_it_went_and_ends() -> None:
    with receiving(503) as receiver:
        ticks = Ticks()
        writer = ticks.writer(receiver.url, every_s=0.01)
        writer.start()
        for _ in range(1_000):
            if ticks.told and ticks.told[-1] is None:
                break
            threading.Event().wait(0.01)
        writer.stop()
    assert ticks.told[0] is not None and ticks.told[-1] is None
    assert receiver.read()[0] == {labels("fallow_gpus"): (2.0, 1_000)}


def test_secrets_come_from_files_and_variables_and_are_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    monkeypatch.setenv("RW_PASSWORD", "pa55")
    with receiving(401) as receiver:
        ticks = Ticks()
        writer = ticks.writer(receiver.url, token=f"${{file:{tmp_path}/token}}")
        with pytest.raises(NotTaken) as told:
            writer.turn()
        assert "s3cret" not in str(told.value) and "HTTP 401" in str(told.value)
        Ticks().writer(receiver.url, login="ann", password="${RW_PASSWORD}").turn()
    assert [each["Authorization"] for each in receiver.headers] == ["Bearer s3cret", "Basic YW5uOnBhNTU="]
    for missing in ("${file:/nowhere/token}", "${RW_NOT_THERE}"):
        with pytest.raises(NotTaken, match=r"nowhere/token cannot be read|RW_NOT_THERE is not in"):
            Ticks().writer("http://127.0.0.1:1/", token=missing).turn()


def test_a_configuration_that_cannot_work_is_refused_with_its_line() -> None:
    wrong = {
        'url = "victoria"': "is no address",
        'url = "ftp://a"': "is no address",
        'url = "http://ann:pw@a/"': "holds a login",
        'url = "http://a/"\ntoken = "s3cret"': "is a secret",
        'url = "http://a/"\nlogin = "ann"': "go together",
        'url = "http://a/"\nlogin = "ann"\npassword = "${A}"\ntoken = "${B}"': "cannot both",
        'url = "http://a/"\nevery_s = 0': "every_s",
        'adress = "http://a/"': "unknown key",
    }
    for text, words in wrong.items():
        with pytest.raises(ConfigError, match=words) as told:
            parse(f"[remote_write]\n{text}\n", origin="f.toml")
        assert "f.toml" in str(told.value) and "s3cret" not in str(told.value).replace(text, ""), text
    good = parse('[remote_write]\nurl = "http://a/"\n[remote_write.labels]\nsite = "north"', origin="f.toml")
    assert good.config.remote_write.labels == {"site": "north"}
    assert Config().remote_write.url == ""
