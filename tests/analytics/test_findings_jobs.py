"""One verdict for a job over all its GPUs: a part that is not used, a straggler that the others wait for."""

from dataclasses import replace
from typing import Any

import pytest

from analytics.findings import judge, judge_jobs
from analytics.model import Claim, Finding, FindingKind, GpuPast
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import KINDS, LOOK_BEFORE_LESS, ROOM_BEFORE_LESS
from collector.model import GpuUuid, JobKind, NodeName
from tests.analytics.pasts import BINS, GIB, NOON_MS, TICK_MS, bins, claim, past, then

T = Thresholds()
Level = tuple[float, float]
"""The share of time in which any kernel ran, and the SMs' own."""


def gpus(*levels: Level, held: Claim | None = None, **changes: Any) -> list[GpuPast]:
    """A job on GPU 0 and up of node1, each as busy as its level says for two hours."""
    return [
        past(
            claim(8.0, idle_gpu_hours=None, busy_until_ms=NOON_MS) if held is None else held,
            uuid=GpuUuid(f"GPU-{place}"),
            gpu_index=place,
            gpu_place=str(place),
            bins=bins(gpu_utilization=any_kernel, busiest=max(any_kernel, sm), utilization=sm),
            **changes,
        )
        for place, (any_kernel, sm) in enumerate(levels)
    ]


def said(pasts: list[GpuPast]) -> list[Finding]:
    return list(judge_jobs(pasts, [judge(each, NOON_MS, T, TICK_MS) for each in pasts], T))


@pytest.mark.parametrize(
    ("levels", "straggler"),
    [
        (
            [(0.99, 0.42)] * 3 + [(0.34, 0.31)],
            "GPU-3",
        ),  # three spin in the collective, one waits for its disk
        ([(0.36, 0.31), (0.97, 0.84), (0.36, 0.31)], "GPU-1"),  # one stage of a pipeline has too many layers
        ([(0.99, 0.44)] * 7 + [(0.99, 0.86)], "GPU-7"),  # one works all the time at half its clock
        ([(0.98, 0.45)] * 6 + [(0.44, 0.40)] * 2, "GPU-6"),  # two of eight are slow
        ([(0.99, 0.40), (0.35, 0.32)], "GPU-1"),  # of two, the other one spins: its SMs are still
        ([(0.97, 0.84), (0.36, 0.31)], "GPU-0"),  # of two, one has the work
        ([(0.97, 0.80), (0.95, 0.66), (0.90, 0.60)], None),  # no two GPUs are quite alike
        ([(0.60, 0.50), (0.20, 0.18)], None),  # nobody is busy all the time: who waits for whom?
        ([(0.99, 0.80)] * 2 + [(0.40, 0.30)] * 2, None),  # two halves: no one's fault in particular
    ],
)
def test_a_straggler_is_the_gpu_that_the_others_wait_for(levels: list[Level], straggler: str | None) -> None:
    found = said(gpus(*levels))
    assert [(each.kind, each.uuid) for each in found] == (
        [] if straggler is None else [(FindingKind.STRAGGLER, straggler)]
    )


def test_the_sentence_names_the_straggler_the_figures_and_what_is_not_known() -> None:
    (found,) = said(gpus(*[(0.99, 0.42)] * 3, (0.34, 0.31)))
    assert found.sentence == (
        "amara (job sweep) works on 4 GPUs unevenly: kernels ran on GPU 3 of node1 34% of the last 60 min, "
        "on the 3 others 99%. If they work on one thing together, those 3 wait for it."
    )
    assert found.wasted_gpu_hours is None  # each GPU's own findings bear the hours: an hour counts once
    (slow,) = said(gpus(*[(0.99, 0.44)] * 3, (0.99, 0.86)))
    assert "GPU 3 of node1 was 86% busy (SM active) in the last 60 min, the 3 others 44%" in slow.sentence


