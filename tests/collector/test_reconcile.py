"""One machine read through NVML and through dcgm-exporter: one GPU, one name, one sample a moment."""

from dataclasses import replace
from pathlib import Path

from collector.clock import SystemClock
from collector.dcgm.readout import read_out
from collector.dcgm.text import parse
from collector.dcgm.vocabulary import is_known
from collector.gpu_identity import names_of, reconciled
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Event,
    Gap,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    MigPlace,
    NodeName,
    Unavailable,
)
from collector.reading import Reading, Tick
from collector.scrape_loop import Loop, LoopDependencies, Timing
from tests.collector.store.store_parts import ask, at_path
from tests.stores import open_store

BOARD, PART = GpuUuid("GPU-473571f2-fb37-ef7e-50fe-9885b74a23cd"), GpuUuid("MIG-5ec1")
CALLED = GpuUuid(f"MIG-{BOARD}/7")
NODE = NodeName("n0")
PLACE = MigPlace(uuid=PART, parent_uuid=BOARD, gpu_instance=7)
NAMES = names_of([PLACE])
POD = Holder(job=JobId("pod:team/x"))
AT = 1_790_000_000_000


def nvml(**changes: object) -> Reading:
    """What NVML says of the board and its one instance: memory, no utilization, as on an A100."""
    reading = Reading(
        source="nvml",
        at_ms=AT,
        gpus=(
            Gpu(uuid=BOARD, node=NODE, index=0, share_of_device=6 / 7),
            Gpu(
                uuid=PART, node=NODE, index=0, parent_uuid=BOARD, mig_profile="1g.5gb", share_of_device=1 / 7
            ),
        ),
        samples=(
            GpuSample(uuid=BOARD, at_ms=AT, width_ms=10_000, power_mw=50_000),
            GpuSample(uuid=PART, at_ms=AT, width_ms=10_000, memory_used_bytes=100, process_count=1),
        ),
        mig_places=(PLACE,),
    )
    return replace(reading, **changes)  # type: ignore[arg-type]


def dcgm(**changes: object) -> Reading:
    """What the exporter says of the same: graphics-engine activity, and who holds it."""
    reading = Reading(
        source="dcgm",
        at_ms=AT,
        gpus=(
            Gpu(uuid=BOARD, node=NODE, index=0, share_of_device=6 / 7),
            Gpu(uuid=CALLED, node=NODE, index=0, parent_uuid=BOARD, share_of_device=1 / 7),
        ),
        samples=(
            GpuSample(uuid=BOARD, at_ms=AT, width_ms=30_000, power_mw=51_000, temperature_c=40),
            GpuSample(
                uuid=CALLED,
                at_ms=AT,
                width_ms=30_000,
                rung=Basis.GRAPHICS_ACTIVE,
                utilization_ratio=0.4,
                graphics_active_ratio=0.4,
                memory_used_bytes=90,
            ),
        ),
        allocations=(Allocation(uuid=CALLED, holder=POD, source=ClaimSource.KUBERNETES),),
        events=(Event(uuid=CALLED, at_ms=AT, kind="xid", detail="13"),),
        gaps=(Gap(source="dcgm", from_ms=AT - 1, to_ms=AT, reason="r", uuid=CALLED),),
    )
    return replace(reading, **changes)  # type: ignore[arg-type]


def both(*outcomes: Reading) -> list[Reading]:
    return [each for each in reconciled(outcomes, NAMES) if isinstance(each, Reading)]


def test_the_exporter_s_words_stand_under_nvml_s_name() -> None:
    _, told = both(nvml(), dcgm())
    (allocation,) = told.allocations or ()
    assert (allocation.uuid, allocation.holder) == (PART, POD)
    assert [event.uuid for event in told.events] == [gap.uuid for gap in told.gaps] == [PART]


def test_there_is_one_description_and_one_sample_of_each() -> None:
    for order in ((nvml(), dcgm()), (dcgm(), nvml())):
        found = both(*order)
        gpus = {gpu.uuid: gpu for reading in found for gpu in reading.gpus}
        assert sum(len(reading.gpus) for reading in found) == len(gpus) == 2
        assert gpus[PART].mig_profile == "1g.5gb"
        assert sorted(s.uuid for reading in found for s in reading.samples) == sorted([BOARD, PART])


