"""What a node sends: numbered ticks, each the page that its ``/metrics`` would show. Pure.

    body    zlib of lines of JSON, in UTF-8: a header, then a line a tick in the order of their numbers
    header  {"format", "spool", "machine", "boot", "version", "sent_ms", "steady_ms", "after", "echo_ms",
             "held_ms", "waiting", "waits_ms", "head"}; the last three are missing from a node of 0.1.0
    tick    {"sequence", "at_ms", "width_ms", "boot", "steady_ms", "page"}

The page is the contract that services read each other by (``collector.metrics_endpoint``), so what an older
or newer version leaves out is not measured, and what it adds is not read. The format rises only when a head
that doesn't know it would misunderstand: such a body is refused, and waits at the node until the head is
upgraded.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from collector.sources.nodes.terms import Term

FORMAT = 1
MOST_BYTES = 32 << 20
"""A body unpacked: the service takes 1 MiB of them, and a page of metrics packs to a tenth or less."""
MOST_RECORDS = 360
"""An hour at a tick of ten seconds, in one body."""
LONGEST_NAME = 128
"""A host's name has 64 characters at most (Linux); a batch comes from outside."""
MOST_MS = 1 << 53
"""The largest whole number that JSON carries between all languages, far beyond any time or count."""
LEVEL = 6
"""zlib's own default: a page takes a millisecond."""


class BadBatch(ValueError):
    """A body that is none of a node's; the message says what is wrong with it."""


class NewerBatch(BadBatch):
    """A body of a newer format than this head understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One tick of a node: its number in the spool, when it was by both clocks of that boot, and its page."""

    sequence: int
    at_ms: int
    width_ms: int
    boot: str
    steady_ms: int
    page: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one request brings. ``sent_ms`` and ``steady_ms`` are the node's two clocks when it was sent.

    ``spool`` is made anew with each spool file, ``machine`` is of the machine, ``boot`` of its boot.
    ``after``: all that the spool has above this number is sent; what is missing of it, nobody has any more.
    ``echo_ms`` is the head's time in its last answer, ``held_ms`` how long ago that came; 0 before the first.
    ``waiting`` ticks had not been received when it was sent, the oldest ``waits_ms`` old; ``None``: not said.
    ``head`` is the newest head that the node has heard.
    """

    spool: str
    machine: str
    boot: str
    version: str
    sent_ms: int
    steady_ms: int
    after: int = 0
    echo_ms: int = 0
    held_ms: int = 0
    waiting: int | None = None
    waits_ms: int | None = None
    head: Term | None = None
    records: tuple[Record, ...] = ()


def pack(batch: Batch) -> bytes:
    """The body of a request."""
    head = {
        "format": FORMAT,
        "spool": batch.spool,
        "machine": batch.machine,
        "boot": batch.boot,
        "version": batch.version,
        "sent_ms": batch.sent_ms,
        "steady_ms": batch.steady_ms,
        "after": batch.after,
        "echo_ms": batch.echo_ms,
        "held_ms": batch.held_ms,
        "waiting": batch.waiting,
        "waits_ms": batch.waits_ms,
        "head": None if batch.head is None else asdict(batch.head),
    }
    lines = [json.dumps(head), *(json.dumps(_line(record)) for record in batch.records)]
    return zlib.compress("\n".join(lines).encode(), LEVEL)


def unpack(body: bytes) -> Batch:
    """The batch in a body; keys that are not known here are not read. Raises BadBatch, NewerBatch."""
    lines = _unzipped(body).split(b"\n")
    if len(lines) > MOST_RECORDS + 1:
        raise BadBatch(f"it holds {len(lines) - 1} ticks, and a body has {MOST_RECORDS} at most")
    head = _object(lines[0])
    format_number = _number(head, "format", least=1)
    if format_number > FORMAT:
        raise NewerBatch(
            f"it is of format {format_number}, and this head understands up to {FORMAT}: upgrade the head "
            "first; what the node measured waits in its spool until then"
        )
    records = tuple(_record(_object(line)) for line in lines[1:])
    if any(one.sequence >= other.sequence for one, other in pairwise(records)):
        raise BadBatch("its ticks are not in the order of their numbers")
    return Batch(
        spool=_text(head, "spool"),
        machine=_text(head, "machine"),
        boot=_text(head, "boot"),
        version=_text(head, "version"),
        sent_ms=_number(head, "sent_ms"),
        steady_ms=_number(head, "steady_ms"),
        after=_number(head, "after"),
        echo_ms=_number(head, "echo_ms"),
        held_ms=_number(head, "held_ms"),
        waiting=_number_if_said(head, "waiting"),
        waits_ms=_number_if_said(head, "waits_ms"),
        head=term_of(head.get("head")),
        records=records,
    )


def term_of(tree: object) -> Term | None:
    """A head's term as it travels; ``None`` where it is not said. Raises BadBatch."""
    if tree is None:
        return None
    if not isinstance(tree, dict):
        raise BadBatch("its head is no object")
    return Term(
        epoch=_number(tree, "epoch"),
        start=_number(tree, "start", least=1),
        word=_text(tree, "word"),
        seal=_text(tree, "seal"),
    )


def fitting(records: Iterable[Record], most_bytes: int) -> tuple[Record, ...]:
    """The first of the records whose pages hold so many bytes together; at least one, where there is one."""
    chosen: list[Record] = []
    size = 0
    for record in records:
        size += len(record.page)
        if chosen and (size > most_bytes or len(chosen) == MOST_RECORDS):
            break
        chosen.append(record)
    return tuple(chosen)


def _line(record: Record) -> dict[str, object]:
    return {
        "sequence": record.sequence,
        "at_ms": record.at_ms,
        "width_ms": record.width_ms,
        "boot": record.boot,
        "steady_ms": record.steady_ms,
        "page": record.page.decode(),
    }


def _unzipped(body: bytes) -> bytes:
    opened = zlib.decompressobj()
    try:
        content = opened.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise BadBatch(f"it is not packed as a node packs it ({error})") from error
    if opened.unconsumed_tail or not opened.eof:
        raise BadBatch(f"it is cut short, or holds more than {MOST_BYTES >> 20} MiB unpacked")
    return content


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadBatch("a line of it is not JSON") from error
    if not isinstance(tree, dict):
        raise BadBatch("a line of it is no object")
    return tree


def _record(line: Mapping[str, Any]) -> Record:
    page = line.get("page")
    if not isinstance(page, str):
        raise BadBatch("a tick in it has no page")
    try:
        content = page.encode()
    except UnicodeEncodeError as error:
        raise BadBatch("a page in it is no text") from error
    return Record(
        sequence=_number(line, "sequence", least=1),
        at_ms=_number(line, "at_ms"),
        width_ms=_number(line, "width_ms", least=1),
        boot=_text(line, "boot"),
        steady_ms=_number(line, "steady_ms"),
        page=content,
    )


def _number(line: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    value = line.get(name)
    if type(value) is not int or not least <= value <= MOST_MS:
        raise BadBatch(f"its {name} is no whole number from {least} on")
    return value


def _number_if_said(line: Mapping[str, Any], name: str) -> int | None:
    return None if line.get(name) is None else _number(line, name)


def _text(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise BadBatch(f"its {name} is no text of 1 to {LONGEST_NAME} printable characters")
    return value
