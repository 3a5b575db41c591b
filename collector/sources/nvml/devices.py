"""Which devices there are: whole GPUs and MIG instances, found anew when the count or the partition changes.

Handles are kept by UUID. A device that was lost is never asked again in this process: the parent starts a
fresh one after a while. Child only.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import pynvml

from collector.sources.nvml.device import Device, DeviceFailed
from collector.sources.nvml.library import (
    INVALID_ARGUMENT,
    LOST,
    NAMELESS,
    NOT_FOUND,
    SUCCESS,
    UNKNOWN,
    Library,
    address,
    readable,
)

XID_EVENT = 8
_EVENTS_A_TICK = 64
"""A GPU that tells of errors without end would else keep the tick; what is left waits in the driver."""
_MIG_ON = 1
_USUAL_SLICES = 7
"""Where the driver does not say how many instances a board has room for."""
UUID_UNREADABLE = "uuid-unreadable"
_UUID = re.compile(r"(?:GPU|MIG)-[!-~]+")
"""How every UUID of NVML begins (NVML API reference, nvmlDeviceGetUUID); garbage does not."""
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_PCI_BYTES, _BUS_ID_AT = 68, 36
"""``nvmlPciInfo_t`` of nvml.h: 16 bytes, five numbers of 4, and the bus id. The wrapper's own structure
decodes it as it is read, and raises for garbage."""


class Whole:
    """A GPU at an index, its device, and its MIG instances by UUID."""

    def __init__(self, handle: Any, index: int, uuid: str, device: Device) -> None:
        self.handle = handle
        self.index = index
        self.uuid = uuid
        self.device = device
        self.mig = False
        self.instances: dict[str, Device] = {}
        self.static: dict[str, Any] = {}
        self.instance_static: dict[str, dict[str, Any]] = {}


class Fleet:
    """All devices of this machine; ``mark`` is told which index is being touched, for the post-mortem."""

    def __init__(
        self, library: Library, mark: Callable[[int], None], avoid: Iterable[int], *, node: str = ""
    ) -> None:
        self.wholes: dict[str, Whole] = {}
        self.failed: dict[int, dict[str, Any]] = {
            index: {"index": index, "uuid": None, "call": "avoided", "code": UNKNOWN} for index in avoid
        }
        self.generation = 0
        self._library = library
        self._node = node
        self._mark = mark
        self._avoid = frozenset(avoid)
        self._count = -1
        self._lost: set[int] = set()
        self._events: Any = None

    def count(self) -> int:
        """How many devices the driver has now. Raises DeviceFailed when it does not say."""
        cell = pynvml.c_uint(0)
        code = self._library.call("nvmlDeviceGetCount_v2")(pynvml.byref(cell))
        if code != SUCCESS:
            raise DeviceFailed("nvmlDeviceGetCount", code)
        return int(cell.value)

    def rescan(self, *, thorough: bool) -> None:
        """Look for devices that came, went or moved; one call when the count stands and not thorough."""
        count = self.count()
        if count == self._count and not thorough:
            return
        self._count = count
        boards: dict[str, Whole] = {}
        self.failed = {i: f for i, f in self.failed.items() if i in self._avoid or f["code"] in LOST}
        for index in range(count):
            if index in self._avoid:
                continue
            self._mark(index)
            board = self._at(index)
            if board:
                boards[board.uuid] = board
        self._mark(-1)
        if boards.keys() != self.wholes.keys():
            self.generation += 1
            self._events = None
        self.wholes = boards
        if self._events is None:
            self._watch_events()

    def lose(self, board: Whole, call: str, code: int) -> None:
        """Forget a device that failed; a lost one's handle is never used again."""
        self.failed[board.index] = {"index": board.index, "uuid": board.uuid, "call": call, "code": code}
        if code in LOST:
            self._lost.add(address(board.handle))
            del self.wholes[board.uuid]
            self.generation += 1
            self._events = None

    def events(self) -> list[tuple[str, int, int]]:
        """What happened since the last call: (UUID, event type, data). Never waits."""
        if self._events is None:
            self._watch_events()
        wait = self._library.call("nvmlEventSetWait_v2")
        out = []
        event = pynvml.c_nvmlEventData_t()
        for _ in range(_EVENTS_A_TICK):
            if not self._events or wait(self._events, pynvml.byref(event), 0) != SUCCESS:
                break
            device = address(event.device)
            uuid = next((w.uuid for w in self.wholes.values() if address(w.handle) == device), None)
            if uuid:
                out.append((uuid, int(event.eventType), int(event.eventData)))
        return out

    def repartition(self) -> None:
        """Look for instances that came or went on GPUs where MIG is on."""
        for board in self.wholes.values():
            if board.mig:
                self._mark(board.index)
                self._find_instances(board)

    def _at(self, index: int) -> Whole | None:
        handle = pynvml.c_nvmlDevice_t()
        call = "nvmlDeviceGetHandleByIndex"
        code = self._library.call("nvmlDeviceGetHandleByIndex_v2")(index, pynvml.byref(handle))
        if code != SUCCESS:
            self.failed[index] = {"index": index, "uuid": None, "call": call, "code": code}
            return None
        if address(handle) in self._lost:
            return None
        try:
            return self._known(handle, index)
        except DeviceFailed as failure:
            if failure.code in LOST:
                self._lost.add(address(handle))
            problem = {"index": index, "uuid": None, "call": failure.call, "code": failure.code}
            self.failed[index] = problem
            return None

    def _known(self, handle: Any, index: int) -> Whole:
        uuid, by_place = self._name_of(handle)
        board = self.wholes.get(uuid)
        if board is None or address(board.handle) != address(handle):
            board = Whole(handle, index, uuid, Device(self._library, handle))
        static = {**self._static(board, index), "by_place": by_place}
        board.index = index
        if static != board.static:
            board.static = static
            self.generation += 1
        self._find_instances(board)
        return board

    def _name_of(self, handle: Any) -> tuple[str, bool]:
        """The device's UUID; where the driver tells none that can be read, its place: node and bus id.

        And whether it is the place. What such a driver writes may be other bytes at every call, and be the
        same for all GPUs: it names nothing.
        """
        buffer = pynvml.create_string_buffer(96)
        code = self._library.call("nvmlDeviceGetUUID")(handle, buffer, 96)
        if code != SUCCESS:
            raise DeviceFailed("nvmlDeviceGetUUID", code)
        uuid = readable(buffer.value)
        if uuid is not None and _UUID.fullmatch(uuid):
            return uuid, False
        pci = pynvml.create_string_buffer(_PCI_BYTES)
        answered = self._library.call("nvmlDeviceGetPciInfo_v3")(handle, pci) == SUCCESS
        bus_id = readable(pci.raw[_BUS_ID_AT:].partition(b"\0")[0]) if answered else None
        if bus_id is None or not _BUS_ID.fullmatch(bus_id):
            raise DeviceFailed("nvmlDeviceGetUUID", NAMELESS)
        return f"{self._node}/{bus_id}", True

    def _static(self, board: Whole, index: int) -> dict[str, Any]:
        library, handle = self._library, board.handle
        current, pending = pynvml.c_uint(0), pynvml.c_uint(0)
        mig = library.call("nvmlDeviceGetMigMode")(handle, pynvml.byref(current), pynvml.byref(pending))
        board.mig = mig == SUCCESS and current.value == _MIG_ON
        return {
            "uuid": board.uuid,
            "index": index,
            "model": library.text("nvmlDeviceGetName", handle),
            "power_limit_mw": library.number("nvmlDeviceGetEnforcedPowerLimit", handle),
            "persistence_mode": library.number("nvmlDeviceGetPersistenceMode", handle),
            "mig": board.mig,
            "slices": library.number("nvmlDeviceGetMaxMigDeviceCount", handle) or _USUAL_SLICES,
        }

    def _find_instances(self, board: Whole) -> None:
        devices: dict[str, Device] = {}
        static: dict[str, dict[str, Any]] = {}
        if board.mig:
            for at in range(board.static["slices"]):
                handle = pynvml.c_nvmlDevice_t()
                get = self._library.call("nvmlDeviceGetMigDeviceHandleByIndex")
                if get(board.handle, at, pynvml.byref(handle)) != SUCCESS:
                    continue
                description = self._instance(board, handle, at)
                if description:
                    uuid, static[uuid], devices[uuid] = (
                        description["uuid"],
                        description,
                        self._instance_device(board, description, handle),
                    )
        if static != board.instance_static:
            self.generation += 1
        board.instances, board.instance_static = devices, static

    def _instance(self, board: Whole, handle: Any, at: int) -> dict[str, Any] | None:
        library = self._library
        uuid = library.text("nvmlDeviceGetUUID", handle)
        attributes = pynvml.c_nvmlDeviceAttributes()
        code = library.call("nvmlDeviceGetAttributes_v2")(handle, pynvml.byref(attributes))
        gpu_instance = library.number("nvmlDeviceGetGpuInstanceId", handle)
        compute_instance = library.number("nvmlDeviceGetComputeInstanceId", handle)
        if code != SUCCESS or gpu_instance is None:
            return None
        if uuid is None or not _UUID.fullmatch(uuid):  # as drivers before 470 named it, by its numbers
            uuid = f"MIG-{board.uuid}/{gpu_instance}/{compute_instance or 0}"
        name = library.text("nvmlDeviceGetName", handle) or ""
        return {
            "uuid": uuid,
            "index": at,
            "model": name.split(" MIG ", maxsplit=1)[0] or None,
            "profile": name.rpartition(" MIG ")[2] or None,
            "gpu_instance": gpu_instance,
            "compute_instance": compute_instance,
            "compute_slices": int(attributes.computeInstanceSliceCount),
        }

    def _instance_device(self, board: Whole, description: dict[str, Any], handle: Any) -> Device:
        device = board.instances.get(description["uuid"])
        if device and address(device.handle) == address(handle):
            return device
        return Device(self._library, handle, parent=board.handle, gpu_instance=description["gpu_instance"])

    def _watch_events(self) -> None:
        """Register for XIDs; False when the driver gives none, so that only a change asks again."""
        if self._events:
            self._library.call("nvmlEventSetFree")(self._events)
        self._events = False
        with contextlib.suppress(pynvml.NVMLError):
            self._events = pynvml.nvmlEventSetCreate()
        if not self._events:
            return
        register = self._library.call("nvmlDeviceRegisterEvents")
        for board in self.wholes.values():
            register(board.handle, pynvml.c_ulonglong(XID_EVENT), self._events)


def instance_went(code: int) -> bool:
    """Whether an instance's answer says that it was destroyed: the partition has changed."""
    return code in (INVALID_ARGUMENT, NOT_FOUND)
