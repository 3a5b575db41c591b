"""How much memory processes hold on each GPU at this instant: ``python -m THIS-MODULE PID...`` prints JSON.

A process of its own, as ``free_memory``: whoever takes processes off their GPUs writes down what it measured
itself. ``null`` for a process is "not known", never 0: no GPU lists it, or one gives no list or no size.
"""

import ctypes
import json
import sys
from collections.abc import Mapping, Sequence

from collector.sources.nvml.library import SUCCESS, Library, Unusable
from collector.sources.nvml.process_list import Entry, union
from collector.sources.nvml.processes import LISTS, Listing, first_present


def held_bytes(pids: Sequence[int]) -> Mapping[int, Mapping[str, int] | None]:
    """Bytes that each process holds on each GPU that lists it, by the GPU's UUID."""
    try:
        library = Library()
    except Unusable:
        return dict.fromkeys(pids)
    count = ctypes.c_uint(0)
    if library.call("nvmlDeviceGetCount_v2")(ctypes.byref(count)) != SUCCESS:
        return dict.fromkeys(pids)
    lists = [_listed(library, index) for index in range(count.value)]
    if None in lists:
        return dict.fromkeys(pids)
    found: dict[int, dict[str, int | None]] = {pid: {} for pid in pids}
    for uuid, sizes in filter(None, lists):
        for pid, size in sizes.items():
            if pid in found:
                found[pid][uuid] = size
    return {pid: _all_known(sizes) for pid, sizes in found.items()}


def main(argv: Sequence[str]) -> int:
    """Print the bytes by pid and UUID."""
    sys.stdout.write(json.dumps(held_bytes(tuple(map(int, argv)))) + "\n")
    return 0


def _listed(library: Library, index: int) -> tuple[str, Mapping[int, int | None]] | None:
    """A GPU's UUID and what its lists say; ``None`` where it gives neither."""
    handle = ctypes.c_void_p()
    if library.call("nvmlDeviceGetHandleByIndex_v2")(index, ctypes.byref(handle)) != SUCCESS:
        return None
    uuid = library.text("nvmlDeviceGetUUID", handle)
    entries: list[Entry] = []
    for kind, names in LISTS[:2]:  # no client of an MPS server is ever checkpointed
        code, listed = Listing(first_present(library, names), handle, kind).read()
        if code != SUCCESS and kind == "C":
            return None
        entries += listed
    return None if uuid is None else (uuid, {one.pid: one.memory_used_bytes for one in union(entries)})


def _all_known(sizes: Mapping[str, int | None]) -> Mapping[str, int] | None:
    known = {uuid: size for uuid, size in sizes.items() if size is not None}
    return known if known and len(known) == len(sizes) else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
