"""Beside a neighbour a job's size is judged by its own work and memory where these are told."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from advisor.live.job_use import own_rows
from advisor.live.snapshot import EVERYBODY, Site, _idleness, _Judged, read_live
from advisor.planner.limits import Limits, PlannerConfig
from advisor.planner.plan import Abstain, Advice
from advisor.policies import pack, right_size
from advisor.state.model import Use
from analytics.assess import assess
from analytics.model import Analysis, Coverage, Finding, FindingKind, StartingUp
from analytics.query import run
from analytics.thresholds import Thresholds
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
    JobKind,
    NodeName,
    Process,
    ProcessKey,
    ProcessSample,
)
from tests.stores import open_store

GIB, MINUTE_MS = 1 << 30, 60_000
START_MS = 1_793_145_600_000
MINUTES = 370
"""Six hours and ten minutes: over the shortest time that a size may be told from."""
GPU, NODE = GpuUuid("GPU-0"), NodeName("n1")
RULES = PlannerConfig(fit_window_s=21_600)
ALL = frozenset({EVERYBODY})
MEMORY = {"ann": 6 * GIB, "bob": 12 * GIB}
Answers = Mapping[str, Advice | Abstain]


def answers(
    folder: Path, uses: Mapping[str, float], board: float, *, bob_left: bool = False
) -> list[Answers]:
    """What right-size and pack say of ann's and bob's half of an H100; ``uses``: as the driver tells them.

    ``bob_left``: he was there for the first hundred minutes, and ann has all of the GPU.
    """
    ends = {"ann": None, "bob": START_MS + 100 * MINUTE_MS if bob_left else None}
    keys = {name: ProcessKey(node=NODE, pid=at, started_ms=START_MS) for at, name in enumerate(MEMORY, 7)}
    times = [START_MS + (n + 1) * MINUTE_MS for n in range(MINUTES)]
    history = History(
        source="test",
        gpus=(Gpu(uuid=GPU, node=NODE, index=0, model="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GIB),),
        samples=to_table(
            GpuSample(
                uuid=GPU,
                at_ms=at,
                width_ms=MINUTE_MS,
                rung=Basis.SM_ACTIVE,
                utilization_ratio=board,
                sm_active_ratio=board,
                memory_controller_ratio=0.02,
                memory_used_bytes=19 * GIB,
                process_count=2,
            )
            for at in times
        ),
        held=tuple(
            HeldInterval(
                allocation=Allocation(
                    uuid=GPU,
                    holder=Holder(job=JobId(f"slurm:{name}"), user=name, kind=JobKind.BATCH),
                    share=1.0 if bob_left and name == "ann" else 0.5,
                    source=ClaimSource.SLURM,
                ),
                from_ms=START_MS,
                to_ms=ends[name],
            )
            for name in MEMORY
        ),
        processes=tuple(Process(key=key, user=name) for name, key in keys.items()),
        process_samples=tuple(
            ProcessSample(
                uuid=GPU,
                key=keys[name],
                at_ms=at,
                width_ms=MINUTE_MS,
                memory_used_bytes=MEMORY[name],
                sm_ratio=use,
            )
            for at in times
            for name, use in uses.items()
            if ends[name] is None or at <= (ends[name] or 0)
        ),
    )
    now_ms = times[-1]
    with open_store(folder / "fallow.duckdb") as store:
        store.write_history(history)
        with store.reader() as reader:
            live = read_live(
                lambda name, given: run(reader, name, given).to_pylist(),
                assess(reader, now_ms, Thresholds(), MINUTE_MS),
                Site(preemptible=ALL, checkpointable=ALL, may_share=ALL),
                RULES,
            )
    return [
        {str(each.job): each for each in policy.advise(live.state, live.observed, Limits(), RULES)}
        for policy in (right_size, pack)
    ]


def test_each_is_told_a_size_from_its_own_work_and_memory(tmp_path: Path) -> None:
    # 27% of the SMs, a third ann's. Ann: 9% fits 16 of 132 SMs with a fifth to spare (9.7%), 6 GiB fit 9.6
    # (8.2). Bob: 18% needs 32 of 132 (19.4%), 12 GiB fit 19.5 (16.6). Of the half that each was given these
    # are 2/7 and 4/7.
    sizes, pairs = answers(tmp_path, {"ann": 0.09, "bob": 0.18}, 0.27)
    ann, bob = sizes["slurm:ann"], sizes["slurm:bob"]
    assert isinstance(ann, Advice) and isinstance(bob, Advice)
    assert "ask for a 1g.10gb slice instead of 0.5 of a NVIDIA H100 80GB HBM3" in ann.what
    assert "ask for a 2g.20gb slice instead of 0.5 of a NVIDIA H100 80GB HBM3" in bob.what
    hours = 6.0 * 0.5
    assert ann.gain_gpu_hours == pytest.approx(hours * 5 / 7, rel=0.02)
    assert bob.gain_gpu_hours == pytest.approx(hours * 3 / 7, rel=0.02)
    numbers = {each.name: each.value for each in ann.evidence}
    assert numbers["utilization_p95_ratio"] == pytest.approx(0.09, abs=0.002)
    assert numbers["memory_peak_bytes"] == 6 * GIB
    for each in pairs.values():
        assert isinstance(each, Abstain) and each.reason == "it shares its GPU already"


@pytest.mark.parametrize(
    ("uses", "board", "reason"),
    [
        ({}, 0.3, "its GPU had others on it, so what was measured is not its own"),
        (
            {"ann": 0.1, "bob": 0.85},
            0.95,
            "its GPU was full with others on it: what it would use alone is not known",
        ),
    ],
)
def test_nothing_is_told_where_it_is_not_its_own_or_not_what_it_would_do_alone(
    tmp_path: Path, uses: Mapping[str, float], board: float, reason: str
) -> None:
    sizes, _ = answers(tmp_path, uses, board)
    for each in sizes.values():
        assert isinstance(each, Abstain) and each.reason == reason


def test_who_had_a_neighbour_once_is_packed_by_its_own_use(tmp_path: Path) -> None:
    # 100 min beside bob (a third of 30% is hers), then 270 alone at 30%: 19 of 20 minutes are at most that.
    sizes, pairs = answers(tmp_path, {"ann": 0.1, "bob": 0.2}, 0.3, bob_left=True)
    (ann,) = pairs.values()
    assert isinstance(ann, Abstain) and "nobody who may share with it fits beside it" in ann.reason
    assert isinstance(sizes["slurm:ann"], Advice)


def test_a_job_that_just_began_beside_others_is_not_judged_by_what_nobody_told() -> None:
    """In its first two minutes no minute is asked for, and none is told: its rows stay as they are."""
    rows = [{"job": "a", "uuid": "GPU-1", "others": 1, "seen_from_ms": 1_000_000}]
    told = {("a", "GPU-1"): {"told_ms": 0, "board_p95_ratio": None}}
    assert own_rows(rows, told, 0, 1_060_000, PlannerConfig()) == rows


@pytest.mark.parametrize(
    ("never", "expected"),
    [
        ("slurm:bob", {"slurm:ann": Use.ACTIVE, "slurm:bob": Use.STARTING}),
        ("slurm:ann", {"slurm:ann": Use.STARTING, "slurm:bob": Use.ACTIVE}),
        (None, {"slurm:ann": Use.STARTING, "slurm:bob": Use.STARTING}),
    ],
)
@pytest.mark.parametrize("begins", [False, True])
def test_who_works_beside_one_that_never_computed_is_not_said_to_start(
    never: str | None, expected: Mapping[str, Use], begins: bool
) -> None:
    """Whose start it is goes by the job; where no job is told it may be any who is on the GPU."""
    holder = Holder(job=JobId(never or ""))
    start = StartingUp(uuid=GPU, holder=holder, from_ms=START_MS, until_ms=START_MS + MINUTE_MS)
    found = Finding(
        kind=FindingKind.NOT_STARTED,
        uuid=GPU,
        node=NODE,
        gpu_index=0,
        holder=holder if never else None,
        since_ms=START_MS,
        window_from_ms=START_MS,
        window_to_ms=START_MS,
        coverage=1.0,
        rung=Basis.SM_ACTIVE,
        wasted_gpu_hours=1.0,
        evidence=(),
        sentence="",
    )
    analysis = Analysis(
        as_of_ms=START_MS,
        window_from_ms=START_MS,
        coverage=Coverage(ratio=1.0, gpus=1, silent_gpus=0),
        findings=() if begins else (found,),
        starting=(start,) if begins else (),
    )
    judged = _Judged.of(analysis, [GPU])
    assert {job: _idleness([{"job": job, "uuid": GPU}], judged)[0] for job in expected} == expected


def test_a_gpu_that_nobody_measured_lately_is_unknown_and_no_work() -> None:
    """Of a node that fell silent a judgement may say nothing at all."""
    nothing = Analysis(
        as_of_ms=START_MS,
        window_from_ms=START_MS,
        coverage=Coverage(ratio=1.0, gpus=1, silent_gpus=0),
        findings=(),
    )
    claim = [{"job": "a", "uuid": GPU}]
    assert _idleness(claim, _Judged.of(nothing, [GPU]))[0] is Use.ACTIVE
    assert _idleness(claim, _Judged.of(nothing, [GPU], [GPU]))[0] is Use.UNKNOWN
