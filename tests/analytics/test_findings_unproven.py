"""What a launcher claims without proof is told, and nobody is judged differently for it.

Named here: put_unproven_claims and assess_unproven_claims.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.statements import statement
from analytics.assess import assess
from analytics.findings import judge
from analytics.findings.unproven import LASTS_S, unproven_claims
from analytics.model import FindingKind, GpuPast, UnprovenClaim, Verdict
from analytics.query import run
from analytics.thresholds import Thresholds
from collector.model import GpuUuid
from collector.store.database import Store
from collector.store.retention import Retention
from tests.analytics.pasts import NOON_MS, TICK_MS, bins, claim, minutes_before_noon, past
from tests.collector.store.store_parts import T0, at_path, sample, tick, uuid
from tests.collector.store.store_parts import TICK_MS as WIDTH_MS
from tests.stores import open_store

WHY = "it says that it carried out order 500, and cannot show that order"


def claimed(user: str = "ben", job: str = "fallow:7") -> UnprovenClaim:
    return UnprovenClaim(job=job, user=user, from_ms=minutes_before_noon(9), last_ms=NOON_MS, why=WHY)


def judged(gpu: GpuPast) -> Verdict:
    return judge(gpu, NOON_MS, Thresholds(), TICK_MS)


def test_a_claim_is_told_with_whose_it_is_and_what_is_wrong_with_it() -> None:
    (finding,) = unproven_claims([past(claim(), bins=bins(utilization=0.6), unproven=(claimed(),))])
    assert (finding.kind, finding.since_ms) == (FindingKind.UNPROVEN_CLAIM, minutes_before_noon(9))
    assert finding.sentence == (
        "GPU 3 of node1 is claimed by ben's fallow:7, and was not given to it: it says that it carried out "
        "order 500, and cannot show that order. It holds nothing by that."
    )
    assert finding.wasted_gpu_hours is None
    assert finding.holder is None, "whose GPU it names has no part in it"
    several = past(unproven=(claimed(), claimed("ben", "fallow:8"), claimed("ben", "fallow:9")))
    assert "fallow:7, and 2 more, and was not given" in unproven_claims([several])[0].sentence


def test_one_claim_to_every_gpu_is_one_finding_of_who_claims() -> None:
    gpus = [
        replace(past(claim(), unproven=(claimed(),)), uuid=GpuUuid(f"GPU-{i}"), gpu_index=i, gpu_place=str(i))
        for i in range(8)
    ]
    (finding,) = unproven_claims(gpus)
    assert finding.sentence.startswith("GPU 0, 1, ") and "were not given to it" in finding.sentence
    assert {each.name: each.value for each in finding.evidence} == {
        "claims": 1,
        "gpus": 8,
        "user": "ben",
        "job": "fallow:7",
    }


def test_two_who_claim_the_same_gpus_have_a_finding_each_while_there_are_gpus() -> None:
    both = (claimed(), claimed("eve", "fallow:8"))
    gpus = [
        replace(past(unproven=both), uuid=GpuUuid(f"GPU-{i}"), gpu_index=i, gpu_place=str(i))
        for i in range(2)
    ]
    found = unproven_claims(gpus)
    assert [each.uuid for each in found] == ["GPU-0", "GPU-1"]
    assert ["ben's" in each.sentence for each in found] == [True, False]
    (shared,) = unproven_claims(gpus[:1])
    assert "ben's fallow:7, and one more, and was not" in shared.sentence


def test_nobody_is_judged_differently_for_what_somebody_claims() -> None:
    for gpu in (past(claim(), bins=bins(utilization=0.0)), past(bins=bins(utilization=0.0)), past()):
        assert judged(replace(gpu, unproven=(claimed(),))) == judged(gpu)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(at_path(tmp_path)) as opened:
        opened.write_tick(tick(T0, [sample(0, T0), sample(1, T0)]))
        yield opened


def said(store: Store, job: str, gpus: list[str], at_ms: int, why: str = WHY) -> None:
    values = {"job": job, "user_name": "ben", "gpus": gpus, "at_ms": at_ms, "why": why}
    store.together("noting", lambda reader: reader.execute(statement("put_unproven_claims"), values))


def test_claims_of_gpus_that_are_here_are_kept_while_they_are_said(store: Store) -> None:
    said(store, "fallow:7", [uuid(0), "GPU-of-nobody"], T0)
    said(store, "fallow:7", [uuid(0)], T0 + 60_000, "another reason")
    said(store, "fallow:8", [], T0)
    with store.reader() as reader:
        asked = {"since_ts": T0 - 1, "as_of": T0 + 60_000}
        (row,) = run(reader, "assess_unproven_claims", asked).to_pylist()
        assert (row["job"], row["user_name"], row["from_ms"], row["last_ms"], row["why"]) == (
            "fallow:7",
            "ben",
            T0,
            T0 + 60_000,
            "another reason",
        )
        kinds = [each.kind for each in assess(reader, T0 + 61_000, Thresholds(), WIDTH_MS).findings]
        assert FindingKind.UNPROVEN_CLAIM in kinds
        later_ms = T0 + 60_000 + LASTS_S * 1000 + 1
        kinds = [each.kind for each in assess(reader, later_ms, Thresholds(), WIDTH_MS).findings]
        assert FindingKind.UNPROVEN_CLAIM not in kinds, "it has not been said for long"


def test_old_claims_are_let_go_of(store: Store) -> None:
    said(store, "fallow:7", [uuid(0)], T0)
    dropped = store.apply_retention(Retention(), T0 + 31 * 86_400_000)
    assert ("unproven_claims", 1) in dropped.rows
