"""Snapshots with everything in them, drawn for properties."""

from hypothesis import strategies as st

from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    JobKind,
    NodeName,
)
from collector.snapshot import Snapshot, SourceHealth

NOW_MS = 1_790_000_000_000
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
ODD_WORDS = WORDS | st.sampled_from(('a"b', "back\\slash", "new\nline", "{}", "x, y=z", 'end\\"', "größe"))
RATIO = st.floats(0, 1) | st.sampled_from((0.0, 1.0, 1 / 3))


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


@st.composite
def gpus(draw: st.DrawFn, uuid: str) -> Gpu:
    return Gpu(
        uuid=GpuUuid(uuid),
        node=NodeName(draw(ODD_WORDS)),
        index=draw(maybe(st.integers(0, 15))),  # type: ignore[arg-type]
        model=draw(maybe(ODD_WORDS)),  # type: ignore[arg-type]
        memory_total_bytes=draw(maybe(st.integers(0, 1 << 42))),  # type: ignore[arg-type]
        driver_version=draw(maybe(WORDS)),  # type: ignore[arg-type]
        power_limit_mw=draw(maybe(st.integers(0, 2_000_000))),  # type: ignore[arg-type]
        parent_uuid=draw(maybe(WORDS)),  # type: ignore[arg-type]
        mig_profile=draw(maybe(WORDS)),  # type: ignore[arg-type]
        share_of_device=draw(st.sampled_from((1.0, 1 / 7, 4 / 7, 0.0))),
        persistence_mode=draw(maybe(st.booleans())),  # type: ignore[arg-type]
    )


@st.composite
def samples(draw: st.DrawFn, gpu: Gpu) -> GpuSample:
    ratios = {name: draw(maybe(RATIO)) for name in GpuSample.__slots__ if name.endswith("_ratio")}
    wholes = {
        name: draw(maybe(st.integers(0, most)))
        for name, most in (
            ("memory_used_bytes", 1 << 42),
            ("memory_reserved_bytes", 1 << 42),
            ("power_mw", 2_000_000),
            ("energy_mj", 1 << 50),
            ("temperature_c", 120),
            ("sm_clock_mhz", 5000),
            ("memory_clock_mhz", 20_000),
            ("throttle_reasons", 0x1FF),
            ("ecc_corrected", 1 << 40),
            ("ecc_uncorrected", 1 << 40),
            ("xid", 200),
            ("process_count", 40),
        )
    }
    return GpuSample(
        uuid=gpu.uuid,
        at_ms=NOW_MS - draw(st.integers(0, 30_000)),
        width_ms=draw(st.integers(1, 60_000)),
        rung=draw(st.sampled_from(Basis)),
        memory_total_bytes=gpu.memory_total_bytes,
        flags=draw(st.lists(ODD_WORDS, unique=True, max_size=2).map(tuple)),
        **ratios,  # type: ignore[arg-type]
        **wholes,  # type: ignore[arg-type]
    )


@st.composite
def allocations(draw: st.DrawFn, uuid: str) -> Allocation:
    holder = Holder(
        job=JobId(draw(ODD_WORDS)),
        user=draw(maybe(ODD_WORDS)),  # type: ignore[arg-type]
        project=draw(maybe(WORDS)),  # type: ignore[arg-type]
        name=draw(maybe(ODD_WORDS)),  # type: ignore[arg-type]
        kind=draw(maybe(st.sampled_from(JobKind))),  # type: ignore[arg-type]
        framework=draw(maybe(WORDS)),  # type: ignore[arg-type]
    )
    share = draw(st.sampled_from((1.0, 0.5, 1 / 3)))
    return Allocation(
        uuid=GpuUuid(uuid), holder=holder, share=share, source=draw(st.sampled_from(ClaimSource))
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    found = [draw(gpus(f"GPU-{i}")) for i in range(draw(st.integers(1, 3)))]
    held = st.lists(
        st.sampled_from([gpu.uuid for gpu in found]).flatmap(allocations),
        unique_by=lambda a: (a.uuid, a.holder.job),
        max_size=3,
    )
    return Snapshot(
        at_ms=NOW_MS,
        gpus=tuple(found),
        samples=tuple(draw(samples(gpu)) for gpu in found),
        allocations=draw(maybe(held.map(tuple))),  # type: ignore[arg-type]
        sources=(SourceHealth(name="nvml", is_up=True, duration_ms=1.25, gpus=len(found)),),
        ticks=7,
        tick_duration_ms=12.5,
    )
