"""How much memory each GPU has free at this instant: ``python -m THIS-MODULE UUID...`` prints JSON.

A process of its own, asked right before memory is brought back onto a GPU: a measurement of the newest tick
would be too old, and a driver that crashes takes nobody with it. ``null`` is "not known", never 0.
"""

import ctypes
import json
import sys
from collections.abc import Mapping, Sequence

from collector.sources.nvml.library import SUCCESS, Library, Unusable
from collector.sources.nvml.readers import SLOT, Memory
from collector.sources.nvml.wire import MEASURES


def free_bytes(uuids: Sequence[str]) -> Mapping[str, int | None]:
    """Bytes that each GPU could still give: its total less what is used and what the driver keeps."""
    try:
        library = Library()
    except Unusable:
        return dict.fromkeys(uuids)
    return {uuid: _free(library, uuid) for uuid in uuids}


def main(argv: Sequence[str]) -> int:
    """Print the free bytes by UUID."""
    sys.stdout.write(json.dumps(free_bytes(argv)) + "\n")
    return 0


def _free(library: Library, uuid: str) -> int | None:
    handle = ctypes.c_void_p()
    if library.call("nvmlDeviceGetHandleByUUID")(uuid.encode(), ctypes.byref(handle)) != SUCCESS:
        return None
    row: list[int | None] = [None] * len(MEASURES)
    memory = Memory(library, handle)
    if memory.read(row) != SUCCESS:
        return None
    total, used = row[SLOT["memory_total_bytes"]], row[SLOT["memory_used_bytes"]]
    reserved = row[SLOT["memory_reserved_bytes"]] or 0
    return None if total is None or used is None else max(total - used - reserved, 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
