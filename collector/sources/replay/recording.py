"""A recording as the collector's own values: samples in order of time, GPUs, holders, what was skipped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.arrow import HOLDER_SAMPLE_SCHEMA, HeldInterval, History
from collector.model import SIMULATED_SOURCE, Event, Gap, Gpu, GpuUuid
from collector.sources.replay.errors import Refused

DAY_MS = 86_400_000
REPLAY_SOURCE = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was recorded, in UTC ms. ``samples`` has SAMPLE_SCHEMA, sorted by time, and ``holder_samples``
    HOLDER_SAMPLE_SCHEMA; ``gaps`` lie where rows
    are missing or were refused. ``simulated``: it is Fallow's own export of a simulated cluster.
    """

    path: str
    samples: pa.Table
    gpus: tuple[Gpu, ...]
    held: tuple[HeldInterval, ...] = ()
    events: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    holder_samples: pa.Table = field(default_factory=HOLDER_SAMPLE_SCHEMA.empty_table)
    refused: Refused
    simulated: bool = False
    ends_are_told: bool = False
    """An end in ``held`` is one; else it is where the rows of a holder end, of which the last may go on."""
    installed_ms: Mapping[GpuUuid, int] = field(default_factory=dict)
    """Since when each GPU was there, as far as that is told beside the samples."""
    removed_ms: Mapping[GpuUuid, int] = field(default_factory=dict)
    """When a GPU was taken out, as far as that is told beside the samples."""
    idle_power_mw: Mapping[GpuUuid, int] = field(default_factory=dict)
    """What a GPU draws when idle, as far as that is told: its rows may all be of work."""

    @property
    def source(self) -> str:
        """The name under which it is stored: what was invented stays so when it is replayed."""
        return SIMULATED_SOURCE if self.simulated else REPLAY_SOURCE

    @property
    def from_ms(self) -> int:
        """The start of what the first sample covers."""
        starts = pc.subtract(self.samples["at_ms"], self.samples["width_ms"].cast(pa.int64()))
        return int(pc.min(starts).as_py())

    @property
    def to_ms(self) -> int:
        """The end of the last sample."""
        return int(pc.max(self.samples["at_ms"]).as_py())

    def gpus_since(self) -> tuple[tuple[Gpu, int], ...]:
        """Each GPU and since when it is there: its first sample, however early it was named.

        One without any sample: since that is told of it; else, as the board of MIG instances, since the first
        of them; else since the recording begins.
        """
        starts = pc.subtract(self.samples["at_ms"], self.samples["width_ms"].cast(pa.int64()))
        table = pa.table({"uuid": self.samples["uuid"], "from_ms": starts})
        rows = table.group_by("uuid").aggregate([("from_ms", "min")]).to_pylist()
        first = {GpuUuid(row["uuid"]): int(row["from_ms_min"]) for row in rows}
        parts: dict[GpuUuid, int] = {}
        for gpu in self.gpus:
            if gpu.parent_uuid is not None and gpu.uuid in first:
                parts[gpu.parent_uuid] = min(first[gpu.uuid], parts.get(gpu.parent_uuid, first[gpu.uuid]))
        told = {**parts, **self.installed_ms, **first}
        return tuple((gpu, told.get(gpu.uuid, self.from_ms)) for gpu in self.gpus)

    def removals(self) -> dict[GpuUuid, int]:
        """When each GPU was taken out: what is told, where no sample of it is newer."""
        rows = self.samples.group_by("uuid").aggregate([("at_ms", "max")]).to_pylist()
        newest = {GpuUuid(row["uuid"]): int(row["at_ms_max"]) for row in rows}
        return {uuid: max(to_ms, newest.get(uuid, to_ms)) for uuid, to_ms in self.removed_ms.items()}


