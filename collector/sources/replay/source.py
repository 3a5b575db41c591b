"""A recording as a source, and the clock that lets it run faster than it was lived.

The source knows recorded time alone: it gives the rows that lie between two reads. How fast that time runs
is the clock's affair, so that ticks, samples and the store agree at any speed.
"""

import numpy as np

from collector.clock import Clock
from collector.model import (
    Basis,
    GpuSample,
    GpuUuid,
    HolderSample,
    Unavailable,
)
from collector.reading import Reading
from collector.sources.replay.recording import Recording, between, times_of


class ReplaySource:
    """Reads a recording in step with the ``now_ms`` it is given; keeps only how far it has come."""

    def __init__(self, recording: Recording, name: str | None = None) -> None:
        self._recording = recording
        self._name = name or recording.source
        self._at_ms = times_of(recording)
        self._gpus = recording.gpus_since()
        self._removed = recording.removals()
        self._to_ms = recording.to_ms
        self._last_ms = recording.from_ms - 1

    @property
    def name(self) -> str:
        """Stable and unique among the configured sources."""
        return self._name

    @property
    def finished(self) -> bool:
        """Whether every row has been read."""
        return self._last_ms >= self._to_ms

    def read(self, now_ms: int) -> Reading | Unavailable:
        """The rows that ended since the last read, up to ``now_ms``; unavailable once there are no more."""
        since, self._last_ms = self._last_ms, max(self._last_ms, now_ms)
        if since >= self._to_ms:
            reason = f"the recording {self._recording.path} has ended"
            return Unavailable(source=self._name, at_ms=now_ms, reason=reason, is_over=True)
        low, high = np.searchsorted(self._at_ms, (since, now_ms), side="right")
        recording = self._recording
        return Reading(
            source=self._name,
            at_ms=now_ms,
            gpus=tuple(
                gpu
                for gpu, from_ms in self._gpus
                if from_ms < now_ms and self._removed.get(gpu.uuid, now_ms) >= now_ms
            ),
            removed={uuid: to_ms for uuid, to_ms in self._removed.items() if to_ms < now_ms},
            samples=_samples(recording, int(low), int(max(high, low))),
            allocations=tuple(
                i.allocation
                for i in recording.held
                if i.from_ms < now_ms and (i.to_ms is None or now_ms <= i.to_ms)
            ),
            events=tuple(e for e in recording.events if since < e.at_ms <= now_ms),
            gaps=tuple(g for g in recording.gaps if since < g.to_ms <= now_ms),
            holder_samples=tuple(
                HolderSample(**row) for row in between(recording.holder_samples, since, now_ms).to_pylist()
            ),
        )

    def close(self) -> None:
        """Nothing is held but memory."""


class ReplayClock:
    """Recorded time: begins at ``start_ms`` and runs ``speed`` times as fast as ``base``.

    With no speed it runs as fast as it goes: only ``sleep`` moves it, and sleeping takes no time.
    """

    def __init__(self, base: Clock, start_ms: int, speed: float | None = None) -> None:
        if speed is not None and speed <= 0:
            raise ValueError(f"a recording cannot run at a speed of {speed}; give a number above 0, or none")
        self._base = base
        self._start_ms = start_ms
        self._speed = speed
        self._base_ms = base.monotonic_ms()
        self._slept_ms = 0.0

    def now_ms(self) -> int:
        """Where in the recorded time we are, UTC ms."""
        return self._start_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        """Recorded milliseconds since the clock began."""
        if self._speed is None:
            return round(self._slept_ms)
        return round((self._base.monotonic_ms() - self._base_ms) * self._speed)

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` of recorded time pass."""
        if self._speed is None:
            self._slept_ms += seconds * 1000.0
        else:
            self._base.sleep(seconds / self._speed)


def _samples(recording: Recording, low: int, high: int) -> tuple[GpuSample, ...]:
    totals = {gpu.uuid: gpu.memory_total_bytes for gpu in recording.gpus}
    rows = recording.samples.slice(low, high - low).to_pylist()
    return tuple(_sample(row, totals.get(row["uuid"])) for row in rows)


def _sample(row: dict[str, object], memory_total_bytes: int | None) -> GpuSample:
    flags = row.pop("flags")
    rung = row.pop("rung")
    uuid = row.pop("uuid")
    return GpuSample(
        uuid=GpuUuid(str(uuid)),
        rung=Basis(int(str(rung))),
        flags=tuple(str(flags).split(",")) if flags else (),
        memory_total_bytes=memory_total_bytes,
        **row,  # type: ignore[arg-type]
    )
