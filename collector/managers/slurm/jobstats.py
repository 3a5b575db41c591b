"""The means over a job that jobstats leaves in its AdminComment: ``JS1:`` and base64 of gzip of JSON. Pure.

jobstats (docs/setup/summaries.md, "Generating Job Summaries") writes for each node, by the GPU's number, the
mean utilization in percent over the whole job, the most memory used, and the memory there is, in bytes.
``JS1:Short`` and ``JS1:None`` say that there are none: a job too short, or without samples. Utilization is
the share of time in which any kernel ran: an upper bound of what was used.

An operator may write an AdminComment, and a script of the site: it is read as a stranger's. What unpacks to
more than UNPACKED_BYTES, or isn't of this shape, says nothing.
"""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HEAD = "JS1:"
COMMENT_CHARS = 1 << 18
"""jobstats tells of 5,000 characters at most for its largest jobs; 50 times that are unpacked."""

UNPACKED_BYTES = 1 << 22
"""Some 20,000 GPUs' means. A few kB of gzip may unpack to gigabytes."""

MOST_GPUS = 16_384
MOST_BYTES = 1 << 46
"""64 TiB: above the memory of any GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMean:
    """One GPU over one whole run. ``None``: not measured. A ratio is 0..1, memory the most that was used."""

    node: str
    gpu: str
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


def means_of(comment: str) -> tuple[GpuMean, ...] | None:
    """Each GPU's means; none where jobstats has none, ``None`` where its comment can't be read."""
    text = comment.strip()
    if text[: len(HEAD)].upper() != HEAD or text in ("JS1:Short", "JS1:None"):
        return ()
    if not text.startswith(HEAD):
        return None  # sacctmgr of 22.05 writes what it sets in lower case (26 November 2026)
    try:
        return tuple(_means(_unpacked(text.removeprefix(HEAD))))
    except (binascii.Error, zlib.error, RecursionError, ValueError):
        return None


def _unpacked(text: str) -> Any:
    """Raises ValueError and what base64 and zlib raise."""
    if len(text) > COMMENT_CHARS:
        raise ValueError(f"a comment of {len(text)} characters")
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: gzip's header, not zlib's
    raw = unpacker.decompress(base64.b64decode(text.encode("ascii"), validate=True), UNPACKED_BYTES)
    if not unpacker.eof:
        raise ValueError("cut short, or too large")
    return json.loads(raw)


def _means(told: Any) -> Iterator[GpuMean]:
    if not isinstance(told, Mapping) or not isinstance(told.get("nodes"), Mapping):
        raise ValueError("no object with nodes")
    count = 0
    for node, of_node in told["nodes"].items():
        if not isinstance(of_node, Mapping):
            raise ValueError("a node that is no object")
        use, used, total = (
            _by_gpu(of_node.get(name)) for name in ("gpu_utilization", "gpu_used_memory", "gpu_total_memory")
        )
        for gpu in dict.fromkeys((*use, *used)):
            count += 1
            if count > MOST_GPUS:
                raise ValueError("more GPUs than there are")
            yield GpuMean(
                node=str(node)[:256],
                gpu=str(gpu)[:64],
                utilization_ratio=_ratio(use.get(gpu)),
                memory_used_bytes=_bytes(used.get(gpu)),
                memory_total_bytes=_bytes(total.get(gpu)),
            )


def _by_gpu(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _ratio(percent: Any) -> float | None:
    number = _number(percent)
    return None if number is None or not 0 <= number <= 100 else number / 100


def _bytes(value: Any) -> int | None:
    number = _number(value)
    return None if number is None or not 0 <= number <= MOST_BYTES else int(number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
