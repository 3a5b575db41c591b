"""A share of a GPU is a remedy only for who leaves room: by the memory that it keeps, counted by hand.

A share is told in tenths, as the advice on sizes has it: the peak over 0.85 of what a shared board gives,
which is 2 GiB less than it has. It has to leave a quarter of what is held, or it is worth nobody's change.
"""

import pytest

from analytics.findings import judge
from analytics.findings.share import fits_share
from analytics.model import Finding, FindingKind, Rhythm
from analytics.thresholds import Thresholds
from analytics.vocabulary.findings import FITS_SHARE, KINDS
from collector.model import JobKind
from tests.analytics.pasts import (
    BINS,
    GIB,
    HOUR_MS,
    NOON_MS,
    TICK_MS,
    bins,
    claim,
    minutes_before_noon,
    past,
    then,
)

T = Thresholds()


@pytest.mark.parametrize(
    ("kept_gib", "total_gib", "share", "fits"),
    [
        (70, 80, 1.0, False),  # 70 / 0.85 / 78 = 1.06
        (9, 80, 1.0, True),  # 0.14: two tenths
        (46, 80, 1.0, True),  # 0.694: seven tenths, three are left
        (47, 80, 1.0, False),  # 0.709: eight tenths, a fifth is left
        (13, 24, 1.0, True),  # 13 / 0.85 / 22 = 0.695
        (13.9, 24, 1.0, False),  # 0.743
        (30, 80, 0.5, False),  # 0.452: five tenths are all that it has
        (20, 80, 0.5, False),  # 0.302: four tenths of its five, a fifth is left
        (18, 80, 0.5, True),  # 0.271: three tenths of its five
        (None, 80, 1.0, None),
        (9, None, 1.0, None),
        (1, 2, 1.0, False),  # nothing is left of a board that small
    ],
)
def test_who_leaves_a_quarter_fits_a_share(
    kept_gib: float | None, total_gib: float | None, share: float, fits: bool | None
) -> None:
    kept = None if kept_gib is None else round(kept_gib * GIB)
    total = None if total_gib is None else round(total_gib * GIB)
    assert fits_share(kept, total, share) is fits


def server(kind: FindingKind, kept: object, utilization: object) -> Finding:
    """What is said of a server on 80 GiB that has worked for 84 min of a day, in 12 spells."""
    rhythm = Rhythm(
        active_until_ms=minutes_before_noon(20 if kind is FindingKind.RARELY_USED else 600),
        known_since_ms=HOUR_MS // 3 if kind is FindingKind.RARELY_USED else 10 * HOUR_MS,
        known_ms=24 * HOUR_MS,
        busy_ms=84 * 60_000,
        spells=12,
        silence_p90_ms=2 * HOUR_MS,
        silence_longest_ms=3 * HOUR_MS,
        busy_ratio=0.2,
        idle_gpu_hours=22.6,
    )
    held = claim(24.0, kind=JobKind.INFERENCE, rhythm=rhythm)
    there = past(held, bins=bins(utilization=utilization, memory_bytes=kept))
    (found,) = [each for each in judge(there, NOON_MS, T, TICK_MS).findings if each.kind is kind]
    return found


def fits(found: Finding) -> object:
    return {each.name: each.value for each in found.evidence}[FITS_SHARE]


LATELY = then((BINS - 40, 0.3), (40, 0.0))


@pytest.mark.parametrize(
    ("kept", "fit", "advised"),
    [
        (9 * GIB, True, "It is in use, and a share of a GPU, a scale to zero or fixed hours would do."),
        (
            70 * GIB,
            False,
            "It is in use, and a scale to zero or fixed hours would do; its memory, 70 GiB at most, leaves "
            "no room for a share.",
        ),
        # the peak decides, not what it keeps now
        (then((10, 70 * GIB), (BINS - 10, 9 * GIB)), False, "leaves no room for a share."),
        (
            None,
            None,
            "It is in use, and a scale to zero or fixed hours would do, or a share of a GPU if its memory, "
            "which is not known, fits one.",
        ),
    ],
)
def test_a_rarely_used_server_is_told_to_share_where_its_memory_leaves_room(
    kept: object, fit: bool | None, advised: str
) -> None:
    found = server(FindingKind.RARELY_USED, kept, LATELY)
    assert fits(found) is fit
    assert found.sentence.endswith(advised)
    evidence = {each.name: each.value for each in found.evidence}
    remedy = KINDS[found.kind].remedy_for("inference", evidence)
    assert ("take a share of a GPU" in remedy) is (fit is not False)
    assert "fixed hours" in remedy and "scale to zero" in remedy


@pytest.mark.parametrize(("kept", "shares"), [(9 * GIB, True), (70 * GIB, False)])
def test_an_idle_server_is_told_to_share_where_its_memory_leaves_room(kept: int, shares: bool) -> None:
    found = server(FindingKind.HELD_IDLE, kept, 0.0)
    evidence = {each.name: each.value for each in found.evidence}
    remedy = KINDS[found.kind].remedy_for("inference", evidence)
    assert evidence[FITS_SHARE] is shares
    assert ("share of a GPU" in remedy) is shares
    assert remedy.startswith("scale it to zero between requests")
    assert remedy.endswith("or keep it with `fallow keep JOB`")
    assert "share" not in KINDS[found.kind].remedy_for("batch", evidence)


def test_a_server_that_reserves_is_told_to_lower_that_before_it_shares() -> None:
    """By its rule it keeps four fifths of the memory or more: no share holds that."""
    words = KINDS[FindingKind.RESERVED_BY_DESIGN]
    assert "lower the server's own limit" in words.remedy
    assert words.remedy.index("lower") < words.remedy.index("share of a GPU")
