"""A store in which every name that somebody can choose is hostile, for each door through which names leave.

``MARKER`` begins what a name would forge: a line of its own, a column, a heading.
"""

import time
from pathlib import Path

from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    Intrusion,
    JobId,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from collector.reading import Reading, Tick
from service.config.model import Config
from service.usecases.judge import judge
from tests.stores import open_store

MARKER = "FORGED"
STEERING = f"\x1b]0;owned\x07\x1b[2J\x9b31m\n{MARKER} line\r\t\x00\u2028{MARKER}"
HIDING = "\u202egnp.exe\u202c pay\u200bpal \u3164\ufeff\U000e0041"
MARKUP = (
    "<!channel> @everyone @here [x](http://evil.example) <http://evil.example|bank>"
    " ![i](http://evil.example/i)"
    " *b* _i_ ~s~ `c` <img src=x onerror=alert(1)>"
    ' <script>alert(1)</script> &lt; ||s|| :red[r] $x$ | c | "q" \\'
)
TOWER = "a" + "\u0301" * 200
HOSTILE = f"job {STEERING} {HIDING} {MARKUP} {TOWER}"
PLAIN = "train_v2.1-Größe 学習"
"""An ordinary name beside them, which every door shows as it is."""

MINUTE_MS = 60_000
MINUTES = 45
EVIL, NEAR = GpuUuid("GPU-evil"), GpuUuid("GPU-near")


def holder(name: str, number: int) -> Holder:
    """Somebody whose every name is this one."""
    return Holder(
        job=JobId(f"pod:{name}/{number}"), user=name, project=name, name=name, framework=name, command=name
    )


def gpus(name: str) -> tuple[Gpu, ...]:
    """One held by a hostile person, one by an ordinary one; their node and model are hostile too."""
    node, model = NodeName(f"node {name}"), f"H100 {name}"
    return (
        Gpu(uuid=EVIL, node=node, index=0, model=model, memory_total_bytes=80 << 30, driver_version=name),
        Gpu(uuid=NEAR, node=NodeName("node1"), index=1, model="H100", memory_total_bytes=80 << 30),
    )


def fill(folder: Path, name: str = HOSTILE, process: Process | None = None) -> None:
    """The last three quarters of an hour: both GPUs held and idle, an intruder on one, all of it judged.

    ``process`` is the intruder, where it isn't one of that name.
    """
    now_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    boards = gpus(name)
    held = tuple(
        Allocation(uuid=uuid, holder=holder(who, number), share=1.0, source=ClaimSource.KUBERNETES)
        for number, (uuid, who) in enumerate(((EVIL, name), (NEAR, PLAIN)))
    )
    key = ProcessKey(node=NodeName("node1"), pid=7, started_ms=now_ms - 3_600_000)
    process = process or Process(key=key, user=name, uid=7, name=name, command=name, container=name, pod=name)
    key = process.key
    with open_store(folder / "fallow.duckdb") as store:
        for minute in range(-MINUTES, 1):
            at_ms = now_ms + minute * MINUTE_MS
            reading = Reading(
                source="test",
                at_ms=at_ms,
                gpus=boards,
                samples=tuple(idle(uuid, at_ms) for uuid in (EVIL, NEAR)),
                processes=(process,),
                process_samples=(
                    ProcessSample(
                        uuid=NEAR, key=key, at_ms=at_ms, width_ms=MINUTE_MS, memory_used_bytes=1 << 30
                    ),
                ),
            )
            store.write_tick(
                Tick(
                    at_ms=at_ms,
                    width_ms=MINUTE_MS,
                    outcomes=(reading,),
                    allocations=held,
                    intrusions=(Intrusion(uuid=NEAR, key=key),),
                    unclear=((key, f"CUDA_VISIBLE_DEVICES={name}"),),
                )
            )
        judge(Config(), store, now_ms)


def idle(uuid: GpuUuid, at_ms: int) -> GpuSample:
    return GpuSample(
        uuid=uuid,
        at_ms=at_ms,
        width_ms=MINUTE_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=0.0,
        sm_active_ratio=0.0,
        gpu_utilization_ratio=0.0,
        memory_used_bytes=60 << 30,
        power_mw=70_000,
        process_count=1,
    )
