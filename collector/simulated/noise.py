"""Randomness without a state: a number is a hash of what it is about, so any instant can be asked for alone.

The mixer is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
OOPSLA 2014). Pure; arrays in, arrays out.
"""

import numpy as np
import numpy.typing as npt

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
