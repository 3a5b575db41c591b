"""What each kind of person and program does with the GPU it was given, as stretches.

Every function takes an assignment and returns stretches that begin at its ``from_ms``. Levels that a label
promises in ``truth.Truth`` are kept here with a margin. Pure but for the generator that it is handed.
"""

from dataclasses import dataclass

import numpy as np

from collector.sources.simulated.hardware import GIB
from collector.sources.simulated.labels import LabelKind
from collector.sources.simulated.people import HOUR_MS, MINUTE_MS, Person, desk_hours
from collector.sources.simulated.timeline import Ints, Stretches, Work, joined, stretch

GRAIN_MS = 10_000
"""Everything inside a job begins on a whole ten seconds; jobs begin and end on whole minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A job to be filled with behaviour: whose, when, on how large a GPU."""

    person: Person
    draw: np.random.Generator
    from_ms: int
    to_ms: int
    memory_bytes: int


def notebook(a: Assignment) -> Stretches:
    """Bursts of testing between thinking while the person is at the desk; a living kernel otherwise."""
    parts = [stretch(a.from_ms, LabelKind.NOTEBOOK_AWAY, memory_bytes=GIB // 2, run=0)]
    run, memory_bytes = 0, GIB // 2
    for begin, end in desk_hours(a.person, a.draw, a.from_ms, a.to_ms):
        if a.draw.random() < 0.15:
            run, memory_bytes = run + 1, GIB // 2
        session = _session(a, begin, end, run, memory_bytes)
        memory_bytes = int(session["memory_bytes"][-1])
        parts += [session, stretch(end, LabelKind.NOTEBOOK_AWAY, memory_bytes=memory_bytes, run=run)]
    return joined(*parts, to_ms=a.to_ms)


def small_model(a: Assignment) -> Stretches:
    """A training that never fills the GPU."""
    sm = a.draw.uniform(0.04, 0.17)
    work = Work(
        sm=sm,
        util=min(0.97, sm * a.draw.uniform(2.0, 6.0) + 0.1),
        controller=sm * a.draw.uniform(0.2, 0.5),
        occupancy=0.1,
        jitter=0.1,
        dip_period_ms=_seconds(a.draw, 300, 1500),
        dip_ms=_seconds(a.draw, 10, 30),
    )
    return _started(a, (2, 8), LabelKind.SMALL_MODEL, work, a.draw.uniform(0.04, 0.5))


def large_training(a: Assignment) -> Stretches:
    """Runs of hours with hours of nothing between them, while the GPUs stay held."""
    stays = a.draw.random() < 0.5
    parts = [stretch(a.from_ms, LabelKind.STARTING_UP, memory_bytes=GIB // 2, run=0)]
    at, run = a.from_ms + _minutes(a.draw, 5, 25), 0
    memory = int(a.memory_bytes * a.draw.uniform(0.35, 0.95))
    while at < a.to_ms:
        memory_bytes = int(a.memory_bytes * a.draw.uniform(0.1, 0.5))
        work = _training(a.draw, _training_level(a.draw))
        parts.append(stretch(at, LabelKind.LARGE_TRAINING, work=work, memory_bytes=memory, run=run))
        at += _hours(a.draw, 6.0, 0.7, 1.5, 40.0)
        parts.append(
            stretch(at, LabelKind.BETWEEN_RUNS, memory_bytes=memory_bytes, run=run)
            if stays
            else stretch(at, LabelKind.BETWEEN_RUNS_EMPTY)
        )
        at += _hours(a.draw, 2.5, 0.6, 1.2, 14.0)
        run += 0 if stays else 1
    return joined(*parts, to_ms=a.to_ms)


def saturated_training(a: Assignment) -> Stretches:
    """Good use from shortly after the start to the end."""
    work = _training(a.draw, a.draw.uniform(0.54, 0.9))
    return _started(a, (4, 18), LabelKind.SATURATED_TRAINING, work, a.draw.uniform(0.35, 0.95))


def starting_up(a: Assignment) -> Stretches:
    """Hours of downloading before a good training begins."""
    hour = (60, 210)
    work = _training(a.draw, a.draw.uniform(0.6, 0.9))
    return _started(a, hour, LabelKind.SATURATED_TRAINING, work, a.draw.uniform(0.5, 0.9))


def batch(a: Assignment) -> Stretches:
    """An ordinary job of the queue."""
    work = _single(a.draw, a.draw.uniform(0.32, 0.78))
    return _started(a, (1, 6), LabelKind.BATCH, work, a.draw.uniform(0.1, 0.75))


def tensorflow_hog(a: Assignment) -> Stretches:
    """All memory within seconds of first use, a tenth of the GPU needed."""
    sm = a.draw.uniform(0.03, 0.12)
    work = Work(
        sm=sm,
        util=sm * a.draw.uniform(1.5, 3.0),
        controller=sm * a.draw.uniform(0.2, 0.4),
        occupancy=0.08,
        jitter=0.12,
    )
    return _started(a, (2, 5), LabelKind.TENSORFLOW_HOG, work, 0.965)


def jax_preallocation(a: Assignment) -> Stretches:
    """75% of the memory from the first moment on, and good use of it after compiling."""
    memory = int(a.memory_bytes * 0.757)
    work = _training(a.draw, a.draw.uniform(0.45, 0.85))
    return joined(
        stretch(a.from_ms, LabelKind.STARTING_UP, memory_bytes=memory, run=0),
        stretch(
            a.from_ms + _minutes(a.draw, 2, 7),
            LabelKind.JAX_PREALLOCATION,
            work=work,
            memory_bytes=memory,
            run=0,
        ),
        to_ms=a.to_ms,
    )


def held_empty(a: Assignment) -> Stretches:
    """A shell that somebody left open; in some the program has crashed before."""
    if a.draw.random() < 0.5:
        return stretch(a.from_ms, LabelKind.HELD_EMPTY)
    crash = a.from_ms + (a.to_ms - a.from_ms) // 3 // MINUTE_MS * MINUTE_MS
    return joined(batch(a), to_ms=crash) if crash >= a.to_ms else _crashed(a, crash)


def keep_warm(a: Assignment) -> Stretches:
    """A loop of one small kernel, so that nobody takes the GPU away."""
    work = Work(
        sm=a.draw.uniform(0.02, 0.04),
        util=a.draw.uniform(0.6, 1.0),
        controller=0.01,
        occupancy=0.02,
        jitter=0.05,
    )
    return stretch(
        a.from_ms, LabelKind.KEEP_WARM, work=work, memory_bytes=int(a.draw.integers(1, 5)) * GIB, run=0
    )


def inference(a: Assignment) -> Stretches:
    """A service that follows the day and is never quite still at night."""
    return _service(a, a.to_ms)


def forgotten_service(a: Assignment) -> Stretches:
    """A service that is asked for a few hours, and never again."""
    quiet = a.from_ms + _hours(a.draw, 6.0, 0.5, 2.0, 20.0)
    busy = _service(a, min(quiet, a.to_ms))
    memory = int(busy["memory_bytes"][-1])
    return joined(
        busy, stretch(quiet, LabelKind.FORGOTTEN_SERVICE, memory_bytes=memory, run=0), to_ms=a.to_ms
    )


def zombie_memory(a: Assignment) -> Stretches:
    """A dead process's memory, still taken."""
    return stretch(
        a.from_ms, LabelKind.ZOMBIE_MEMORY, memory_bytes=int(a.memory_bytes * a.draw.uniform(0.15, 0.8))
    )


def stuck_counter(a: Assignment) -> Stretches:
    """100% from the driver, nothing on the GPU."""
    return stretch(
        a.from_ms, LabelKind.STUCK_COUNTER, work=Work(sm=0.0, util=1.0, controller=0.0, jitter=0.0)
    )


def lost(a: Assignment) -> Stretches:
    """Off the bus."""
    return stretch(a.from_ms, LabelKind.LOST)


def _session(a: Assignment, begin_ms: int, end_ms: int, run: int, memory_bytes: int) -> Stretches:
    pairs = (end_ms - begin_ms) // (2 * MINUTE_MS) + 4
    think = np.clip(a.draw.lognormal(np.log(170.0), 0.8, pairs), 20.0, 720.0)
    burst = np.clip(a.draw.lognormal(np.log(150.0), 0.7, pairs), 60.0, 1500.0)
    lengths = np.stack([think, burst], axis=1).ravel() * 1000.0
    ends: Ints = begin_ms + np.cumsum(np.round(lengths / GRAIN_MS).astype(np.int64) * GRAIN_MS)
    starts = np.concatenate([[begin_ms], ends[:-1]])
    wish = a.draw.lognormal(np.log(4.0 * GIB), 0.9, pairs)
    limit = 0.7 * a.memory_bytes
    memory = np.maximum.accumulate(np.maximum(memory_bytes, np.minimum(wish, limit))).astype(np.int64)
    before = np.concatenate([[memory_bytes], memory[:-1]])
    work = Work(
        sm=a.draw.uniform(0.4, 0.8), util=0.9, controller=a.draw.uniform(0.1, 0.35), tensor=0.03, jitter=0.2
    )
    session = LabelKind.NOTEBOOK_SESSION
    return joined(
        stretch(starts[0::2], session, memory_bytes=before, run=run),
        stretch(starts[1::2], session, work=work, memory_bytes=memory, run=run),
        to_ms=end_ms,
    )


def _started(
    a: Assignment, start_minutes: tuple[int, int], kind: LabelKind, work: Work, memory_ratio: float
) -> Stretches:
    ready = a.from_ms + _minutes(a.draw, *start_minutes)
    return joined(
        stretch(a.from_ms, LabelKind.STARTING_UP, memory_bytes=GIB // 2, run=0),
        stretch(ready, kind, work=work, memory_bytes=int(a.memory_bytes * memory_ratio), run=0),
        to_ms=a.to_ms,
    )


def _crashed(a: Assignment, crash_ms: int) -> Stretches:
    return joined(joined(batch(a), to_ms=crash_ms), stretch(crash_ms, LabelKind.HELD_EMPTY), to_ms=a.to_ms)


def _service(a: Assignment, to_ms: int) -> Stretches:
    starts: Ints = np.arange(a.from_ms, to_ms, HOUR_MS // 2, dtype=np.int64)
    hour = (starts / HOUR_MS + 1.0) % 24.0
    wave = np.clip(np.sin((hour - 7.5) / 16.0 * np.pi), 0.0, 1.0) * ((hour > 7.5) & (hour < 23.5))
    sm = a.draw.uniform(0.09, 0.16)
    work = Work(sm=sm, util=sm * 1.7, controller=sm * 0.5, occupancy=0.15, jitter=0.8)
    memory = int(a.memory_bytes * a.draw.uniform(0.25, 0.6))
    rows = stretch(starts, LabelKind.INFERENCE, work=work, memory_bytes=memory, run=0)
    rows["duty"] = np.clip(0.25 + 0.45 * wave, 0.0, 1.0)
    return rows


def _training(draw: np.random.Generator, sm: float) -> Work:
    """A training in 16-bit: the better it fills the SMs, the more of it is tensor work."""
    return Work(
        sm=sm,
        util=draw.uniform(0.975, 1.0),
        controller=sm * draw.uniform(0.15, 0.4),
        tensor=max(0.0, sm - 0.55) * draw.uniform(0.6, 0.9) + 0.01,
        occupancy=draw.uniform(0.15, 0.4),
        dip_period_ms=_seconds(draw, 1800, 5400),
        dip_ms=_seconds(draw, 40, 240),
    )


def _single(draw: np.random.Generator, sm: float) -> Work:
    """A job of one GPU and little tuning; memory-controller shares as in MISO's profiles."""
    util = min(0.98, sm * draw.uniform(1.15, 1.7) + 0.05)
    return Work(
        sm=sm,
        util=util,
        controller=util * draw.uniform(0.03, 0.75),
        tensor=0.06 * sm,
        occupancy=draw.uniform(0.15, 0.5),
        dip_period_ms=_seconds(draw, 600, 2400),
        dip_ms=_seconds(draw, 10, 60),
    )


def _training_level(draw: np.random.Generator) -> float:
    """Spread as SM active is in the Acme trace while its GPUs are busy."""
    if draw.random() < 0.18:
        return float(draw.uniform(0.32, 0.5))
    return float(np.clip(draw.normal(0.66, 0.11), 0.4, 0.93))


def _seconds(draw: np.random.Generator, low: int, high: int) -> int:
    return int(draw.integers(low, high + 1)) * 1000


def _minutes(draw: np.random.Generator, low: int, high: int) -> int:
    return int(draw.integers(low, high + 1)) * MINUTE_MS


def _hours(draw: np.random.Generator, median: float, sigma: float, low: float, high: float) -> int:
    hours = float(np.clip(draw.lognormal(np.log(median), sigma), low, high))
    return round(hours * 60) * MINUTE_MS
