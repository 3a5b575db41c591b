"""Slow, dead, huge, lying endpoints: each costs only itself, and says why."""

import gzip
import socket
from collections.abc import Callable, Mapping

import pytest

from collector.dcgm.fetch import Body, Fetcher, Limits, Request
from collector.dcgm.scrape import UnusableUrl, metrics_url
from collector.dcgm.source import DcgmSettings, dcgm_source
from collector.model import Unavailable
from collector.reading import Reading
from tests.collector.dcgm.dcgm_writer import CLASSIC, Board, Facts, exposition
from tests.collector.dcgm.loopback import Answer, serving, text

LIMITS = Limits(timeout_s=0.6, bytes_=1 << 20)
GOOD = exposition([Board(uuid="GPU-good", facts=Facts(gpu_utilization_ratio=0.5))], CLASSIC)


def read(*urls: str, limits: Limits = LIMITS) -> Reading | Unavailable:
    source = dcgm_source(DcgmSettings(urls=urls, limits=limits))
    try:
        return source.read(1_000_000)
    finally:
        source.close()
        source.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


BOMB = gzip.compress(b"\0" * (64 << 20))
BAD: dict[str, tuple[Answer, str]] = {
    "hangs": (Answer(hangs=True), "no complete answer within 0.6 s"),
    "drips": (Answer(endless=b"#"), "no complete answer within 0.6 s"),
    "huge": (Answer(endless=b"# much\n" * 9000), "more than 1048576 bytes"),
    "bomb": (Answer(body=BOMB, headers={"Content-Encoding": "gzip"}), "more than 1048576 bytes"),
    "broken gzip": (Answer(body=b"hello", headers={"Content-Encoding": "gzip"}), "broken gzip"),
    "cut gzip": (
        Answer(body=gzip.compress(GOOD.encode())[:-20], headers={"Content-Encoding": "gzip"}),
        "ends too early",
    ),
    "zstd": (Answer(body=b"x", headers={"Content-Encoding": "zstd"}), "content encoding 'zstd'"),
    "missing": (Answer(status=404), "HTTP 404"),
    "locked": (Answer(status=401), "give a token"),
    "moved": (Answer(status=302, headers={"Location": "https://u:secret@elsewhere/metrics"}), "redirect to"),
    "web page": (text("<!doctype html><html><body>Hi</body></html>"), "no metrics in it at all"),
    "empty": (text(""), "no metrics in it at all"),
    "other exporter": (
        text("node_load1 0.5\ngo_threads 7\n"),
        "no DCGM metrics in it, but node_load1, go_threads",
    ),
    "useless metrics": (text('DCGM_FI_DEV_FAN_SPEED{UUID="a"} 3\n'), "DCGM_FI_DEV_FAN_SPEED"),
    "no uuid": (text('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n'), "no UUID label"),
    "bad labels": (text('DCGM_FI_DEV_GPU_TEMP{UUID="a} 40\n'), "unreadable labels"),
    "bad number": (text('DCGM_FI_DEV_GPU_TEMP{UUID="a"} warm\n'), "no number at the end"),
    "no number": (text('DCGM_FI_DEV_GPU_TEMP{UUID="a"}\n'), "no number at the end"),
    "endless labels": (
        text('DCGM_FI_DEV_GPU_TEMP{UUID="' + "a" * 20_000 + '"} 40\n'),
        "labels of 20007 characters",
    ),
    "binary": (Answer(body=b"\xff\xfe\x00"), "not text in UTF-8"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_endpoint_costs_only_itself_and_says_why(kind: str) -> None:
    answer, sentence = BAD[kind]
    with serving(lambda *_: answer) as bad, serving(lambda *_: text(GOOD)) as good:
        reading = read(bad, good)
        alone = read(bad)
    assert isinstance(reading, Reading)
    assert [sample.uuid for sample in reading.samples] == ["GPU-good"]
    (gap,) = reading.gaps
    assert sentence in gap.reason and bad in gap.reason and "secret" not in gap.reason
    assert (gap.source, gap.to_ms) == ("dcgm", 1_000_000) and gap.from_ms < gap.to_ms
    assert isinstance(alone, Unavailable) and sentence in alone.reason


def test_dead_endpoint_is_named_with_what_to_do() -> None:
    outcome = read(f"127.0.0.1:{free_port()}")
    assert isinstance(outcome, Unavailable)
    assert "cannot connect" in outcome.reason and "is the exporter running" in outcome.reason


def test_address_of_six_is_told_as_it_was_given() -> None:
    outcome = read(f"[::1]:{(port := free_port())}")
    assert isinstance(outcome, Unavailable)
    assert f"http://[::1]:{port}/metrics" in outcome.reason


@pytest.mark.parametrize("url", ["http://[::1", "ftp://x/metrics", "http://", "http://x:port/"])
def test_url_that_is_none_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(UnusableUrl, match="http://HOST:9400"):
        dcgm_source(DcgmSettings(urls=(url,)))


def test_many_slow_endpoints_are_waited_for_together() -> None:
    limits = Limits(timeout_s=0.5)
    with serving(lambda *_: Answer(hangs=True)) as slow, serving(lambda *_: text(GOOD)) as good:
        reading = read(*(f"{slow}/{i}" for i in range(40)), good, limits=limits)
    assert isinstance(reading, Reading)
    assert len(reading.gaps) == 40 and len(reading.samples) == 1
    assert reading.duration_ms < 40 * 500 / 2


def test_more_slow_endpoints_than_can_be_asked_at_once_do_not_hold_up_the_tick() -> None:
    limits = Limits(timeout_s=0.4, concurrency=4)
    with serving(lambda *_: Answer(hangs=True)) as slow, serving(lambda *_: text(GOOD)) as good:
        first = read(good, *(f"{slow}/{i}" for i in range(40)), limits=limits)
        last = read(*(f"{slow}/{i}" for i in range(4)), good, limits=limits)
    assert isinstance(first, Reading) and isinstance(last, Reading)
    assert len(first.samples) == len(last.samples) == 1
    assert len(first.gaps) == 40 and first.duration_ms < 10 * 400 / 2


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_answer_may_be_gzipped_when_asked_for(pack: Callable[[bytes], bytes]) -> None:
    asked: list[str] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        asked.append(f"{path} {headers['Accept-Encoding']}")
        zipped = {"Content-Encoding": "gzip"} if pack is gzip.compress else {}
        return Answer(body=pack(GOOD.encode()), headers=zipped)

    with serving(answer) as url:
        reading = read(url)
    assert isinstance(reading, Reading) and len(reading.samples) == 1
    assert asked == ["/metrics gzip"]


def test_one_gpu_seen_through_two_endpoints_is_sampled_once() -> None:
    with serving(lambda *_: text(GOOD)) as one, serving(lambda *_: text(GOOD)) as other:
        reading = read(one, other)
    assert isinstance(reading, Reading)
    assert len(reading.gpus) == len(reading.samples) == 1


def test_credentials_in_a_url_are_sent_and_never_told() -> None:
    seen: list[str] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        seen.append(headers.get("Authorization", ""))
        return Answer(status=403)

    with serving(answer) as url:
        outcome = read(url.replace("http://", "http://me:secret@"))
    assert seen[0].startswith("Basic ")
    assert isinstance(outcome, Unavailable) and "secret" not in outcome.reason


def test_url_may_leave_out_scheme_and_path() -> None:
    assert metrics_url("node-3:9400") == "http://node-3:9400/metrics"
    assert metrics_url("https://x/") == "https://x/metrics"
    assert metrics_url("http://x/federate?match[]=a") == "http://x/federate?match[]=a"


def test_no_endpoint_at_all_is_unavailable_and_says_what_to_give() -> None:
    outcome = read()
    assert isinstance(outcome, Unavailable) and "dcgm=URL" in outcome.reason


def test_who_was_not_asked_in_time_is_asked_first_the_next_time() -> None:
    """Two that hang take all the time there is, as a rack without power does: the third has its turn next."""

    def answer(path: str, _: Mapping[str, str]) -> Answer:
        return text(GOOD) if path == "/third" else Answer(hangs=True)

    with serving(answer) as url:
        fetcher = Fetcher(Limits(timeout_s=0.4, concurrency=1))
        requests = [Request(url=f"{url}/{name}") for name in ("first", "second", "third")]
        try:
            once = [isinstance(each, Body) for each in fetcher.fetch(requests)]
            again = [isinstance(each, Body) for each in fetcher.fetch(requests)]
        finally:
            fetcher.close()
    assert (once, again) == ([False] * 3, [False, False, True])
