"""The life of one simulated job: how far it has come, what it held, and what it lost. Mutable.

Time is brought up piece by piece (``settle``) whenever something changes for the job; between changes it
steps at one rate. A start, a resize, a move or a resume stalls it: it holds its GPUs and makes no progress.
"""

from dataclasses import dataclass
from math import ceil

from advisor.sim.workload import TraceJob, packed

MS = 1000.0


@dataclass(slots=True, kw_only=True)
class Life:
    """Counters of one job. ``size_gpus`` is what it holds now (share included), ``rate`` its steps a second.

    ``efficiency`` is what a GPU of it gets done against a GPU of its smallest world. ``due_ms`` is when it
    will be done if nothing changes, ``None`` while it holds nothing.
    """

    job: TraceJob
    gpus_per_node: int = 1
    done: float = 0.0
    saved: float = 0.0
    saved_ms: int | None = None
    rate: float = 0.0
    efficiency: float = 1.0
    size_gpus: float = 0.0
    since_ms: int = 0
    ready_ms: int = 0
    run_s: float = 0.0
    first_start_ms: int | None = None
    end_ms: int | None = None
    due_ms: int | None = None
    with_gpus_s: float = 0.0
    held_gpu_s: float = 0.0
    stalled_gpu_s: float = 0.0
    useful_gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    preemptions: int = 0
    resizes: int = 0

    @property
    def steps_left(self) -> float:
        """Steps that are still to be done."""
        return max(self.job.work.steps - self.done, 0.0)

    @property
    def used_gpus(self) -> float:
        """What it gets done now, in GPUs of its smallest world; 0 while it holds none."""
        return self.size_gpus * self.efficiency

    def settle(self, now_ms: int, checkpoint_s: float) -> None:
        """Bring the counters up to ``now_ms``. It saves its work each ``checkpoint_s`` of running."""
        span_s = (now_ms - self.since_ms) / MS
        if self.size_gpus and span_s > 0:
            stalled_s = min(max((self.ready_ms - self.since_ms) / MS, 0.0), span_s)
            worked_s = span_s - stalled_s
            self.with_gpus_s += span_s
            self.held_gpu_s += span_s * self.size_gpus
            self.stalled_gpu_s += stalled_s * self.size_gpus
            self.useful_gpu_s += worked_s * self.size_gpus * self.efficiency
            self.done = min(self.done + worked_s * self.rate, self.job.work.steps)
            self.run_s += worked_s
            if checkpoint_s > 0 and self.run_s >= checkpoint_s:
                since_s = self.run_s % checkpoint_s
                saved = self.done - since_s * self.rate
                if saved > self.saved:
                    self.saved, self.saved_ms = saved, now_ms - round(since_s * MS)
        self.since_ms = now_ms

    def attained_gpu_s(self, now_ms: int) -> float:
        """GPU-seconds that it has held up to ``now_ms``, whether or not they brought it on."""
        return self.held_gpu_s + (now_ms - self.since_ms) / MS * self.size_gpus

    @property
    def asked_step_s(self) -> float:
        """Seconds a step on as many GPUs as it asked for, packed."""
        return self.job.work.times.step_s(packed(self.job.gpus, self.gpus_per_node))

    def left_s(self, now_ms: int) -> float:
        """Seconds of running that it still needs at its present rate, else on the GPUs it asked for."""
        if self.size_gpus and self.rate:
            return max((self.job.work.steps - self.done) / self.rate - (now_ms - self.since_ms) / MS, 0.0)
        return self.steps_left * self.asked_step_s

    def run_on(self, counts: tuple[int, ...], now_ms: int) -> None:
        """Go on with ``counts`` GPUs on each node, from ``ready_ms`` on, or at once."""
        gpus, times = sum(counts), self.job.work.times
        step_s = times.step_s(counts)
        least = packed(self.job.smallest, self.gpus_per_node)
        self.size_gpus = gpus * self.job.share
        self.rate = 1.0 / step_s
        self.efficiency = min(sum(least) * times.step_s(least) / (gpus * step_s), 1.0)
        self.ready_ms = max(self.ready_ms, now_ms)
        if self.first_start_ms is None:
            self.first_start_ms = now_ms
        self.due_ms = self.ready_ms + ceil(self.steps_left * step_s * MS)

    def stop(self) -> None:
        """Hold nothing any more."""
        self.size_gpus, self.rate, self.due_ms = 0.0, 0.0, None

    def fall_back(self) -> None:
        """Lose what was not saved."""
        if self.done > self.saved:
            self.lost_gpu_s += (self.done - self.saved) * self.asked_step_s * self.job.gpus * self.job.share
            self.done = self.saved
        self.run_s = 0.0
