"""The Source over other Fallows: reads their ``/metrics`` back into what they measured.

The table in ``collector.metrics_endpoint`` is the contract, read here the other way round. A sample keeps its
own time and width, so collecting from a collector invents nothing, and what was seen before is not told
again.

Each service has a token of its own. ``FALLOW_PEER_TOKEN`` is one for all peers; ``FALLOW_PEER_TOKEN_FILE``
names a file with a line ``URL TOKEN`` for each, or a token alone for all; it is read anew at every tick.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from os import environ
from pathlib import Path
from typing import Any, cast

from collector.dcgm.crowd import CROWDED, crowded, first_of_each
from collector.dcgm.endpoint import Endpoint, News, nobody_says, unlooked
from collector.dcgm.fetch import Limits
from collector.dcgm.scrape import ScrapedSource, endpoints
from collector.dcgm.text import MalformedText, Row, names_in, parse
from collector.inventory.visible_devices import index_in
from collector.metrics_endpoint import (
    ALLOCATION,
    FLAG,
    GPU_METRICS,
    HOLDER_METRICS,
    INFO,
    INFO_LABELS,
    LAST_EVENT,
    LOOKED,
    NUMBER_LABELS,
    SAMPLE_METRICS,
    SIMULATED,
    SOURCE_UP,
    WITHHELD,
    Labels,
    Metric,
)
from collector.model import (
    PEER_SOURCE,
    SIMULATED_SOURCE,
    Allocation,
    Basis,
    ClaimSource,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    HolderSample,
    JobId,
    JobKind,
    NodeName,
    OutOfService,
    Withheld,
)

TOKEN_VARIABLE = "FALLOW_PEER_TOKEN"
TOKEN_FILE_VARIABLE = "FALLOW_PEER_TOKEN_FILE"
TICK_MS = 10_000
FRESH_MS = 30_000
"""At the first contact, older events are history that an earlier run may have told already."""
CLOCK_AHEAD = "peer-clock-ahead"
CLOCK_TOLERANCE_MS = 1_000
"""Clocks that NTP keeps differ by less; beyond it a sample is stored as of now, and says so."""
NOT_LOOKED = "does not say who holds its GPUs: has nobody been asked there yet?"
MOST_NAMED, MOST_CHARS = 8, 64
"""Sources of a peer in a sentence, and of a name: it has five, of a word each."""
WIDEST_MS = 86_400_000
"""Ours: no tick is as wide as a day, so what says so was not measured; nor is a clock so far ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """Where the peers are, and the environment that their tokens come from."""

    urls: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=lambda: environ)


def peer_source(settings: PeerSettings) -> ScrapedSource:
    """The source; opens nothing yet. Raises UnusableUrl."""
    return ScrapedSource(
        name=PEER_SOURCE,
        endpoints=endpoints(settings.urls, TICK_MS, settings.limits.gpus),
        limits=settings.limits,
        hear=lambda endpoint, content, now_ms: heard(endpoint, content, now_ms, PEER_SOURCE),
        headers=lambda url: _authorization(url, settings.environment),
    )


def heard(endpoint: Endpoint, content: bytes, now_ms: int, source: str) -> tuple[Endpoint, News]:
    """The peer after an answer, and what it measured since the last. Raises MalformedText. Pure."""
    rows = _rows(content)
    _refuse_simulated(rows)
    named = endpoint.named.and_also(_uuids(rows), now_ms, endpoint.most_gpus)
    gpus, samples, events = _gpus(rows), _samples(rows), tuple(_events(rows, now_ms))
    fresh = tuple(
        _not_ahead(sample, now_ms)
        for uuid, sample in samples.items()
        if uuid not in endpoint.samples or endpoint.samples[uuid].at_ms != sample.at_ms
    )
    oldest_ms = now_ms - FRESH_MS if endpoint.seen_ms is None else 0
    looked = any(row.name == LOOKED.name for row in rows)
    allocations = tuple(_allocations(rows)) if looked else unlooked(endpoint, now_ms)
    after = replace(
        endpoint,
        gpus=gpus,
        samples=samples,
        allocations=allocations,
        events={(event.uuid, event.kind): event.at_ms for event in events},
        named_ms=now_ms if looked else endpoint.named_ms,
        seen_ms=now_ms,
        asked_ms=now_ms,
        named=named,
    )
    news = News(
        gpus=gpus,
        samples=fresh,
        allocations=allocations,
        events=tuple(
            event
            for event in events
            if event.at_ms > max(endpoint.events.get((event.uuid, event.kind), 0), oldest_ms)
        ),
        gaps=_gaps(endpoint, rows, now_ms, source),
        holder_samples=tuple(_holder_samples(rows, fresh)),
        withheld=tuple(_withheld(rows)) if looked else nobody_says(endpoint, after, NOT_LOOKED),
    )
    return after, news


