"""What one endpoint's answers mean over time: which are news, what changed, what is still believed. Pure.

An exporter refreshes its values at its own interval (30 s by default) and stamps none of them, so a scrape
between two refreshes shows the old ones again. Values that did not change within the interval are therefore
no new sample. A new one covers the time since the last, which is the exporter's interval and not our tick;
after a hole it covers one interval and the rest stays unknown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b

from collector.dcgm.crowd import Named
from collector.dcgm.fetch import MOST_GPUS, place
from collector.dcgm.labels import identity, without_uuid
from collector.dcgm.own_pods import UP
from collector.dcgm.readout import Readout, read_out
from collector.dcgm.text import MalformedText, Row, names_in, parse
from collector.dcgm.vocabulary import is_dcgm, is_known
from collector.model import (
    Allocation,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    HolderSample,
    NodeName,
    OutOfService,
    Withheld,
)
from collector.sources.nvml.convert import xid as xid_words

XID = "xid"
STALE_MS = 300_000
"""A value whose own time is farther from now was not measured now: Prometheus' lookback (5 min), after which
it gives a series up itself. As far ahead: a clock is wrong, and when it was measured nobody knows."""
_REFRESHED = 0.9
"""Of the exporter's interval: the same page within it is the one already read, not a GPU that did the same
again."""
_STRETCH = 1.5
"""Of the interval: a value that comes later than this says nothing of the time before its own interval."""
_NAMED = 3
"""Nodes in a sentence: a page of a Prometheus can tell of thousands."""
IDLE_RATIO, FLOOR_BYTES = 0.01, 1 << 30
"""Above either somebody is on a GPU: the noise of reading it, and what its driver keeps."""
UNNAMED = "names no pods any more though their GPUs are in use: does the exporter reach the kubelet's socket?"
BELIEVED_MS = 600_000
"""How long holders are believed after their exporter fell silent: we are deaf, the GPU is not free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One exporter or peer, and what is remembered of it from scrape to scrape.

    ``most_gpus`` is how many it may name within a day, and ``named`` which it has.
    ``events`` is when a peer's GPU last had an event of a kind; an exporter tells of none. ``digest`` is of
    the answer that was last read through, at ``read_ms``. ``named_ms``: when it last said who holds what.
    """

    url: str
    fallback_node: str
    interval_ms: int
    gpus: tuple[Gpu, ...] = ()
    samples: Mapping[GpuUuid, GpuSample] = field(default_factory=dict)
    allocations: tuple[Allocation, ...] | None = None
    events: Mapping[tuple[GpuUuid, str], int] = field(default_factory=dict)
    digest: bytes = b""
    read_ms: int = 0
    named_ms: int | None = None
    seen_ms: int | None = None
    asked_ms: int | None = None
    most_gpus: int = MOST_GPUS
    named: Named = field(default_factory=Named)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What one scrape adds to the tick."""

    gpus: tuple[Gpu, ...] = ()
    samples: tuple[GpuSample, ...] = ()
    allocations: tuple[Allocation, ...] | None = None
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    holder_samples: tuple[HolderSample, ...] = ()


def heard(endpoint: Endpoint, content: bytes, now_ms: int, source: str = "dcgm") -> tuple[Endpoint, News]:
    """The endpoint after a good answer. Raises MalformedText for an answer that is none.

    The same bytes within one interval are the same values: they are not read again. Values whose own time is
    far from now are not read, and GPUs that another answer told of are not seen: gaps of ``source``.
    """
    digest = blake2b(content, digest_size=16).digest()
    if digest == endpoint.digest and 0 <= now_ms - endpoint.read_ms < _REFRESHED * endpoint.interval_ms:
        known = News(gpus=endpoint.gpus, allocations=endpoint.allocations)
        return replace(endpoint, seen_ms=now_ms, asked_ms=now_ms), known
    every = _rows(content)
    rows = tuple(row for row in every if row.at_ms is None or abs(row.at_ms - now_ms) <= STALE_MS)
    stale = tuple(row for row in every if row.at_ms is not None and abs(row.at_ms - now_ms) > STALE_MS)
    if not rows:
        raise MalformedText(_stale_reason(stale, now_ms))
    readout = read_out(
        rows, fallback_node=endpoint.fallback_node, at_ms=now_ms, width_ms=endpoint.interval_ms
    )
    if not readout.samples:
        raise MalformedText("its GPU metrics carry no UUID label: without it a GPU cannot be told apart")
    named = endpoint.named.and_also((gpu.uuid for gpu in readout.gpus), now_ms, endpoint.most_gpus)
    fresh = tuple(
        timed
        for sample in readout.samples
        if (timed := _timed(endpoint.samples.get(sample.uuid), sample, endpoint.interval_ms)) is not None
    )
    unseen = _unseen(endpoint, readout, stale, now_ms)
    unnamed = _lost_its_labels(endpoint, readout)
    after = replace(
        endpoint,
        gpus=readout.gpus,
        samples={**endpoint.samples, **{sample.uuid: sample for sample in fresh}},
        allocations=unlooked(endpoint, now_ms) if unnamed else _believed(endpoint, readout, unseen, now_ms),
        named_ms=endpoint.named_ms if readout.allocations is None else now_ms,
        digest=digest,
        read_ms=now_ms,
        seen_ms=now_ms,
        asked_ms=now_ms,
        named=named,
    )
    news = News(
        gpus=readout.gpus,
        samples=fresh,
        allocations=after.allocations,
        events=tuple(_events(endpoint.samples, fresh)),
        gaps=(*_gaps(endpoint, unseen, source, now_ms), *_unnamed_gaps(endpoint, rows, source, now_ms)),
        withheld=nobody_says(endpoint, after, UNNAMED) if unnamed else (),
        holder_samples=_of_holders(readout, fresh),
    )
    return after, news


