"""When a GPU stops being installed: a MIG instance that was destroyed, a board that was taken out.

A GPU that falls off the bus, or whose node or collector is down, stays installed, and unknown. It is
*unlisted* only while the source that named it last can be read, tells of no gap that would explain it, and
does not name it.

=============  =======================================  ===================================================
what           is gone when unlisted for                its installed time ends
=============  =======================================  ===================================================
MIG instance   a minute, its board being listed         with its last sample
board          seven days: until then it may have       at that moment, so that no sum of the past changes
               fallen off the bus, or be under repair
whole node     an hour, its source being read and       with its last sample: an autoscaler took it back
               naming other nodes
=============  =======================================  ===================================================

A board in whose place, a node's index, another one was measured for the first time since was swapped for it:
its time ends with its last sample, at once. Where a source tells when a GPU was taken out, as a recording
may, its time ends then, and nobody waits.

What is listed again is installed again; the time between then counts as unknown. Pure decisions on top, the
writing below, inside the caller's transaction.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import duckdb

from collector.model import (
    GpuUuid,
    Unavailable,
)
from collector.reading import Reading, Tick
from collector.store.statements import statement

CHECK_MS = 30_000
INSTANCE_GONE_MS = 60_000
"""A MIG instance that two looks did not find was cut anew; a board may only be silent."""
BOARD_GONE_MS = 7 * 86_400_000
"""A week: a board in repair comes back, and one that does not is out of the count from then on."""
NODE_GONE_MS = 3_600_000
"""Long enough for a node to reboot; and a spot node counts for the hours it lived, not for a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one GPU stands; ``unlisted_ms`` is since when it is not listed, ``None`` when it is."""

    uuid: str
    node: str
    cluster: str | None = None
    source: str
    parent_uuid: str | None
    is_gone: bool
    unlisted_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The source names it: a GPU that was gone is installed again."""

    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """The source began to leave it out."""

    uuid: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """It was left out for long enough."""

    uuid: str
    at_ms: int
    at_last_sample: bool


Change = Listed | Unlisted | Gone


@dataclass(slots=True, kw_only=True)
class InstalledGpus:
    """Every GPU's standing as it is in the store, and when it was last looked at."""

    checked_ms: int | None = None
    standings: dict[str, Standing] = field(default_factory=dict)
    odd: set[str] = field(default_factory=set)
    """Those that are gone or unlisted: all others change only by being left out."""


def changes(standings: Iterable[Standing], tick: Tick) -> Iterator[Change]:
    """What the tick means for the GPUs; nothing for those of a source that could not be read."""
    sight = _Sight.of(tick)
    for each in standings:
        if each.uuid in sight.listed:
            if each.is_gone or each.unlisted_ms is not None:
                yield Listed(uuid=each.uuid)
        elif each.is_gone:
            continue
        elif (to_ms := sight.removed.get(each.uuid)) is not None:
            yield Gone(uuid=each.uuid, at_ms=to_ms, at_last_sample=False)
        elif not sight.tells_of(each):
            continue
        elif each.unlisted_ms is None:
            yield Unlisted(uuid=each.uuid, since_ms=tick.at_ms)
        elif tick.at_ms - each.unlisted_ms >= sight.patience_ms(each):
            at_last_sample = each.parent_uuid is not None or sight.left_with_its_node(each)
            at_ms = each.unlisted_ms if at_last_sample else tick.at_ms
            yield Gone(uuid=each.uuid, at_ms=at_ms, at_last_sample=at_last_sample)


