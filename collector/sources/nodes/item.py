"""One tick of a node as the head takes it in, and what of it is believed. Pure."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from collector.dcgm.endpoint import News
from collector.model import NODES_SOURCE, Allocation, ClaimSource, Gap, GpuUuid, NodeName
from collector.reading import LAST_HEARD, NodeMark
from collector.sources.nodes.clocks import TOLERANCE_MS

OLDEST_MS = 48 * 3_600_000
"""Twice what a spool keeps by default: what is older was not measured when it says."""
LATE_WIDTHS = 1.5
"""As in the loop: a tick so many widths after the one before left a hole between them."""
SILENT_MS = 45_000
"""Three ticks of ten seconds and a half: a push that was late is no silence."""
GONE_MS = 7 * 86_400_000
"""A machine that was away for a week was taken down, not forgotten: nobody need be told for ever."""
OF_A_PROCESS = "pid:"
"""How the id of a job begins that is known by a process alone: its node's name follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One tick: when it was by the head's clock, what it brings, and the node's mark once it is stored.

    ``previous_ms`` is when the tick before it was, ``None`` where there is none. ``lost`` counts the ticks
    before it that nobody has, and itself where it is not believed; ``notes`` say why.
    """

    mark: NodeMark
    at_ms: int
    width_ms: int
    previous_ms: int | None = None
    lost: int = 0
    news: News = field(default_factory=News)
    notes: tuple[str, ...] = ()

    @property
    def began_ms(self) -> int:
        """When what it tells of holders began: with the tick before it, unless there is a hole between."""
        start_ms = self.at_ms - self.width_ms
        if self.previous_ms is None or is_hole(self.previous_ms, start_ms, self.width_ms):
            return start_ms
        return self.previous_ms


def is_hole(previous_ms: int, start_ms: int, width_ms: int) -> bool:
    """Whether a tick that began at ``start_ms`` left a hole after the one before."""
    return start_ms - previous_ms > (LATE_WIDTHS - 1) * width_ms


def untimely(last_ms: int | None, at_ms: int, now_ms: int) -> str | None:
    """Why a tick cannot have been when it says, by the head's clock; ``None`` where it can."""
    if at_ms > now_ms + TOLERANCE_MS:
        return f"a tick of it is {(at_ms - now_ms) / 1000:.1f} s in the future"
    if at_ms < now_ms - OLDEST_MS:
        return f"a tick of it is more than {OLDEST_MS // 3_600_000} hours old"
    if last_ms is not None and at_ms <= last_ms:
        return f"a tick of it is from before its last one, of {_clock(last_ms)}"
    return None


def hole(
    node: NodeName, previous_ms: int | None, start_ms: int, width_ms: int, skipped: int
) -> tuple[Gap, ...]:
    """The gap before a tick that began at ``start_ms``, if there is one: the numbers tell why."""
    if previous_ms is None or not is_hole(previous_ms, start_ms, width_ms):
        return ()
    if skipped:
        reason = f"{skipped} ticks of node {node} were lost: its spool was full, or was deleted"
    else:
        reason = f"node {node} did not measure: it was off, or `fallow node` did not run there"
    return (Gap(source=NODES_SOURCE, from_ms=previous_ms, to_ms=start_ms, reason=reason, node=node),)


def is_silent(last_ms: int, now_ms: int) -> bool:
    """Whether a node said nothing for so long that people are told."""
    return SILENT_MS < now_ms - last_ms <= GONE_MS


def silence(node: NodeName, last_ms: int, now_ms: int) -> Gap:
    """The gap of a node that is silent: one that grows, until it is heard again."""
    reason = f"node {node}{LAST_HEARD}{_clock(last_ms)}: does `fallow node` run there, and reach the head?"
    return Gap(source=NODES_SOURCE, from_ms=last_ms, to_ms=now_ms, reason=reason, node=node)


def may_say(node: NodeName, allocation: Allocation) -> bool:
    """Whether a node can know it: leases are the head's own, and of processes it sees its own alone."""
    job = allocation.holder.job
    if allocation.source is ClaimSource.LEASE:
        return False
    return not job.startswith(OF_A_PROCESS) or job.startswith(f"{OF_A_PROCESS}{node}/")


def of_gpus(news: News, uuids: frozenset[GpuUuid]) -> News:
    """What the news says of these GPUs."""
    return replace(
        news,
        gpus=tuple(each for each in news.gpus if each.uuid in uuids),
        samples=tuple(each for each in news.samples if each.uuid in uuids),
        allocations=None
        if news.allocations is None
        else tuple(each for each in news.allocations if each.uuid in uuids),
        events=tuple(each for each in news.events if each.uuid in uuids),
        withheld=tuple(each for each in news.withheld if each.uuid in uuids),
        holder_samples=tuple(each for each in news.holder_samples if each.uuid in uuids),
    )


def shifted(news: News, by_ms: int) -> News:
    """The news with all of its times moved: from a clock that is wrong to the head's."""
    if not by_ms:
        return news
    return replace(
        news,
        samples=tuple(replace(each, at_ms=each.at_ms + by_ms) for each in news.samples),
        events=tuple(replace(each, at_ms=each.at_ms + by_ms) for each in news.events),
        holder_samples=tuple(replace(each, at_ms=each.at_ms + by_ms) for each in news.holder_samples),
        gaps=tuple(
            replace(each, from_ms=each.from_ms + by_ms, to_ms=each.to_ms + by_ms) for each in news.gaps
        ),
    )


def clock_words(node: NodeName, ahead_ms: int) -> str:
    """That a node's clock is wrong, and what is done about it."""
    side = "ahead of" if ahead_ms > 0 else "behind"
    return (
        f"the clock of node {node} is {abs(ahead_ms) / 1000:.1f} s {side} the head's: its ticks are "
        "stored by the head's time; set both by NTP"
    )


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
