"""On a GPU that several hold each is judged by its own memory and work where they are told, else not."""

from dataclasses import replace
from typing import Any

import pytest

from analytics.findings import judge
from analytics.findings.saturation import WHOSE_MEMORY, WHOSE_READING
from analytics.model import Claim, Finding, FindingKind, Verdict
from analytics.thresholds import Thresholds
from collector.model import Holder, JobId, JobKind
from tests.analytics.pasts import BINS, GIB, NOON_MS, TICK_MS, bins, claim, past, then

HOG, RESERVED = FindingKind.MEMORY_HOG, FindingKind.RESERVED_BY_DESIGN


def holder(name: str, memory: Any, use: float | None = 0.02, **changes: Any) -> Claim:
    """One of two holders of half an 80 GiB GPU, with its own memory in GiB and its own part of the use."""
    made = claim(share=0.5, **changes)
    row = memory if isinstance(memory, tuple) else (memory,) * BINS
    return replace(
        made,
        holder=replace(made.holder, job=JobId(f"slurm:{name}"), user=name, name=None),
        bins=bins(utilization=use, memory_bytes=74 * GIB),
        memory_bytes=tuple(None if each is None else round(each * GIB) for each in row),
    )


def judged(*claims: Claim, **levels: Any) -> Verdict:
    """Both on a board of which 74 GiB are taken."""
    board = bins(**({"utilization": 0.1, "memory_bytes": 74 * GIB} | levels))
    return judge(past(*claims, bins=board), NOON_MS, Thresholds(), TICK_MS)


def found(verdict: Verdict, *kinds: FindingKind) -> dict[str, Finding]:
    chosen = [each for each in verdict.findings if each.kind in (kinds or (HOG, RESERVED))]
    return {each.holder.user or "": each for each in chosen if each.holder is not None}


def reasons(verdict: Verdict) -> set[str]:
    return {each.reason for each in verdict.unknown if HOG in each.kinds or RESERVED in each.kinds}


def test_who_keeps_nearly_all_of_it_is_the_hog_and_the_other_is_not() -> None:
    verdict = judged(holder("tia", 68), holder("uwe", 6))
    assert list(found(verdict)) == ["tia"] and not reasons(verdict)
    sentence = found(verdict)["tia"].sentence
    assert (
        "tia (job slurm:tia) keeps 85% of the memory of GPU 3 of node1, which 1 other holds too" in sentence
    )
    numbers = {each.name: each.value for each in found(verdict)["tia"].evidence}
    assert (numbers["memory_used_p5_ratio"], numbers["others"]) == (pytest.approx(0.85), 1)
    assert numbers["utilization_mean_ratio"] == pytest.approx(0.02), "its own use, not the board's"


@pytest.mark.parametrize(
    ("tia", "uwe"),
    [
        (holder("tia", 37), holder("uwe", 37)),  # full by both of them: neither keeps most of it
        (holder("tia", 63.9), holder("uwe", 10)),  # 79.9%
        (holder("tia", 68, use=0.3), holder("uwe", 6)),  # it works
        (holder("tia", then((BINS - 8, 68), (8, 30))), holder("uwe", 6)),  # it gave it back
    ],
)
def test_nobody_is_a_hog_for_the_memory_of_all(tia: Claim, uwe: Claim) -> None:
    verdict = judged(tia, uwe)
    assert (found(verdict), reasons(verdict)) == ({}, set())


@pytest.mark.parametrize(
    "tia",
    [
        holder("tia", None),  # a process of unknown owner, or a driver that doesn't tell
        holder("tia", then((BINS - 30, 68), (30, None))),  # half the window
        holder("tia", 68, use=None),  # whose work it is, nobody tells
    ],
)
def test_what_is_not_told_apart_is_not_judged(tia: Claim) -> None:
    verdict = judged(tia, holder("uwe", 6))
    assert (found(verdict), reasons(verdict)) == ({}, {WHOSE_MEMORY})


def test_who_reads_a_memory_that_is_read_a_lot_is_not_told() -> None:
    verdict = judged(holder("tia", 68), replace(holder("uwe", 6), bins=bins(utilization=0.7)))
    busy = replace(holder("tia", 68), bins=bins(utilization=0.02, memory_controller=0.4))
    assert list(found(verdict)) == ["tia"]
    verdict = judged(busy, holder("uwe", 6), memory_controller=0.4)
    assert (found(verdict), reasons(verdict)) == ({}, {WHOSE_READING})


def test_a_server_that_keeps_most_of_it_reserves_it_by_design() -> None:
    verdict = judged(holder("srv", 68, kind=JobKind.INFERENCE), holder("uwe", 6))
    assert {user: each.kind for user, each in found(verdict).items()} == {"srv": RESERVED}


def test_an_idle_holders_sentence_has_its_own_memory() -> None:
    still = replace(holder("tia", 9, use=0.0), busy_until_ms=NOON_MS - 7_200_000)
    verdict = judged(still, holder("uwe", 40, use=0.9), utilization=0.9)
    (idle,) = found(verdict, FindingKind.HELD_IDLE).values()
    assert "keeping 9 GiB of its memory" in idle.sentence and "all who hold it" not in idle.sentence
    none = judged(replace(still, memory_bytes=(0,) * BINS), holder("uwe", 40, use=0.9), utilization=0.9)
    (idle,) = found(none, FindingKind.HELD_IDLE).values()
    assert "keep" not in idle.sentence


def test_somebody_alone_on_a_gpu_is_judged_by_the_board() -> None:
    alone = replace(claim(), holder=Holder(job=JobId("slurm:7"), user="tia", kind=JobKind.BATCH))
    full = bins(utilization=0.08, memory_bytes=74 * GIB)
    verdict = judge(past(alone, bins=full), NOON_MS, Thresholds(), TICK_MS)
    assert HOG in {each.kind for each in verdict.findings}
