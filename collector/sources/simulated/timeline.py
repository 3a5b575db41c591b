"""The score that a simulated GPU plays: rows that say what goes on from one moment to the next.

A stretch lasts until the next one of its lane starts. Levels are means; ``telemetry`` adds what varies. One
row is one record of ``STRETCH``, so that a whole epoch is a single array. Pure.

Randomness without a state: a number is a hash of what it is about, so any instant can be asked for alone.

The mixer is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
OOPSLA 2014). Pure; arrays in, arrays out.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collector.sources.simulated.labels import KINDS, LabelKind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def key_of(*parts: int | str) -> int:
    """A 64-bit key for whatever ``parts`` name, in their order."""
    state = 0
    for part in parts:
        for number in _words(part) if isinstance(part, str) else (part,):
            state = _mix_one((state + _GOLDEN + (number & _MASK)) & _MASK)
    return state


def draw_from(*parts: int | str) -> np.random.Generator:
    """A generator for ``parts`` alone: for plans, which are made whole."""
    return np.random.Generator(np.random.Philox(key=key_of(*parts)))


def uniform(keys: Keys, counter: Ints, stream: int) -> Floats:
    """One number in [0, 1) for each (key, counter)."""
    return (_bits(keys, counter, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bell(keys: Keys, counter: Ints, stream: int) -> Floats:
    """A number of mean 0 and deviation 1 within ±3.47: four 16-bit uniforms of one hash, summed."""
    bits = _bits(keys, counter, stream)
    low = np.uint64(0xFFFF)
    total = (bits & low).astype(np.float64)
    for shift in (16, 32, 48):
        total += ((bits >> np.uint64(shift)) & low).astype(np.float64)
    return (total / 65536.0 - 2.0) * 1.7320508


def drift(keys: Keys, at_ms: Ints, period_ms: int, stream: int) -> Floats:
    """A continuous wandering around 0: ``bell`` at each multiple of the period, blended in between."""
    place, within = np.divmod(at_ms, period_ms)
    share = within / period_ms
    ease = share * share * (3.0 - 2.0 * share)
    return bell(keys, place, stream) * (1.0 - ease) + bell(keys, place + 1, stream) * ease


def _bits(keys: Keys, counter: Ints, stream: int) -> Keys:
    offset = np.uint64((stream * _GOLDEN) & _MASK)
    return _mix(_mix(counter.astype(np.uint64) + offset) ^ keys)


def _words(text: str) -> list[int]:
    code = text.encode()
    return [len(code), *(int.from_bytes(code[at : at + 8], "little") for at in range(0, len(code), 8))]


def _mix(state: Keys) -> Keys:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    mixed: Keys = state ^ (state >> np.uint64(31))
    return mixed


def _mix_one(state: int) -> int:
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)


STRETCH = np.dtype(
    [
        ("start_ms", np.int64),
        ("memory_bytes", np.int64),
        ("kind", np.int16),  # place in truth.KINDS
        ("run", np.int32),  # which run of its job, -1 without a process
        ("job", np.int32),  # place in the plan's jobs, -1 for nobody's
        ("process", np.int32),  # place in the plan's processes, -1 for none
        ("dip_period_ms", np.int32),  # a pause for checkpoint or evaluation comes this often, 0 for never
        ("dip_ms", np.int32),  # and lasts this long
        ("sm", np.float32),
        ("util", np.float32),
        ("duty", np.float32),  # share of the 10 s bins with any work at all
        ("jitter", np.float32),  # relative deviation of sm
        ("controller", np.float32),
        ("tensor", np.float32),
        ("occupancy", np.float32),
    ]
)
Stretches = npt.NDArray[np.void]
"""An array of STRETCH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a program makes of a GPU while it computes; ratios 0..1."""

    sm: float
    util: float
    controller: float
    tensor: float = 0.0
    occupancy: float = 0.2
    duty: float = 1.0
    jitter: float = 0.06
    dip_period_ms: int = 0
    dip_ms: int = 0


STILL = Work(sm=0.0, util=0.0, controller=0.0, occupancy=0.0, jitter=0.0)
"""No work at all."""


def stretch(
    starts_ms: int | Ints,
    kind: LabelKind,
    *,
    work: Work = STILL,
    memory_bytes: int | Ints = 0,
    run: int | npt.NDArray[np.int64] = -1,
) -> Stretches:
    """One stretch for each start, all doing the same; memory and run may differ."""
    rows = np.zeros(np.size(starts_ms), STRETCH)
    rows["start_ms"] = starts_ms
    rows["memory_bytes"] = memory_bytes
    rows["kind"] = KINDS.index(kind)
    rows["run"] = run
    rows["job"] = -1
    rows["process"] = -1
    for name in ("sm", "util", "duty", "jitter", "controller", "tensor", "occupancy"):
        rows[name] = getattr(work, name)
    rows["dip_period_ms"] = work.dip_period_ms
    rows["dip_ms"] = work.dip_ms
    return rows


def joined(*parts: Stretches, to_ms: int) -> Stretches:
    """All parts in order of their start, without those that start at ``to_ms`` or later."""
    rows = chained(*parts)
    rows = rows[rows["start_ms"] < to_ms]
    return rows[np.argsort(rows["start_ms"], kind="stable")]


def chained(*parts: Stretches) -> Stretches:
    """All parts, one after the other; ``np.concatenate`` takes ten times as long over records."""
    rows = np.empty(sum(len(part) for part in parts), STRETCH)
    at = 0
    for part in parts:
        rows[at : at + len(part)] = part
        at += len(part)
    return rows