def missed(endpoint: Endpoint, source: str, reason: str, now_ms: int) -> tuple[Endpoint, News]:
    """The endpoint after no answer: a gap since the last attempt, holders believed for a while yet."""
    since = endpoint.asked_ms if endpoint.asked_ms is not None else now_ms - endpoint.interval_ms
    nodes = dict.fromkeys((gpu.node, gpu.cluster) for gpu in endpoint.gpus)
    gaps = tuple(
        Gap(source=source, from_ms=since, to_ms=now_ms, reason=reason, node=node, cluster=cluster)
        for node, cluster in nodes or ((None, None),)
        if since < now_ms
    )
    deaf = endpoint.seen_ms is None or now_ms - endpoint.seen_ms > BELIEVED_MS
    allocations = None if deaf else endpoint.allocations
    return replace(endpoint, allocations=allocations, asked_ms=now_ms), News(
        allocations=allocations, gaps=gaps
    )


def unlooked(endpoint: Endpoint, now_ms: int) -> tuple[Allocation, ...] | None:
    """The holders last named, believed for a while by one that names nobody now; then ``None``."""
    named_ms = endpoint.named_ms
    return endpoint.allocations if named_ms is not None and now_ms - named_ms <= BELIEVED_MS else None


def nobody_says(endpoint: Endpoint, after: Endpoint, why: str) -> tuple[Withheld, ...]:
    """The GPUs of one that once named holders, where those are believed no longer: nobody knows whose."""
    if endpoint.named_ms is None or after.allocations is not None:
        return ()
    reason = f"{place(endpoint.url)} {why}"
    return tuple(Withheld(uuid=gpu.uuid, state=OutOfService.UNASKED, reason=reason) for gpu in after.gpus)


def _lost_its_labels(endpoint: Endpoint, readout: Readout) -> bool:
    """Whether no row names a holder any more while what holders left on their GPUs is still there.

    An exporter whose kubelet cannot be asked writes the page of one with no pods (dcgm-exporter,
    internal/pkg/transformation/kubernetes.go). Where all pods did end, their memory went with them.
    """
    if readout.allocations is not None:
        return False
    if endpoint.allocations is None:
        return endpoint.named_ms is not None
    uuids = {allocation.uuid for allocation in endpoint.allocations}
    return any(_is_in_use(sample) for sample in readout.samples if sample.uuid in uuids)


def _is_in_use(sample: GpuSample) -> bool:
    return (sample.utilization_ratio or 0.0) > IDLE_RATIO or (sample.memory_used_bytes or 0) > FLOOR_BYTES


def _rows(content: bytes) -> tuple[Row, ...]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise MalformedText("it is not text in UTF-8") from error
    rows = parse(text, lambda name: is_known(name) or name == UP)
    if any(row.name != UP for row in rows):
        return rows
    names = names_in(text)
    if any(is_dcgm(name) for name in names):
        raise MalformedText(f"none of its DCGM metrics says what a GPU does ({', '.join(names)})")
    raise MalformedText(
        f"no DCGM metrics in it, but {', '.join(names)}" if names else "no metrics in it at all"
    )


def _timed(last: GpuSample | None, sample: GpuSample, interval_ms: int) -> GpuSample | None:
    """The sample with the time it covers, or ``None`` when it is the last one over again.

    One from before the last is news as the first is: the clock was set back.
    """
    if last is None or sample.at_ms < last.at_ms:
        return sample
    elapsed = sample.at_ms - last.at_ms
    if elapsed == 0:
        return None
    if elapsed < _REFRESHED * interval_ms and _same(last, sample):
        return None
    return replace(sample, width_ms=elapsed if elapsed <= _STRETCH * interval_ms else interval_ms)


def _of_holders(readout: Readout, fresh: tuple[GpuSample, ...]) -> tuple[HolderSample, ...]:
    """What holders did, for the times that the devices' new samples cover."""
    times = {sample.uuid: (sample.at_ms, sample.width_ms) for sample in fresh}
    return tuple(
        replace(each, at_ms=times[each.uuid][0], width_ms=times[each.uuid][1])
        for each in readout.holder_samples
        if each.uuid in times
    )


def _same(one: GpuSample, other: GpuSample) -> bool:
    return replace(one, at_ms=0, width_ms=0) == replace(other, at_ms=0, width_ms=0)