def shifted(recording: Recording, by_ms: int) -> Recording:
    """The same recording, later by ``by_ms``: to let it begin now."""
    return replace(
        recording,
        samples=_later(recording.samples, by_ms),
        holder_samples=_later(recording.holder_samples, by_ms),
        held=tuple(
            replace(i, from_ms=i.from_ms + by_ms, to_ms=None if i.to_ms is None else i.to_ms + by_ms)
            for i in recording.held
        ),
        events=tuple(replace(event, at_ms=event.at_ms + by_ms) for event in recording.events),
        installed_ms={uuid: at_ms + by_ms for uuid, at_ms in recording.installed_ms.items()},
        removed_ms={uuid: at_ms + by_ms for uuid, at_ms in recording.removed_ms.items()},
        gaps=tuple(replace(g, from_ms=g.from_ms + by_ms, to_ms=g.to_ms + by_ms) for g in recording.gaps),
    )


def histories(recording: Recording, source: str | None = None) -> Iterator[History]:
    """The whole recording for the store, a UTC day at a time; each interval, event and gap comes once."""
    at_ms, name, since = times_of(recording), source or recording.source, recording.gpus_since()
    all_held, gone = _ended(recording), recording.removals()
    day = recording.from_ms
    while day < recording.to_ms:
        end = min((day // DAY_MS + 1) * DAY_MS, recording.to_ms)
        low, high = np.searchsorted(at_ms, (day, end), side="right")
        first = day == recording.from_ms
        yield History(
            source=name,
            gpus=tuple(gpu for gpu, from_ms in since if from_ms < end and gone.get(gpu.uuid, end) > day),
            idle_power_mw=recording.idle_power_mw,
            removed_ms={uuid: to_ms for uuid, to_ms in gone.items() if to_ms <= end},
            installed_ms={gpu.uuid: from_ms for gpu, from_ms in since},
            samples=recording.samples.slice(int(low), int(high - low)),
            held=tuple(i for i in all_held if i.from_ms < end and (first or i.from_ms >= day)),
            events=tuple(e for e in recording.events if e.at_ms <= end and (first or e.at_ms > day)),
            gaps=tuple(
                replace(g, source=name)
                for g in recording.gaps
                if g.from_ms < end and (first or g.from_ms >= day)
            ),
            holder_samples=between(recording.holder_samples, day, end, is_first=first),
        )
        day = end


def _ended(recording: Recording) -> tuple[HeldInterval, ...]:
    """The holds; what is told to end with the last sample of its GPU ends a millisecond before that.

    The store takes a hold that ends with the newest sample for one of which no end is known, as it is where
    nobody tells more than who had the GPU in each row. An end that is told is one.
    """
    if not recording.ends_are_told:
        return recording.held
    rows = recording.samples.group_by("uuid").aggregate([("at_ms", "max")]).to_pylist()
    newest = {GpuUuid(row["uuid"]): int(row["at_ms_max"]) for row in rows}
    return tuple(
        replace(i, to_ms=i.to_ms - 1)
        if i.to_ms is not None and i.to_ms == newest.get(i.allocation.uuid) and i.from_ms < i.to_ms - 1
        else i
        for i in recording.held
    )


def between(table: pa.Table, from_ms: int, to_ms: int, *, is_first: bool = False) -> pa.Table:
    """The rows that end in ``(from_ms, to_ms]``; the first stretch has all that is earlier too."""
    at_ms = table["at_ms"]
    return table.filter(
        pc.less_equal(at_ms, to_ms)
        if is_first
        else pc.and_(pc.greater(at_ms, from_ms), pc.less_equal(at_ms, to_ms))
    )


def _later(table: pa.Table, by_ms: int) -> pa.Table:
    place = table.schema.get_field_index("at_ms")
    return table.set_column(place, table.schema.field("at_ms"), pc.add(table["at_ms"], by_ms))


def times_of(recording: Recording) -> npt.NDArray[np.int64]:
    """When each sample ends, ascending."""
    times: npt.NDArray[np.int64] = recording.samples["at_ms"].to_numpy()
    return times
