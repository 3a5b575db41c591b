"""XIDs of a recording as events. Pure.

An exporter shows the newest XID for ever, and Fallow's own samples bear one where it came: in both only a
number that was not in the GPU's row before is news, as in live readings.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from collector.model import Event, GpuUuid
from collector.sources.nvml.convert import xid as xid_words
from collector.sources.nvml.device_changes import XID


def xid_events(samples: pa.Table) -> Iterator[Event]:
    """One for each new XID, oldest first; none from a GPU's first row, as nobody knows since when it is so.

    ``samples`` are in the order of time.
    """
    if samples["xid"].null_count == len(samples):
        return
    named = samples.filter(pc.is_in(samples["uuid"], value_set=_told(samples)))
    before: dict[str, int] = {}
    for row in named.select(["uuid", "at_ms", "xid"]).to_pylist():
        uuid, number = row["uuid"], row["xid"] or 0
        if number and before.get(uuid, number) != number:
            yield Event(uuid=GpuUuid(uuid), at_ms=row["at_ms"], kind=XID, detail=xid_words(number))
        before[uuid] = number


def _told(samples: pa.Table) -> pa.Array:
    """The GPUs of which any row has an XID."""
    has = pc.fill_null(pc.greater(samples["xid"], 0), fill_value=False)
    return pc.unique(samples["uuid"].filter(has))
