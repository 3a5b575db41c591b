"""What a node sends: it comes back as it was, and whatever else comes is refused with a sentence."""

import json
import zlib

import pytest

from collector.sources.nodes.wire import (
    MOST_BYTES,
    MOST_RECORDS,
    BadBatch,
    Batch,
    NewerBatch,
    Record,
    fitting,
    pack,
    unpack,
)


def record(sequence: int = 1, page: bytes = b"fallow_gpu_info 1\n") -> Record:
    return Record(sequence=sequence, at_ms=5, width_ms=10_000, boot="b", steady_ms=7, page=page)


def batch(*records: Record) -> Batch:
    return Batch(spool="s", machine="m", boot="b", version="0.1.0", sent_ms=1, steady_ms=2, records=records)


def body(*lines: object) -> bytes:
    return zlib.compress("\n".join(json.dumps(line) for line in lines).encode())


HEAD = json.loads(zlib.decompress(pack(batch())))
TICK = json.loads(zlib.decompress(pack(batch(record()))).split(b"\n")[1])


def test_a_batch_comes_back_as_it_was() -> None:
    sent = batch(record(3, "ümlaut\n".encode()), record(9))
    assert unpack(pack(sent)) == sent


def test_what_a_newer_node_adds_is_not_read() -> None:
    assert unpack(body(HEAD | {"more": [1]}, TICK | {"colour": "red"})) == batch(record())


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(NewerBatch, match="upgrade the head first"):
        unpack(body(HEAD | {"format": 2}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut short"),
        (b"no zlib", "not packed"),
        (zlib.compress(b"x" * (MOST_BYTES + 1)), "more than"),
        (pack(batch(record()))[:-5], "cut short"),
        (zlib.compress(b"[" * 100_000), "not JSON"),
        (body([1]), "no object"),
        (body({}), "format"),
        (body(HEAD | {"spool": ""}), "spool"),
        (body(HEAD | {"machine": "a\nb"}), "machine"),
        (body(HEAD | {"sent_ms": True}), "sent_ms"),
        (body(HEAD | {"sent_ms": 1e300}), "sent_ms"),
        (body(HEAD | {"after": -1}), "after"),
        (body(HEAD, TICK | {"sequence": 0}), "sequence"),
        (body(HEAD, TICK | {"at_ms": 2**60}), "at_ms"),
        (body(HEAD, TICK | {"page": None}), "no page"),
        (body(HEAD, TICK | {"page": "\ud800"}), "no text"),
        (body(HEAD, TICK, TICK), "order"),
        (body(HEAD, *({**TICK, "sequence": i + 1} for i in range(MOST_RECORDS + 1))), "at most"),
    ],
)
def test_what_is_no_batch_is_refused_with_a_sentence(content: bytes, words: str) -> None:
    with pytest.raises(BadBatch, match=words):
        unpack(content)


def test_as_many_are_sent_as_fit_and_one_at_least() -> None:
    many = tuple(record(i + 1, bytes(10)) for i in range(5))
    assert fitting(many, 30) == many[:3]
    assert fitting(many, 1) == many[:1]
    assert fitting((), 30) == ()