# The one that works all the time at a low clock is hot. Where all are, or the others, heat explains nothing.
@pytest.mark.parametrize(
    ("few", "rest", "told"),
    [(1.0, 0.0, "100%"), (0.2, None, "20%"), (0.09, 0.0, None), (1.0, 1.0, None), (None, 1.0, None)],
)
def test_a_straggler_that_heat_slows_is_told_so(
    few: float | None, rest: float | None, told: str | None
) -> None:
    held = gpus(*[(0.99, 0.44)] * 3, (0.99, 0.86))
    hot = [
        replace(each, bins=replace(each.bins, hot=(few if each.uuid == "GPU-3" else rest,) * BINS))
        for each in held
    ]
    (finding,) = said(hot)
    heat = f" Heat held its clocks down for {told} of that time."
    assert finding.sentence.endswith(f"those 3 wait for it.{heat if told else ''}")


def test_servers_and_terminals_have_no_straggler() -> None:
    uneven = [(0.99, 0.42)] * 3 + [(0.34, 0.31)]
    for kind in (JobKind.INFERENCE, JobKind.INTERACTIVE):
        assert said(gpus(*uneven, held=claim(8.0, kind=kind))) == []


def test_who_has_been_uneven_for_less_than_the_window_is_no_straggler() -> None:
    changed = then((BINS - 60, 0.95), (60, 0.3))  # half an hour ago
    pasts = gpus(*[(0.99, 0.42)] * 4)
    pasts[2] = replace(pasts[2], bins=bins(gpu_utilization=changed, busiest=changed, utilization=changed))
    assert said(pasts) == []


def test_a_shared_gpu_and_an_unmeasured_one_are_not_compared() -> None:
    uneven = gpus(*[(0.99, 0.42)] * 3, (0.34, 0.31))
    shared = replace(uneven[3], claims=(*uneven[3].claims, claim(8.0, holder=other_holder())))
    assert said([*uneven[:3], shared]) == []
    blind = replace(uneven[3], bins=replace(uneven[3].bins, covered=(False,) * BINS))
    assert said([*uneven[:3], blind]) == []


def other_holder() -> Any:
    return replace(claim().holder, job="slurm:8", user="bo")


