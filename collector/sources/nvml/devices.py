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
_MIG_ON = 1
_USUAL_SLICES = 7
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
        found: dict[str, Whole] = {}
        self.failed = {i: f for i, f in self.failed.items() if i in self._avoid or f["code"] in LOST}
        for index in range(count):
            if index in self._avoid:
                continue
            self._mark(index)
            whole = self._at(index)
            if whole:
                found[whole.uuid] = whole
        self._mark(-1)
        if found.keys() != self.wholes.keys():
            self.generation += 1
            self._events = None
        self.wholes = found
        if self._events is None:
            self._watch_events()

    def lose(self, whole: Whole, call: str, code: int) -> None:
        """Forget a device that failed; a lost one's handle is never used again."""
        self.failed[whole.index] = {"index": whole.index, "uuid": whole.uuid, "call": call, "code": code}
        if code in LOST:
            self._lost.add(address(whole.handle))
            del self.wholes[whole.uuid]
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
        for whole in self.wholes.values():
            if whole.mig:
                self._mark(whole.index)
                self._find_instances(whole)

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
            said = {"index": index, "uuid": None, "call": failure.call, "code": failure.code}
            self.failed[index] = said
            return None

    def _known(self, handle: Any, index: int) -> Whole:
        uuid, by_place = self._name_of(handle)
        whole = self.wholes.get(uuid)
        if whole is None or address(whole.handle) != address(handle):
            whole = Whole(handle, index, uuid, Device(self._library, handle))
        static = {**self._static(whole, index), "by_place": by_place}
        whole.index = index
        if static != whole.static:
            whole.static = static
            self.generation += 1
        self._find_instances(whole)
        return whole

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

    def _static(self, whole: Whole, index: int) -> dict[str, Any]:
        library, handle = self._library, whole.handle
        current, pending = pynvml.c_uint(0), pynvml.c_uint(0)
        mig = library.call("nvmlDeviceGetMigMode")(handle, pynvml.byref(current), pynvml.byref(pending))
        whole.mig = mig == SUCCESS and current.value == _MIG_ON
        return {
            "uuid": whole.uuid,
            "index": index,
            "model": library.text("nvmlDeviceGetName", handle),
            "power_limit_mw": library.number("nvmlDeviceGetEnforcedPowerLimit", handle),
            "persistence_mode": library.number("nvmlDeviceGetPersistenceMode", handle),
            "mig": whole.mig,
            "slices": library.number("nvmlDeviceGetMaxMigDeviceCount", handle) or _USUAL_SLICES,
        }

    def _find_instances(self, whole: Whole) -> None:
        found: dict[str, Device] = {}
        static: dict[str, dict[str, Any]] = {}
        if whole.mig:
            for at in range(whole.static["slices"]):
                handle = pynvml.c_nvmlDevice_t()
                get = self._library.call("nvmlDeviceGetMigDeviceHandleByIndex")
                if get(whole.handle, at, pynvml.byref(handle)) != SUCCESS:
                    continue
                told = self._instance(whole, handle, at)
                if told:
                    uuid, static[uuid], found[uuid] = (
                        told["uuid"],
                        told,
                        self._instance_device(whole, told, handle),
                    )
        if static != whole.instance_static:
            self.generation += 1
        whole.instances, whole.instance_static = found, static

    def _instance(self, whole: Whole, handle: Any, at: int) -> dict[str, Any] | None:
        library = self._library
        uuid = library.text("nvmlDeviceGetUUID", handle)
        attributes = pynvml.c_nvmlDeviceAttributes()
        code = library.call("nvmlDeviceGetAttributes_v2")(handle, pynvml.byref(attributes))
        gpu_instance = library.number("nvmlDeviceGetGpuInstanceId", handle)
        compute_instance = library.number("nvmlDeviceGetComputeInstanceId", handle)
        if code != SUCCESS or gpu_instance is None:
            return None
        if uuid is None or not _UUID.fullmatch(uuid):  # as drivers before 470 named it, by its numbers
            uuid = f"MIG-{whole.uuid}/{gpu_instance}/{compute_instance or 0}"
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

    def _instance_device(self, whole: Whole, told: dict[str, Any], handle: Any) -> Device:
        known = whole.instances.get(told["uuid"])
        if known and address(known.handle) == address(handle):
            return known
        return Device(self._library, handle, parent=whole.handle, gpu_instance=told["gpu_instance"])

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
        for whole in self.wholes.values():
            register(whole.handle, pynvml.c_ulonglong(XID_EVENT), self._events)


def instance_went(code: int) -> bool:
    """Whether an instance's answer says that it was destroyed: the partition has changed."""
    return code in (INVALID_ARGUMENT, NOT_FOUND)
