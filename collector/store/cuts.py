"""When a GPU is cut anew into MIG instances, or made whole again: another row of ``gpus`` from then on.

A row's share of its board weighs all of its hours, so it never changes: the row before ends, with the share
that it had, and leaves its UUID to the next. A cut is made at a whole bin of the ledger, which belongs to one
of the two. A board from which instances are taken grows once they are gone: one that cannot be read for a
moment does not cut the board twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import duckdb
import numpy as np

from collector.model import Gpu, GpuSample
from collector.store.rollups import BIN_MS
from collector.store.standing import INSTANCE_GONE_MS
from collector.store.statements import statement

LOOK_BACK_MS = 600_000
"""An instance that ended so long before its board was said to have grown left room for something else."""
TINY = 1e-6
"""Shares are sevenths and fourths, some read from text: a difference below this is none."""
Ids = np.ndarray[Any, np.dtype[np.int32]]
Times = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """How a GPU is cut, since when (UTC ms), by which source, and which others are asked at this tick."""

    gpu: Gpu
    source: str
    since_ms: int
    rivals: frozenset[str] = frozenset()


Decide = Callable[[Gpu, Word, Mapping[str, Gpu]], int | None]
"""When a GPU was cut as the word says, these being new beside it; ``None``: it was not, or not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """A row as it was before a cut; what ended by ``until_ms`` is its own."""

    gpu_id: int
    until_ms: int


@dataclass(slots=True, kw_only=True)
class Cuts:
    """What was cut anew, by the id of the row that is there now, and what waits to be."""

    formers: dict[int, tuple[Former, ...]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, Word] = field(default_factory=dict)
    made: list[Former] = field(default_factory=list)
    """Those of the tick that is being written."""

    def note(self, uuid: str, gpu_id: int, former: Former, source: str) -> None:
        """The row ``gpu_id`` is the GPU from now on."""
        self.formers[gpu_id] = (*self.formers.pop(former.gpu_id, ()), former)
        self.sources[uuid] = source
        self.waiting.pop(uuid, None)
        self.made.append(former)

    def id_at(self, gpu_id: int, at_ms: int) -> int:
        """The row that the GPU had at a time."""
        return next((one.gpu_id for one in self.formers.get(gpu_id, ()) if at_ms <= one.until_ms), gpu_id)

    def spans(self, gpu_id: int, from_ms: int, to_ms: int | None) -> Iterator[tuple[int, int, int | None]]:
        """The parts of a time (UTC ms; ``to_ms`` ``None``: it lasts) by the rows that the GPU had in them."""
        for former in self.formers.get(gpu_id, ()):
            if from_ms < former.until_ms:
                end_ms = former.until_ms if to_ms is None else min(to_ms, former.until_ms)
                yield former.gpu_id, from_ms, end_ms
                from_ms = end_ms
        if to_ms is None or from_ms < to_ms:
            yield gpu_id, from_ms, to_ms

    def by_time(self, ids: Ids, ends_ms: Times) -> Ids:
        """The rows that samples with these ends belong to; ``ids`` are those of the GPUs now."""
        latest_ms = max((each[-1].until_ms for each in self.formers.values()), default=-1)
        if not len(ids) or ends_ms.min() > latest_ms:
            return ids
        found = ids.copy()
        for gpu_id in sorted(self.formers.keys() & set(np.unique(ids).tolist())):
            mine = ids == gpu_id
            for former in reversed(self.formers[gpu_id]):
                found[mine & (ends_ms <= former.until_ms)] = former.gpu_id
        return found


def read_cuts(connection: duckdb.DuckDBPyConnection) -> Cuts:
    """What the file says."""
    rows = connection.execute(statement("known_cuts")).fetchall()
    cuts = Cuts(sources={uuid: source for _, uuid, source, cut_of, _ in rows if cut_of is None})
    now = {uuid: gpu_id for gpu_id, uuid, _, cut_of, _ in rows if cut_of is None}
    for gpu_id, _, _, cut_of, to_ms in rows:
        if cut_of in now:
            former = Former(gpu_id=gpu_id, until_ms=to_ms)
            cuts.formers[now[cut_of]] = (*cuts.formers.get(now[cut_of], ()), former)
    return cuts


def is_cut_anew(old: Gpu, new: Gpu) -> bool:
    """Whether its part of the board is another one. Pure."""
    other_profile = None not in (old.mig_profile, new.mig_profile) and new.mig_profile != old.mig_profile
    return other_profile or abs(old.share_of_device - new.share_of_device) > TINY


def as_it_was(old: Gpu, new: Gpu) -> Gpu:
    """All that is new of the GPU but its part of the board. Pure."""
    return replace(new, share_of_device=old.share_of_device, mig_profile=old.mig_profile)


def shrink_ms(word: Word, samples: Iterable[GpuSample], fresh: Mapping[str, Gpu]) -> int:
    """When a GPU was cut: where first samples of its new instances begin, or its own, to the bin. Pure."""
    own = {word.gpu.uuid, *(uuid for uuid, gpu in fresh.items() if gpu.parent_uuid == word.gpu.uuid)}
    starts = [each.at_ms - each.width_ms for each in samples if each.uuid in own]
    return min(starts, default=word.since_ms) // BIN_MS * BIN_MS


def due_ms(
    connection: duckdb.DuckDBPyConnection,
    cuts: Cuts,
    old: Gpu,
    word: Word,
    fresh: Mapping[str, Gpu],
    *,
    samples: Iterable[GpuSample],
) -> int | None:
    """When (UTC ms, a whole bin) a tick's word holds from; ``None``: not yet, or it is not believed.

    Two sources may count parts of instances differently. The word of another than the one that is known for
    the GPU counts where that one is not asked at this tick, or where its word leaves the instances no room.
    """
    taken, ended_ms = _taken(connection, word)
    is_board, room = old.parent_uuid is None, 1 + TINY - taken
    if is_board and word.gpu.share_of_device > old.share_of_device:
        first = cuts.waiting.get(old.uuid, word)
        if is_cut_anew(first.gpu, word.gpu) or first.source != word.source:
            first = word
        cuts.waiting[old.uuid] = first
        if word.since_ms - first.since_ms < INSTANCE_GONE_MS or word.gpu.share_of_device > room:
            return None
        return -(-(first.since_ms if ended_ms is None else ended_ms) // BIN_MS) * BIN_MS
    known = cuts.sources.get(old.uuid, word.source)
    if known != word.source and known in word.rivals and (not is_board or old.share_of_device <= room):
        return None
    return shrink_ms(word, samples, fresh)


def _taken(connection: duckdb.DuckDBPyConnection, word: Word) -> tuple[float, int | None]:
    """What the board's instances take of it, and when the last of them ended that ended lately."""
    asked = {"uuid": word.gpu.uuid, "since_ms": word.since_ms - LOOK_BACK_MS}
    row = connection.execute(statement("room_on_board"), asked).fetchone()
    return (row[0], row[1]) if row else (0.0, None)


def former_uuid(uuid: str, cut_ms: int) -> str:
    """What the row before a cut is known by: "GPU-5c2a...@2026-11-26T02:30:00Z". Pure."""
    return f"{uuid}@{datetime.fromtimestamp(cut_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
