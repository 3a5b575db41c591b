"""A node as a test writes it: its pages, its two clocks, and a head that takes them in."""

from dataclasses import dataclass, field, replace

from collector.metrics_endpoint import exposition
from collector.model import Allocation, Gpu, GpuSample, GpuUuid, Holder, JobId, NodeName
from collector.snapshot import Snapshot
from collector.sources.nodes.receiver import NodeKey, NodeReceiver, Receipt
from collector.sources.nodes.wire import Batch, Record, pack

START_MS = 1_800_000_000_000
TICK_MS = 10_000
UP_MS = 400_000_000
"""How long a machine was up at the start: four days."""


def page(
    at_ms: int, node: str = "gpu-a", gpus: int = 1, jobs: tuple[str, ...] | None = (), tag: str = "a"
) -> bytes:
    """What a node's page says at a time: a sample of each GPU, and the jobs that hold the first one."""
    own = tuple(
        Gpu(uuid=GpuUuid(f"GPU-{tag}{i}"), node=NodeName(node), index=i, memory_total_bytes=80 << 30)
        for i in range(gpus)
    )
    samples = tuple(
        GpuSample(uuid=gpu.uuid, at_ms=at_ms, width_ms=TICK_MS, gpu_utilization_ratio=0.5) for gpu in own
    )
    held = tuple(
        Allocation(uuid=own[0].uuid, holder=Holder(job=JobId(job)), share=1 / len(jobs)) for job in jobs or ()
    )
    shown = Snapshot(at_ms=at_ms, gpus=own, samples=samples, allocations=None if jobs is None else held)
    return exposition(shown)


@dataclass
class Node:
    """A machine with a spool in memory, and the head it pushes to."""

    head: NodeReceiver
    name: str = "gpu-a"
    credential: str = "token"
    machine: str = "m1"
    spool: str = "s1"
    boot: str = "b1"
    ahead_ms: int = 0
    """How far its calendar is ahead of the head's."""
    records: list[Record] = field(default_factory=list)
    number: int = 0
    received: int = 0
    echo: tuple[int, int] = (0, 0)

    def tick(self, at_ms: int, content: bytes | None = None) -> Record:
        """Measure at a time of the head's clock."""
        self.number += 1
        wrong_ms = at_ms + self.ahead_ms
        made = Record(
            sequence=self.number,
            at_ms=wrong_ms,
            width_ms=TICK_MS,
            boot=self.boot,
            steady_ms=at_ms - START_MS + UP_MS,
            page=page(wrong_ms, self.name) if content is None else content,
        )
        self.records.append(made)
        return made

    def push(self, now_ms: int, **changed: object) -> Receipt:
        """Send all that was not received, a moment ago; greeted before, where it is the first time."""
        if self.echo == (0, 0):
            self._send(now_ms, ())
        return self._send(now_ms, tuple(r for r in self.records if r.sequence > self.received), **changed)

    def _send(self, now_ms: int, records: tuple[Record, ...], **changed: object) -> Receipt:
        batch = Batch(
            spool=self.spool,
            machine=self.machine,
            boot=self.boot,
            version="0.1.0",
            sent_ms=now_ms + self.ahead_ms,
            steady_ms=now_ms - START_MS + UP_MS,
            after=self.received,
            echo_ms=self.echo[0],
            held_ms=now_ms - self.echo[1],
            records=records,
        )
        key = NodeKey(node=NodeName(self.name), credential=self.credential)
        receipt = self.head.accept(key, pack(replace(batch, **changed)), now_ms)  # type: ignore[arg-type]
        self.received, self.echo = receipt.received, (now_ms, now_ms)
        return receipt
