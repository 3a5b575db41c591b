"""A whole node in silence: what its driver told just before is told to its jobs; else it is unknown.

Expected by hand: a node may be down for maintenance, and nobody blames a GPU for that. An error of the
board's own, within ten minutes of its last sample (or later), is no maintenance.
"""

from typing import Any

import pytest

from analytics.findings import judge
from analytics.findings.lost import with_node_errors
from analytics.model import FindingKind, GpuPast, Verdict
from analytics.thresholds import Thresholds
from collector.model import GpuUuid
from tests.analytics.pasts import NOON_MS, TICK_MS, claim, minutes_before_noon, past

T = Thresholds()
SILENT_MIN = 90
XID = "48: double-bit ECC error"


def silent(place: int = 3, **changes: Any) -> GpuPast:
    """A GPU of a node that was seen last at 10:30."""
    told = {"newest_ms": minutes_before_noon(SILENT_MIN), "siblings_fresh": False, "gpu_index": place}
    return past(claim(), uuid=GpuUuid(f"GPU-{place}"), **told | changes)


def judged(*pasts: GpuPast) -> list[Verdict]:
    return list(with_node_errors(pasts, [judge(each, NOON_MS, T, TICK_MS) for each in pasts]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"xid": XID, "xid_ms": minutes_before_noon(SILENT_MIN + 1)}, f"XID {XID}"),
        ({"xid": XID, "xid_ms": minutes_before_noon(SILENT_MIN - 1)}, f"XID {XID}"),
        ({"ecc_errors": 3}, "3 uncorrected memory errors"),
    ],
)
def test_an_error_before_a_node_fell_silent_is_told_to_who_holds_the_gpu(
    changes: dict[str, Any], told: str
) -> None:
    (verdict,) = judged(silent(**changes))
    (finding,) = verdict.findings
    assert (finding.kind, finding.holder) == (FindingKind.FALLING_GPU, claim().holder)
    assert finding.sentence == (
        "GPU 3 of node1, held by amara (job sweep), has not been seen since 2026-10-28 10:30 UTC, for "
        f"1 h 30 min, nor has any other GPU of its node. Its driver told {told}."
    )
    assert len(verdict.unknown[0].kinds) == len(FindingKind)


def test_a_gpu_that_fell_off_the_bus_before_its_node_fell_silent_is_told_so() -> None:
    (verdict,) = judged(
        silent(
            xid="79: the GPU fell off the bus",
            xid_ms=minutes_before_noon(SILENT_MIN + 2),
            is_off_the_bus=True,
        )
    )
    assert "fell off the bus: its driver told XID 79; silent since" in verdict.findings[0].sentence


def test_an_error_of_long_before_blames_nobody() -> None:
    (verdict,) = judged(silent(xid=XID, xid_ms=minutes_before_noon(SILENT_MIN + 11)))
    assert verdict.findings == ()


def test_the_other_jobs_of_the_node_are_told_whose_driver_told_what() -> None:
    bad = silent(0, xid=XID, xid_ms=minutes_before_noon(SILENT_MIN + 1))
    _, verdict = judged(bad, silent(1))
    assert verdict.findings == ()
    assert verdict.unknown[0].reason == (
        f"its newest sample is 1 h 30 min old, as its node's are; GPU 0 of node1 told XID {XID} before"
    )


def test_a_node_that_fell_silent_without_an_error_is_unknown_as_before() -> None:
    first, second = judged(silent(0), silent(1))
    assert first.findings == second.findings == ()
    assert second.unknown[0].reason == "its newest sample is 1 h 30 min old"
