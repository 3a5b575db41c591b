"""``fallow status --by KEY``: the GPUs of now by who holds them or where they are, most idle first. Pure.

A GPU that several hold has a row of their names together: what part of it each has is the ledger's to say.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from analytics import text
from analytics.vocabulary.states import GpuState
from collector.model import WASTE_STATES
from service.cli.ledger import NOBODY, NOT_KNOWN
from service.cli.screen import Column, table
from service.wording import activity

if TYPE_CHECKING:
    from service.schemas.rows import GpusNowRow

Key = Literal["user", "node", "project"]
DOUBTED = (GpuState.UNKNOWN, GpuState.SUSPECT)
"""What such a GPU does is not known, and is in no sum of use."""
INSTANCES = "A MIG instance counts as one GPU here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The GPUs of one key. ``key`` is ``None`` where nobody holds them, or nobody knows who does."""

    key: str | None
    held: int
    gpus: int
    idle: int
    used_gpus: float
    doubted: int
    memory_used_bytes: int
    power_w: float
    jobs: tuple[str, ...]


def parts_of(gpus: "Iterable[GpusNowRow]", by: Key) -> tuple[Part, ...]:
    """A part for each key, the one with most idle GPUs first, and what nobody holds last."""
    rows: dict[tuple[str | None, bool], list[GpusNowRow]] = {}
    for gpu in gpus:
        key = {"user": gpu["user_name"], "node": gpu["node"], "project": gpu["project"]}[by]
        rows.setdefault((key, by == "node" or gpu["job"] is not None), []).append(gpu)
    parts = [_part(key, each) for (key, _), each in rows.items()]
    return tuple(sorted(parts, key=lambda each: (not each.held, -each.idle, -each.gpus, each.key or "")))


def _part(key: str | None, gpus: "Sequence[GpusNowRow]") -> Part:
    judged = [gpu for gpu in gpus if gpu["state"] not in DOUBTED]
    return Part(
        key=key,
        held=sum(gpu["job"] is not None for gpu in gpus),
        gpus=len(gpus),
        idle=sum(gpu["state"] in WASTE_STATES and gpu.get("rhythm") is None for gpu in gpus),
        used_gpus=sum(activity(gpu["utilization_ratio"], gpu["engines_ratio"]) or 0.0 for gpu in judged),
        doubted=len(gpus) - len(judged),
        memory_used_bytes=sum(gpu["memory_used_bytes"] or 0 for gpu in gpus),
        power_w=sum(gpu["power_w"] or 0.0 for gpu in gpus),
        jobs=tuple(sorted({job for gpu in gpus for job in (gpu["job"] or "").split(", ") if job})),
    )


def parts_table(
    parts: Sequence[Part], by: Key, *, instances: bool = False, width: int | None = None
) -> RenderableType:
    """A row a key."""
    columns = [
        Column(title=by),
        Column(title="GPUs", right=True),
        *([Column(title="held", right=True)] if by == "node" else []),
        Column(title="idle", right=True),
        Column(title="used", right=True),
        Column(title="unknown", right=True),
        Column(title="memory", right=True, spare=2),
        Column(title="power", right=True, spare=1),
        Column(title="jobs", right=True, spare=3),
    ]
    shown = table(columns, [_line(each, by) for each in parts], width=width)
    return Group(shown, Text(INSTANCES, style="bright_black")) if instances else shown


def _line(part: Part, by: Key) -> list[str | Text]:
    unnamed = NOT_KNOWN if part.held else NOBODY
    return [
        unnamed if part.key is None else part.key,
        text.count(part.gpus),
        *([text.count(part.held)] if by == "node" else []),
        Text(text.count(part.idle), style="red" if part.idle else ""),
        text.gpus(part.used_gpus),
        text.count(part.doubted),
        text.size(part.memory_used_bytes),
        text.watts(part.power_w),
        text.count(len(part.jobs)),
    ]


def record_of(part: Part, by: Key) -> dict[str, object]:
    """A part as JSON has it."""
    return {
        by: part.key,
        "gpus": part.gpus,
        "held_gpus": part.held,
        "idle_held_gpus": part.idle,
        "used_gpus": part.used_gpus,
        "unknown_gpus": part.doubted,
        "memory_used_bytes": part.memory_used_bytes,
        "power_w": part.power_w,
        "jobs": list(part.jobs),
    }
