"""Devices that claims were given (dynamic resource allocation): which GPU a pod has, by its UUID. Pure.

A claim's result names a driver, a pool and a device; the slices of that driver say what the device is. Only
the slices of a pool's newest generation count. A result for an administrator's access holds nothing.
Sources: resource.k8s.io/v1 ResourceClaim and ResourceSlice (v1beta1 has a device's attributes below
``basic``); NVIDIA's driver: attribute ``uuid``, device classes ending in nvidia.com.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.managers.kubernetes.api import Object
from collector.model import GpuUuid

VENDOR = "nvidia.com"
NO_GPU = ("compute-domain",)
"""Drivers and classes of NVIDIA's that hand out no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that a claim was given; ``uuid`` is ``None`` where no slice says it."""

    node: str
    uuid: GpuUuid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What all claims say. ``held``: by namespace and a pod's uid; ``wanted``: by namespace and claim."""

    held: Mapping[tuple[str, str], tuple[Device, ...]] = field(default_factory=dict)
    wanted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    on_nodes: Mapping[str, int] = field(default_factory=dict)

    def of(self, namespace: str, uid: str) -> tuple[Device, ...]:
        """The devices that are reserved for a pod."""
        return self.held.get((namespace, uid), ())

    def asked(self, namespace: str, names: Iterable[str]) -> int:
        """How many GPUs claims of these names ask for."""
        return sum(self.wanted.get((namespace, name), 0) for name in names)

    def devices_on(self, node: str) -> int:
        """How many GPUs a node's drivers offer."""
        return self.on_nodes.get(node, 0)


def claims_of(claims: Iterable[Object], slices: Iterable[Object]) -> Claims:
    """What the claims were given and ask for, with each device named by the slices."""
    known, on_nodes = _devices(slices)
    devices_by_claim: dict[tuple[str, str], tuple[Device, ...]] = {}
    counts: dict[tuple[str, str], int] = {}
    for claim in claims:
        meta, status = claim.get("metadata") or {}, claim.get("status") or {}
        namespace = str(meta.get("namespace", ""))
        counts[namespace, str(meta.get("name", ""))] = _asked(claim)
        devices = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        allocated = tuple(
            known.get((each.get("driver"), each.get("pool"), each.get("device")), Device(node="", uuid=None))
            for each in devices
            if _is_gpus(str(each.get("driver", ""))) and not each.get("adminAccess")
        )
        for consumer in status.get("reservedFor") or ():
            if allocated and consumer.get("resource") == "pods":
                key = namespace, str(consumer.get("uid", ""))
                devices_by_claim[key] = devices_by_claim.get(key, ()) + allocated
    return Claims(held=devices_by_claim, wanted=counts, on_nodes=on_nodes)


def _devices(
    slices: Iterable[Object],
) -> tuple[dict[tuple[object, object, object], Device], dict[str, int]]:
    specs = [each.get("spec") or {} for each in slices]
    specs = [each for each in specs if _is_gpus(str(each.get("driver", "")))]
    newest: dict[tuple[object, object], int] = {}
    for spec in specs:
        pool = spec.get("pool") or {}
        key = spec.get("driver"), pool.get("name")
        newest[key] = max(newest.get(key, 0), int(pool.get("generation") or 0))
    devices: dict[tuple[object, object, object], Device] = {}
    for spec in specs:
        pool = spec.get("pool") or {}
        if int(pool.get("generation") or 0) < newest[spec.get("driver"), pool.get("name")]:
            continue
        for device in spec.get("devices") or ():
            attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
            uuid = next(
                (str(value["string"]) for name, value in attributes.items() if _is_uuid(name, value)), None
            )
            where = str(spec.get("nodeName") or device.get("nodeName") or "")
            entry = Device(node=where, uuid=None if uuid is None else GpuUuid(uuid))
            devices[spec.get("driver"), pool.get("name"), device.get("name")] = entry
    on_nodes: dict[str, int] = {}
    for each in devices.values():
        on_nodes[each.node] = on_nodes.get(each.node, 0) + 1
    return devices, on_nodes


def _is_uuid(name: str, value: object) -> bool:
    return (name == "uuid" or name.endswith("/uuid")) and isinstance(value, Mapping) and "string" in value


def _asked(claim: Object) -> int:
    devices = (claim.get("spec") or {}).get("devices") or {}
    count = 0
    for request in devices.get("requests") or ():
        exactly = request.get("exactly") or request  # v1 has it below ``exactly``, v1beta1 beside the name
        if _is_gpus(str(exactly.get("deviceClassName", ""))) and not exactly.get("adminAccess"):
            count += int(exactly.get("count") or 1)
    return count


def _is_gpus(name: str) -> bool:
    return name.endswith(VENDOR) and not name.startswith(NO_GPU)
