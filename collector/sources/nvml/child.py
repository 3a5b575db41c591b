"""The process that reads NVML: it answers requests on stdin with frames on stdout until stdin closes.

Kept apart because a lost GPU can crash or hang whoever asks the driver. Imports the standard library,
``pynvml`` and the list of metrics alone, and stays small. Before a device is touched its index is noted in
memory that the parent shares, so that after a crash the parent knows which GPU to leave alone.

Requests: {"op": "start", "avoid": [index, ...], "row": [name, ...], "node": name}, then {"op": "read",
"now_us", "width_us", "processes", "rescan", "known"} or {"op": "probe"}. An answer with "unusable" is the
last one.
"""

import gc
import mmap
import os
import struct
import sys
from collections.abc import Callable, Sequence
from socket import gethostname
from typing import Any

from collector.sources.nvml import wire
from collector.sources.nvml.device import Device, DeviceFailed, Reading
from collector.sources.nvml.devices import UUID_UNREADABLE, Fleet, Whole, instance_went
from collector.sources.nvml.library import (
    LOST,
    UNINITIALIZED,
    VERSIONS_DIFFER,
    Library,
    Unusable,
    both_versions,
)
from collector.sources.nvml.readers import SLOT

NOTHING = -1
"""What the note says while no GPU is being touched, so that a crash is nobody's."""
_INDEX = struct.Struct("i")
_ALLOCATIONS = 20_000
"""So many more containers than were let go have to be there before Python looks for garbage."""


def main(stdin: int = 0, stdout: int = 1) -> None:
    """Serve until the parent closes the pipe. ``sys.argv[1]`` is the descriptor of the shared note."""
    mark = _marker(int(sys.argv[1]))
    try:
        request = wire.receive(stdin)
        library = Library()
        fleet = Fleet(library, mark, request["avoid"], node=request.get("node") or gethostname())
        fleet.rescan(thorough=True)
        _collect_rarely()
        wire.send(stdout, {"versions": versions(library)})
        names = request.get("row", wire.FIRST_ROW)
        while True:
            request = wire.receive(stdin)
            wire.send(stdout, in_order(answer(library, fleet, request, mark), names))
    except wire.PipeClosed:
        return
    except (Unusable, DeviceFailed) as problem:
        problem_row: dict[str, Any] = {"call": problem.call, "code": problem.code}
        if problem.code == VERSIONS_DIFFER:
            problem_row["versions"] = both_versions()
        wire.send(stdout, {"unusable": problem_row})


def versions(library: Library) -> dict[str, Any]:
    """Driver, NVML and CUDA versions as the driver tells them."""
    return {
        "driver": library.text("nvmlSystemGetDriverVersion"),
        "nvml": library.text("nvmlSystemGetNVMLVersion"),
        "cuda": library.number("nvmlSystemGetCudaDriverVersion_v2"),
    }


def answer(
    library: Library, fleet: Fleet, request: dict[str, Any], mark: Callable[[int], None]
) -> dict[str, Any]:
    """One request's answer. Raises Unusable when NVML has to be initialized anew."""
    if request["op"] == "probe":
        return {"versions": versions(library), "devices": _capabilities(fleet), "failed": _failed(fleet)}
    fleet.rescan(thorough=request["rescan"])
    if request["processes"] and not request["rescan"]:
        fleet.repartition()
    devices = []
    # A copy: a board that is lost while it is read leaves the fleet.
    for board in tuple(fleet.wholes.values()):
        mark(board.index)
        devices += _read_whole(fleet, board, request)
    mark(NOTHING)
    reply = {
        "generation": fleet.generation,
        "devices": devices,
        "failed": _failed(fleet),
        "events": fleet.events(),
    }
    if request["known"] != fleet.generation:
        reply["static"] = [
            {**board.static, "instances": list(board.instance_static.values())}
            for board in fleet.wholes.values()
        ]
    return reply


def in_order(reply: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A reading with each device's values in the order that the parent named; ``None`` for a strange name."""
    if "events" not in reply or tuple(names) == wire.MEASURES:
        return reply
    lines = [
        (uuid, [row[SLOT[name]] if name in SLOT else None for name in names], *rest)
        for uuid, row, *rest in reply["devices"]
    ]
    return {**reply, "devices": lines}


def _read_whole(fleet: Fleet, board: Whole, request: dict[str, Any]) -> list[tuple[Any, ...]]:
    now_us, width_us = request["now_us"], request["width_us"]
    processes = request["processes"]
    try:
        # With MIG on, processes run on instances only, and each instance has its own list.
        reading = board.device.read(now_us, width_us, processes=processes and not board.mig)
    except DeviceFailed as failure:
        _give_up(fleet, board, failure)
        return []
    fleet.failed.pop(board.index, None)
    if board.static["by_place"]:
        reading.flags.append(UUID_UNREADABLE)
    out = [_line(board.uuid, reading)]
    for uuid, device in tuple(board.instances.items()):
        part = _read_instance(fleet, board, uuid, device, request)
        if part:
            out.append(_line(uuid, part))
        if board.uuid not in fleet.wholes:
            return []
    return out


def _read_instance(
    fleet: Fleet, board: Whole, uuid: str, device: Device, request: dict[str, Any]
) -> Reading | None:
    try:
        return device.read(request["now_us"], request["width_us"], processes=request["processes"])
    except DeviceFailed as failure:
        if failure.code in LOST:
            _give_up(fleet, board, failure)
        elif instance_went(failure.code):
            board.instances.pop(uuid, None)
            board.instance_static.pop(uuid, None)
            fleet.generation += 1
        return None


def _give_up(fleet: Fleet, board: Whole, failure: DeviceFailed) -> None:
    if failure.code == UNINITIALIZED:
        raise Unusable(failure.call, failure.code) from failure
    fleet.lose(board, failure.call, failure.code)


def _line(uuid: str, reading: Reading) -> tuple[Any, ...]:
    return (uuid, reading.row, reading.flags, reading.processes, reading.uses)


def _failed(fleet: Fleet) -> list[dict[str, Any]]:
    return list(fleet.failed.values())


def _capabilities(fleet: Fleet) -> list[dict[str, Any]]:
    out = []
    for board in fleet.wholes.values():
        parts = [(board.static, board.device)]
        parts += [(board.instance_static[uuid], device) for uuid, device in board.instances.items()]
        for static, device in parts:
            out.append({**static, "ways": device.ways(), "refused": device.refused, "parent": board.uuid})
    return out


def _collect_rarely() -> None:
    """What was loaded stays, and readings leave no cycles: looking for garbage was 6% of a reading."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)


def _marker(fd: int) -> Callable[[int], None]:
    note = mmap.mmap(fd, _INDEX.size)
    os.close(fd)

    def mark(index: int) -> None:
        _INDEX.pack_into(note, 0, index)

    mark(NOTHING)
    return mark


if __name__ == "__main__":
    main()
