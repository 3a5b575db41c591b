"""The simulated cluster: one object that gives a live source, the past, and the truth about both.

Everything is a function of (seed, shape, absolute UTC time): history and live readings agree at every
instant, on every machine, without having been run. Plans are kept once made; nothing else is remembered.

From played columns to the collector's rows: one table for a history, samples for a live reading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from collector.arrow import SAMPLE_SCHEMA, HeldInterval, History, IntrudedInterval
from collector.model import (
    Allocation,
    Basis,
    Event,
    Gap,
    Gpu,
    GpuSample,
    ProcessSample,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.simulated.hardware import Board, boards
from collector.sources.simulated.jobs import begun, events, gaps, held, intruded, living, truths
from collector.sources.simulated.labels import Label
from collector.sources.simulated.node_plan import NodePlan, epoch_of, lane_gpus_of, plan_node
from collector.sources.simulated.outages import blind_times
from collector.sources.simulated.people import DAY_MS, HOUR_MS
from collector.sources.simulated.source import SimulatedSource
from collector.sources.simulated.telemetry import Played, Score, play, score
from collector.sources.simulated.timeline import Ints, Stretches


def table_of(played: Played, gpus: tuple[Gpu, ...], keep: npt.NDArray[np.bool_], width_ms: int) -> pa.Table:
    """The rows that were measured and are wanted (``keep``: one flag an instant), as SAMPLE_SCHEMA."""
    places = np.flatnonzero(played.measured & np.tile(keep, len(gpus)))
    count = len(places)
    whose = pa.DictionaryArray.from_arrays(
        pa.array(places // max(len(keep), 1), pa.int32()), pa.array([str(gpu.uuid) for gpu in gpus])
    )
    ready: dict[str, pa.Array] = {
        "uuid": whose.cast(pa.string()),
        "width_ms": pa.array(np.full(count, width_ms, np.int32)),
        "rung": pa.array(np.full(count, Basis.SM_ACTIVE, np.uint8)),
    }
    arrays = [
        ready[field.name] if field.name in ready else _array(played, places, field, count)
        for field in SAMPLE_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SAMPLE_SCHEMA)


def samples_of(played: Played, gpus: tuple[Gpu, ...], width_ms: int) -> tuple[GpuSample, ...]:
    """One sample for each measured GPU of a single instant."""
    names = list(played.columns)
    rows = zip(*(values.tolist() for values in played.columns.values()), strict=True)
    return tuple(
        GpuSample(
            uuid=gpu.uuid,
            width_ms=width_ms,
            rung=Basis.SM_ACTIVE,
            memory_total_bytes=gpu.memory_total_bytes,
            **dict(zip(names, row, strict=True)),
        )
        for gpu, row, measured in zip(gpus, rows, played.measured.tolist(), strict=True)
        if measured
    )


def _array(played: Played, places: npt.NDArray[np.int64], field: pa.Field, count: int) -> pa.Array:
    values = played.columns.get(field.name)
    if values is None:
        return pa.nulls(count, field.type)
    return pa.array(values[places].astype(field.type.to_pandas_dtype()), field.type)


PROCESS_STEP_MS = HOUR_MS
"""History looks at processes once an hour: they are dear to store and slow to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The span of a history, and whether what lasts at its end goes on."""

    from_ms: int
    to_ms: int
    ongoing: bool


class SimulatedCluster:
    """A cluster of ``nodes`` by ``gpus_per_node`` GPUs and the people who use it, for one seed.

    The first answer about a month plans that month (tens of milliseconds a node); later ones reuse it.
    Not for use from two threads at once.
    """

    def __init__(self, seed: int = 0, nodes: int = 4, gpus_per_node: int = 8) -> None:
        self.seed = seed
        self.nodes = nodes
        self.gpus_per_node = gpus_per_node
        self.boards: tuple[Board, ...] = boards(seed, nodes, gpus_per_node)
        self._plan = lru_cache(maxsize=8 * nodes)(self._make_plan)
        self._score = lru_cache(maxsize=4)(self._make_score)
        self._lanes = self._number_lanes()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, node by node."""
        return tuple(board.gpu for board in self.boards)

    def source(self, name: str = "simulated") -> SimulatedSource:
        """The cluster as something to read each tick."""
        return SimulatedSource(self.read, name)

    def history(
        self,
        from_ms: int,
        to_ms: int,
        step_ms: int = 60_000,
        *,
        source: str = "simulated",
        ongoing: bool = False,
    ) -> Iterator[History]:
        """The past in ``(from_ms, to_ms]``, a UTC day at a time: a row a GPU at each multiple of ``step_ms``.

        A row covers the step that ends at it. An interval comes once, with the day in which it begins within
        the window, clipped to the window; so does a process. A GPU that is lost already when the window
        begins has its fall told with its own, earlier time. ``ongoing`` leaves open what still lasts at
        ``to_ms``: say so for the last stretch before live readings, and only there.
        """
        window = _Window(from_ms=from_ms, to_ms=to_ms, ongoing=ongoing)
        day = from_ms
        while day < to_ms:
            end = min((day // DAY_MS + 1) * DAY_MS, to_ms)
            yield self._day(day, end, window, step_ms, source)
            day = end

    def truth(self, from_ms: int, to_ms: int) -> tuple[Label, ...]:
        """What truly went on in ``[from_ms, to_ms)``, ordered by GPU and time; nothing is left out."""
        rows = [t for plan, mine in self._plans(from_ms, to_ms) for t in truths(plan, mine, from_ms, to_ms)]
        order = {board.gpu.uuid: place for place, board in enumerate(self.boards)}
        return tuple(sorted(rows, key=lambda t: (order[t.uuid], t.from_ms)))

    def read(self, name: str, seen_ms: int | None, to_ms: int, width_ms: int) -> Reading | Unavailable:
        """What a source of this name sees at ``to_ms``, having seen the cluster last at ``seen_ms``."""
        for blind in blind_times(self.seed, to_ms - 1, to_ms):
            return Unavailable(source=name, at_ms=to_ms, reason=blind.reason)
        played = play(self._score_of(to_ms - 1, to_ms), np.array([to_ms], np.int64))
        plans = self._plans(to_ms - 1, to_ms)
        from_ms = to_ms - width_ms
        return Reading(
            source=name,
            at_ms=to_ms,
            gpus=self.gpus,
            samples=samples_of(played, self.gpus, width_ms),
            processes=tuple(p.process for plan, _ in plans for p in living(plan, to_ms - 1, to_ms)),
            process_samples=self._process_samples(played, np.array([to_ms]), width_ms),
            allocations=self._allocations(to_ms),
            events=self._events(from_ms if seen_ms is None else seen_ms, to_ms, first_look=seen_ms is None),
            gaps=tuple(g for p, b in self._plans(from_ms, to_ms) for g in gaps(p, b, name, from_ms, to_ms)),
        )

    def _day(self, from_ms: int, to_ms: int, window: _Window, step_ms: int, source: str) -> History:
        at_ms = _multiples(from_ms, to_ms, step_ms)
        sight = self._sighted(at_ms)
        played = play(self._score_of(from_ms, to_ms), at_ms)
        looks = _multiples(from_ms, to_ms, PROCESS_STEP_MS)
        looks = looks[self._sighted(looks)]
        plans = self._plans(from_ms, to_ms)
        return History(
            source=source,
            gpus=self.gpus,
            samples=table_of(played, self.gpus, sight, step_ms),
            held=self._intervals(from_ms, to_ms, window),
            processes=tuple(
                p for plan, _ in plans for p in begun(plan, from_ms, to_ms, since_ms=window.from_ms)
            ),
            process_samples=self._process_samples(
                play(self._score_of(from_ms, to_ms), looks), looks, step_ms
            ),
            events=self._events(from_ms, to_ms, first_look=from_ms == window.from_ms),
            gaps=(
                *(g for p, b in plans for g in gaps(p, b, source, from_ms, to_ms)),
                *self._blind_gaps(source, from_ms, to_ms),
            ),
            intruded=self._intruded(from_ms, to_ms, window),
        )

    def _intervals(self, from_ms: int, to_ms: int, window: _Window) -> tuple[HeldInterval, ...]:
        return tuple(
            HeldInterval(
                allocation=h.allocation,
                from_ms=max(h.from_ms, window.from_ms),
                to_ms=None if window.ongoing and h.to_ms > window.to_ms else min(h.to_ms, window.to_ms),
            )
            for plan, mine in self._plans(from_ms, to_ms)
            for h in held(plan, mine, from_ms, to_ms)
            if max(h.from_ms, window.from_ms) >= from_ms
        )

    def _intruded(self, from_ms: int, to_ms: int, window: _Window) -> tuple[IntrudedInterval, ...]:
        return tuple(
            IntrudedInterval(
                intrusion=what,
                from_ms=max(begin, window.from_ms),
                to_ms=None if window.ongoing and end > window.to_ms else min(end, window.to_ms),
            )
            for plan, mine in self._plans(from_ms, to_ms)
            for what, begin, end in intruded(plan, mine, from_ms, to_ms)
            if max(begin, window.from_ms) >= from_ms
        )

    def _allocations(self, at_ms: int) -> tuple[Allocation, ...]:
        plans = self._plans(at_ms - 1, at_ms)
        return tuple(h.allocation for plan, mine in plans for h in held(plan, mine, at_ms - 1, at_ms))

    def _events(self, from_ms: int, to_ms: int, *, first_look: bool) -> tuple[Event, ...]:
        return tuple(
            e
            for plan, mine in self._plans(from_ms, to_ms)
            for e in events(plan, mine, from_ms, to_ms, first_look=first_look)
        )

    def _blind_gaps(self, source: str, from_ms: int, to_ms: int) -> Iterator[Gap]:
        for blind in blind_times(self.seed, from_ms, to_ms):
            low, high = max(blind.from_ms, from_ms), min(blind.to_ms, to_ms)
            yield Gap(source=source, from_ms=low, to_ms=high, reason=blind.reason)

    def _sighted(self, at_ms: Ints) -> npt.NDArray[np.bool_]:
        mask = np.ones(len(at_ms), np.bool_)
        if len(at_ms):
            for blind in blind_times(self.seed, int(at_ms[0]) - 1, int(at_ms[-1])):
                mask &= (at_ms <= blind.from_ms) | (at_ms > blind.to_ms)
        return mask

    def _process_samples(self, played: Played, at_ms: Ints, width_ms: int) -> tuple[ProcessSample, ...]:
        if not len(at_ms):
            return ()
        return tuple(
            ProcessSample(
                uuid=mine[p.gpu].gpu.uuid,
                key=p.process.key,
                at_ms=int(at),
                width_ms=width_ms,
                memory_used_bytes=int(played.lane_memory_bytes[lane, place]),
                sm_ratio=round(float(played.lane_sm[lane, place]), 4),
            )
            for plan, mine in self._plans(int(at_ms[0]) - 1, int(at_ms[-1]))
            for p in living(plan, int(at_ms[0]) - 1, int(at_ms[-1]))
            for lane in (self._lanes[plan.node, p.lane],)
            for place, at in enumerate(at_ms)
            if p.process.key.started_ms < at <= p.to_ms
        )

    def _make_plan(self, node: int, epoch: int) -> NodePlan:
        return plan_node(self.seed, node, epoch, self._boards_of(node))

    def _boards_of(self, node: int) -> tuple[Board, ...]:
        return self.boards[node * self.gpus_per_node : (node + 1) * self.gpus_per_node]

    def _plans(self, from_ms: int, to_ms: int) -> list[tuple[NodePlan, tuple[Board, ...]]]:
        return [
            (self._plan(node, epoch), self._boards_of(node))
            for node in range(self.nodes)
            for epoch in self._epochs(node, from_ms, to_ms)
        ]

    def _epochs(self, node: int, from_ms: int, to_ms: int) -> range:
        return range(epoch_of(self.seed, node, from_ms), epoch_of(self.seed, node, to_ms - 1) + 1)

    def _score_of(self, from_ms: int, to_ms: int) -> Score:
        return self._score(tuple(self._epochs(node, from_ms, to_ms) for node in range(self.nodes)))

    def _make_score(self, epochs: tuple[range, ...]) -> Score:
        lanes: dict[int, tuple[Stretches, ...]] = {}
        owners: dict[int, int] = {}
        for (node, lane), number in self._lanes.items():
            lanes[number] = tuple(self._plan(node, epoch).lanes[lane] for epoch in epochs[node])
            gpu = lane_gpus_of(node, self.gpus_per_node)[lane]
            owners[number] = node * self.gpus_per_node + gpu
        order = range(len(lanes))
        return score(self.seed, tuple(lanes[n] for n in order), tuple(owners[n] for n in order), self.boards)

    def _number_lanes(self) -> dict[tuple[int, int], int]:
        """Every GPU's own lane first, in the order of the boards; second holders' lanes after them."""
        numbers: dict[tuple[int, int], int] = {}
        after = len(self.boards)
        for node in range(self.nodes):
            for lane in range(len(lane_gpus_of(node, self.gpus_per_node))):
                if lane < self.gpus_per_node:
                    numbers[node, lane] = node * self.gpus_per_node + lane
                else:
                    numbers[node, lane] = after
                    after += 1
        return numbers


def _multiples(from_ms: int, to_ms: int, step_ms: int) -> Ints:
    return np.arange((from_ms // step_ms + 1) * step_ms, to_ms + 1, step_ms, dtype=np.int64)