def quiet(place: int, **changes: Any) -> GpuPast:
    """A GPU of the same job that was never used, with a context's memory on it."""
    held = claim(8.0, busy_until_ms=None, idle_gpu_hours=8.0)
    values = {
        "uuid": GpuUuid(f"GPU-{place}"),
        "gpu_index": place,
        "bins": bins(processes=0, memory_bytes=GIB // 2),
    }
    return past(held, **(values | changes))


def test_a_job_that_uses_one_of_four_is_one_finding_beside_its_gpus() -> None:
    pasts = [*gpus((0.96, 0.66)), quiet(1), quiet(2), quiet(3)]
    (found,) = said(pasts)
    assert (found.kind, found.uuid) == (FindingKind.USES_PART, "GPU-1")
    assert found.sentence == (
        "amara (job sweep) was given 4 GPUs and uses 1 of them: GPU 1, 2 and 3 of node1 have done nothing "
        "for it for 8 h or more."
    )
    assert found.wasted_gpu_hours is None
    assert {each.name: each.value for each in found.evidence} == {
        "gpus": 4,
        "gpus_used": 1,
        "gpus_idle": 3,
        "gpus_not_judged": 0,
        "idle_gpus": "GPU 1, 2 and 3 of node1",
    }


@pytest.mark.parametrize(
    ("held", "said_of_it"),
    [
        ((0.5, 0.5), ""),  # a context each
        ((1, 1), ""),  # as much as an empty GPU may have
        ((70, 70), " They hold 70 GiB each: the job keeps data there."),
        ((70, 40), " They hold up to 70 GiB each: the job keeps data there."),
        ((0.5, 40), " GPU 2 of node1 holds 40 GiB: the job keeps data there."),
    ],
)
def test_data_on_gpus_that_do_nothing_is_told_and_fewer_is_not_advised(
    held: tuple[float, float], said_of_it: str
) -> None:
    """Layers or a cache of the job may lie there: on fewer GPUs it may not fit."""
    idle = [
        quiet(place, bins=bins(utilization=0.0, memory_bytes=int(each * GIB)), gpu_place=str(place))
        for place, each in enumerate(held, 1)
    ]
    (found,) = said([*gpus((0.96, 0.66)), *idle])
    assert found.sentence == (
        "amara (job sweep) was given 3 GPUs and uses 1 of them: GPU 1 and 2 of node1 have done nothing "
        f"for it for 8 h or more.{said_of_it}"
    )
    evidence = {each.name: each.value for each in found.evidence}
    assert evidence.get("idle_gpus_memory_bytes") == (max(held) * GIB if said_of_it else None)
    remedy = KINDS[found.kind].remedy_for("batch", evidence)
    assert (remedy == ROOM_BEFORE_LESS) is bool(said_of_it)


def test_memory_without_a_process_may_be_the_jobs() -> None:
    (found,) = said([*gpus((0.96, 0.66)), quiet(1, bins=bins(processes=0, memory_bytes=70 * GIB))])
    assert found.sentence.endswith(" It holds 70 GiB: the job may keep data there.")


def test_gpus_that_have_worked_in_its_run_are_no_reason_to_ask_for_fewer() -> None:
    """One of eight evaluates on its CPU for an hour, after hours of work on all: the job needs eight."""
    held = claim(8.0, busy_until_ms=NOON_MS - 62 * 60_000, idle_gpu_hours=1.0)
    (found,) = said([*gpus(*[(0.99, 0.5)] * 7), replace(quiet(7), claims=(held,), bins=bins())])
    assert found.sentence == (
        "amara (job sweep) was given 8 GPUs and uses 7 of them now: GPU 7 of node1, which worked for it "
        "before, has done nothing for it for 1 h 2 min. It holds 20 GiB: the job keeps data there. Its "
        "process may be at work on the CPU, or have ended."
    )
    evidence = {each.name: each.value for each in found.evidence}
    assert KINDS[found.kind].remedy_for("batch", evidence) == LOOK_BEFORE_LESS
    assert KINDS[found.kind].remedy_for("batch", {}).startswith("ask for as many GPUs as it uses")


def test_one_that_never_worked_among_those_that_did_is_told_as_a_part() -> None:
    held = claim(8.0, busy_until_ms=NOON_MS - 62 * 60_000, idle_gpu_hours=1.0)
    rested = replace(quiet(1), claims=(held,), bins=bins())
    (found,) = said([*gpus((0.99, 0.5)), rested, quiet(2)])
    assert "uses 1 of them: GPU 1 and 2 of node1 have done nothing" in found.sentence


def test_a_job_that_uses_none_or_all_of_its_gpus_uses_no_part() -> None:
    assert said([quiet(0), quiet(1)]) == []
    assert said(gpus(*[(0.9, 0.6)] * 2)) == []


def test_one_that_is_not_judged_is_not_counted_among_the_used() -> None:
    unseen = quiet(2, bins=replace(bins(), covered=(False,) * BINS))
    found = said([*gpus((0.96, 0.66)), quiet(1), unseen])
    assert "given 3 GPUs and uses 1 of them" in found[0].sentence
    assert found[0].sentence.endswith("1 more could not be judged.")


def test_gpus_of_two_nodes_are_named_by_their_nodes() -> None:
    away = quiet(0, uuid=GpuUuid("GPU-9"), node=NodeName("node2"))
    (found,) = said([*gpus((0.96, 0.66)), quiet(1), away])
    assert "GPU 1 of node1 and GPU 0 of node2 have done nothing" in found.sentence


def test_a_part_that_was_unused_when_its_records_begin_was_so_for_at_least_that_long() -> None:
    """What somebody did before the first sample is not known."""
    levels = [(0.9, 0.8), (0.0, 0.0)]
    held = claim(2.0, idle_gpu_hours=None, busy_until_ms=None)
    older = gpus(*levels, held=held, installed_from_ms=held.from_ms)
    seen = gpus(*levels, held=held)
    told = {is_older: _uses_part(pasts) for is_older, pasts in ((True, older), (False, seen))}
    assert "has done nothing for it for at least 2 h" in told[True]
    assert "at least" not in told[False]


def _uses_part(pasts: list[GpuPast]) -> str:
    return next(each.sentence for each in said(pasts) if each.kind is FindingKind.USES_PART)