def test_what_nvml_could_not_measure_is_filled_in_and_what_it_did_stays() -> None:
    for order in ((nvml(), dcgm()), (dcgm(), nvml())):
        rows = {sample.uuid: sample for reading in both(*order) for sample in reading.samples}
        part = rows[PART]
        assert (part.rung, part.utilization_ratio) == (Basis.GRAPHICS_ACTIVE, 0.4)
        assert (part.memory_used_bytes, part.process_count, part.width_ms) == (100, 1, 10_000)
        assert (rows[BOARD].power_mw, rows[BOARD].temperature_c) == (50_000, 40)


def test_a_utilization_that_was_measured_is_not_mixed_with_another_rung() -> None:
    busy = GpuSample(
        uuid=BOARD, at_ms=AT, width_ms=10_000, rung=Basis.GPU_UTILIZATION, utilization_ratio=0.97
    )
    other = GpuSample(
        uuid=BOARD,
        at_ms=AT,
        width_ms=30_000,
        rung=Basis.SM_ACTIVE,
        utilization_ratio=0.3,
        sm_active_ratio=0.3,
    )
    (first, _) = both(nvml(samples=(busy,)), dcgm(samples=(other,)))
    (sample,) = first.samples
    assert (sample.rung, sample.utilization_ratio, sample.sm_active_ratio) == (
        Basis.GPU_UTILIZATION,
        0.97,
        0.3,
    )


def test_an_instance_in_several_parts_belongs_to_none_of_them() -> None:
    names = names_of([PLACE, replace(PLACE, uuid=GpuUuid("MIG-2"))])
    (told,) = [
        r for r in reconciled((nvml(), dcgm()), names) if isinstance(r, Reading) and r.source == "dcgm"
    ]
    assert (told.gpus, told.allocations, told.events, told.gaps) == ((), (), (), ())


def test_one_source_alone_is_left_as_it_is() -> None:
    reading = dcgm()
    assert reconciled((reading,), {}) == (reading,)
    silent = Unavailable(source="nvml", at_ms=AT, reason="r")
    first, second = reconciled((silent, reading), NAMES)
    assert first is silent
    assert isinstance(second, Reading) and {gpu.uuid for gpu in second.gpus} == {BOARD, PART}


class Told:
    """A source that says what it is handed, with its own times."""

    def __init__(self, reading: Reading) -> None:
        self.name = reading.source
        self.reading: Reading | None = reading

    def read(self, now_ms: int) -> Reading | Unavailable:
        if self.reading is None:
            return Unavailable(source=self.name, at_ms=now_ms, reason="silent")
        samples = tuple(replace(sample, at_ms=now_ms) for sample in self.reading.samples)
        return replace(self.reading, at_ms=now_ms, samples=samples, events=(), gaps=())

    def close(self) -> None:
        """Nothing is open."""


def test_through_loop_and_store_it_is_one_gpu_even_while_nvml_is_silent(tmp_path: Path) -> None:
    driver, exporter = Told(nvml()), Told(dcgm())
    with open_store(at_path(tmp_path)) as store:

        def sink(tick: Tick) -> None:
            store.write_tick(tick)

        ports = LoopDependencies(
            sources=[exporter, driver], attribute=lambda readings, now_ms: None, sink=sink
        )
        loop = Loop(ports, clock=SystemClock(), timing=Timing())
        loop.tick_once()
        driver.reading = None
        loop.tick_once()
        assert sorted(ask(store, "SELECT uuid FROM gpus")) == sorted([(BOARD,), (PART,)])


def test_the_captured_board_s_instances_get_their_uuids(shared: Path) -> None:
    text = (shared / "dcgm" / "a100_mig_4_active.prom").read_text()
    readout = read_out(parse(text, is_known), fallback_node="n", at_ms=AT, width_ms=30_000)
    reading = Reading(source="dcgm", at_ms=AT, gpus=readout.gpus, samples=readout.samples)
    places = [MigPlace(uuid=GpuUuid(f"MIG-{at}"), parent_uuid=BOARD, gpu_instance=at) for at in (5, 7, 8, 9)]
    (told,) = reconciled((reading,), names_of(places))
    assert isinstance(told, Reading)
    assert {gpu.uuid for gpu in told.gpus} == {BOARD, *(place.uuid for place in places)}
    assert len(told.samples) == 5