def write_standings(
    connection: duckdb.DuckDBPyConnection, known: int, book: InstalledGpus, tick: Tick
) -> None:
    """Note what the tick changes, every CHECK_MS; ``known`` is how many GPUs the store has."""
    if book.checked_ms is not None and 0 <= tick.at_ms - book.checked_ms < CHECK_MS:
        return
    book.checked_ms = tick.at_ms
    if len(book.standings) != known:
        connection.execute(statement("end_replaced"))
        book.standings = _read(connection)
        book.odd = {
            each.uuid for each in book.standings.values() if each.is_gone or each.unlisted_ms is not None
        }
    listed = {gpu.uuid: o.source for o in tick.outcomes if isinstance(o, Reading) for gpu in o.gpus}
    _write_sources(connection, book, listed)
    asked = (book.standings.keys() - listed.keys()) | book.odd
    for change in changes([book.standings[uuid] for uuid in sorted(asked)], tick) if asked else ():
        _write(connection, change)
        book.standings[change.uuid] = _after(book.standings[change.uuid], change)
        (book.odd.discard if isinstance(change, Listed) else book.odd.add)(change.uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """What a tick's sources name, and where they say themselves that they see nothing."""

    listed: frozenset[str]
    nodes: frozenset[tuple[str, str | None]]
    read: frozenset[str]
    silent: frozenset[str]
    blind: frozenset[tuple[str, str | None]]
    excused: frozenset[str]
    removed: Mapping[str, int]

    @classmethod
    def of(cls, tick: Tick) -> "_Sight":
        readings = [outcome for outcome in tick.outcomes if isinstance(outcome, Reading)]
        gpus = [gpu for reading in readings for gpu in reading.gpus]
        told = [(reading.source, gap) for reading in readings for gap in reading.gaps]
        return cls(
            listed=frozenset(gpu.uuid for gpu in gpus),
            nodes=frozenset((gpu.node, gpu.cluster) for gpu in gpus),
            read=frozenset(reading.source for reading in readings if reading.gpus),
            silent=frozenset(o.source for o in tick.outcomes if isinstance(o, Unavailable)),
            blind=frozenset((source, gap.node) for source, gap in told if gap.uuid is None),
            excused=frozenset(gap.uuid for _, gap in told if gap.uuid is not None),
            removed={uuid: to_ms for reading in readings for uuid, to_ms in reading.removed.items()},
        )

    def tells_of(self, gpu: Standing) -> bool:
        """Whether leaving the GPU out means something."""
        if not self.listed or gpu.source in self.silent or gpu.uuid in self.excused:
            return False
        if gpu.parent_uuid in self.listed:
            return True
        if (gpu.source, gpu.node) in self.blind:
            return False
        return (gpu.node, gpu.cluster) in self.nodes or (gpu.source, None) not in self.blind

    def left_with_its_node(self, gpu: Standing) -> bool:
        """Whether nobody names anything on its node, while the source that named it goes on naming others."""
        return (gpu.node, gpu.cluster) not in self.nodes and gpu.source in self.read

    def patience_ms(self, gpu: Standing) -> int:
        if gpu.parent_uuid in self.listed:
            return INSTANCE_GONE_MS
        return NODE_GONE_MS if self.left_with_its_node(gpu) else BOARD_GONE_MS


def _read(connection: duckdb.DuckDBPyConnection) -> dict[str, Standing]:
    names = ("uuid", "node", "cluster", "source", "parent_uuid", "is_gone", "unlisted_ms")
    rows = connection.execute(statement("gpu_standings")).fetchall()
    return {row[0]: Standing(**dict(zip(names, row, strict=True))) for row in rows}


def _write_sources(
    connection: duckdb.DuckDBPyConnection, book: InstalledGpus, listed: Mapping[GpuUuid, str]
) -> None:
    """Note who names each GPU now: a past was imported by another source than the one that goes on."""
    moved: defaultdict[str, list[str]] = defaultdict(list)
    for uuid, source in listed.items():
        known = book.standings.get(uuid)
        if known is not None and known.source != source:
            moved[source].append(uuid)
            book.standings[uuid] = replace(known, source=source)
    for source, uuids in moved.items():
        connection.execute(statement("set_source"), {"uuids": uuids, "source": source})


def _write(connection: duckdb.DuckDBPyConnection, change: Change) -> None:
    match change:
        case Listed(uuid=uuid):
            connection.execute(statement("install_again"), {"uuid": uuid})
        case Unlisted(uuid=uuid, since_ms=since_ms):
            connection.execute(statement("set_unlisted"), {"uuid": uuid, "unlisted_ms": since_ms})
        case Gone(uuid=uuid, at_ms=at_ms, at_last_sample=at_last_sample):
            told = {"uuid": uuid, "to_ms": at_ms, "at_last_sample": at_last_sample}
            connection.execute(statement("end_installed"), told)
        case _:
            assert_never(change)


def _after(before: Standing, change: Change) -> Standing:
    match change:
        case Listed():
            return replace(before, is_gone=False, unlisted_ms=None)
        case Unlisted(since_ms=since_ms):
            return replace(before, unlisted_ms=since_ms)
        case Gone():
            return replace(before, is_gone=True)
        case _:
            assert_never(change)
