"""A past with actions in it: whose GPUs were, minute by minute, and deeds that the journal itself wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from advisor.actions import Action
from advisor.journal.journal import StoreJournal
from advisor.journal.records import FALLOW
from advisor.outcomes import Done, Outcome
from advisor.state.model import ClusterState, Job, Phase, Placement, ProjectName
from collector.arrow import HeldInterval, History, to_table
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
)
from collector.store.database import Store
from tests.analytics.world import GIB, MINUTE_MS, NOON_MS
from tests.stores import open_store

NODE = NodeName("a")
A, B, C, D = (GpuUuid(f"GPU-{name}") for name in "abcd")
END = 180
Held = tuple[GpuUuid, JobId, int, int | None]
Span = tuple[GpuUuid, int, int]


@dataclass
class Clock:
    """A clock that stands where it is put, in minutes after the history's start."""

    minute: float
    start_ms: int = NOON_MS

    def now_ms(self) -> int:
        return self.start_ms + round(self.minute * MINUTE_MS)

    def monotonic_ms(self) -> int:
        return self.now_ms() - self.start_ms

    def sleep(self, seconds: float) -> None:
        self.minute += seconds / 60


def past(
    folder: Path,
    held: Sequence[Held],
    busy: Sequence[Span] = (),
    dark: Sequence[Span] = (),
    *,
    share: float = 1.0,
    start_ms: int = NOON_MS,
    users: Mapping[JobId, str] | None = None,
) -> Store:
    """A store of four H100s, a sample a minute: at 80 % while ``busy``, else idle; none while ``dark``."""
    (folder / "fallow.duckdb").write_bytes(_empty_store())
    store = open_store(folder / "fallow.duckdb")
    gpus = tuple(
        Gpu(uuid=uuid, node=NODE, index=n, model="H100", memory_total_bytes=80 * GIB)
        for n, uuid in enumerate((A, B, C, D))
    )
    samples = [
        sample(gpu.uuid, at, busy, held, start_ms)
        for at in range(1, END + 4)
        for gpu in gpus
        if not within(dark, gpu.uuid, at)
    ]
    store.write_history(
        History(
            source="hand",
            gpus=gpus,
            samples=to_table(iter(samples)),
            held=tuple(interval(each, share, start_ms, users or {}) for each in held),
        )
    )
    store.set_prices({"H100": (4.0, "EUR")})
    return store


def sample(uuid: GpuUuid, at: int, busy: Sequence[Span], held: Sequence[Held], start_ms: int) -> GpuSample:
    level = 0.8 if within(busy, uuid, at) else 0.0
    there = any(
        gpu == uuid and begin < at <= (END + 3 if end is None else end) for gpu, _, begin, end in held
    )
    return GpuSample(
        uuid=uuid,
        at_ms=start_ms + at * MINUTE_MS,
        width_ms=MINUTE_MS,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=level,
        sm_active_ratio=level,
        memory_used_bytes=20 * GIB if there else 0,
        process_count=int(there),
    )


def within(spans: Sequence[Span], uuid: GpuUuid, at: int) -> bool:
    return any(gpu == uuid and begin < at <= end for gpu, begin, end in spans)


def interval(each: Held, share: float, start_ms: int, users: Mapping[JobId, str]) -> HeldInterval:
    uuid, job, begin, end = each
    holder = Holder(job=job, user=users.get(job, f"user-of-{job[-1]}"), project="vision")
    return HeldInterval(
        allocation=Allocation(uuid=uuid, holder=holder, share=share, source=ClaimSource.LEASE),
        from_ms=start_ms + begin * MINUTE_MS,
        to_ms=None if end is None else start_ms + end * MINUTE_MS,
    )


def deed(
    store: Store,
    at: float,
    step: Action,
    had: Sequence[GpuUuid],
    *,
    share: float = 1.0,
    actor: str = FALLOW,
    came: Outcome | None = Done(),  # noqa: B008  a value
    start_ms: int = NOON_MS,
) -> int:
    """An action as the journal writes it: how its job stood, the intent, and at once what came of it."""
    clock = Clock(at, start_ms)
    journal = StoreJournal(store, clock, boot=lambda: "this")
    job = Job(id=step.job, project=ProjectName("vision"), phase=Phase.RUNNING, share=share)
    journal.saw(
        ClusterState(
            as_of_ms=clock.now_ms(),
            jobs={step.job: job},
            placements={step.job: Placement(gpus=tuple(had), share=share)},
        )
    )
    number = journal.intends(clock.now_ms(), step, actor)
    if came is not None:
        journal.came_of(clock.now_ms(), number, came)
    return number


@cache
def _empty_store() -> bytes:
    """A store in which nothing happened yet: made once, because making one takes longer than a history."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "fallow.duckdb"
        open_store(made).close()
        return made.read_bytes()