def _unseen(
    endpoint: Endpoint, readout: Readout, stale: tuple[Row, ...], now_ms: int
) -> dict[GpuUuid, tuple[NodeName, str]]:
    """The GPUs that this answer leaves unmeasured though it, or the answer before, named them; and why."""
    present = {gpu.uuid for gpu in readout.gpus}
    unseen = {}
    if endpoint.gpus and present.isdisjoint(gpu.uuid for gpu in endpoint.gpus):
        reason = _several(endpoint, readout)
        unseen = {gpu.uuid: (gpu.node, reason) for gpu in endpoint.gpus}
    for row in stale:
        who = identity(row.labels, fallback_node=endpoint.fallback_node)
        if who is not None and who.uuid not in present and who.uuid not in unseen:
            unseen[who.uuid] = (
                who.node,
                f"{who.uuid} at {place(endpoint.url)}: {_stale_reason((row,), now_ms)}",
            )
    return unseen


def _several(endpoint: Endpoint, readout: Readout) -> str:
    before, after = (_nodes(gpus) for gpus in (endpoint.gpus, readout.gpus))
    return (
        f"{place(endpoint.url)} told of {before} and then of {after}, with no GPU in common: if it stands "
        "before several exporters (a load balancer, a Service), each is seen only in turn. Give the address "
        "of each exporter itself"
    )


def _nodes(gpus: tuple[Gpu, ...]) -> str:
    nodes = tuple(dict.fromkeys(gpu.node for gpu in gpus))
    return ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")


def _stale_reason(stale: tuple[Row, ...], now_ms: int) -> str:
    """Why; the same words while a value stands still, for a gap goes on as long as its reason does."""
    newest = max(row.at_ms or 0 for row in stale)
    side = "behind" if newest < now_ms else "ahead of"
    try:
        day = f" ({datetime.fromtimestamp(newest / 1000, UTC):%Y-%m-%d})"
    except (ValueError, OverflowError, OSError):
        day = ""
    return (
        f"its values carry a time over {STALE_MS // 60_000} min {side} this machine's clock{day}: they were "
        "not measured now. Does the exporter behind it still answer, and are both clocks right?"
    )


def _gaps(
    endpoint: Endpoint, unseen: Mapping[GpuUuid, tuple[NodeName, str]], source: str, now_ms: int
) -> tuple[Gap, ...]:
    """A gap since the last reading for each GPU that was not measured."""
    since = endpoint.read_ms if 0 < endpoint.read_ms < now_ms else now_ms - endpoint.interval_ms
    return tuple(
        Gap(source=source, from_ms=since, to_ms=now_ms, reason=reason, uuid=uuid, node=node)
        for uuid, (node, reason) in unseen.items()
    )


def _unnamed_gaps(endpoint: Endpoint, rows: tuple[Row, ...], source: str, now_ms: int) -> Iterator[Gap]:
    """A gap for each node with GPUs that have no UUID beside others that have one."""
    blocks = {id(row.labels): row.labels for row in rows}
    names_by_node: dict[NodeName, set[str]] = {}
    for labels in blocks.values():
        unnamed = without_uuid(labels, fallback_node=endpoint.fallback_node)
        if unnamed is not None and (unnamed[0] in names_by_node or len(names_by_node) < endpoint.most_gpus):
            names_by_node.setdefault(unnamed[0], set()).add(unnamed[1])
    since = endpoint.read_ms if 0 < endpoint.read_ms < now_ms else now_ms - endpoint.interval_ms
    for node, gpus in names_by_node.items():
        reason = (
            f"{place(endpoint.url)} tells of {len(gpus)} GPUs of {node} without the label UUID: they cannot "
            "be told apart and are not read. Does a relabelling rule of Prometheus drop it?"
        )
        yield Gap(source=source, from_ms=since, to_ms=now_ms, reason=reason, node=node)


def _believed(
    endpoint: Endpoint, readout: Readout, unseen: Mapping[GpuUuid, object], now_ms: int
) -> tuple[Allocation, ...] | None:
    """Who holds what. Once an exporter has named holders, naming none means that everything is free.

    Not so the GPUs that this answer does not measure: their holders are believed for a while, as in silence.
    """
    if endpoint.allocations is None:
        return readout.allocations
    present = {gpu.uuid for gpu in readout.gpus}
    last = {gpu.uuid for gpu in endpoint.gpus}
    allocations = tuple(
        allocation
        for allocation in endpoint.allocations
        if allocation.uuid not in present
        and (allocation.uuid in unseen or allocation.uuid not in last)
        and allocation.uuid in endpoint.samples
        and 0 <= now_ms - endpoint.samples[allocation.uuid].at_ms <= BELIEVED_MS
    )
    return (*(readout.allocations or ()), *allocations)


def _events(last: Mapping[GpuUuid, GpuSample], fresh: tuple[GpuSample, ...]) -> list[Event]:
    """XIDs that were not there before: the exporter shows the last one for ever, so only a change is news."""
    return [
        Event(uuid=sample.uuid, at_ms=sample.at_ms, kind=XID, detail=xid_words(sample.xid))
        for sample in fresh
        if sample.xid and sample.uuid in last and last[sample.uuid].xid != sample.xid
    ]
