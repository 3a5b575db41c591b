"""How much memory processes hold on each GPU at this instant: ``python -m THIS-MODULE PID...`` prints JSON.

``--listed`` before the pids: only which of them hold anything on any GPU, ``null`` where one gives no list.

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

LISTED = "--listed"


def held_bytes(pids: Sequence[int]) -> Mapping[int, Mapping[str, int] | None]:
    """Bytes that each process holds on each GPU that lists it, by the GPU's UUID."""
    try:
        library = Library()
    except Unusable:
        return dict.fromkeys(pids)
    lists = _lists(library)
    if lists is None:
        return dict.fromkeys(pids)
    bytes_by_pid: dict[int, dict[str, int | None]] = {pid: {} for pid in pids}
    for uuid, sizes in lists:
        for pid, size in sizes.items():
            if pid in bytes_by_pid:
                bytes_by_pid[pid][uuid] = size
    return {pid: _all_known(sizes) for pid, sizes in bytes_by_pid.items()}


def still_listed(pids: Sequence[int]) -> Sequence[int] | None:
    """Those of them that a GPU lists with memory, or without saying how much; ``None``: not known."""
    try:
        lists = _lists(Library())
    except Unusable:
        return None
    if lists is None:
        return None
    holding = {pid for _, sizes in lists for pid, size in sizes.items() if size != 0}
    return [pid for pid in pids if pid in holding]


def main(argv: Sequence[str]) -> int:
    """Print the bytes by pid and UUID, or the pids."""
    if argv[:1] == [LISTED]:
        answer: object = still_listed(tuple(map(int, argv[1:])))
    else:
        answer = held_bytes(tuple(map(int, argv)))
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _lists(library: Library) -> Sequence[tuple[str, Mapping[int, int | None]]] | None:
    """Of each GPU; ``None`` where one gives none."""
    count = ctypes.c_uint(0)
    if library.call("nvmlDeviceGetCount_v2")(ctypes.byref(count)) != SUCCESS:
        return None
    lists = [_listed(library, index) for index in range(count.value)]
    lists_read = [each for each in lists if each is not None]
    return lists_read if len(lists_read) == len(lists) else None


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
    measured = {uuid: size for uuid, size in sizes.items() if size is not None}
    return measured if measured and len(measured) == len(sizes) else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
