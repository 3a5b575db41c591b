"""Fallow's own metrics: valid to the letter, bounded in labels, silent about what was not measured."""

import re
import subprocess
from dataclasses import fields, replace

from hypothesis import given, settings
from prometheus_client.parser import text_string_to_metric_families

from collector.metrics_endpoint import SAMPLE_METRICS, exposition
from collector.model import (
    Allocation,
    Basis,
    ClaimSource,
    Event,
    Gpu,
    GpuSample,
    GpuUuid,
    Holder,
    JobId,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
    Unavailable,
)
from collector.reading import Reading, Tick
from collector.snapshot import KEPT_MS, Snapshot, SourceHealth, after
from tests.collector.exposition.snapshots import NOW_MS, snapshots
from tests.conftest import program

NODE = NodeName("n1")
A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


def gpu(uuid: GpuUuid) -> Gpu:
    return Gpu(uuid=uuid, node=NODE, index=0, model="H100", memory_total_bytes=80 << 30)


def sample(uuid: GpuUuid, at_ms: int = NOW_MS, **values: object) -> GpuSample:
    return GpuSample(uuid=uuid, at_ms=at_ms, width_ms=10_000, **values)  # type: ignore[arg-type]


def key(pid: int) -> ProcessKey:
    return ProcessKey(node=NODE, pid=pid, started_ms=1000 + pid)


def using(pid: int, memory: int | None, sm: float | None = None) -> ProcessSample:
    return ProcessSample(
        uuid=A, key=key(pid), at_ms=NOW_MS, width_ms=10_000, memory_used_bytes=memory, sm_ratio=sm
    )


def series(snapshot: Snapshot) -> dict[str, float]:
    """Every series by its text up to the value, as prometheus_client's parser reads them."""
    return {
        f"{s.name}{{{','.join(f'{k}={v}' for k, v in sorted(s.labels.items()))}}}": s.value
        for family in text_string_to_metric_families(exposition(snapshot, version="1.2").decode())
        for s in family.samples
    }


