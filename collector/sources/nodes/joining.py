"""What several nodes pushed, as one reading: what is of now joins the tick, the rest is history. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from collector.arrow import HeldInterval, History, to_holder_table, to_table
from collector.model import NODES_SOURCE, Allocation, Gpu, GpuUuid, NodeName
from collector.reading import LateTicks, NodeMark, Reading
from collector.sources.nodes.item import Item

NOW_WIDTHS = 3
"""A tick older than so many of its widths is late: an allocation would be taken to hold until now by it."""


def reading_of(
    taken: Mapping[NodeName, Sequence[Item]],
    believed: Iterable[tuple[Allocation, ...]],
    marks: tuple[NodeMark, ...],
    now_ms: int,
) -> Reading:
    """All that was pushed since the last tick; ``believed`` are the holders of nodes that said nothing."""
    now: list[Item] = []
    late: list[LateTicks] = []
    allocations: list[Allocation] = [each for part in believed for each in part]
    for items in taken.values():
        recent = [item for item in items if _is_of_now(item, now_ms)]
        past = [item for item in items if not _is_of_now(item, now_ms)]
        now += recent
        allocations += (recent[-1].news.allocations or ()) if recent else ()
        if past:
            late.append(_late(past, recent))
    gpus = {gpu.uuid: gpu for item in now for gpu in item.news.gpus}
    looked = any(item.news.allocations is not None for item in now) or bool(allocations)
    return Reading(
        source=NODES_SOURCE,
        at_ms=now_ms,
        gpus=tuple(gpus.values()),
        samples=tuple(sample for item in now for sample in item.news.samples),
        allocations=tuple(dict.fromkeys(allocations)) if looked else None,
        events=tuple(dict.fromkeys(event for item in now for event in item.news.events)),
        gaps=tuple(gap for item in now for gap in item.news.gaps),
        withheld=tuple({each.uuid: each for item in now for each in item.news.withheld}.values()),
        holder_samples=tuple(sample for item in now for sample in item.news.holder_samples),
        marks=marks,
        late=tuple(late),
    )


def _is_of_now(item: Item, now_ms: int) -> bool:
    return now_ms - item.at_ms <= NOW_WIDTHS * item.width_ms


def _late(past: Sequence[Item], recent: Sequence[Item]) -> LateTicks:
    """A node's late ticks; who holds what goes on into those of now."""
    gpus: dict[GpuUuid, Gpu] = {gpu.uuid: gpu for item in past for gpu in item.news.gpus}
    history = History(
        source=NODES_SOURCE,
        gpus=tuple(gpus.values()),
        samples=to_table(tuple(sample for item in past for sample in item.news.samples)),
        held=tuple(_held([*past, *recent], goes_on=bool(recent))),
        events=tuple(event for item in past for event in item.news.events),
        gaps=tuple(gap for item in past for gap in item.news.gaps),
        holder_samples=to_holder_table(each for item in past for each in item.news.holder_samples),
    )
    since: dict[GpuUuid, int] = {}
    for item in past:
        if item.news.allocations is not None:
            for gpu in item.news.gpus:
                since.setdefault(gpu.uuid, item.began_ms)
    return LateTicks(history=history, since=since)


def _held(items: Sequence[Item], *, goes_on: bool) -> Iterable[HeldInterval]:
    """From tick to tick who held what: one that isn't named at the next tick ended with the one before it."""
    begun: dict[Allocation, int] = {}
    before_ms = 0
    for item in items:
        named = frozenset(item.news.allocations or ())
        is_joined = item.began_ms == item.previous_ms
        for allocation in [each for each in begun if each not in named or not is_joined]:
            yield HeldInterval(allocation=allocation, from_ms=begun.pop(allocation), to_ms=before_ms)
        for allocation in item.news.allocations or ():
            begun.setdefault(allocation, item.began_ms)
        before_ms = item.at_ms
    for allocation, from_ms in begun.items():
        yield HeldInterval(allocation=allocation, from_ms=from_ms, to_ms=None if goes_on else before_ms)