def token_for(url: str, setting: str) -> str | None:
    """The token for a URL among lines of ``URL TOKEN``, or of a token alone; the longest URL wins."""
    lines = [line.split() for line in setting.splitlines() if line.strip() and not line.startswith("#")]
    named = [(words[0], words[1]) for words in lines if len(words) == 2 and url.startswith(words[0])]
    if named:
        return max(named, key=lambda pair: len(pair[0]))[1]
    return next((words[0] for words in lines if len(words) == 1), None)


def _authorization(url: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    value = environment.get(TOKEN_VARIABLE, "")
    if path := environment.get(TOKEN_FILE_VARIABLE):
        try:
            value = Path(path).read_text()
        except OSError:
            value = ""
    token = token_for(url, value)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _rows(content: bytes) -> tuple[Row, ...]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise MalformedText("it is not text in UTF-8") from error
    rows = parse(text, lambda name: name.startswith("fallow_"))
    if rows:
        return tuple(row for row in rows if isfinite(row.value))
    names = names_in(text)
    raise MalformedText(
        f"no Fallow's metrics in it, but {', '.join(names)}" if names else "no metrics in it at all"
    )


def _refuse_simulated(rows: Iterable[Row]) -> None:
    """Raise MalformedText where a peer shows invented GPUs: they never stand beside real ones.

    A peer from before ``fallow_simulated`` says it by the name of its source.
    """
    for row in rows:
        by_name = row.name == SOURCE_UP.name and row.labels.get("source") == SIMULATED_SOURCE
        if by_name or (row.name == SIMULATED.name and row.value):
            raise MalformedText("it shows a simulated cluster, whose GPUs are invented; they are left out")


def _gpus(rows: Iterable[Row]) -> tuple[Gpu, ...]:
    values = _values(rows, GPU_METRICS)
    return tuple(
        Gpu(**_known(row.labels), **cast(dict[str, Any], values.get(_uuid(row.labels), {})))
        for row in rows
        if row.name == INFO.name
    )


def _known(labels: Labels) -> dict[str, Any]:
    return {
        "uuid": _uuid(labels),
        "node": NodeName(labels.get("node", "")),
        "index": index_in(labels.get("index", "")),
        "model": labels.get("model") or None,
        **{name: labels.get(name) or None for name in INFO_LABELS},
        **{name: index_in(labels.get(name, "")) for name in NUMBER_LABELS},
    }


def _samples(rows: Iterable[Row]) -> dict[GpuUuid, GpuSample]:
    flags = dict.fromkeys(map(GpuUuid, _crowded(rows)), (CROWDED,))
    for row in first_of_each((row for row in rows if row.name == FLAG.name), _uuid_of):
        uuid = _uuid(row.labels)
        flags[uuid] = (*flags.get(uuid, ()), row.labels.get("flag", ""))
    totals = _values(rows, GPU_METRICS)
    return {
        uuid: GpuSample(
            uuid=uuid,
            flags=flags.get(uuid, ()),
            memory_total_bytes=cast(int | None, totals.get(uuid, {}).get("memory_total_bytes")),
            **cast(dict[str, Any], values),
        )
        for uuid, values in _values(rows, SAMPLE_METRICS).items()
        if _is_timed(values)
    }


def _crowded(rows: Iterable[Row]) -> frozenset[str]:
    """The GPUs of which the page says more than is taken from it."""
    rows_by_name: dict[str, list[str]] = {
        FLAG.name: [],
        ALLOCATION.name: [],
        LAST_EVENT.name: [],
        WITHHELD.name: [],
    }
    for row in rows:
        if row.name in rows_by_name:
            rows_by_name[row.name].append(_uuid_of(row))
    return crowded(*rows_by_name.values())


def _is_timed(values: Mapping[str, object]) -> bool:
    at_ms, width_ms = (cast(int, values.get(name, 0)) for name in ("at_ms", "width_ms"))
    return 0 < width_ms <= WIDEST_MS and width_ms <= at_ms


def _not_ahead(sample: GpuSample, now_ms: int) -> GpuSample:
    """The sample, at the latest now: nothing is measured in the future, but the peer's clock may be ahead."""
    if sample.at_ms <= now_ms:
        return sample
    doubt = (CLOCK_AHEAD,) if sample.at_ms - now_ms > CLOCK_TOLERANCE_MS else ()
    return replace(sample, at_ms=now_ms, flags=(*sample.flags, *doubt))


def _events(rows: Iterable[Row], now_ms: int) -> Iterable[Event]:
    """What befell the GPUs; a time that no calendar holds costs that event, not the tick of all."""
    latest_s = (now_ms + WIDEST_MS) / 1000
    events = (row for row in rows if row.name == LAST_EVENT.name and 0 < row.value <= latest_s)
    for row in first_of_each(events, _uuid_of):
        kind, detail = row.labels.get("kind", ""), row.labels.get("detail", "")
        yield Event(uuid=_uuid(row.labels), at_ms=round(row.value * 1000), kind=kind, detail=detail)


def _values(rows: Iterable[Row], metrics: Iterable[Metric]) -> dict[GpuUuid, dict[str, object]]:
    by_name = {metric.name: metric for metric in metrics}
    values: dict[GpuUuid, dict[str, object]] = {}
    for row in rows:
        metric = by_name.get(row.name)
        if metric is not None:
            values.setdefault(_uuid(row.labels), {})[metric.field] = _read(metric, row.value)
    return values


def _read(metric: Metric, wire: float) -> object:
    match metric.field:
        case "rung":
            return Basis(int(wire)) if wire in set(Basis) else Basis.UNKNOWN
        case "persistence_mode":
            return wire > 0
        case "share_of_device":
            return wire if 0 <= wire <= 1 else 1.0
        case name if name.endswith("_ratio"):
            return wire
        case _:
            return (
                round(wire / metric.factor) if metric.factor >= 1 else round(wire * round(1 / metric.factor))
            )


def _allocations(rows: Iterable[Row]) -> Iterable[Allocation]:
    allocated = (
        row for row in rows if row.name == ALLOCATION.name and row.labels.get("job") and row.value > 0
    )
    for row in first_of_each(allocated, _uuid_of):
        yield Allocation(
            uuid=_uuid(row.labels),
            holder=_holder(row.labels),
            share=min(row.value, 1.0),  # of a job's two claims on one GPU the page has the sum
            source=_claim_source(row.labels.get("source", "")),
        )


def _holder_samples(rows: Iterable[Row], fresh: Iterable[GpuSample]) -> Iterable[HolderSample]:
    """What holders did, in the time of their GPU's new sample; of no more jobs a GPU than hold it."""
    samples = {sample.uuid: sample for sample in fresh}
    by_name = {metric.name: metric for metric in HOLDER_METRICS}
    measurements: dict[tuple[GpuUuid, JobId], dict[str, object]] = {}
    for metric in HOLDER_METRICS:
        mine = (row for row in rows if row.name == metric.name and row.labels.get("job") and row.value >= 0)
        for row in first_of_each(mine, _uuid_of):
            key = _uuid(row.labels), JobId(row.labels["job"])
            measurements.setdefault(key, {})[metric.field] = _read(by_name[row.name], row.value)
    for (uuid, job), values in measurements.items():
        if uuid in samples:
            at_ms, width_ms = samples[uuid].at_ms, samples[uuid].width_ms
            yield HolderSample(
                uuid=uuid, job=job, at_ms=at_ms, width_ms=width_ms, **cast(dict[str, Any], values)
            )


def _withheld(rows: Iterable[Row]) -> Iterable[Withheld]:
    """GPUs that are not free though nobody holds them; a state that only a newer Fallow knows is down."""
    for row in first_of_each((row for row in rows if row.name == WITHHELD.name), _uuid_of):
        state_name = row.labels.get("state", "")
        state = OutOfService(state_name) if state_name in set(OutOfService) else OutOfService.DOWN
        yield Withheld(uuid=_uuid(row.labels), state=state, reason=row.labels.get("reason", ""))


def _claim_source(name: str) -> ClaimSource:
    """Whose word it is; of a word that only a newer Fallow knows, the weakest."""
    return ClaimSource(name) if name in set(ClaimSource) else ClaimSource.PROCESS


def _holder(labels: Labels) -> Holder:
    kind = labels.get("kind", "")
    return Holder(
        job=JobId(labels["job"]),
        user=labels.get("user") or None,
        project=labels.get("project") or None,
        name=labels.get("name") or None,
        kind=JobKind(kind) if kind in set(JobKind) else None,
        framework=labels.get("framework") or None,
    )


def _gaps(endpoint: Endpoint, rows: Iterable[Row], now_ms: int, source: str) -> tuple[Gap, ...]:
    """The peer answers, but one of its own sources is blind: that is a gap here as well."""
    since = endpoint.asked_ms if endpoint.asked_ms is not None else now_ms - endpoint.interval_ms
    blind = sorted(
        row.labels.get("source", "") for row in rows if row.name == SOURCE_UP.name and not row.value
    )
    named = ", ".join(each[:MOST_CHARS] for each in blind[:MOST_NAMED])
    reason = f"{endpoint.fallback_node} cannot read its source {named}; look at its log"
    return (
        (Gap(source=source, from_ms=since, to_ms=now_ms, reason=reason),) if blind and since < now_ms else ()
    )


def _uuids(rows: Iterable[Row]) -> frozenset[GpuUuid]:
    """Every GPU of which the page says anything."""
    families = {
        each.name for each in (*SAMPLE_METRICS, *GPU_METRICS, INFO, FLAG, ALLOCATION, WITHHELD, LAST_EVENT)
    }
    return frozenset(_uuid(row.labels) for row in rows if row.name in families)


def _uuid_of(row: Row) -> str:
    return _uuid(row.labels)


def _uuid(labels: Labels) -> GpuUuid:
    return GpuUuid(labels.get("uuid", ""))