def check_metrics(text: bytes) -> None:
    checked = subprocess.run(
        [program("promtool", "prometheus"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b""), checked.stderr.decode()


def full() -> Snapshot:
    """Everything there is, measured."""
    ratios = dict.fromkeys((n for n in GpuSample.__slots__ if n.endswith("_ratio")), 0.5)
    wholes = dict.fromkeys(
        (n for n in GpuSample.__slots__ if n.endswith(("_bytes", "_mw", "_mj", "_c", "_mhz", "_reasons"))), 7
    )
    others = {
        "xid": 79,
        "ecc_corrected": 1,
        "ecc_uncorrected": 2,
        "process_count": 2,
        "rung": Basis.SM_ACTIVE,
    }
    holder = Holder(job=JobId("slurm:812"), user="mia", project="vision")
    return Snapshot(
        at_ms=NOW_MS,
        gpus=(replace(gpu(A), power_limit_mw=700_000, persistence_mode=True),),
        samples=(sample(A, **ratios, **wholes, **others, flags=("instant",)),),
        processes=(
            Process(key=key(1), user="mia", slurm_job="812", frameworks=("pytorch", "cupy")),
            Process(key=key(2), user="mia", slurm_job="812", frameworks=("pytorch",)),
            Process(key=key(3), user="root"),
        ),
        process_samples=(using(1, 5 << 30, 0.5), using(2, 3 << 30, 0.25), using(3, None)),
        allocations=(Allocation(uuid=A, holder=holder, share=1.0, source=ClaimSource.SLURM),),
        owners=((key(1), holder.job), (key(2), holder.job), (key(3), JobId("pid:n1/3@1003"))),
        sources=(SourceHealth(name="nvml", is_up=True, duration_ms=2.5, gpus=1),),
        ticks=3,
        tick_duration_ms=40.0,
    )


def test_promtool_finds_nothing_to_complain_about() -> None:
    text = exposition(full(), version="1.2")
    check_metrics(text)
    assert len(set(re.findall(rb"^# TYPE (\S+)", text, re.MULTILINE))) > 40


def test_promtool_accepts_an_empty_snapshot() -> None:
    check_metrics(exposition(Snapshot()))


@settings(max_examples=8, deadline=None)
@given(snapshot=snapshots())
def test_promtool_accepts_whatever_names_people_choose(snapshot: Snapshot) -> None:
    check_metrics(exposition(snapshot))


def test_values_are_in_base_units() -> None:
    found = series(full())
    labels = "{gpu=n1:0,index=0,model=H100,node=n1,uuid=GPU-a}"
    assert found[f"fallow_gpu_power_watts{labels}"] == 0.007
    assert found[f"fallow_gpu_energy_joules_total{labels}"] == 0.007
    assert found[f"fallow_gpu_sm_clock_hertz{labels}"] == 7_000_000
    assert found[f"fallow_gpu_sample_width_seconds{labels}"] == 10
    assert found[f"fallow_gpu_power_limit_watts{labels}"] == 700
    assert found["fallow_collector_tick_duration_seconds{}"] == 0.04
    assert found["fallow_source_up{source=nvml}"] == 1


def test_processes_are_summed_by_user_and_job_and_no_pid_is_told() -> None:
    found = series(full())
    job = "{framework=pytorch,job=slurm:812,user=mia,uuid=GPU-a}"
    assert found[f"fallow_process_processes{job}"] == 2
    assert found[f"fallow_process_memory_used_bytes{job}"] == 8 << 30
    assert found[f"fallow_process_sm_ratio{job}"] == 0.75
    assert found["fallow_process_processes{user=root,uuid=GPU-a}"] == 1
    assert "fallow_process_memory_used_bytes{user=root,uuid=GPU-a}" not in found
    assert not re.search(rb'pid="|pid:', exposition(full()))


def test_what_was_not_measured_is_absent_and_not_zero() -> None:
    found = series(Snapshot(gpus=(gpu(A),), samples=(sample(A, power_mw=0),)))
    names = {name.partition("{")[0] for name in found}
    assert "fallow_gpu_power_watts" in names
    assert "fallow_gpu_utilization_ratio" not in names and "fallow_allocations_known" not in names


def test_newest_sample_stays_until_it_is_old_and_then_goes() -> None:
    first = Reading(source="dcgm", at_ms=NOW_MS, gpus=(gpu(A), gpu(B)), samples=(sample(A), sample(B)))
    quiet = Reading(source="dcgm", at_ms=NOW_MS + 10_000, gpus=(gpu(A), gpu(B)))
    snapshot = after(Snapshot(), Tick(at_ms=NOW_MS, width_ms=10_000, outcomes=(first,)), duration_ms=1)
    later = Tick(at_ms=NOW_MS + 10_000, width_ms=10_000, outcomes=(quiet,))
    snapshot = after(snapshot, later, duration_ms=1)
    assert snapshot.samples == (sample(A), sample(B))
    gone = Unavailable(source="dcgm", at_ms=NOW_MS + KEPT_MS + 1, reason="down")
    last = Tick(at_ms=gone.at_ms, width_ms=10_000, outcomes=(gone,))
    snapshot = after(snapshot, last, duration_ms=1)
    assert snapshot.samples == ()
    assert [(s.name, s.is_up) for s in snapshot.sources] == [("dcgm", False)]
    assert series(snapshot)["fallow_source_up{source=dcgm}"] == 0


def test_processes_of_a_slower_tick_are_kept_and_ended_ones_dropped() -> None:
    def reading(at_ms: int, *pids: int, looked: bool = True) -> Tick:
        outcome = Reading(
            source="nvml",
            at_ms=at_ms,
            gpus=(gpu(A),),
            samples=(sample(A, at_ms),),
            processes=tuple(Process(key=key(pid)) for pid in pids) if looked else None,
            process_samples=tuple(using(pid, 1) for pid in pids) if looked else None,
        )
        return Tick(at_ms=at_ms, width_ms=10_000, outcomes=(outcome,))

    snapshot = after(Snapshot(), reading(NOW_MS, 1, 2), duration_ms=1)
    snapshot = after(snapshot, reading(NOW_MS + 10_000, looked=False), duration_ms=1)
    assert len(snapshot.processes) == len(snapshot.process_samples) == 2
    snapshot = after(snapshot, reading(NOW_MS + 20_000, 2), duration_ms=1)
    assert [p.key.pid for p in snapshot.processes] == [2]
    assert [p.key.pid for p in snapshot.process_samples] == [2]


def test_events_are_counted_by_kind_with_the_last_ones_time() -> None:
    snapshot = Snapshot()
    for i, detail in enumerate(("31", "79")):
        event = Event(uuid=A, at_ms=NOW_MS + i * 10_000, kind="xid", detail=detail)
        reading = Reading(source="nvml", at_ms=event.at_ms, gpus=(gpu(A),), events=(event,))
        tick = Tick(at_ms=event.at_ms, width_ms=10_000, outcomes=(reading,))
        snapshot = after(snapshot, tick, duration_ms=1)
    found = series(snapshot)
    assert found["fallow_gpu_events_total{kind=xid,uuid=GPU-a}"] == 2
    last = "fallow_gpu_last_event_timestamp_seconds{detail=79,kind=xid,uuid=GPU-a}"
    assert found[last] == (NOW_MS + 10_000) / 1000
    check_metrics(exposition(snapshot))


def test_nobody_having_looked_leaves_the_allocations_as_they_were() -> None:
    held = full().allocations
    tick = Tick(at_ms=NOW_MS, width_ms=10_000, allocations=None)
    assert after(Snapshot(allocations=held), tick, duration_ms=1).allocations == held
    assert after(Snapshot(), tick, duration_ms=1).allocations is None


def test_every_measure_of_a_sample_is_a_metric() -> None:
    """Else another Fallow that collects from this one would lose it, and nobody would notice."""
    elsewhere = {"uuid", "memory_total_bytes", "flags"}  # a label, the GPU's own metric, metrics of their own
    assert {each.field for each in SAMPLE_METRICS} == {each.name for each in fields(GpuSample)} - elsewhere
