"""What a GPU is called on its node: one function for sentences, pages, tables, alerts and metrics. Pure.

Its twin for named queries is the macro ``gpu_place`` of the store (schema/054); a test holds both together.
"""

import re
from collections import Counter
from collections.abc import Iterable

from collector.model import Gpu

SHORT_UUID = 12
"""So much of a UUID tells the instances of a board apart, and fits a cell: "MIG-5c2ab1f0"."""
UNKNOWN_PROFILE = "MIG"
_DRIVERS_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
_COMPUTE_PROFILE = re.compile(r"\d+c\.")
"""A compute instance that is a part of its GPU instance: NVIDIA writes ``1c.3g.20gb`` (MIG User Guide)."""


def gpu_place(
    index: int | None,
    *,
    uuid: str,
    is_instance: bool = False,
    profile: str | None = None,
    gpu_instance: int | None = None,
    compute_instance: int | None = None,
) -> str | None:
    """ "3"; for a MIG instance with profile and number: "0/1g.10gb#7"; ``None`` without an index.

    A board's instances have one index, and often one profile; the number is that of the GPU instance, as
    nvidia-smi lists it. Where a GPU instance is split, its compute instance's follows: "0/1c.3g.20gb#2.1".
    Where no number is known, the UUID's start stands for it: "0/1g.10gb (MIG-5c2ab1f0)".
    """
    if index is None:
        return None
    if not is_instance:
        return str(index)
    what = f"{index}/{profile or UNKNOWN_PROFILE}"
    if gpu_instance is None:
        return f"{what} ({uuid[:SHORT_UUID]})"
    is_split = compute_instance is not None and _COMPUTE_PROFILE.match(profile or "")
    return f"{what}#{gpu_instance}" + (f".{compute_instance}" if is_split else "")


def place_of(gpu: Gpu) -> str | None:
    """The same, of a GPU as a source describes it."""
    return gpu_place(
        gpu.index,
        uuid=gpu.uuid,
        is_instance=gpu.parent_uuid is not None,
        profile=gpu.mig_profile,
        gpu_instance=gpu.gpu_instance,
        compute_instance=gpu.compute_instance,
    )


def node_place(node: str | None, place: str | None, uuid: str) -> str:
    """ "node1:0/1g.10gb#7", or the start of the UUID where no index is known: "node1:GPU-5c2ab1f0".

    What goes by its node and index for want of a UUID ("m1/0") has the node's name once: "m1:0".
    """
    return f"{node or 'unknown'}:{place if place is not None else name_within(node, uuid)}"


def name_within(node: str | None, uuid: str) -> str:
    """What a GPU without a known index is called beside its node's name."""
    return short_uuid(uuid).removeprefix(f"{node}/") if node else short_uuid(uuid)


def places_apart(gpus: Iterable[tuple[str | None, str | None, str]]) -> dict[str, str | None]:
    """What GPUs are called on their nodes, by UUID, each given with its node, its place there and its UUID.

    Nodes of two clusters may have one name, and each a GPU 0: of these the UUID's start is told too.
    """
    named = list(gpus)
    times = Counter((node, place) for node, place, _ in named)
    return {
        uuid: place if place is None or times[node, place] == 1 else f"{place} ({short_uuid(uuid)})"
        for node, place, uuid in named
    }


def is_named_by_place(uuid: str, node: str) -> bool:
    """Whether it goes by node and bus id (or index), for want of a UUID: a name that CUDA does not know."""
    return uuid.removeprefix("MIG-").startswith(f"{node}/")


def short_uuid(uuid: str) -> str:
    """The start of a UUID as the driver makes them, random from the first digit on; any other name whole.

    A recording's or an exporter's own names may differ at their ends alone.
    """
    return uuid[:SHORT_UUID] if _DRIVERS_UUID.fullmatch(uuid) else uuid
